//! What is ahead.

use cluster_model::plan::Plan;
use cluster_model::{ClusterState, GangKey};
use jiff::Timestamp;
use placement::{Policy, plan};

/// What waits ahead of a gang. Gangs that start now are not ahead any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Gangs that are considered before it and wait too.
    pub gangs_ahead: u32,
    /// Their GPUs.
    pub gpus_ahead: i64,
}

/// The position of a gang in the order of planning; `None` if it does not wait after this plan. Makes one plan with
/// reasons: callers that have such a plan, or ask for many gangs, use [`position_in`].
pub fn position(
    state: &mut ClusterState,
    policy: &Policy,
    now: Timestamp,
    gang: &GangKey,
) -> Option<Position> {
    // Without reasons a plan skips gangs like one that found no room.
    let policy = Policy { explain: true, ..policy.clone() };
    let plan = plan(state, &policy, now);
    position_in(state, &plan, gang)
}

/// The same from a plan that was made for this state with [`Policy::explain`].
pub fn position_in(state: &ClusterState, plan: &Plan, gang: &GangKey) -> Option<Position> {
    let ahead = plan.waiting.iter().position(|waiting| waiting.gang == *gang)?;
    let gpus = |it: &placement::WaitingGang| state.gang(&it.gang).map_or(0, cluster_model::Gang::gpus);
    Some(Position {
        gangs_ahead: u32::try_from(ahead).unwrap_or(u32::MAX),
        gpus_ahead: plan.waiting[..ahead].iter().map(gpus).sum(),
    })
}
