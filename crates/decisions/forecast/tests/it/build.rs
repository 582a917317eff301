//! Short helpers that build objects.

use cluster_model::{ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, Resources};
use jiff::Timestamp;

pub const NOW: i64 = 1_000_000;

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

pub fn node(name: &str, gpu_type: &str, gpus: i64) -> Node {
    Node {
        gpu_type: Some(gpu_type.into()),
        allocatable: Resources { gpus, cpu_millis: 64_000, memory_bytes: 512 << 30, pods: 110 },
        topology: vec!["zone".into(), format!("rack-of-{name}").into()],
        ..Node::new(name)
    }
}

pub fn key(name: &str) -> GangKey {
    GangKey::new("team", name)
}

/// Members `<gang>-0` … with this many GPUs each, created this many seconds before now.
pub fn gang(name: &str, members: u32, gpus: i64, age: i64) -> Vec<Pod> {
    let member = |index: u32| Pod {
        gang_size: Some(members),
        queue: Some("nlp".into()),
        requests: Resources { gpus, cpu_millis: 1000, memory_bytes: 1 << 30, pods: 1 },
        member_index: Some(index),
        created: at(NOW - age),
        ..Pod::new(PodKey::new("team", format!("{name}-{index}"), "1"), key(name))
    };
    (0..members).map(member).collect()
}

/// The same, running on a node for as long as it is old.
pub fn running(name: &str, gpus: i64, age: i64, node: &str) -> Vec<Pod> {
    each(gang(name, 1, gpus, age), |pod| {
        pod.node = Some(node.into());
        pod.started = Some(pod.created);
    })
}

pub fn each(mut pods: Vec<Pod>, change: impl Fn(&mut Pod)) -> Vec<Pod> {
    pods.iter_mut().for_each(change);
    pods
}

pub fn queue(name: &str) -> Queue {
    Queue { namespaces: ["team".into()].into(), ..Queue::new(name) }
}

pub fn cluster(nodes: impl IntoIterator<Item = Node>, pods: Vec<Vec<Pod>>) -> ClusterState {
    let mut state = ClusterState::default();
    state.advance(at(NOW));
    state.apply(ClusterChange::Queue(queue("nlp")));
    nodes.into_iter().for_each(|node| state.apply(ClusterChange::Node(node)));
    pods.into_iter().flatten().for_each(|pod| state.apply(ClusterChange::Pod(pod)));
    state
}
