//! Whether everything that happened was allowed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use cluster_model::{ClusterChange, GangKey, NodeName, Pod, PodKey};

/// Something that must not have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryViolation {
    /// A node held more GPUs than it has.
    NodeOverGpus {
        /// The revision from which on it did.
        revision: u64,
        /// The node.
        node: NodeName,
        /// GPUs that its pods hold.
        used: i64,
        /// GPUs that it has.
        allocatable: i64,
        /// The pods that hold them.
        pods: Vec<PodKey>,
        /// The pod that was put there; none if the node itself came to have less, or came back.
        by: Option<PodKey>,
    },
    /// A pod was on one node, then on another.
    PodMoved {
        /// The revision.
        revision: u64,
        /// The pod.
        pod: PodKey,
    },
    /// At the end, some members of a gang had had a node and others had not.
    GangBoundInPart {
        /// The gang.
        gang: GangKey,
        /// How many members had a node.
        bound: usize,
        /// How many must have one.
        size: usize,
    },
    /// An event was older than the one before: the judge was fed in the wrong order.
    OutOfOrder {
        /// The revision.
        revision: u64,
    },
}

impl fmt::Display for HistoryViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeOverGpus { revision, node, used, allocatable, pods, by: _ } => {
                let pods: Vec<_> = pods.iter().map(ToString::to_string).collect();
                write!(
                    f,
                    "at revision {revision}, node {node} held {used} of {allocatable} GPUs: {}",
                    pods.join(", ")
                )
            }
            Self::PodMoved { revision, pod } => {
                write!(f, "at revision {revision}, pod {pod} moved to another node")
            }
            Self::GangBoundInPart { gang, bound, size } => {
                write!(f, "gang {gang} ended with {bound} of {size} members bound")
            }
            Self::OutOfOrder { revision } => {
                write!(f, "the event of revision {revision} came after a later one")
            }
        }
    }
}

/// Everything that was seen so far. A pod counts on its node from the revision that shows it there until the one
/// that shows it ended or deleted.
#[derive(Clone, Debug, Default)]
pub struct HistoryJudge {
    revision: u64,
    gpus: BTreeMap<NodeName, i64>,
    on_node: BTreeMap<NodeName, BTreeMap<PodKey, i64>>,
    node_of: BTreeMap<PodKey, NodeName>,
    over: BTreeSet<NodeName>,
    gangs: BTreeMap<GangKey, Members>,
    violations: Vec<HistoryViolation>,
}

#[derive(Clone, Debug, Default)]
struct Members {
    size: usize,
    seen: BTreeSet<PodKey>,
    bound: BTreeSet<PodKey>,
}

impl HistoryJudge {
    /// Takes in one event, as `cluster-convert` reads it. Events of pods and nodes must be fed in the order of their
    /// resource versions; changes of queues are ignored.
    pub fn apply(&mut self, revision: u64, change: &ClusterChange) {
        if revision < self.revision {
            self.violations.push(HistoryViolation::OutOfOrder { revision });
        }
        self.revision = self.revision.max(revision);
        match change {
            ClusterChange::Node(node) => {
                self.gpus.insert(node.name.clone(), node.allocatable.gpus);
                self.check(&node.name, None);
            }
            ClusterChange::NodeGone(name) => {
                self.gpus.remove(name);
                self.check(name, None);
            }
            ClusterChange::Pod(pod) => self.pod(pod),
            ClusterChange::PodGone(key) => self.pod_gone(key),
            ClusterChange::Queue(_)
            | ClusterChange::QueueGone(_)
            | ClusterChange::Namespace { .. }
            | ClusterChange::NamespaceGone(_)
            | ClusterChange::Budget(_)
            | ClusterChange::BudgetGone(_) => {}
        }
    }

    /// What was wrong so far, without a judgement on gangs, which may be in the middle of their start.
    pub fn violations(&self) -> &[HistoryViolation] {
        &self.violations
    }

    /// Everything that was wrong, gangs included.
    pub fn finish(mut self) -> Vec<HistoryViolation> {
        for (gang, members) in self.gangs {
            let bound = members.bound.len();
            let size = if members.size > 0 { members.size } else { members.seen.len() };
            if bound > 0 && bound < size {
                self.violations.push(HistoryViolation::GangBoundInPart { gang, bound, size });
            }
        }
        self.violations
    }

    fn pod(&mut self, pod: &Pod) {
        if pod.ours {
            let members = self.gangs.entry(pod.gang.clone()).or_default();
            members.size = pod.gang_size.map_or(members.size, |size| size as usize);
            members.seen.insert(pod.key.clone());
            if pod.node.is_some() {
                members.bound.insert(pod.key.clone());
            }
        }
        let before = self.node_of.get(&pod.key).cloned();
        if before.is_some() && before != pod.node {
            self.violations
                .push(HistoryViolation::PodMoved { revision: self.revision, pod: pod.key.clone() });
            self.pod_gone(&pod.key);
        }
        if let Some(node) = &pod.node {
            self.node_of.insert(pod.key.clone(), node.clone());
            let pods = self.on_node.entry(node.clone()).or_default();
            let is_new = pods.insert(pod.key.clone(), pod.requests.gpus).is_none() && pod.requests.gpus > 0;
            self.check(node, is_new.then_some(&pod.key));
        }
    }

    fn pod_gone(&mut self, key: &PodKey) {
        if let Some(node) = self.node_of.remove(key) {
            self.on_node.entry(node.clone()).or_default().remove(key);
            self.check(&node, None);
        }
    }

    /// Records the moment at which a node becomes over-committed, once until it is not any more, and every pod that
    /// is put on such a node. A node that is not there cannot be over-committed.
    fn check(&mut self, node: &NodeName, by: Option<&PodKey>) {
        let pods = self.on_node.get(node);
        let used: i64 = pods.into_iter().flatten().map(|(_, gpus)| gpus).sum();
        match self.gpus.get(node) {
            Some(&allocatable) if used > allocatable => {
                if self.over.insert(node.clone()) || by.is_some() {
                    let holding = pods.into_iter().flatten().filter(|(_, gpus)| **gpus > 0);
                    self.violations.push(HistoryViolation::NodeOverGpus {
                        revision: self.revision,
                        node: node.clone(),
                        used,
                        allocatable,
                        pods: holding.map(|(pod, _)| pod.clone()).collect(),
                        by: by.cloned(),
                    });
                }
            }
            _ => {
                self.over.remove(node);
            }
        }
    }
}
