//! How long it takes to assume a pod in a fork and to undo that, at the sizes that we support.
//!
//! ```text
//! cargo run --release -p cluster-model --example assume_time [NODES…]
//! ```
//!
//! Times are processor time if the system reports it, because other processes may run on the machine.

#![allow(clippy::disallowed_methods, reason = "the clock is what this is for; the model itself has none")]

use std::time::Instant;

use cluster_model::{
    ClusterChange, ClusterState, GangKey, Node, NodeId, Pod, PodId, PodKey, Queue, Resources,
};
use jiff::Timestamp;

const PODS: usize = 20_000;
const ROUNDS: u32 = 10;

fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|nodes| nodes.parse().ok()).collect();
    for nodes in if asked.is_empty() { vec![100, 1_000, 10_000, 100_000] } else { asked } {
        for kinds in [1, 200] {
            for members in [1, 64] {
                measure(nodes, kinds, members);
            }
        }
    }
}

fn measure(nodes: usize, kinds: usize, members: usize) {
    let start = Clock::start();
    let mut state = ClusterState::default();
    queues().for_each(|queue| state.apply(ClusterChange::Queue(queue)));
    (0..nodes).for_each(|number| state.apply(ClusterChange::Node(node(number, kinds))));
    // Half full before, each node with other leftovers than its neighbours.
    for number in 0..nodes * 4 {
        let bound = Pod { node: Some(name(number % nodes).into()), ..pod(number, 1, 1 + number / 7 % 3) };
        state.apply(ClusterChange::Pod(bound));
    }
    let first = nodes * 4;
    (first..first + PODS).for_each(|number| state.apply(ClusterChange::Pod(pod(number, members, 0))));
    let built = start.seconds();

    let pending: Vec<PodId> = state.pods().map(|(id, _)| id).filter(|id| state.is_pending(*id)).collect();
    let ids: Vec<NodeId> = state.nodes().map(|(id, _)| id).collect();
    // In the order of a planner, which fills one node after the other, and at random, which suits no cache.
    let in_order = assume_and_undo(&mut state, &pending, |index| ids[index / 4 % ids.len()]);
    let scattered = assume_and_undo(&mut state, &pending, |index| ids[index * 7919 % ids.len()]);
    let classes = state.classes().count();
    println!(
        "{nodes:>6} nodes of {kinds:>3} kinds, gangs of {members:>2}: {in_order:.2} µs per assume and undo, \
         {scattered:.2} µs scattered ({classes} classes; built in {built:.2} s)"
    );
}

/// Microseconds for each pod.
fn assume_and_undo(state: &mut ClusterState, pods: &[PodId], node: impl Fn(usize) -> NodeId) -> f64 {
    let (start, mut assumed) = (Clock::start(), 0u32);
    for _ in 0..ROUNDS {
        let mut fork = state.fork();
        for (index, pod) in pods.iter().enumerate() {
            fork.assume(*pod, node(index), &[]);
            assumed += 1;
        }
    }
    start.seconds() * 1e6 / f64::from(assumed)
}

struct Clock(Instant, Option<u64>);

impl Clock {
    fn start() -> Self {
        Self(Instant::now(), processor_nanoseconds())
    }

    fn seconds(&self) -> f64 {
        match (self.1, processor_nanoseconds()) {
            (Some(start), Some(end)) => std::time::Duration::from_nanos(end - start).as_secs_f64(),
            _ => self.0.elapsed().as_secs_f64(),
        }
    }
}

fn processor_nanoseconds() -> Option<u64> {
    std::fs::read_to_string("/proc/self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

fn queues() -> impl Iterator<Item = Queue> {
    // A root, 10 divisions, 50 departments, 2,000 teams.
    let named = |name: String, parent: Option<String>| Queue {
        parent: parent.map(|parent| parent.as_str().into()),
        namespaces: [name.as_str().into()].into(),
        ..Queue::new(name.as_str())
    };
    let root = [named("root".into(), None)];
    let divisions = (0..10).map(move |number| named(format!("division-{number}"), Some("root".into())));
    let departments = (0..50)
        .map(move |number| named(format!("department-{number}"), Some(format!("division-{}", number % 10))));
    let teams = (0..2000)
        .map(move |number| named(format!("team-{number}"), Some(format!("department-{}", number % 50))));
    root.into_iter().chain(divisions).chain(departments).chain(teams)
}

fn name(number: usize) -> String {
    format!("gpu-{number:06}")
}

fn node(number: usize, kinds: usize) -> Node {
    let kind = i64::try_from(number % kinds).expect("few kinds");
    let level = |name: &str, nodes: usize| format!("{name}-{}", number / nodes).into();
    Node {
        gpu_type: Some("H100".into()),
        allocatable: Resources {
            gpus: 8,
            cpu_millis: 192_000 + kind * 1000,
            memory_bytes: (2 << 40) + (kind << 30),
            pods: 110,
        },
        topology: vec![level("zone", 4096), level("block", 512), level("rack", 32), level("nvlink", 4)],
        ..Node::new(name(number))
    }
}

fn pod(number: usize, members: usize, extra_cpus: usize) -> Pod {
    let gang = number / members;
    let (namespace, gang) = (format!("team-{}", gang % 2000), format!("gang-{gang}"));
    let name = format!("{gang}-{}", number % members);
    let cpus = 8 + i64::try_from(extra_cpus).expect("few");
    Pod {
        gang_size: u32::try_from(members).ok(),
        queue: Some(namespace.as_str().into()),
        requests: Resources { gpus: 1, cpu_millis: cpus * 1000, memory_bytes: 64 << 30, pods: 1 },
        member_index: u32::try_from(number % members).ok(),
        created: Timestamp::from_second(i64::try_from(number / members).expect("small")).expect("in range"),
        ..Pod::new(
            PodKey::new(namespace.as_str(), name.as_str(), name.as_str()),
            GangKey::new(namespace.as_str(), gang.as_str()),
        )
    }
}
