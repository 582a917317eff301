//! When a gang starts.

use cluster_model::{ClusterState, GangKey};
use jiff::Timestamp;
use placement::Policy;

use crate::arrivals::Arrivals;
use crate::calibration::{Calibration, Forecast, Range, WaitsFor};
use crate::coming::{self, Coming, Expected};
use crate::forward::Future;
use crate::laws::Laws;
use crate::needed::needed;
use crate::random::Random;

/// No forecast goes further than this.
const HORIZON_SECONDS: i64 = 14 * 24 * 3600;

/// How a forecast is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    /// Futures; 16 are enough, 32 are no better.
    pub samples: u32,
    /// What they are drawn from.
    pub seed: u64,
}

impl Default for Draws {
    fn default() -> Self {
        Self { samples: 16, seed: 0 }
    }
}

/// What is known in addition to the state.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Gangs that arrived in the last days, and may arrive again.
    pub arrivals: &'a Arrivals,
    /// How earlier forecasts turned out.
    pub calibration: &'a Calibration,
    /// Machines that are on their way.
    pub coming: &'a [Coming],
}

/// How long the gang will still wait; `None` if it does not wait. The [`Forecast`] is for [`Calibration::started`], once
/// the start is known.
pub fn eta(
    state: &ClusterState,
    policy: &Policy,
    now: Timestamp,
    gang: &GangKey,
    known: Known<'_>,
    draws: Draws,
) -> Option<(Range, Forecast)> {
    let waits = state.gang(gang).filter(|gang| gang.pending().len() > 0)?;
    let Known { arrivals, calibration, coming } = known;
    let mut start = state.clone();
    start.advance(now);
    coming::let_in(&mut start, coming);
    let policy = needed(policy, state, arrivals);
    let mut laws = Laws::new(state, now);
    let mut seeds = Random::new(draws.seed);
    let horizon = horizon_seconds(&policy);
    let until = now.as_second() + horizon;
    let mut seconds: Vec<u32> = (0..draws.samples.max(1))
        .map(|sample| {
            let (replay, random) = (arrivals.replay(now, sample), Random::new(seeds.next_u64()));
            let future =
                Future::new(start.clone(), &policy, &mut laws, (replay, Expected::new(coming)), random);
            let wait = future.start_of(gang, until) - now.as_second();
            u32::try_from(wait.max(0)).unwrap_or(u32::MAX)
        })
        .collect();
    seconds.sort_unstable();
    let most = u32::try_from(horizon).unwrap_or(u32::MAX);
    let waits_for = if coming.iter().any(|it| it.gang() == Some(gang)) {
        WaitsFor::Machines
    } else if waits.gpus() >= node_gpus(state) {
        WaitsFor::Much
    } else {
        WaitsFor::Little
    };
    let forecast = Forecast::of(&seconds, now, most, waits_for);
    Some((calibration.range(&forecast), forecast))
}

/// A gang that waits too long gets what falls free: it does not wait much longer than that.
fn horizon_seconds(policy: &Policy) -> i64 {
    let gather = i64::from(policy.backfill.gather_after_seconds);
    if policy.backfill.gather_max > 0 { (gather * 27 / 20).min(HORIZON_SECONDS) } else { HORIZON_SECONDS }
}

/// GPUs of the largest node.
fn node_gpus(state: &ClusterState) -> i64 {
    let gpus = state.kinds().map(|(_, kind)| kind.allocatable.gpus);
    gpus.max().unwrap_or(0).max(1)
}
