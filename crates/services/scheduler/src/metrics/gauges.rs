//! Numbers of the state, with a bounded number of names. Pure.

use std::collections::BTreeMap;

use cluster_model::{ClusterState, GpuType};

use crate::shares::shares;

/// GPU types that have a label of their own; a cluster has a handful.
const GPU_TYPES_MAX: usize = 32;
/// Queues that have a label of their own.
const QUEUES_MAX: usize = 200;
/// The label of the rest.
const OTHER: &str = "other";

/// GPUs of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gpus {
    pub all: i64,
    pub used: i64,
    pub free_in_part: i64,
}

/// GPUs by type: the types with the most GPUs, and the rest as one. O(nodes).
pub(super) fn gpus_by_type(state: &ClusterState) -> Vec<(String, Gpus)> {
    let mut types: BTreeMap<String, Gpus> = BTreeMap::new();
    for (_, node) in state.nodes() {
        let (all, free) = (node.object().map_or(0, |node| node.allocatable.gpus), node.free().gpus);
        if all == 0 {
            continue;
        }
        let name = node.gpu_type().unwrap_or_else(GpuType::unknown).to_string();
        let gpus = types.entry(name).or_default();
        gpus.all += all;
        gpus.used += all - free;
        gpus.free_in_part += if free < all { free.max(0) } else { 0 };
    }
    let mut types: Vec<_> = types.into_iter().collect();
    types.sort_by_key(|(name, gpus)| (std::cmp::Reverse(gpus.all), name.clone()));
    let rest = types.split_off(types.len().min(GPU_TYPES_MAX));
    if !rest.is_empty() {
        let sum = rest.iter().fold(Gpus::default(), |sum, (_, gpus)| Gpus {
            all: sum.all + gpus.all,
            used: sum.used + gpus.used,
            free_in_part: sum.free_in_part + gpus.free_in_part,
        });
        types.push((OTHER.to_owned(), sum));
    }
    types
}

/// The queues that hold most, with what they hold and what they are due; the rest is summed as one.
pub(super) fn queues(state: &ClusterState) -> Vec<(String, i64, i64)> {
    let capacity: i64 = state.capacity().values().sum();
    let mut queues: Vec<_> = shares(state)
        .into_iter()
        .map(|share| {
            let used = i64::try_from(share.gpus_used).unwrap_or(i64::MAX);
            (share.name, used, part(capacity, share.fair_percent))
        })
        .collect();
    queues.sort_by_key(|(name, used, _)| (std::cmp::Reverse(*used), name.clone()));
    let rest = queues.split_off(queues.len().min(QUEUES_MAX));
    if !rest.is_empty() {
        let sum = |of: fn(&(String, i64, i64)) -> i64| rest.iter().map(of).sum();
        queues.push((OTHER.to_owned(), sum(|it| it.1), sum(|it| it.2)));
    }
    queues
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a part of some 10,000 GPUs, to the next whole one"
)]
fn part(capacity: i64, percent: f64) -> i64 {
    (capacity as f64 * percent / 100.0).round() as i64
}

#[cfg(test)]
mod tests {
    use cluster_model::{ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, Resources};

    use super::{Gpus, OTHER, QUEUES_MAX, gpus_by_type, queues};

    fn node(name: &str, gpu_type: &str, gpus: i64) -> ClusterChange {
        let allocatable = Resources { gpus, pods: 10, ..Resources::default() };
        ClusterChange::Node(Node { gpu_type: Some(gpu_type.into()), allocatable, ..Node::new(name) })
    }

    fn pod(name: &str, gpus: i64, node: &str) -> ClusterChange {
        ClusterChange::Pod(Pod {
            node: Some(node.into()),
            requests: Resources { gpus, pods: 1, ..Resources::default() },
            ..Pod::new(PodKey::new("team", name, "u"), GangKey::new("team", name))
        })
    }

    #[test]
    fn free_gpus_beside_used_ones_are_counted_apart() {
        let mut state = ClusterState::default();
        for change in [node("a", "H100", 8), node("b", "H100", 8), node("c", "L4", 4), pod("p", 3, "a")] {
            state.apply(change);
        }
        let gpus = |all, used, free_in_part| Gpus { all, used, free_in_part };
        let expect = [("H100".to_owned(), gpus(16, 3, 5)), ("L4".to_owned(), gpus(4, 0, 0))];
        assert_eq!(gpus_by_type(&state), expect);
    }

    #[test]
    fn there_are_never_more_labels_than_said() {
        let mut state = ClusterState::default();
        for number in 0..QUEUES_MAX + 5 {
            state.apply(ClusterChange::Queue(Queue::new(format!("q{number}"))));
        }
        for number in 0..40 {
            state.apply(node(&format!("n{number}"), &format!("type-{number}"), 8));
        }
        assert_eq!(queues(&state).len(), QUEUES_MAX + 1);
        assert_eq!(gpus_by_type(&state).len(), 33);
        assert_eq!(
            gpus_by_type(&state).last().map(|(name, gpus)| (name.as_str(), gpus.all)),
            Some((OTHER, 64))
        );
    }
}
