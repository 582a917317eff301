//! Short helpers that build objects and plans.

use std::sync::Arc;

use cluster_model::plan::{
    Eviction, EvictionRule, GangPlacement, Hold, MemberPlacement, Plan, WaitReason, WaitingGang,
};
use cluster_model::policy::Policy;
use cluster_model::{
    Amounts, ClusterChange, ClusterState, DeviceUse, GangKey, Node, Pod, PodKey, Queue, Resources, Terms,
};
use jiff::Timestamp;
use plan_check::{Violation, check_plan};

/// The time of every plan.
pub const NOW: i64 = 10_000;

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

/// A node with eight H100 in this zone and rack.
pub fn node(name: &str, zone: &str, rack: &str) -> Node {
    Node {
        gpu_type: Some("H100".into()),
        allocatable: Resources { gpus: 8, cpu_millis: 64_000, memory_bytes: 1 << 40, pods: 110 },
        topology: vec![zone.into(), rack.into()],
        ..Node::new(name)
    }
}

pub fn queue(name: &str, quota: i64, limit: i64) -> Queue {
    let gpus = |gpus| Some(Amounts { gpus: [("H100".into(), gpus)].into(), ..Amounts::default() });
    Queue { quota: gpus(quota), limit: gpus(limit), namespaces: ["team".into()].into(), ..Queue::new(name) }
}

/// Members of a gang of queue `a` with this many GPUs each.
pub fn gang(name: &str, members: u32, gpus: i64) -> Vec<Pod> {
    let member = |index| Pod {
        gang_size: Some(members),
        queue: Some("a".into()),
        requests: Resources { gpus, cpu_millis: 1000, memory_bytes: 1, pods: 1 },
        member_index: Some(index),
        ..Pod::new(key(name, index), GangKey::new("team", name))
    };
    (0..members).map(member).collect()
}

pub fn with(mut pods: Vec<Pod>, change: impl Fn(&mut Pod)) -> Vec<Pod> {
    pods.iter_mut().for_each(change);
    pods
}

pub fn with_terms(pods: Vec<Pod>, terms: Terms) -> Vec<Pod> {
    let terms = Arc::new(terms);
    with(pods, |pod| pod.terms = terms.clone())
}

/// The same, running since the beginning.
pub fn on(pods: Vec<Pod>, node: &str) -> Vec<Pod> {
    with(pods, |pod| (pod.node, pod.started) = (Some(node.into()), Some(at(0))))
}

pub fn key(gang: &str, index: u32) -> PodKey {
    PodKey::new("team", format!("{gang}-{index}"), "u")
}

pub fn name(gang: &str) -> GangKey {
    GangKey::new("team", gang)
}

pub fn members(gang: &str, nodes: &[&str]) -> Vec<MemberPlacement> {
    let placed = |(index, node): (usize, &&str)| MemberPlacement {
        pod: key(gang, u32::try_from(index).expect("a few")),
        node: (**node).into(),
        devices: vec![],
    };
    nodes.iter().enumerate().map(placed).collect()
}

pub fn place(gang: &str, nodes: &[&str]) -> GangPlacement {
    GangPlacement { gang: name(gang), queue: "a".into(), run: None, members: members(gang, nodes) }
}

pub fn place_on_devices(gang: &str, node: &str, devices: &[DeviceUse]) -> GangPlacement {
    let mut placement = place(gang, &[node]);
    placement.members[0].devices = devices.to_vec();
    placement
}

pub fn wait(gang: &str) -> WaitingGang {
    let reasons = vec![WaitReason::MembersMissing { have: 1, want: 2 }];
    WaitingGang { gang: name(gang), run: None, first_pod: key(gang, 0), reasons }
}

pub fn hold(gang: &str, nodes: &[&str]) -> Hold {
    Hold { gang: name(gang), members: members(gang, nodes), expires: at(NOW + 600) }
}

pub fn evict(gang: &str, claimant: &str, why: EvictionRule, lost_gpu_seconds: u64) -> Eviction {
    Eviction { gang: name(gang), claimant: name(claimant), why, lost_gpu_seconds, moves: false }
}

/// A cluster of these nodes and gangs, and queue `a` without bounds.
pub fn cluster(nodes: impl IntoIterator<Item = Node>, pods: impl IntoIterator<Item = Pod>) -> ClusterState {
    let mut state = ClusterState::default();
    state.advance(at(NOW));
    let open = Queue { namespaces: ["team".into()].into(), ..Queue::new("a") };
    state.apply(ClusterChange::Queue(open));
    nodes.into_iter().for_each(|node| state.apply(ClusterChange::Node(node)));
    pods.into_iter().for_each(|pod| state.apply(ClusterChange::Pod(pod)));
    state
}

pub fn plan(state: &ClusterState) -> Plan {
    Plan::empty(state.generation(), at(NOW))
}

/// What is found in a plan that places these.
pub fn judged(state: &ClusterState, placements: Vec<GangPlacement>) -> Vec<Violation> {
    check_plan(state, &Plan { placements, ..plan(state) }, &Policy { explain: false, ..Policy::default() })
}
