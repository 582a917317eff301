//! Short helpers that build objects and read plans.

use std::collections::BTreeMap;

use cluster_model::{
    Amounts, ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, Resources, Taint, TaintEffect,
    Toleration,
};
use jiff::Timestamp;
use placement::{OrderPolicy, Plan, Policy, plan};
use plan_check::check_plan;

pub fn node(name: &str, gpu_type: &str, gpus: i64) -> Node {
    Node {
        gpu_type: Some(gpu_type.into()),
        allocatable: Resources { gpus, cpu_millis: 64_000, memory_bytes: 512 << 30, pods: 110 },
        ..Node::new(name)
    }
}

pub fn cpu_node(name: &str, cpu_millis: i64) -> Node {
    let allocatable = Resources { cpu_millis, ..node(name, "", 0).allocatable };
    Node { gpu_type: None, allocatable, ..node(name, "", 0) }
}

pub fn taint(key: &str) -> Taint {
    Taint { key: key.into(), value: "".into(), effect: TaintEffect::NoSchedule }
}

pub fn toleration(key: &str) -> Toleration {
    Toleration { key: Some(key.into()), value: None, effect: None }
}

/// Members `<gang>-0` … with this many GPUs each.
pub fn gang(name: &str, members: u32, gpus: i64) -> Vec<Pod> {
    let member = |index: u32| Pod {
        gang_size: Some(members),
        queue: Some("nlp".into()),
        requests: Resources { gpus, cpu_millis: 1000, memory_bytes: 1 << 30, pods: 1 },
        run: Some(name.into()),
        member_index: Some(index),
        ..Pod::new(
            PodKey::new("team", format!("{name}-{index}"), format!("uid-{name}-{index}")),
            GangKey::new("team", name),
        )
    };
    (0..members).map(member).collect()
}

pub fn each(mut pods: Vec<Pod>, change: impl Fn(&mut Pod)) -> Vec<Pod> {
    pods.iter_mut().for_each(change);
    pods
}

pub fn queue(name: &str, parent: Option<&str>, quota: &[(&str, i64)]) -> Queue {
    let gpus: BTreeMap<_, _> = quota.iter().map(|(name, gpus)| ((*name).into(), *gpus)).collect();
    Queue {
        parent: parent.map(Into::into),
        quota: Some(Amounts { gpus, ..Amounts::default() }).filter(|_| !quota.is_empty()),
        namespaces: ["team".into()].into(),
        ..Queue::new(name)
    }
}

/// A cluster with queue `nlp` without a quota, and these nodes.
pub fn cluster(nodes: impl IntoIterator<Item = Node>) -> ClusterState {
    let mut state = ClusterState::default();
    state.apply(ClusterChange::Queue(queue("nlp", None, &[])));
    nodes.into_iter().for_each(|node| state.apply(ClusterChange::Node(node)));
    state
}

pub fn add(state: &mut ClusterState, pods: Vec<Pod>) {
    for pod in pods {
        state.apply(ClusterChange::Pod(pod));
    }
}

/// Makes a plan as installed, and has the judge look at it.
pub fn planned(state: &mut ClusterState) -> Plan {
    planned_in(OrderPolicy::default(), state)
}

/// Plans in another order. The state must come out as it went in.
pub fn planned_in(order: OrderPolicy, state: &mut ClusterState) -> Plan {
    let (before, generation) = (state.dump(), state.generation());
    let policy = Policy { order, ..Policy::default() };
    let plan = plan(state, &policy, Timestamp::UNIX_EPOCH);
    assert_eq!(state.dump(), before, "planning leaves the state alone");
    assert_eq!(state.generation(), generation);
    assert_eq!(check_plan(state, &plan, &policy), []);
    plan
}

pub fn carry_out(state: &mut ClusterState, plan: &Plan) {
    for member in plan.placements.iter().flat_map(|gang| &gang.members) {
        state.assume(&member.pod, &member.node).expect("a planned pod can be assumed");
    }
}

/// `gang: pod@node …` for each gang that is placed.
pub fn placements(plan: &Plan) -> Vec<String> {
    let members = |gang: &placement::GangPlacement| {
        let members = gang.members.iter().map(|member| format!("{}@{}", member.pod.name, member.node));
        members.collect::<Vec<_>>().join(" ")
    };
    plan.placements.iter().map(|gang| format!("{}: {}", gang.gang.name, members(gang))).collect()
}

/// `gang: reason; reason` for each gang that waits.
pub fn waiting(plan: &Plan) -> Vec<String> {
    let reasons = |gang: &placement::WaitingGang| {
        gang.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
    };
    plan.waiting.iter().map(|gang| format!("{}: {}", gang.gang.name, reasons(gang))).collect()
}
