//! Interruptions: causes from outside that end an attempt. They cost the Run no retry: all members are told to
//! save and leave, and another attempt follows.
//!
//! | what is seen                                             | reason                        |
//! |----------------------------------------------------------|-------------------------------|
//! | `spec.pause`, a step of `spec.restarts`                  | `Paused`, `Restarted`         |
//! | a member's machine was announced to go                   | `SpotNotice`, `Maintenance`   |
//! | … has a sick GPU                                         | `GpuSick`                     |
//! | … is silent                                              | `NodeLost`                    |
//! | the scheduler evicts the members                         | `Preempted`, `Unwound`, `Moved`|
//! | Kubernetes does (eviction, pressure, a node that is gone)| `Evicted`, `NodeLost`         |
//! | a kubelet did not admit a member, or began anew          | `NodeRefused`, `NodeRestarted`|
//! | somebody deleted a member's pod                          | `PodDeleted`                  |
//! | a member was replaced unseen                             | `MemberLost`                  |
//! | members do not start                                     | see `starting.rs`             |
//! | there is room for more members, or only for fewer        | `Growing`, `Shrinking`        |
//!
//! Before the first member has started, the Job simply replaces a member that is evicted.

use api_types::conditions;
use api_types::names::LEAVING_SPOT;

pub use super::cause::Interruption;
use super::elastic;
use super::job::JobFacts;
use super::member::{Member, PodPhase};
use super::sight::{Sight, World};
use super::starting;
use crate::nodes::{NodeFacts, NodesByName};

/// Whether the Run's running attempt has to end now, and why.
pub fn interruption(sight: Sight<'_>, world: &World<'_>) -> Option<Interruption> {
    requested(sight)
        .or_else(|| node_goes(sight, world.nodes, world.is_deaf, |pod| !pod.is_over()))
        .or_else(|| if sight.has_begun() { after_it_began(sight) } else { None })
        .or_else(|| starting::failed_start(sight, world.now))
        .or_else(|| elastic::resize(sight, world))
}

/// Whether a failure of this attempt was caused by machines instead of members.
pub fn behind_failure(sight: Sight<'_>, nodes: &NodesByName) -> Option<Interruption> {
    taken_away(sight)
        .or_else(|| node_goes(sight, nodes, false, |pod| pod.phase == PodPhase::Failed && !pod.deleted))
        .or_else(|| failed_by_kubelet(sight))
        .or_else(|| deleted(sight))
}

/// An interruption that a user requested.
pub fn requested(sight: Sight<'_>) -> Option<Interruption> {
    let followed = sight.run.status.as_ref().map_or(0, |status| status.restarts);
    if sight.run.spec.pause {
        return Some(Interruption::new("Paused", "paused on request"));
    }
    (sight.run.spec.restarts > followed).then(|| Interruption::new("Restarted", "begun again on request"))
}

fn after_it_began(sight: Sight<'_>) -> Option<Interruption> {
    taken_away(sight).or_else(|| deleted(sight)).or_else(|| replaced(sight))
}

/// A member's machine is leaving, or is gone. Of several members the first is named.
fn node_goes(
    sight: Sight<'_>,
    nodes: &NodesByName,
    is_deaf: bool,
    concerns: impl Fn(&Member) -> bool,
) -> Option<Interruption> {
    let mut members: Vec<&Member> = sight.own_pods().filter(|pod| concerns(pod)).collect();
    members.sort_by_key(|pod| pod.index);
    members.into_iter().find_map(|member| {
        let name = member.node.as_deref()?;
        let (reason, what) = going(nodes.get(name)?, is_deaf)?;
        Some(Interruption::new(reason, format!("member {} is on {name}, {what}", member.index)))
    })
}

fn going(node: &NodeFacts, is_deaf: bool) -> Option<(&'static str, String)> {
    if let Some(leaving) = &node.leaving {
        let by = leaving.at.as_ref().map(|at| format!(" by {at}")).unwrap_or_default();
        return Some(if leaving.why == LEAVING_SPOT {
            ("SpotNotice", format!("which the cloud takes back{by}"))
        } else {
            ("Maintenance", format!("which goes into maintenance{by}"))
        });
    }
    if let Some(helps) = &node.sick {
        return Some(("GpuSick", format!("which has a sick GPU ({helps})")));
    }
    let lost_since = node.lost_since.filter(|_| !is_deaf);
    lost_since.map(|since| ("NodeLost", format!("which has been silent since {since}")))
}

