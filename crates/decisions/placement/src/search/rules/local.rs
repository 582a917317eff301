//! What a node itself has and a class does not say.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_model::{ClusterState, Node, NodeAffinity, NodeId, Pod};

/// Whether the class of a node says everything about it that matters for this pod.
pub(super) fn is_void(state: &ClusterState, pod: &Pod) -> bool {
    is_decided(state, &pod.node_selector, pod.node_affinity.as_deref())
}

/// Whether classes know all that is looked at.
pub(in super::super) fn is_decided(
    state: &ClusterState,
    selector: &BTreeMap<Arc<str>, Arc<str>>,
    affinity: Option<&NodeAffinity>,
) -> bool {
    let is_known = |key: &str| state.label_splits_kinds(key);
    selector.keys().all(|key| is_known(key))
        && affinity.is_none_or(|affinity| affinity.is_decided_by(is_known))
}

/// Whether the node itself takes the pod.
pub(super) fn admits(state: &ClusterState, node: NodeId, pod: &Pod) -> bool {
    state.node(node).object().is_some_and(|node| selects(pod, node))
}

/// Whether a node has the labels, and perhaps the name, that a pod asks for.
fn selects(pod: &Pod, node: &Node) -> bool {
    pod.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && pod.node_affinity.as_ref().is_none_or(|affinity| affinity.admits(node))
}
