//! Nodes with the occupants of their GPUs, and members of runs, as the API shows them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api_types::rest::{MemberView, NodeView, Occupant};
use jiff::Timestamp;

use crate::cache::node_index::CachedNode;
use crate::cache::pod_index::{CachedPod, PodIndex};
use crate::cache::queue_index::QueueIndex;

/// A node with all occupants of its GPUs. Not every caller may see this: see [`masked`].
pub fn node_view(node: &CachedNode, pods: &PodIndex, queues: &QueueIndex) -> NodeView {
    let occupants = pods.holding(&node.name).map(|pod| Occupant {
        namespace: Some(pod.namespace.to_string()),
        run: pod.run.as_deref().map(str::to_owned),
        queue: pod.queue.as_deref().or_else(|| queues.of_namespace(&pod.namespace)).map(str::to_owned),
        gpus: pod.gpus,
        state: pod.state,
    });
    NodeView {
        name: node.name.to_string(),
        rack: node.rack.as_deref().map(str::to_owned),
        gpu_type: node.gpu_type.as_deref().map(str::to_owned),
        gpus: node.gpus,
        ready: node.ready,
        schedulable: node.schedulable,
        occupants: merged(occupants),
    }
}

/// The namespaces that a view names.
pub fn namespaces(view: &NodeView) -> BTreeSet<String> {
    view.occupants.iter().filter_map(|occupant| occupant.namespace.clone()).collect()
}

/// The view for a caller who may list runs in the namespaces `visible`: other occupants are counts by state,
/// without names.
pub fn masked(view: NodeView, visible: &BTreeSet<String>) -> NodeView {
    let mask = |occupant: Occupant| match &occupant.namespace {
        Some(namespace) if visible.contains(namespace) => occupant,
        _ => Occupant { namespace: None, run: None, queue: None, ..occupant },
    };
    NodeView { occupants: merged(view.occupants.into_iter().map(mask)), ..view }
}

/// One member of a run.
pub fn member_view(pod: &CachedPod) -> MemberView {
    MemberView {
        index: pod.index,
        pod: pod.name.to_string(),
        node: pod.node.as_deref().map(str::to_owned),
        state: pod.state,
        gpus: pod.gpus,
        scheduled_at: pod.scheduled_second.and_then(rfc3339),
        started_at: pod.started_second.and_then(rfc3339),
        finished_at: pod.finished_second.and_then(rfc3339),
        exit_code: pod.exit_code,
        reason: pod.reason.as_deref().map(str::to_owned),
    }
}

/// Merges occupants that differ only in their number of GPUs; sorted by namespace, then run, the nameless
/// first.
fn merged(occupants: impl Iterator<Item = Occupant>) -> Vec<Occupant> {
    let mut gpus_of: BTreeMap<Occupant, u32> = BTreeMap::new();
    for occupant in occupants {
        let gpus = occupant.gpus;
        let sum = gpus_of.entry(Occupant { gpus: 0, ..occupant }).or_default();
        *sum = sum.saturating_add(gpus);
    }
    gpus_of.into_iter().map(|(occupant, gpus)| Occupant { gpus, ..occupant }).collect()
}

fn rfc3339(second: i64) -> Option<String> {
    Timestamp::from_second(second).ok().map(|time| time.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use api_types::rest::{MemberState, NodeView, Occupant};

    use super::{masked, namespaces};

    fn occupant(namespace: Option<&str>, run: Option<&str>, gpus: u32, state: MemberState) -> Occupant {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Occupant { namespace: owned(namespace), run: owned(run), queue: owned(namespace), gpus, state }
    }

    fn view() -> NodeView {
        let occupants = vec![
            occupant(Some("nlp"), Some("a"), 2, MemberState::Running),
            occupant(Some("speech"), None, 1, MemberState::Running),
            occupant(Some("vision"), Some("b"), 1, MemberState::Running),
            occupant(Some("vision"), Some("c"), 3, MemberState::Starting),
        ];
        NodeView {
            name: "n".to_owned(),
            rack: None,
            gpu_type: Some("H100".to_owned()),
            gpus: 8,
            ready: true,
            schedulable: true,
            occupants,
        }
    }

    #[test]
    fn who_may_not_be_seen_is_a_count_by_state() {
        assert_eq!(
            masked(view(), &["nlp".to_owned()].into()).occupants,
            [
                occupant(None, None, 3, MemberState::Starting),
                occupant(None, None, 2, MemberState::Running),
                occupant(Some("nlp"), Some("a"), 2, MemberState::Running),
            ]
            .map(|occupant| occupant)
        );
    }

    #[test]
    fn gpus_held_add_up_alike_for_everybody() {
        let held = |visible: &BTreeSet<String>| -> u32 {
            masked(view(), visible).occupants.iter().map(|occupant| occupant.gpus).sum()
        };
        assert_eq!(held(&BTreeSet::new()), 7);
        assert_eq!(held(&namespaces(&view())), 7);
        assert_eq!(masked(view(), &namespaces(&view())), view());
    }
}
