//! Nodes for gangs for which others give way, and how long they are held.

use cluster_model::plan::MemberPlacement;
use cluster_model::policy::Policy;
use cluster_model::{Fork, GpuType};
use jiff::{SignedDuration, Timestamp};

use crate::gang::Request;
use crate::search::Searches;

/// How much longer a hold is than the grace of gangs that leave: they are told one after the other, and seen gone
/// later.
const SEEN_GONE_SECONDS: u32 = 60;

/// The longest time that a claimant waits for a gang: one that asks for more, and takes it, must not bind the
/// claimant to its node.
const GRACE_SECONDS_MAX: u32 = 3600;

/// Until when nodes are held, if the gangs on them may take this long to end.
pub(super) fn expires(policy: &Policy, now: Timestamp, grace_seconds: u32) -> Timestamp {
    let gone_after = grace_seconds.min(GRACE_SECONDS_MAX) + SEEN_GONE_SECONDS;
    let seconds = SignedDuration::from_secs(i64::from(policy.eviction.hold_seconds.max(gone_after)));
    now.checked_add(seconds).unwrap_or(Timestamp::MAX)
}

/// Nodes for a gang on a fork, as any gang finds them. The modules of `evict` ask for nodes in no other way.
pub(super) fn place(
    attempt: &mut Fork<'_>,
    request: &Request,
    gpu_type: Option<&GpuType>,
    searches: &mut Searches,
) -> Option<Vec<MemberPlacement>> {
    searches.try_place(attempt, request, gpu_type)
}

pub(super) fn hold(planned: &mut Fork<'_>, members: &[MemberPlacement]) {
    for member in members {
        let pod = planned.pod_id(&member.pod).expect("a member that was placed is known");
        let node = planned.node_id(&member.node).expect("a node that was found is there");
        planned.hold(pod, node, &member.devices);
    }
}
