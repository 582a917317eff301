//! Any series of changes leaves the state that one would build from the objects that are left.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::{
    Change, ClusterState, Dump, GangKey, Node, NodeName, Pod, PodKey, Queue, QueueName, Taint, TaintEffect,
};
use proptest::prelude::*;

use crate::build::{node, pod, queue};

const NAMESPACES: [&str; 2] = ["team", "other"];

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a few dozen in a test")]
enum Step {
    Change(Change),
    Assume(PodKey, NodeName),
    Forget(PodKey),
    /// Assumes pods (by number) on nodes (by number) in a fork, and in a fork of it, then drops both.
    Fork(Vec<(usize, usize)>, Vec<(usize, usize)>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(
        prop_oneof![
            3 => a_node().prop_map(|node| Step::Change(Change::Node(node))),
            1 => node_name().prop_map(|name| Step::Change(Change::NodeGone(name))),
            8 => a_pod().prop_map(|pod| Step::Change(Change::Pod(pod))),
            3 => pod_key().prop_map(|key| Step::Change(Change::PodGone(key))),
            4 => a_queue().prop_map(|queue| Step::Change(Change::Queue(queue))),
            1 => queue_name().prop_map(|name| Step::Change(Change::QueueGone(name))),
            4 => (pod_key(), node_name()).prop_map(|(pod, node)| Step::Assume(pod, node)),
            2 => pod_key().prop_map(Step::Forget),
            2 => (pairs(), pairs()).prop_map(|(outer, inner)| Step::Fork(outer, inner)),
        ],
        1..80,
    )
}

fn pairs() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..12usize, 0..4usize), 0..5)
}

fn node_name() -> impl Strategy<Value = NodeName> {
    (0..4).prop_map(|number| format!("n{number}").into())
}

fn queue_name() -> impl Strategy<Value = QueueName> {
    (0..5).prop_map(|number| format!("q{number}").into())
}

fn pod_key() -> impl Strategy<Value = PodKey> {
    (0..2usize, 0..6, 0..2).prop_map(|(namespace, name, uid)| {
        PodKey::new(NAMESPACES[namespace], format!("p{name}"), format!("u{uid}"))
    })
}

fn a_node() -> impl Strategy<Value = Node> {
    (node_name(), 0..3usize, 0..9i64, any::<bool>(), any::<bool>()).prop_map(
        |(name, kind, gpus, open, tainted)| {
            let taint = Taint { key: "k".into(), value: "".into(), effect: TaintEffect::NoSchedule };
            Node {
                gpu_type: ["H100", "L4"].get(kind).map(|name| (*name).into()),
                schedulable: open,
                taints: if tainted { vec![taint] } else { vec![] },
                ..node(name.as_str(), "H100", gpus)
            }
        },
    )
}

fn a_pod() -> impl Strategy<Value = Pod> {
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.8));
    let about_gang = (prop::option::of(0..3), 0..3i32, 0..3i64, prop::option::of(1..4u32));
    (
        pod_key(),
        prop::option::of(queue_name()),
        0..5i64,
        prop::option::weighted(0.4, node_name()),
        flags,
        about_gang,
    )
        .prop_map(
            |(key, queue, gpus, node, (terminating, ours), (gang, priority, created, gang_size))| Pod {
                gang: GangKey::new(
                    key.namespace.clone(),
                    gang.map_or_else(|| format!("pod/{}", key.name), |gang| format!("g{gang}")),
                ),
                key,
                queue,
                node,
                terminating,
                ours,
                priority,
                gang_size,
                created: jiff::Timestamp::from_second(created).expect("in range"),
                ..pod("p", gpus)
            },
        )
}

fn a_queue() -> impl Strategy<Value = Queue> {
    let namespaces = prop::sample::subsequence(NAMESPACES.to_vec(), 0..=2);
    (queue_name(), prop::option::of(queue_name()), namespaces).prop_map(|(name, parent, namespaces)| Queue {
        parent,
        namespaces: namespaces.into_iter().map(Into::into).collect(),
        ..queue(name.as_str(), None, 8)
    })
}

/// The objects that are left, kept in the plainest way.
#[derive(Default)]
struct Objects {
    nodes: BTreeMap<NodeName, Node>,
    pods: BTreeMap<(String, String), Pod>,
    queues: BTreeMap<QueueName, Queue>,
    assumed: BTreeMap<PodKey, NodeName>,
}

