//! The objects that are left after a series of changes, in the simplest form, and a state built from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::plan::{Departure, Hold, MemberPlacement};
use cluster_model::{
    ClusterChange, ClusterState, DeviceUse, GangKey, LabelSet, Node, NodeName, Pod, PodKey, Queue, QueueName,
};
use jiff::Timestamp;

use crate::build::node;

type Place = (NodeName, Vec<DeviceUse>);

#[derive(Clone, Default)]
pub struct Objects {
    pub nodes: BTreeMap<NodeName, Node>,
    pub pods: BTreeMap<(String, String), Pod>,
    pub queues: BTreeMap<QueueName, Queue>,
    pub namespaces: BTreeMap<Arc<str>, LabelSet>,
    assumed: BTreeMap<PodKey, Place>,
    held: BTreeMap<PodKey, Place>,
    moved: BTreeMap<(String, String), Moved>,
    evicting: BTreeMap<GangKey, GangKey>,
}

/// A pod that is moved, as it was when its next place was held, with where it was assumed to be.
#[derive(Clone)]
struct Moved {
    pod: Pod,
    assumed: Option<Place>,
    to: Place,
}

fn name(key: &PodKey) -> (String, String) {
    (key.namespace.to_string(), key.name.to_string())
}

pub fn expires() -> Timestamp {
    Timestamp::from_second(1_000_000).expect("in range")
}

impl Objects {
    pub fn apply(&mut self, change: &ClusterChange) {
        match change {
            ClusterChange::Node(node) => drop(self.nodes.insert(node.name.clone(), node.clone())),
            ClusterChange::NodeGone(name) => drop(self.nodes.remove(name)),
            ClusterChange::Queue(queue) => drop(self.queues.insert(queue.name.clone(), queue.clone())),
            ClusterChange::QueueGone(name) => drop(self.queues.remove(name)),
            ClusterChange::Namespace { name, labels } => {
                self.namespaces.insert(name.clone(), labels.clone());
            }
            ClusterChange::NamespaceGone(name) => drop(self.namespaces.remove(name)),
            // They are kept as they are, and nothing is counted for them.
            ClusterChange::Budget(_) | ClusterChange::BudgetGone(_) => {}
            ClusterChange::Pod(pod) => {
                let old = self.pods.insert(name(&pod.key), pod.clone());
                if let Some(old) = old.filter(|old| old.key != pod.key) {
                    self.assumed.remove(&old.key);
                    self.held.remove(&old.key);
                }
                if pod.node.is_some() || !pod.ours {
                    self.assumed.remove(&pod.key);
                    self.held.remove(&pod.key);
                }
                if pod.terminating {
                    self.held.remove(&pod.key);
                }
                self.take_place_of_moved(&pod.key);
            }
            ClusterChange::PodGone(key) => {
                if self.pods.get(&name(key)).is_some_and(|pod| pod.key == *key) {
                    self.pods.remove(&name(key));
                    self.assumed.remove(key);
                    self.held.remove(key);
                }
            }
        }
        self.forget_evictions();
    }

    pub fn assume(&mut self, pod: &PodKey, node: &NodeName, devices: &[DeviceUse]) {
        self.held.remove(pod);
        self.assumed.insert(pod.clone(), (node.clone(), devices.to_vec()));
    }

    pub fn forget(&mut self, pod: &PodKey) {
        if self.assumed.remove(pod).is_some() {
            self.take_place_of_moved(pod);
            self.forget_evictions();
        }
    }

    pub fn hold(&mut self, hold: &Hold) {
        self.release(&hold.gang);
        for member in &hold.members {
            let to = (member.node.clone(), member.devices.clone());
            let pod = self.pods[&name(&member.pod)].clone();
            let assumed = self.assumed.get(&pod.key).cloned();
            if pod.node.is_none() && assumed.is_none() {
                self.held.insert(pod.key, to);
            } else {
                self.moved.insert(name(&pod.key), Moved { pod, assumed, to });
            }
        }
    }

    pub fn release(&mut self, gang: &GangKey) {
        let pods = &self.pods;
        self.held.retain(|pod, _| pods[&name(pod)].gang != *gang);
        self.moved.retain(|_, moved| moved.pod.gang != *gang);
    }

    pub fn evict(&mut self, victim: &GangKey, claimant: &GangKey) {
        self.evicting.insert(victim.clone(), claimant.clone());
        self.forget_evictions();
    }

