//! Conditions: built purely, merged with the old ones so that a transition time moves only on a transition.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Condition types of a Run.
pub mod run {
    /// All members have a node.
    pub const SCHEDULED: &str = "Scheduled";
    /// The run is over; the reason says how.
    pub const FINISHED: &str = "Finished";
}

/// Condition types of a `MachineType`.
pub mod machine_type {
    /// Its machines have what it says.
    pub const AS_PROMISED: &str = "AsPromised";
}

/// Reasons of the condition `DisruptionTarget` of pods that the scheduler takes away.
pub mod pod {
    /// The gang gives way for another one.
    pub const PREEMPTED: &str = "PreemptionByWarpyard";
    /// The gang was bound in part, and there is no room for the rest of it.
    pub const START_FAILED: &str = "GangStartFailed";
    /// The gang continues elsewhere, where it costs less.
    pub const MOVED: &str = "MovedByWarpyard";
}

/// What a condition says now; [`merge`] turns it into a [`Condition`] with the right transition time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The condition's type, from the constants above.
    pub type_: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// A CamelCase word for machines.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

/// The new list of conditions: each keeps its old transition time unless its status changed.
pub fn merge(old: &[Condition], observed: Vec<Observed>, generation: i64, now: Timestamp) -> Vec<Condition> {
    observed
        .into_iter()
        .map(|observed| {
            let status = if observed.holds { "True" } else { "False" };
            let since = old
                .iter()
                .find(|condition| condition.type_ == observed.type_ && condition.status == status)
                .map_or(Time(now), |condition| condition.last_transition_time.clone());
            Condition {
                type_: observed.type_.to_owned(),
                status: status.to_owned(),
                reason: observed.reason,
                message: observed.message,
                observed_generation: Some(generation),
                last_transition_time: since,
            }
        })
        .collect()
}
