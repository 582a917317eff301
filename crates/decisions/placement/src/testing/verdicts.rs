//! Which nodes would take one pod: the search's own predicates, without a decision. It is what a comparison with another
//! scheduler's filters looks at.

use std::collections::BTreeMap;

use cluster_model::{ClusterState, NodeName, PodKey};

use crate::gang::Request;
use crate::search;

/// For every node that is there, whether this pod may go there as things are. Quota, the size of its gang, other
/// waiting gangs and power caps are ignored; a GPU type counts only if the pod names one. A pod that is not there,
/// has a node, is gated or asks for something unsupported is refused everywhere.
pub fn verdicts(state: &ClusterState, pod: &PodKey) -> BTreeMap<NodeName, bool> {
    let waits = state.pod_id(pod).filter(|id| state.is_pending(*id));
    let placeable = waits.filter(|id| {
        let pod = state.pod(*id).pod();
        !pod.gated && pod.unsupported.is_empty()
    });
    let mut verdicts: BTreeMap<NodeName, bool> = names(state).map(|name| (name, false)).collect();
    let Some(id) = placeable else { return verdicts };
    let pod = state.pod(id).pod();
    let gpu_types: Vec<_> = match pod.gpu_types.as_slice() {
        [] => vec![None],
        named => named.iter().map(Some).collect(),
    };
    let request = Request::read_again(state, &pod.gang, &[id], None);
    for gpu_type in gpu_types {
        let takes = search::nodes_that_take(state, &request, gpu_type);
        for (node, _) in state.nodes().filter(|(_, node)| node.object().is_some()) {
            if takes(node) {
                verdicts.insert(state.node(node).name().clone(), true);
            }
        }
    }
    verdicts
}

fn names(state: &ClusterState) -> impl Iterator<Item = NodeName> {
    state.nodes().filter(|(_, node)| node.object().is_some()).map(|(_, node)| node.name().clone())
}
