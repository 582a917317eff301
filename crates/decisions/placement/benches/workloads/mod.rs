//! Work for the planner, at any size: the cluster half full (full for reclaim), the work a quarter of what is free.

pub mod events;

use cluster_model::{
    Amounts, ClusterChange, ClusterState, EvictionTerms, GangKey, Node, Pod, PodKey, Queue, Reclaim,
    Resources, Terms,
};
use jiff::{SignedDuration, Timestamp};
use placement::{ConsolidationPolicy, EvictionPolicy, Policy};
use std::sync::Arc;

/// What is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// One-GPU pods, each on its own: as many as there are nodes.
    Pods,
    /// One gang of as many one-GPU pods.
    Gang,
    /// Gangs of 1, 2, 4 and 8 GPUs a member and 1 to 5 members, a tenth as many as there are nodes.
    Mixed,
    /// A gang of ten whole nodes on a cluster where every node is half full, as in KAI's published test.
    Impossible,
    /// One-GPU pods within quota on a cluster that another queue has filled by borrowing: 0.4 per node.
    Reclaim,
    /// Gangs of two whole nodes each on a cluster where every node is half full with a pod that can be moved: one for
    /// every 16 nodes, so that an eighth of the nodes is cleared, and another eighth filled.
    Consolidation,
}

impl Work {
    pub const ALL: [Self; 6] =
        [Self::Pods, Self::Gang, Self::Mixed, Self::Impossible, Self::Reclaim, Self::Consolidation];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Gang => "gang",
            Self::Mixed => "mixed",
            Self::Impossible => "impossible",
            Self::Reclaim => "reclaim",
            Self::Consolidation => "consolidation",
        }
    }
}

/// A cluster with work to plan.
pub struct Workload {
    pub state: ClusterState,
    pub policy: Policy,
    pub now: Timestamp,
    /// Pods that the plan decides about.
    pub pods: usize,
}

/// Eight GPUs a node, four levels of topology (2 zones, blocks of 512, racks of 32, NVLink domains of 4), four queues
/// deep. Nodes have `shapes` different sizes of CPU and memory.
///
/// Beyond what the work needs (reclaim or moves) the policy is as installed.
pub fn workload(work: Work, nodes: usize, shapes: usize) -> Workload {
    let (mut state, now) = (cluster(nodes, shapes), now());
    fill(&mut state, work, nodes, now);
    let mut pods = 0;
    for pod in wanted(work, nodes, now) {
        state.apply(ClusterChange::Pod(pod));
        pods += 1;
    }
    let policy = Policy {
        eviction: EvictionPolicy { reclaim: work == Work::Reclaim, ..EvictionPolicy::default() },
        consolidation: match work {
            Work::Consolidation => ConsolidationPolicy { moves_max: 3, after_seconds: 0 },
            _ => ConsolidationPolicy::default(),
        },
        ..Policy::default()
    };
    Workload { state, policy, now, pods }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap_or_default()
}

/// Queues and empty nodes.
fn cluster(nodes: usize, shapes: usize) -> ClusterState {
    let mut state = ClusterState::default();
    state.advance(now());
    let all = (0..nodes).map(|number| ClusterChange::Node(node(number, shapes)));
    for change in queues(nodes).into_iter().chain(all) {
        state.apply(change);
    }
    state
}

fn queues(nodes: usize) -> Vec<ClusterChange> {
    let gpus = i64::try_from(nodes * 8).unwrap_or(i64::MAX);
    let amounts = |gpus: i64| Some(Amounts { gpus: [("H100".into(), gpus)].into(), ..Amounts::default() });
    let queue = |name: &str, parent: Option<&str>, quota: i64, namespaces: &[&str]| {
        ClusterChange::Queue(Queue {
            parent: parent.map(Into::into),
            quota: amounts(quota),
            limit: amounts(gpus),
            reclaim: Reclaim { grace_seconds: 0, min_run_seconds: 0 },
            namespaces: namespaces.iter().map(|name| (*name).into()).collect(),
            ..Queue::new(name)
        })
    };
    vec![
        queue("org", None, gpus, &[]),
        queue("department", Some("org"), gpus, &[]),
        queue("team", Some("department"), gpus, &[]),
        queue("owner", Some("team"), gpus * 3 / 4, &["owner"]),
        queue("borrower", Some("team"), gpus / 4, &["borrower"]),
    ]
}

