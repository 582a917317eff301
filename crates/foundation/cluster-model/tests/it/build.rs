//! Short helpers that build objects.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::{
    Amounts, ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, QueueUsage, Resources,
};

pub fn node(name: &str, gpu_type: &str, gpus: i64) -> Node {
    Node {
        name: name.into(),
        gpu_type: Some(gpu_type.into()),
        allocatable: Resources { gpus, cpu_millis: 64_000, memory_bytes: 512 << 30, pods: 110 },
        ..Node::new(name)
    }
}

pub fn pod(name: &str, gpus: i64) -> Pod {
    Pod {
        queue: Some("nlp".into()),
        requests: Resources { gpus, cpu_millis: 1000, memory_bytes: 1 << 30, pods: 1 },
        ..Pod::new(key(name), GangKey::new("team", name))
    }
}

pub fn key(name: &str) -> PodKey {
    PodKey::new("team", name, format!("uid-{name}"))
}

pub fn on(mut pod: Pod, node: &str) -> Pod {
    pod.node = Some(node.into());
    pod
}

pub fn queue(name: &str, parent: Option<&str>, h100: i64) -> Queue {
    Queue {
        parent: parent.map(Into::into),
        quota: Some(Amounts { gpus: BTreeMap::from([("H100".into(), h100)]), ..Amounts::default() }),
        namespaces: BTreeSet::from(["team".into()]),
        ..Queue::new(name)
    }
}

pub fn state(changes: impl IntoIterator<Item = ClusterChange>) -> ClusterState {
    let mut state = ClusterState::default();
    changes.into_iter().for_each(|change| state.apply(change));
    state
}

pub fn usage(state: &ClusterState, queue: &str) -> QueueUsage {
    state.queue(&queue.into()).expect("the queue exists").1.clone()
}

pub fn gpus_used(state: &ClusterState, queue: &str, gpu_type: &str) -> i64 {
    usage(state, queue).gpus.get(&gpu_type.into()).copied().unwrap_or(0)
}

pub fn gpus_free(state: &ClusterState, node: &str) -> i64 {
    state.node(state.node_id(&node.into()).expect("the node exists")).free().gpus
}
