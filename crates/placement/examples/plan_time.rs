//! How long it takes to build a state of the size we are made for, and to plan it.
//!
//! ```text
//! cargo run -p placement --example plan_time [--release]
//! ```

#![allow(clippy::disallowed_methods, reason = "the clock is what this is for; the planner itself has none")]

use std::collections::BTreeMap;
use std::time::Instant;

use cluster_model::{Amounts, Change, ClusterState, GangKey, Node, Pod, PodKey, Queue, Resources};
use jiff::Timestamp;
use placement::{Policy, plan};

const NODES: usize = 10_000;
const QUEUES: usize = 2_000;
const SINGLE_PODS: usize = 20_000;
const GANGS: usize = 500;
const MEMBERS: u32 = 64;

fn main() {
    let changes = changes();
    let (start, count) = (Instant::now(), changes.len());
    let mut state = ClusterState::default();
    for change in changes {
        state.apply(change);
    }
    println!(
        "state of {NODES} nodes, {QUEUES} queues, {count} objects: {:.3} s",
        start.elapsed().as_secs_f64()
    );

    for round in ["first plan", "second plan, everything assumed"] {
        let start = Instant::now();
        let plan = plan(&mut state, &Policy::default(), Timestamp::UNIX_EPOCH);
        let seconds = start.elapsed().as_secs_f64();
        let pods: usize = plan.placements.iter().map(|gang| gang.members.len()).sum();
        println!(
            "{round}: {seconds:.3} s, {} gangs ({pods} pods) placed, {} wait",
            plan.placements.len(),
            plan.waiting.len()
        );
        let start = Instant::now();
        for member in plan.placements.iter().flat_map(|gang| &gang.members) {
            state.assume(&member.pod, &member.node).expect("a planned pod can be assumed");
        }
        println!("assuming it: {:.3} s", start.elapsed().as_secs_f64());
    }
}

fn changes() -> Vec<Change> {
    let queues = (0..QUEUES).map(|number| {
        // Teams of 40 queues below departments below one root.
        let parent =
            (number > 0).then(|| if number <= 50 { queue_name(0) } else { queue_name(number % 50 + 1) });
        Change::Queue(Queue {
            name: queue_name(number).as_str().into(),
            parent: parent.map(|parent| parent.as_str().into()),
            weight: 1,
            quota: Some(Amounts { gpus: [("H100".into(), 80_000)].into(), ..Amounts::default() }),
            limit: None,
            namespaces: [format!("team-{number}").into()].into(),
        })
    });
    let nodes = (0..NODES).map(|number| {
        Change::Node(Node {
            name: format!("gpu-{number:05}").into(),
            gpu_type: Some("H100".into()),
            allocatable: Resources { gpus: 8, cpu_millis: 192_000, memory_bytes: 2 << 40, pods: 110 },
            schedulable: true,
            labels: [("kubernetes.io/hostname".into(), format!("gpu-{number:05}").into())].into(),
            taints: vec![],
            rack: Some(format!("rack-{}", number / 32).into()),
        })
    });
    let singles =
        (0..SINGLE_PODS).map(|number| Change::Pod(pod(number, &format!("single-{number}"), 0, 1, 1)));
    let gangs = (0..GANGS).flat_map(|number| {
        (0..MEMBERS).map(move |index| Change::Pod(pod(number, &format!("gang-{number}"), index, MEMBERS, 8)))
    });
    queues.chain(nodes).chain(gangs).chain(singles).collect()
}

fn queue_name(number: usize) -> String {
    format!("queue-{number}")
}

fn pod(number: usize, gang: &str, index: u32, size: u32, gpus: i64) -> Pod {
    let queue = number % QUEUES;
    let (namespace, name) = (format!("team-{queue}"), format!("{gang}-{index}"));
    Pod {
        gang: GangKey::new(namespace.as_str(), gang),
        key: PodKey::new(namespace, name.as_str(), format!("uid-{name}")),
        gang_size: Some(size),
        queue: Some(queue_name(queue).as_str().into()),
        requests: Resources { gpus, cpu_millis: gpus * 8000, memory_bytes: gpus << 36, pods: 1 },
        gpu_type: None,
        priority: 2000,
        created: Timestamp::from_second(i64::try_from(number).expect("a small number")).expect("in range"),
        node: None,
        terminating: false,
        ours: true,
        node_selector: BTreeMap::new(),
        tolerations: vec![],
        unsupported: vec![],
        run: Some(gang.into()),
        member_index: Some(index),
        gated: false,
    }
}
