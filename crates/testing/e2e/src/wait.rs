//! Waiting on a condition, with a bound: the only way a test may wait.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::bail;

const POLL: Duration = Duration::from_millis(100);
/// How long a test waits for a condition that should hold within seconds. A time that the test is about is in
/// [`bounds`](crate::bounds).
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Polls `check` until it gives a value; after `bound`, the error names what was awaited.
pub async fn until<T, F>(what: &str, bound: Duration, mut check: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let began = Instant::now();
    loop {
        if let Some(value) = check().await? {
            return Ok(value);
        }
        if began.elapsed() > bound {
            bail!("waited {bound:?} in vain: {what}");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Polls `check` for the whole of `span`: it must hold all along.
pub async fn holds<F>(what: &str, span: Duration, mut check: impl FnMut() -> F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<bool>>,
{
    let began = Instant::now();
    while began.elapsed() < span {
        if !check().await? {
            bail!("did not hold for {span:?}, but only for {:?}: {what}", began.elapsed());
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}
