//! What other pods forbid: pods that must be near, pods that must not be, and an even spread with similar pods.
//!
//! The model counts members as they are placed, so nothing is remembered here: members placed earlier in the same
//! attempt count for later ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cluster_model::plan::{NeighbourRefusal, WaitReason};
use cluster_model::{ClusterState, GpuType, NearRefusal, NearRule, NodeId, PodId};

use super::super::{fit, ranking};
use crate::gang::Group;

/// How many refusals one reason lists, those of the most nodes first.
const REFUSALS_MAX: usize = 4;

/// Whether other pods let this one go to the node.
pub(crate) fn neighbours_admit(state: &ClusterState, node: NodeId, member: PodId) -> bool {
    !state.asks_too_much(member) && state.near_refusal(member, node).is_none()
}

/// Which pods are in the way of the first member of a group that found no node, though there is room by count. Looks
/// at every node that would take it.
pub(in super::super) fn reason(
    state: &ClusterState,
    group: &Group,
    gpu_type: Option<&GpuType>,
) -> Option<WaitReason> {
    let member = *group.members.iter().find(|member| state.pod(**member).place().is_none())?;
    let mut counts: BTreeMap<NearRefusal, u32> = BTreeMap::new();
    for (id, class) in state.classes() {
        if ranking::is_of(class, gpu_type) && fit::times_taken(state, class, &group.shape) > 0 {
            let refused =
                state.nodes_in(state.root(), id).filter_map(|node| state.near_refusal(member, node));
            for refusal in refused {
                *counts.entry(refusal).or_default() += 1;
            }
        }
    }
    let mut refusals: Vec<NeighbourRefusal> =
        counts.into_iter().map(|(refusal, nodes)| describe(state, member, refusal, nodes)).collect();
    // The model's numbers mean nothing: the most nodes first, then by what it is about.
    refusals.sort_by_key(|it| {
        (Reverse(it.nodes), it.rule, it.pods.clone(), it.topology_key.clone(), it.open_domains.clone())
    });
    refusals.truncate(REFUSALS_MAX);
    let members_asked = u32::try_from(group.members.len()).unwrap_or(u32::MAX);
    (!refusals.is_empty()).then_some(WaitReason::Neighbours { members_asked, refusals })
}

fn describe(state: &ClusterState, member: PodId, refusal: NearRefusal, nodes: u32) -> NeighbourRefusal {
    let is_uneven = refusal.rule == NearRule::Uneven;
    let open = if is_uneven { state.open_domains(member, refusal) } else { BTreeSet::new() };
    NeighbourRefusal {
        rule: refusal.rule,
        nodes,
        pods: state.refusal_selector(refusal).into(),
        topology_key: state.refusal_key(refusal).clone(),
        open_domains: open.into_iter().collect(),
    }
}