/// Reasons, besides `OutOf…`, of a kubelet that does not admit a pod: its devices or its machine are not as
/// expected.
const NOT_ADMITTED: [&str; 6] = [
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
    "NodeAffinity",
    "NodeShutdown",
    "Shutdown",
    "Terminated",
];
/// The reason of a kubelet that restarted with its machine and does not know how a container ended.
const END_UNKNOWN: &str = "ContainerStatusUnknown";

/// A member failed before its program ran, or with its machine. Others may have failed because of it.
fn failed_by_kubelet(sight: Sight<'_>) -> Option<Interruption> {
    let mut failed: Vec<&Member> =
        sight.own_pods().filter(|pod| pod.failed_itself() && !pod.deleted).collect();
    failed.sort_by_key(|pod| pod.index);
    failed.into_iter().find_map(|pod| {
        let place = pod.node.as_deref().unwrap_or("its node");
        let refused =
            pod.reason.as_deref().filter(|why| NOT_ADMITTED.contains(why) || why.starts_with("OutOf"));
        if let Some(why) = refused {
            let sentence = format!("{place} did not admit member {} ({why})", pod.index);
            return Some(Interruption::new("NodeRefused", sentence));
        }
        let is_unknown = pod.exit.as_ref().is_some_and(|exit| exit.reason.as_deref() == Some(END_UNKNOWN));
        let sentence = format!("{place} restarted with member {} on it", pod.index);
        is_unknown.then(|| Interruption::new("NodeRestarted", sentence))
    })
}

/// Kubernetes or the scheduler evicts a member, and says why.
fn taken_away(sight: Sight<'_>) -> Option<Interruption> {
    let taken = sight.own_pods().filter(|pod| pod.disruption.is_some());
    let first = taken.min_by_key(|pod| pod.index)?;
    let why = first.disruption.as_deref().unwrap_or_default();
    let sentence = first.disruption_message.clone().filter(|sentence| !sentence.is_empty());
    let place = first.node.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
    let member = |what: &str| format!("member {}{place} {what} ({why})", first.index);
    Some(match why {
        conditions::pod::PREEMPTED => {
            Interruption::new("Preempted", sentence.unwrap_or_else(|| "gave way for another gang".to_owned()))
        }
        conditions::pod::START_FAILED => {
            Interruption::new("Unwound", sentence.unwrap_or_else(|| "could start only in part".to_owned()))
        }
        conditions::pod::MOVED => {
            Interruption::new("Moved", sentence.unwrap_or_else(|| "moved to cheaper machines".to_owned()))
        }
        "DeletionByPodGC" | "DeletionByTaintManager" => {
            Interruption::new("NodeLost", member("was lost with its node"))
        }
        _ => Interruption::new("Evicted", member("was evicted")),
    })
}

/// A member's pod was deleted from outside, and not because another member had failed or had ended well.
fn deleted(sight: Sight<'_>) -> Option<Interruption> {
    // The Job controller ends the others, because of a failure or a deletion; the ended Job shows which.
    let is_ending =
        |job: &JobFacts| job.end.is_none() && (job.failing_since.is_some() || job.deleting_since.is_some());
    let has_failed = sight.own_pods().any(|pod| pod.failed_itself() && !pod.deleted);
    if sight.job.is_some_and(is_ending) || has_failed {
        return None;
    }
    let deleted = sight.own_pods().filter(|pod| pod.deleted && pod.phase != PodPhase::Succeeded);
    let first = deleted.min_by_key(|pod| pod.index)?;
    Some(Interruption::new("PodDeleted", format!("the pod of member {} was deleted", first.index)))
}

/// All members of a gang exist before any of them is bound, so a younger one replaces one that was lost. Starts
/// are on the node's clock, which may be wrong; binds are on the control plane's.
fn replaced(sight: Sight<'_>) -> Option<Interruption> {
    let started = sight.attempt()?.started_at.as_ref()?.0;
    let bound =
        sight.own_pods().filter(|pod| pod.started_at.is_some()).filter_map(|pod| pod.bound_at).min()?;
    let is_younger = |pod: &&Member| pod.created.is_some_and(|created| created > started && created > bound);
    let younger = sight.own_pods().filter(is_younger);
    let first = younger.min_by_key(|pod| pod.index)?;
    Some(Interruption::new("MemberLost", format!("member {} was lost and has been replaced", first.index)))
}

#[cfg(test)]
mod tests;
