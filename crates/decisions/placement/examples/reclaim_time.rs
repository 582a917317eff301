//! How long it takes to take back 4,000 GPUs on a full cluster of 10,000 nodes: by single pods, by gangs, by whole nodes.
//!
//! ```text
//! cargo run --release -p placement --example reclaim_time [NODES]
//! ```

#![allow(clippy::disallowed_methods, reason = "the clock is what this is for; the planner itself has none")]

use std::time::Instant;

use cluster_model::{Amounts, ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, Resources};
use jiff::Timestamp;
use placement::{EvictionPolicy, Policy, plan};

fn main() {
    let nodes = std::env::args().nth(1).and_then(|nodes| nodes.parse().ok()).unwrap_or(10_000);
    let eviction = EvictionPolicy { by_priority: true, reclaim: true, ..EvictionPolicy::default() };
    let policy = Policy { eviction, ..Policy::default() };
    let now = Timestamp::from_second(100_000).expect("in range");
    let claimed = nodes * 8 / 20;
    for (name, victim_gpus, claimants, members, gpus) in [
        ("one-GPU pods from one-GPU pods", 1, claimed, 1, 1),
        ("one-GPU pods from nodes of eight", 8, claimed, 1, 1),
        ("nodes of eight from one-GPU pods", 1, claimed / 8, 1, 8),
        ("gangs of 10 x 8 from one-GPU pods", 1, claimed / 80, 10, 8),
        ("one gang from one-GPU pods", 1, 1, claimed, 1),
        ("one gang of nodes from one-GPU pods", 1, 1, claimed / 8, 8),
    ] {
        let mut state = full(nodes, victim_gpus);
        for number in 0..claimants {
            for index in 0..members {
                state.apply(ClusterChange::Pod(pod(
                    "owner",
                    &format!("claims-{number}"),
                    index,
                    members,
                    gpus,
                )));
            }
        }
        state.advance(now);
        let (start, busy) = (Instant::now(), on_core_seconds());
        let plan = plan(&mut state, &policy, now);
        let (seconds, busy) = (start.elapsed().as_secs_f64(), on_core_seconds() - busy);
        let held: usize = plan.holds.iter().map(|hold| hold.members.len()).sum();
        println!(
            "{name}: {seconds:.3} s, {busy:.3} s on the core; {} evicted, {held} held",
            plan.evictions.len()
        );
    }
}

/// Time that this process had a core, on Linux: on a machine that others use too, that is what it costs.
fn on_core_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// A cluster full of gangs of a team that borrows half of it.
fn full(nodes: usize, victim_gpus: i64) -> ClusterState {
    let mut state = ClusterState::default();
    let gpus = i64::try_from(nodes).expect("few") * 8;
    for name in ["owner", "borrower"] {
        let amounts = |gpus| Some(Amounts { gpus: [("H100".into(), gpus)].into(), ..Amounts::default() });
        state.apply(ClusterChange::Queue(Queue {
            parent: Some("org".into()),
            quota: amounts(gpus / 2),
            limit: amounts(gpus),
            namespaces: [name.into()].into(),
            ..Queue::new(name)
        }));
    }
    state.apply(ClusterChange::Queue(Queue::new("org")));
    for number in 0..nodes {
        let name = format!("gpu-{number:05}");
        state.apply(ClusterChange::Node(Node {
            gpu_type: Some("H100".into()),
            allocatable: Resources { gpus: 8, cpu_millis: 192_000, memory_bytes: 2 << 40, pods: 110 },
            topology: vec![format!("rack-{}", number / 32).into()],
            ..Node::new(name.as_str())
        }));
        for index in 0..8 / victim_gpus {
            let gang = format!("low-{number}-{index}");
            let started = i64::try_from(number).expect("few") * 7 % 5000 + index * 13;
            state.apply(ClusterChange::Pod(Pod {
                node: Some(name.as_str().into()),
                started: Some(Timestamp::from_second(started).expect("in range")),
                ..pod("borrower", &gang, 0, 1, victim_gpus)
            }));
        }
    }
    state
}

fn pod(queue: &str, gang: &str, index: usize, size: usize, gpus: i64) -> Pod {
    let name = format!("{gang}-{index}");
    Pod {
        gang_size: Some(u32::try_from(size).expect("few")),
        queue: Some(queue.into()),
        requests: Resources { gpus, cpu_millis: gpus * 8000, memory_bytes: gpus << 36, pods: 1 },
        member_index: Some(u32::try_from(index).expect("few")),
        ..Pod::new(PodKey::new(queue, name.as_str(), format!("uid-{name}")), GangKey::new(queue, gang))
    }
}