    fn take_place_of_moved(&mut self, key: &PodKey) {
        let Some(pod) = self.pods.get(&name(key)) else { return };
        let waits = pod.ours && pod.node.is_none() && !pod.terminating;
        if waits
            && !self.assumed.contains_key(key)
            && !self.held.contains_key(key)
            && let Some(moved) = self.moved.remove(&name(key))
        {
            self.held.insert(key.clone(), moved.to);
        }
    }

    /// A gang gives way as long as one of its members has a node.
    fn forget_evictions(&mut self) {
        let has_node = |pod: &Pod| pod.ours && (pod.node.is_some() || self.assumed.contains_key(&pod.key));
        let running: BTreeSet<&GangKey> =
            self.pods.values().filter(|pod| has_node(pod)).map(|pod| &pod.gang).collect();
        self.evicting.retain(|gang, _| running.contains(gang));
    }

    /// A state built from them, with the kinds in another order than they came.
    pub fn rebuild(&self) -> ClusterState {
        let mut state = ClusterState::default();
        for (name, pod) in self.pods.iter().rev() {
            // An assumed pod may be deleted by now: assume it first, as it was.
            let terminating = pod.terminating && !self.assumed.contains_key(&pod.key);
            if !self.moved.contains_key(name) {
                state.apply(ClusterChange::Pod(Pod { terminating, ..pod.clone() }));
            }
        }
        for moved in self.moved.values() {
            let terminating = moved.pod.terminating && moved.assumed.is_none();
            state.apply(ClusterChange::Pod(Pod { terminating, ..moved.pod.clone() }));
        }
        for queue in self.queues.values().rev() {
            state.apply(ClusterChange::Queue(queue.clone()));
        }
        for node in self.nodes.values().rev() {
            state.apply(ClusterChange::Node(node.clone()));
        }
        for (name, labels) in &self.namespaces {
            state.apply(ClusterChange::Namespace { name: name.clone(), labels: labels.clone() });
        }
        let gone = self.nodes_that_are_gone();
        for name in &gone {
            state.apply(ClusterChange::Node(node(name.as_str(), "H100", 8)));
        }
        self.decide(&mut state);
        for name in gone {
            state.apply(ClusterChange::NodeGone(name.clone()));
        }
        for pod in self.pods.values().filter(|pod| pod.terminating) {
            state.apply(ClusterChange::Pod(pod.clone()));
        }
        for (victim, claimant) in &self.evicting {
            state.mark_leaving(victim, &Departure::For(claimant.clone()));
        }
        state
    }

    /// Assumes and holds what is assumed and held; then lets moved pods be as they are now.
    fn decide(&self, state: &mut ClusterState) {
        let member = |pod: &PodKey, (node, devices): &Place| MemberPlacement {
            pod: pod.clone(),
            node: node.clone(),
            devices: devices.clone(),
        };
        for moved in self.moved.values() {
            if let Some(place) = &moved.assumed {
                state.assume_member(&member(&moved.pod.key, place)).expect("it could be assumed before");
            }
        }
        for (pod, place) in self.assumed.iter().filter(|(pod, _)| !self.moved.contains_key(&name(pod))) {
            state.assume_member(&member(pod, place)).expect("it could be assumed before");
        }
        let mut holds: BTreeMap<GangKey, Vec<MemberPlacement>> = BTreeMap::new();
        for (pod, place) in &self.held {
            holds.entry(self.pods[&name(pod)].gang.clone()).or_default().push(member(pod, place));
        }
        for moved in self.moved.values() {
            let members = holds.entry(moved.pod.gang.clone()).or_default();
            members.push(member(&moved.pod.key, &moved.to));
        }
        for (gang, members) in holds {
            state.hold(&Hold { gang, members, expires: expires() }).expect("it could be held before");
        }
        for (name, moved) in &self.moved {
            match self.pods.get(name) {
                None => state.apply(ClusterChange::PodGone(moved.pod.key.clone())),
                Some(pod) => {
                    let is_assumed = self.assumed.contains_key(&pod.key);
                    if moved.assumed.is_some() && moved.pod.key == pod.key && !is_assumed {
                        // Another pod of its name stood in for it: what was assumed is forgotten.
                        state.apply(ClusterChange::PodGone(pod.key.clone()));
                    }
                    let terminating = pod.terminating && !is_assumed;
                    state.apply(ClusterChange::Pod(Pod { terminating, ..pod.clone() }));
                }
            }
        }
    }

    fn nodes_that_are_gone(&self) -> BTreeSet<&NodeName> {
        let moved = self.moved.values().flat_map(|moved| moved.assumed.iter().chain([&moved.to]));
        let decided = self.assumed.values().chain(self.held.values()).chain(moved);
        decided.map(|(node, _)| node).filter(|node| !self.nodes.contains_key(*node)).collect()
    }
}