fn node(number: usize, shapes: usize) -> Node {
    let shape = i64::try_from(number % shapes).unwrap_or(0);
    let path = [number % 2, number / 512, number / 32, number / 4];
    let names = ["zone", "block", "rack", "nvlink"];
    Node {
        gpu_type: Some("H100".into()),
        allocatable: Resources {
            gpus: 8,
            cpu_millis: 192_000 + 1_000 * (shape % 20),
            memory_bytes: (2 << 40) + (shape / 20) * (1 << 30),
            pods: 110,
        },
        topology: names.iter().zip(path).map(|(name, number)| format!("{name}-{number}").into()).collect(),
        ..Node::new(node_name(number))
    }
}

fn node_name(number: usize) -> String {
    format!("gpu-{number:06}")
}

/// Half of the GPUs are in use, by pods of four GPUs: one on every node if no whole node is to be free, else none,
/// one or two in turn. For reclaim all GPUs are in use, by pods of one GPU.
fn fill(state: &mut ClusterState, work: Work, nodes: usize, now: Timestamp) {
    let terms =
        Arc::new(Terms { eviction: EvictionTerms { never: false, checkpoints: true }, ..Terms::default() });
    for number in 0..nodes {
        let (pods, gpus) = match work {
            Work::Reclaim => (8, 1),
            Work::Impossible | Work::Consolidation => (1, 4),
            // 0, 1, 2 and 1 of them in turn, shifted from NVLink domain to NVLink domain so that they differ.
            _ => ([0, 1, 2, 1][(number + number / 4) % 4], 4),
        };
        for index in 0..pods {
            let name = format!("runs-{number}-{index}");
            let seconds = i64::try_from((number * 7 + index * 13) % 5_000).unwrap_or(0) + 60;
            let started = now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(now);
            state.apply(ClusterChange::Pod(Pod {
                node: Some(node_name(number).into()),
                started: Some(started),
                checkpointed: Some(started),
                terms: terms.clone(),
                ..pod("borrower", &name, 0, 1, gpus, started)
            }));
        }
    }
}

fn wanted(work: Work, nodes: usize, now: Timestamp) -> Vec<Pod> {
    let one =
        |name: String, index: usize, size: usize, gpus: i64| pod("owner", &name, index, size, gpus, now);
    let gang = |name: String, members: usize, gpus: i64| {
        (0..members).map(move |index| (name.clone(), index, members, gpus))
    };
    let asks: Vec<(String, usize, usize, i64)> = match work {
        Work::Pods => (0..nodes).map(|number| (format!("pod-{number}"), 0, 1, 1)).collect(),
        Work::Gang => gang("gang".to_owned(), nodes, 1).collect(),
        Work::Mixed => (0..nodes / 10)
            .flat_map(|number| {
                let gpus = [1, 2, 4, 8][number % 4];
                gang(format!("gang-{number}"), 1 + number % 5, gpus)
            })
            .collect(),
        Work::Impossible => gang("gang".to_owned(), 10, 8).collect(),
        Work::Reclaim => (0..nodes * 2 / 5).map(|number| (format!("pod-{number}"), 0, 1, 1)).collect(),
        Work::Consolidation => {
            (0..nodes / 16).flat_map(|number| gang(format!("gang-{number}"), 2, 8)).collect()
        }
    };
    asks.into_iter().map(|(name, index, size, gpus)| one(name, index, size, gpus)).collect()
}

fn pod(queue: &str, gang: &str, index: usize, size: usize, gpus: i64, created: Timestamp) -> Pod {
    let name = format!("{gang}-{index}");
    Pod {
        gang_size: u32::try_from(size).ok(),
        queue: Some(queue.into()),
        requests: Resources { gpus, cpu_millis: gpus * 8_000, memory_bytes: gpus << 36, pods: 1 },
        created,
        run: Some(gang.into()),
        member_index: u32::try_from(index).ok(),
        ..Pod::new(PodKey::new(queue, name.as_str(), format!("uid-{name}")), GangKey::new(queue, gang))
    }
}
