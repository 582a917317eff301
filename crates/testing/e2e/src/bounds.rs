//! Every time that a test asserts, in one place: the time that people may count on, and the time that CI allows.
//!
//! ```text
//!   Bar ─┬─ real    asserted by a bench, on a quiet machine: `hold_real_bars`, or WARPYARD_BARS=real
//!        └─ in_ci   asserted by a test, next to other tests: everywhere else
//! ```
//!
//! When a build runs at the same time, a bar of two seconds tests the machine as much as the code. CI must fail
//! only for faults, so it allows a time that a machine at half speed keeps. `cargo xtask bench house ci_bars`
//! runs the same tests with the real bars. If another bench holds a bar too, the bar names that bench.
//!
//! A wait that is not about time has no bar: it gets [`PATIENCE`](crate::wait::PATIENCE).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Set to `real`, it makes tests hold the real bars.
const BARS_VARIABLE: &str = "WARPYARD_BARS";

/// From a notice to the last member that is told to save and leave. Also held by `bench runs plain`.
pub const MEMBERS_TOLD: Bar = Bar::of_seconds(2);

/// From the kubelet's word that an image can never be had to the end of its run.
pub const IMAGE_FAULT_ENDED: Bar = Bar::of_seconds_and_in_ci(30, 60);

/// From the end of an attempt to the first step of the next one, without the import. Also held by `bench runs plain`.
pub const WORK_RESUMED: Bar = Bar::of_seconds(10);

/// How far the status and the members may differ about the seconds that an attempt lost. Also held by `bench runs plain`.
///
/// An attempt in CI lasts some ten seconds. A larger difference would accept any number.
pub const LOSS_DIFFERS: Bar = Bar::of_seconds_and_in_ci(1, 3);

/// From a change of the cloud's metadata to the taint on the Node: a poll of one second, and one more to write it.
pub const NODE_TAINTED: Bar = Bar::of_seconds(2);

/// From nothing to a test cluster with 64 nodes, if its servers were started before.
pub const CLUSTER_READY: Bar = Bar::of_seconds(10);

/// From nothing to two real nodes that are ready.
pub const REAL_NODES_READY: Bar = Bar::of_seconds(15);

/// From a question about cost to the answer that the ledger is away. The API server waits for a connection for 2 s.
pub const LEDGER_AWAY_TOLD: Bar = Bar::of_seconds(6);

/// From the start of a request without its body to the answer that ends it. The API server waits for 30 s.
pub const STALLED_BODY_ENDED: Bar = Bar::of_seconds_and_in_ci(40, 60);

/// From the loss of a right to the last event that shows something. The API server remembers Kubernetes' answer for 10 s.
pub const RIGHT_FORGOTTEN: Bar = Bar::of_seconds(15);

/// How long a bind that is under way may take to land after its node shrinks or comes back. Also held by
/// `bench faults nodes`.
///
/// One of eight nodes shrinks or goes every two to three seconds. A longer time would excuse every bind.
pub const BIND_UNDER_WAY: Bar = Bar::of_seconds_and_in_ci(1, 5);

/// By how much our bill and the cloud's may differ at each end of a machine's life. Karpenter writes whole seconds, after the
/// cloud's answer; the meter sees the Node go. Also held by `bench capacity`.
///
/// A machine in CI lives for about a minute. A larger difference would accept a bill without its boot.
pub const MACHINE_ENDS_APART: Bar = Bar::of_seconds_and_in_ci(2, 5);

/// A time that people may count on.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// On a quiet machine.
    pub real: Duration,
    /// On one at half speed.
    pub in_ci: Duration,
}

impl Bar {
    /// In CI five times as long, and at least ten seconds more: half speed doubles a time, and a store that waits for its disk
    /// adds seconds.
    const fn of_seconds(real: u64) -> Self {
        let (times, more) = (5 * real, real + 10);
        Self::of_seconds_and_in_ci(real, if times > more { times } else { more })
    }

    /// For a bar that would show nothing if CI allowed five times as much, or that needs less.
    const fn of_seconds_and_in_ci(real: u64, in_ci: u64) -> Self {
        Self { real: Duration::from_secs(real), in_ci: Duration::from_secs(in_ci) }
    }

    /// The time that this process asserts.
    pub fn allowed(self) -> Duration {
        if real_bars_hold() { self.real } else { self.in_ci }
    }

    /// The same in seconds.
    pub fn allowed_seconds(self) -> f64 {
        self.allowed().as_secs_f64()
    }
}

static REAL: AtomicBool = AtomicBool::new(false);

/// From now on this process asserts the real bars. Every bench that asserts a time calls this first.
pub fn hold_real_bars() {
    REAL.store(true, Ordering::Relaxed);
}

fn real_bars_hold() -> bool {
    REAL.load(Ordering::Relaxed) || std::env::var_os(BARS_VARIABLE).is_some_and(|value| value == "real")
}

#[cfg(test)]
mod tests {
    use super::{Bar, MEMBERS_TOLD, WORK_RESUMED, hold_real_bars};

    #[test]
    fn a_bar_in_ci_is_five_times_as_long_and_ten_seconds_longer_until_the_real_ones_hold() {
        let seconds = |bar: Bar| (bar.real.as_secs(), bar.in_ci.as_secs());
        assert_eq!(seconds(MEMBERS_TOLD), (2, 12));
        assert_eq!(seconds(WORK_RESUMED), (10, 50));
        if std::env::var_os(super::BARS_VARIABLE).is_none() {
            assert_eq!(MEMBERS_TOLD.allowed(), MEMBERS_TOLD.in_ci);
        }
        hold_real_bars();
        assert_eq!(MEMBERS_TOLD.allowed(), MEMBERS_TOLD.real);
    }
}
