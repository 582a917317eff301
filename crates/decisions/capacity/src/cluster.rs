//! What the cluster says about a gang and about a machine.

use cluster_model::{ClusterState, GangKey, NodeName};

/// Whether no member of a gang is placed yet: only then are machines bought for it.
pub fn waits_for_machines(state: &ClusterState, gang: &GangKey) -> bool {
    state.gang(gang).is_some_and(|gang| gang.members().all(|pod| state.pod(pod).at().is_none()))
}

/// Whether no pod of ours is on the node, or meant for it. Pods that run on every node do not count.
pub fn is_empty(state: &ClusterState, node: Option<&NodeName>) -> bool {
    let Some(node) = node.and_then(|name| state.node_id(name)) else { return true };
    !state.node(node).pods().any(|pod| state.pod(pod).pod().ours)
}
