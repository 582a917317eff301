//! Points at which tests stop or slow the process; nothing without the feature `failpoints`.

/// Passes a failpoint from async code. `FAILPOINTS=name=sleep(…)` blocks a thread of its own, so everything else,
/// such as the renewal of the lease, goes on. Logs that the point was reached before the configured
/// action runs.
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        {
            if ::fail::list().iter().any(|(name, _)| name == $name) {
                ::tracing::info!(point = $name, "Reached failpoint.");
                let _ = ::tokio::task::spawn_blocking(|| ::fail::fail_point!($name)).await;
            }
        }
    };
}
