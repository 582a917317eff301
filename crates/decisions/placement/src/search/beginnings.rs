//! Where a gang whose members want each other near may begin.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_model::{ClusterState, GpuType};

use super::{fit, ranking};
use crate::gang::Request;

/// Places that are tried for one gang: those with the most room, and each costs a search.
const BEGINNINGS_MAX: usize = 64;

/// The label whose values are the places where it may begin; none if it has one member, or if some are there.
pub(super) fn key<'a>(state: &'a ClusterState, request: &Request) -> Option<&'a Arc<str>> {
    if !request.is_helped_by_others || request.root.len() < 2 {
        return None;
    }
    let mut members = request.root.all().flat_map(|group| &group.members);
    members.find_map(|member| state.beginning_key(*member))
}

/// The values of the label whose nodes take all its largest members by count, the most room first, then by name.
pub(super) fn values(
    state: &ClusterState,
    request: &Request,
    gpu_type: Option<&GpuType>,
    key: &str,
) -> Vec<Arc<str>> {
    let Some(group) = request.root.all().next() else { return Vec::new() };
    let of_type = gpu_type.filter(|_| group.shape.uses_gpus());
    let mut rooms: BTreeMap<&Arc<str>, i64> = BTreeMap::new();
    for (id, class) in state.classes().filter(|(_, class)| ranking::is_of(class, of_type)) {
        let times = fit::times_taken(state, class, &group.shape);
        if times == 0 {
            continue;
        }
        let nodes = state.nodes_in(state.root(), id).filter_map(|node| state.node(node).object());
        for value in nodes.filter_map(|node| node.labels.get(key)) {
            let room = rooms.entry(value).or_default();
            *room = room.saturating_add(times);
        }
    }
    let members = i64::try_from(group.members.len()).unwrap_or(i64::MAX);
    let mut values: Vec<_> = rooms.into_iter().filter(|(_, room)| *room >= members).collect();
    values.sort_by_key(|(value, room)| (Reverse(*room), *value));
    values.into_iter().take(BEGINNINGS_MAX).map(|(value, _)| value.clone()).collect()
}
