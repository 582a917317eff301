//! The number of members in an attempt of an elastic Run: as many as fit at once, and more when there is more
//! room.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::run::Attempt;
use api_types::{Run, RunSpec};
use jiff::Timestamp;

use super::cause::Interruption;
use super::sight::{Sight, World};
use crate::nodes::NodesByName;

/// How long an attempt runs before it is interrupted to grow: growing costs a save and a start.
const GROW_AFTER: Duration = Duration::from_mins(1);
/// How often that doubles: to about an hour at most.
const DOUBLINGS_MAX: usize = 6;
/// How long an attempt waits for its nodes before fewer members are tried.
const SHRINK_AFTER: Duration = Duration::from_secs(15);

/// For how many members of a Run there is room on nodes that take pods. This is an estimate: the scheduler
/// decides whether they start, by quota and order.
pub fn room(spec: &RunSpec, nodes: &NodesByName, gpus_in_use: &BTreeMap<String, u32>) -> u32 {
    let fits = |(name, node): (&String, &crate::nodes::NodeFacts)| {
        let is_of_type = spec.gpu_type.is_none() || spec.gpu_type == node.gpu_type;
        if !node.takes_pods || !is_of_type {
            return 0;
        }
        let free = node.gpus.saturating_sub(gpus_in_use.get(name).copied().unwrap_or(0));
        // Members without GPUs always fit.
        free.checked_div(spec.gpus_per_member).unwrap_or(spec.members)
    };
    nodes.iter().map(fits).fold(0, u32::saturating_add)
}

/// The reason for the end of an attempt that waited and did not start.
const SHRINKING: &str = "Shrinking";

/// How many members the next attempt has: as many as there is room for. Room is an estimate, so an attempt that
/// did not start is always followed by a smaller one: as small as the last one that did start, or as the Run
/// allows.
pub fn next_members(run: &Run, world: &World<'_>) -> u32 {
    let all = run.spec.members;
    let Some(least) = run.spec.min_members else { return all };
    let attempts = run.status.as_ref().map(|status| status.attempts.as_slice()).unwrap_or_default();
    let refused = attempts.last().filter(|last| is_shrinking(last)).map(|last| last.members);
    let most = refused.unwrap_or(all);
    if (least..most).contains(&world.room) {
        return world.room;
    }
    if refused.is_none() {
        return all;
    }
    let started = attempts.iter().rev().find(|attempt| attempt.started_at.is_some());
    started.map_or(least, |attempt| attempt.members).clamp(least, most.saturating_sub(1).max(least))
}

fn is_shrinking(attempt: &Attempt) -> bool {
    attempt.reason.as_deref() == Some(SHRINKING)
}

/// How long an attempt of this size runs before it tries to grow: twice as long after each failed try.
fn grow_after(attempts: &[Attempt], size: u32) -> Duration {
    let worked = |attempt: &&Attempt| attempt.started_at.is_some() && attempt.members > size;
    let since = attempts.iter().rev().take_while(|attempt| !worked(attempt));
    let in_vain = since.filter(|attempt| is_shrinking(attempt)).count();
    GROW_AFTER.saturating_mul(1 << in_vain.min(DOUBLINGS_MAX))
}

/// Whether a running attempt should have another size.
pub fn resize(sight: Sight<'_>, world: &World<'_>) -> Option<Interruption> {
    let least = sight.run.spec.min_members?;
    let (size, all) = (sight.members(), sight.run.spec.members);
    let started = sight.attempt()?.started_at.as_ref().map(|time| time.0);
    if let Some(started) = started {
        let larger = all.min(size.saturating_add(world.room));
        let attempts = sight.run.status.as_ref().map(|status| status.attempts.as_slice()).unwrap_or_default();
        let is_time = started + grow_after(attempts, size) <= world.now;
        return (larger > size && is_time).then(|| {
            Interruption::new(
                "Growing",
                format!("there is room for {larger} of {all} members instead of {size}"),
            )
        });
    }
    let waits = sight.own_pods().all(|pod| pod.node.is_none());
    let is_time = sight.job.and_then(|job| job.created)? + SHRINK_AFTER <= world.now;
    (waits && is_time && size > least).then(|| {
        let what = if (least..size).contains(&world.room) {
            format!("there is room for {} of {size} members", world.room)
        } else {
            format!("{size} members did not start, but fewer may")
        };
        Interruption::new(SHRINKING, what)
    })
}

/// How long until an elastic Run may have to change its size.
pub fn next_look(sight: Sight<'_>, now: Timestamp) -> Option<Duration> {
    sight.run.spec.min_members?;
    let attempt = sight.attempt()?;
    let due = match &attempt.started_at {
        Some(started) => started.0 + grow_after(&sight.run.status.as_ref()?.attempts, sight.members()),
        None => sight.job.and_then(|job| job.created)? + SHRINK_AFTER,
    };
    Duration::try_from(due.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests;
