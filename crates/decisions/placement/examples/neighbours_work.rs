//! Plans groups of pods that keep apart from each other by host and spread over racks, and says how long it took.
//!
//! ```text
//! cargo run --release -p placement --example neighbours_work -- 1000 100 20
//! ```
//!
//! The arguments are nodes, groups, and pods of each group. Without arguments two sizes are planned: 1,000 nodes with 2,000
//! pods, and 5,000 nodes with 20,000.

#![allow(clippy::disallowed_methods, reason = "the clock is what this is for; the planner itself has none")]

use std::sync::Arc;
use std::time::Instant;

use cluster_model::{
    ClusterChange, ClusterState, GangKey, LabelSet, Neighbours, Node, Pod, PodKey, PodTerm, Queue, Resources,
    Scope, Selector, SpreadConstraint,
};
use jiff::Timestamp;
use placement::{Policy, plan};

/// Nodes of one rack.
const RACK: usize = 50;
const HOST_LABEL: &str = "kubernetes.io/hostname";
const RACK_LABEL: &str = "topology.kubernetes.io/rack";

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|it| it.parse().ok()).collect();
    if let [nodes, groups, pods] = arguments.as_slice() {
        work(*nodes, *groups, *pods);
    } else {
        work(1_000, 100, 20);
        work(5_000, 1_000, 20);
    }
}

fn work(nodes: usize, groups: usize, pods: usize) {
    let mut state = ClusterState::default();
    state.apply(ClusterChange::Queue(Queue { namespaces: ["team".into()].into(), ..Queue::new("team") }));
    (0..nodes).for_each(|number| state.apply(ClusterChange::Node(node(number))));
    let began = Instant::now();
    for group in 0..groups {
        (0..pods).for_each(|number| state.apply(ClusterChange::Pod(pod(group, number))));
    }
    let arrived = began.elapsed();
    let began = Instant::now();
    let plan = plan(&mut state, &Policy::default(), Timestamp::UNIX_EPOCH);
    let planned = began.elapsed();
    let began = Instant::now();
    state.commit(&plan).whole().expect("what was planned can be assumed");
    let committed = began.elapsed();
    let count = u32::try_from(groups * pods).unwrap_or(u32::MAX);
    println!(
        "nodes={nodes} pods={count} placed={} arrive_seconds={:.3} plan_seconds={:.3} per_pod_micros={:.1} \
         commit_seconds={:.3}",
        plan.placements.len(),
        arrived.as_secs_f64(),
        planned.as_secs_f64(),
        planned.as_secs_f64() * 1e6 / f64::from(count),
        committed.as_secs_f64(),
    );
    assert_eq!(plan.placements.len(), groups * pods, "every pod finds a node");
}

fn node(number: usize) -> Node {
    let (name, rack) = (format!("n{number:05}"), format!("r{:04}", number / RACK));
    let labels = [(HOST_LABEL, name.as_str()), (RACK_LABEL, rack.as_str())];
    Node {
        gpu_type: Some("H100".into()),
        allocatable: Resources { gpus: 8, cpu_millis: 64_000, memory_bytes: 512 << 30, pods: 110 },
        labels: labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect(),
        topology: vec![rack.as_str().into()],
        ..Node::new(name.as_str())
    }
}

fn pod(group: usize, number: usize) -> Pod {
    let app = format!("group-{group}");
    let own = || Selector::of([("app", app.as_str())]);
    let apart = PodTerm { scope: Scope::within("team", own()), topology_key: HOST_LABEL.into() };
    let neighbours = Neighbours {
        anti_affinity: vec![apart],
        spread: vec![SpreadConstraint::new(RACK_LABEL, 1, own())],
        ..Neighbours::default()
    };
    let name = format!("{app}-{number}");
    let labels: LabelSet = [("app", app.as_str()), ("pod-index", &number.to_string())].into_iter().collect();
    Pod {
        queue: Some("team".into()),
        requests: Resources { gpus: 1, cpu_millis: 1000, memory_bytes: 1 << 30, pods: 1 },
        labels,
        neighbours: Some(Arc::new(neighbours)),
        ..Pod::new(
            PodKey::new("team", name.as_str(), name.as_str()),
            GangKey::new("team", format!("pod/{name}")),
        )
    }
}
