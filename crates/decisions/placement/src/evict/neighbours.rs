//! Whether it matters to one pod that another one is there: by the same rules as the search, for two pods alone.

use cluster_model::{ClusterState, NodeId, Pod, PodTerm};

/// Whether one of two pods keeps the other away from its node.
pub(super) fn keep_apart(state: &ClusterState, one: (&Pod, NodeId), other: (&Pod, NodeId)) -> bool {
    keeps_away(state, one, other) || keeps_away(state, other, one)
}

fn keeps_away(state: &ClusterState, (pod, at): (&Pod, NodeId), (other, other_at): (&Pod, NodeId)) -> bool {
    let Some(asks) = &pod.neighbours else { return false };
    let namespace = state.namespace(&other.key.namespace);
    let means = |term: &PodTerm| term.scope.means(other, namespace) || term.scope.shuns(other, namespace);
    let label = |node: NodeId, key: &str| state.node(node).object().and_then(|node| node.labels.get(key));
    asks.anti_affinity.iter().any(|term| {
        let value = label(at, &term.topology_key);
        value.is_some() && value == label(other_at, &term.topology_key) && means(term)
    })
}

/// Whether a pod may be on its node only because another pod is there, or is not: it wants such pods near, or spreads
/// with them.
pub(super) fn leans_on(state: &ClusterState, pod: &Pod, other: &Pod) -> bool {
    let Some(asks) = &pod.neighbours else { return false };
    let namespace = state.namespace(&other.key.namespace);
    let wants = || asks.affinity.iter().all(|term| term.scope.means(other, namespace));
    let is_alike = |selector: &cluster_model::Selector| {
        pod.key.namespace == other.key.namespace
            && !selector.is_everything()
            && selector.matches(&other.labels)
    };
    !asks.affinity.is_empty() && wants()
        || asks.spread.iter().any(|constraint| constraint.selector.as_ref().is_some_and(is_alike))
}