impl Objects {
    fn apply(&mut self, change: &Change) {
        let name = |key: &PodKey| (key.namespace.to_string(), key.name.to_string());
        match change {
            Change::Node(node) => drop(self.nodes.insert(node.name.clone(), node.clone())),
            Change::NodeGone(name) => drop(self.nodes.remove(name)),
            Change::Queue(queue) => drop(self.queues.insert(queue.name.clone(), queue.clone())),
            Change::QueueGone(name) => drop(self.queues.remove(name)),
            Change::Pod(pod) => {
                let old = self.pods.insert(name(&pod.key), pod.clone());
                if let Some(old) = old.filter(|old| old.key != pod.key) {
                    self.assumed.remove(&old.key);
                }
                if pod.node.is_some() || !pod.ours {
                    self.assumed.remove(&pod.key);
                }
            }
            Change::PodGone(key) => {
                if self.pods.get(&name(key)).is_some_and(|pod| pod.key == *key) {
                    self.pods.remove(&name(key));
                    self.assumed.remove(key);
                }
            }
        }
    }

    /// A state built anew, with the kinds in another order than they came.
    fn rebuild(&self) -> ClusterState {
        let mut state = ClusterState::default();
        for pod in self.pods.values().rev() {
            // What is assumed may be deleted meanwhile; assume it first, as it was.
            let terminating = pod.terminating && !self.assumed.contains_key(&pod.key);
            state.apply(Change::Pod(Pod { terminating, ..pod.clone() }));
        }
        for queue in self.queues.values().rev() {
            state.apply(Change::Queue(queue.clone()));
        }
        for node in self.nodes.values().rev() {
            state.apply(Change::Node(node.clone()));
        }
        for (pod, node_name) in &self.assumed {
            if !self.nodes.contains_key(node_name) {
                state.apply(Change::Node(node(node_name.as_str(), "H100", 8)));
            }
            state.assume(pod, node_name).expect("it could be assumed before");
        }
        let gone: BTreeSet<_> =
            self.assumed.values().filter(|node| !self.nodes.contains_key(*node)).collect();
        for node in gone {
            state.apply(Change::NodeGone(node.clone()));
        }
        for pod in self.pods.values().filter(|pod| pod.terminating) {
            state.apply(Change::Pod(pod.clone()));
        }
        state
    }
}

fn fork_and_drop(state: &mut ClusterState, outer: &[(usize, usize)], inner: &[(usize, usize)]) {
    fn pick(
        state: &ClusterState,
        pairs: &[(usize, usize)],
    ) -> Vec<(cluster_model::PodId, cluster_model::NodeId)> {
        let pods: Vec<_> = state.pods().map(|(id, _)| id).filter(|id| state.is_pending(*id)).collect();
        let nodes: Vec<_> =
            state.nodes().filter(|(_, node)| node.object().is_some()).map(|(id, _)| id).collect();
        let mut seen = BTreeSet::new();
        let pairs = pairs.iter().filter_map(|(pod, node)| Some((*pods.get(*pod)?, *nodes.get(*node)?)));
        pairs.filter(|(pod, _)| seen.insert(*pod)).collect()
    }
    let mut fork = state.fork();
    for (pod, node) in pick(&fork, outer) {
        fork.assume(pod, node);
    }
    let between = fork.dump();
    {
        let mut nested = fork.fork();
        for (pod, node) in pick(&nested, inner) {
            nested.assume(pod, node);
        }
    }
    assert_eq!(fork.dump(), between, "the inner fork was undone");
    let mut kept = fork.fork();
    for (pod, node) in pick(&kept, inner) {
        kept.assume(pod, node);
    }
    kept.keep();
}

fn run(steps: &[Step]) -> (ClusterState, Objects) {
    let (mut state, mut objects) = (ClusterState::default(), Objects::default());
    for step in steps {
        match step {
            Step::Change(change) => {
                state.apply(change.clone());
                objects.apply(change);
            }
            Step::Assume(pod, node) => {
                if state.assume(pod, node).is_ok() {
                    objects.assumed.insert(pod.clone(), node.clone());
                }
            }
            Step::Forget(pod) => {
                state.forget(pod);
                objects.assumed.remove(pod);
            }
            Step::Fork(outer, inner) => {
                let (before, generation): (Dump, u64) = (state.dump(), state.generation());
                fork_and_drop(&mut state, outer, inner);
                assert_eq!(state.dump(), before, "the fork was undone");
                assert_eq!(state.generation(), generation);
            }
        }
    }
    (state, objects)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_series_of_changes_equals_a_state_built_from_what_is_left(steps in steps()) {
        let (state, objects) = run(&steps);
        prop_assert_eq!(state.dump(), objects.rebuild().dump());
    }

    #[test]
    fn when_everything_is_gone_nothing_is_left(steps in steps()) {
        let (mut state, objects) = run(&steps);
        let pods = objects.pods.values().map(|pod| Change::PodGone(pod.key.clone()));
        let nodes = objects.nodes.keys().cloned().map(Change::NodeGone);
        let queues = objects.queues.keys().cloned().map(Change::QueueGone);
        for change in nodes.chain(pods).chain(queues) {
            state.apply(change);
        }
        prop_assert_eq!(state.dump(), Dump::default());
    }
}
