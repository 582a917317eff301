//! The state: every change goes through [`ClusterState::apply`], [`ClusterState::assume`] or
//! [`ClusterState::forget`].
//!
//! ```text
//!            assume            seen with a node
//!   pending ────────► assumed ─────────────────► bound ──► terminating ──► gone
//!      ▲                 │                                (holds what it has)
//!      └──── forget ─────┘  the bind failed
//! ```

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::gangs::{Gang, GangOrder, Gangs};
use crate::names::{GangKey, GpuType, NodeName, PodKey, QueueName};
use crate::nodes::{NodeId, NodeState, Nodes, Pool, PoolKey};
use crate::objects::{Change, Node, Pod, Queue};
use crate::plan::WaitReason;
use crate::queues::{QueueChain, QueueSlot, QueueUsage, Queues};
use crate::slots::Slots;

/// A pod's number. It is good until the next change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId(pub(crate) u32);

/// A pod, and where it counts.
#[derive(Clone, Debug)]
pub struct PodState {
    pub(crate) pod: Pod,
    pub(crate) assumed: Option<NodeName>,
    pub(crate) at: Option<NodeId>,
    pub(crate) charged: Option<(QueueSlot, QueueUsage)>,
}

impl PodState {
    /// The pod as it was last seen.
    pub fn pod(&self) -> &Pod {
        &self.pod
    }

    /// The node it is bound or assumed to be on.
    pub fn at(&self) -> Option<NodeId> {
        self.at
    }

    /// Whether it counts on a node only because we decided so, and was not seen there yet.
    pub fn is_assumed(&self) -> bool {
        self.assumed.is_some()
    }
}

/// Why a pod cannot be assumed to be on a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssumeError {
    /// The pod is gone, or another pod has its name.
    #[error("assuming pod {0}: it is not known")]
    UnknownPod(PodKey),
    /// The node is gone.
    #[error("assuming pod {0} on node {1}: the node is not known")]
    UnknownNode(PodKey, NodeName),
    /// The pod has a node, bound or assumed, or is being deleted.
    #[error("assuming pod {0}: it does not wait for a node")]
    NotPending(PodKey),
}

/// The cluster at one moment. See the crate's documentation.
#[derive(Clone, Debug, Default)]
pub struct ClusterState {
    pub(crate) generation: u64,
    pub(crate) nodes: Nodes,
    pub(crate) pods: Slots<PodState>,
    pod_by_name: HashMap<PodName, PodId>,
    pods_by_namespace: HashMap<Arc<str>, BTreeSet<PodId>>,
    pub(crate) queues: Queues,
    pub(crate) gangs: Gangs,
    /// Pods assumed in forks that are still open, in order.
    pub(crate) undo: Vec<PodId>,
    pub(crate) forks_open: usize,
}

/// A pod's name without its uid: only one pod has it at a time.
type PodName = (Arc<str>, Arc<str>);

impl ClusterState {
    /// Grows with every change that says something new, so that a plan can name the state it was made from.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Takes note of something that happened.
    pub fn apply(&mut self, change: Change) {
        debug_assert_eq!(self.forks_open, 0, "a fork borrows the state");
        if self.is_known(&change) {
            return;
        }
        self.generation += 1;
        match change {
            Change::Node(node) => self.set_node(&node.name.clone(), Some(node)),
            Change::NodeGone(name) => self.set_node(&name, None),
            Change::Pod(pod) => self.set_pod(pod),
            Change::PodGone(key) => {
                if let Some(id) = self.pod_id(&key) {
                    let gang = self.pod(id).pod.gang.clone();
                    self.remove_pod(id);
                    if !self.gangs.by_key.contains_key(&gang) {
                        self.gangs.ended.remove(&gang);
                    }
                }
            }
            Change::Queue(queue) => self.set_queue(&queue.name.clone(), Some(queue)),
            Change::QueueGone(name) => self.set_queue(&name, None),
        }
    }

    /// Says that so many members of a gang had a node and have ended. Pods that ended are not watched, so a gang whose
    /// start was interrupted for longer than its first members ran would else seem to miss them for ever. Forgotten
    /// with the gang.
    pub fn note_ended(&mut self, gang: &GangKey, members: u32) {
        debug_assert_eq!(self.forks_open, 0, "a fork borrows the state");
        if let Some(known) = self.gangs.by_key.get_mut(gang)
            && known.ended != members
        {
            known.ended = members;
            self.gangs.ended.insert(gang.clone(), members);
            self.generation += 1;
            self.count_gang(gang, true);
        }
    }

    /// Whether a change says nothing new, such as a node's heartbeat: then there is nothing to plan either.
    fn is_known(&self, change: &Change) -> bool {
        match change {
            Change::Node(node) => {
                self.node_id(&node.name).is_some_and(|id| self.node(id).object() == Some(node))
            }
            Change::Pod(pod) => self.pod_id(&pod.key).is_some_and(|id| self.pod(id).pod == *pod),
            Change::PodGone(key) => self.pod_id(key).is_none(),
            Change::Queue(queue) => self.queue(&queue.name).is_some_and(|(known, _)| known == queue),
            Change::NodeGone(_) | Change::QueueGone(_) => false,
        }
    }

    /// Counts a pod as being on a node from now on, because we are about to bind it there.
    pub fn assume(&mut self, pod: &PodKey, node: &NodeName) -> Result<(), AssumeError> {
        let id = self.pod_id(pod).ok_or_else(|| AssumeError::UnknownPod(pod.clone()))?;
        let node_id =
            self.node_id(node).ok_or_else(|| AssumeError::UnknownNode(pod.clone(), node.clone()))?;
        if !self.is_pending(id) {
            return Err(AssumeError::NotPending(pod.clone()));
        }
        self.generation += 1;
        self.assume_at(id, node_id);
        Ok(())
    }

    /// Takes back an assumption, because the bind failed. Does nothing if the pod was seen on a node meanwhile,
    /// or is gone.
    pub fn forget(&mut self, pod: &PodKey) {
        if let Some(id) = self.pod_id(pod).filter(|id| self.pod(*id).is_assumed()) {
            self.generation += 1;
            self.forget_at(id);
        }
    }

    /// The pod of that name and uid.
    pub fn pod_id(&self, key: &PodKey) -> Option<PodId> {
        let id = *self.pod_by_name.get(&(key.namespace.clone(), key.name.clone()))?;
        (self.pod(id).pod.key.uid == key.uid).then_some(id)
    }

    /// A pod by its number.
    pub fn pod(&self, id: PodId) -> &PodState {
        self.pods.get(id.0)
    }

    /// Every pod, in no useful order.
    pub fn pods(&self) -> impl Iterator<Item = (PodId, &PodState)> {
        self.pods.iter().map(|(slot, pod)| (PodId(slot), pod))
    }

    /// Whether a pod is ours, has no node and is not being deleted.
    pub fn is_pending(&self, id: PodId) -> bool {
        let pod = self.pod(id);
        pod.at.is_none() && pod.pod.ours && !pod.pod.terminating
    }

    /// The node of that name, if it is there.
    pub fn node_id(&self, name: &NodeName) -> Option<NodeId> {
        self.nodes.id(name).filter(|id| self.node(*id).object.is_some())
    }

    /// A node by its number.
    pub fn node(&self, id: NodeId) -> &NodeState {
        self.nodes.get(id)
    }

    /// Every node that is there or has pods, in no useful order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeState)> {
        self.nodes.iter()
    }

    /// Nodes that take pods, in pools of nodes alike; those without GPUs come first, then by GPU type.
    pub fn pools(&self) -> &BTreeMap<PoolKey, Pool> {
        self.nodes.pools()
    }

    /// A gang of which at least one pod has not ended.
    pub fn gang(&self, key: &GangKey) -> Option<&Gang> {
        self.gangs.by_key.get(key)
    }

    /// Every gang, by name.
    pub fn gangs(&self) -> impl Iterator<Item = (&GangKey, &Gang)> {
        self.gangs.by_key.iter()
    }

    /// Gangs with members that need a node, in the order of planning: first those that finish their start, then by
    /// priority, then the oldest; ties are broken by name.
    pub fn waiting_gangs(&self) -> impl ExactSizeIterator<Item = &GangKey> {
        self.gangs.waiting.iter().map(|order| &order.key)
    }

    /// Every queue by name, with what it and the queues below it hold.
    pub fn queues(&self) -> impl Iterator<Item = (&Queue, &QueueUsage)> {
        self.queues.iter()
    }

    /// A queue, with what it and the queues below it hold.
    pub fn queue(&self, name: &QueueName) -> Option<(&Queue, &QueueUsage)> {
        self.queues.get(name)
    }

    /// The queue that a pod is charged to.
    pub fn queue_of(&self, pod: &Pod) -> Result<&QueueName, WaitReason> {
        self.queues.of_pod(pod).map(|slot| self.queues.name(slot))
    }

    /// The queue that a pod is charged to and the queues above it, with what each holds, up to the root.
    pub fn queue_chain_of(&self, pod: &Pod) -> Result<QueueChain<'_>, WaitReason> {
        self.queues.of_pod(pod).and_then(|slot| self.queues.chain(slot))
    }

    pub(crate) fn assume_at(&mut self, id: PodId, node: NodeId) {
        self.leave(id);
        let name = self.node(node).name.clone();
        self.pods.get_mut(id.0).assumed = Some(name);
        self.enter(id);
    }

    pub(crate) fn forget_at(&mut self, id: PodId) {
        self.leave(id);
        self.pods.get_mut(id.0).assumed = None;
        self.enter(id);
    }

    fn set_pod(&mut self, pod: Pod) {
        let name = (pod.key.namespace.clone(), pod.key.name.clone());
        let mut assumed = None;
        if let Some(&old) = self.pod_by_name.get(&name) {
            // A name is given to a new pod only after the old one is gone, even if nobody told us.
            if self.pod(old).pod.key.uid == pod.key.uid {
                assumed.clone_from(&self.pod(old).assumed);
            }
            self.remove_pod(old);
        }
        if pod.node.is_some() {
            assumed = None;
        } else if !pod.ours {
            return;
        }
        let namespace = pod.key.namespace.clone();
        let id = PodId(self.pods.insert(PodState { pod, assumed, at: None, charged: None }));
        self.pod_by_name.insert(name, id);
        self.pods_by_namespace.entry(namespace).or_default().insert(id);
        self.enter(id);
    }

    fn remove_pod(&mut self, id: PodId) {
        self.leave(id);
        let pod = self.pods.remove(id.0).pod;
        let namespace =
            self.pods_by_namespace.get_mut(&pod.key.namespace).expect("every pod is in its namespace");
        namespace.remove(&id);
        if namespace.is_empty() {
            self.pods_by_namespace.remove(&pod.key.namespace);
        }
        self.pod_by_name.remove(&(pod.key.namespace, pod.key.name));
    }

    fn set_node(&mut self, name: &NodeName, object: Option<Node>) {
        if object.is_none() && self.nodes.id(name).is_none() {
            return;
        }
        let id = self.nodes.id_or_new(name);
        let pods: Vec<PodId> = self.node(id).pods.iter().copied().collect();
        let old_type = self.node(id).gpu_type();
        self.nodes.set_object(id, object);
        // Without pods a node that is gone leaves nothing behind, and its number may be no more.
        if !pods.is_empty() && self.node(id).gpu_type() != old_type {
            for pod in pods {
                self.uncharge(pod);
                self.charge(pod);
            }
        }
    }

    fn set_queue(&mut self, name: &QueueName, object: Option<Queue>) {
        let old = self.queues.get(name).map(|(queue, _)| queue.namespaces.clone()).unwrap_or_default();
        let new = object.as_ref().map(|queue| queue.namespaces.clone()).unwrap_or_default();
        let changed = old.symmetric_difference(&new);
        let pods: Vec<PodId> = changed
            .filter_map(|namespace| self.pods_by_namespace.get(namespace))
            .flatten()
            .copied()
            .collect();
        let gangs: BTreeSet<GangKey> = pods.iter().map(|pod| self.pod(*pod).pod.gang.clone()).collect();
        for pod in &pods {
            self.uncharge(*pod);
        }
        for gang in &gangs {
            self.count_gang(gang, false);
        }
        self.queues.set_object(name, object);
        for pod in pods {
            self.charge(pod);
        }
        for gang in &gangs {
            self.count_gang(gang, true);
        }
    }

    /// Makes a pod count: on its node, in its queue, in its gang.
    fn enter(&mut self, id: PodId) {
        let state = self.pods.get(id.0);
        let (requests, ours, gang) = (state.pod.requests, state.pod.ours, state.pod.gang.clone());
        let node = state.pod.node.clone().or_else(|| state.assumed.clone());
        let at = node.map(|node| self.nodes.id_or_new(&node));
        if let Some(node) = at {
            self.nodes.add_pod(node, id, requests);
        }
        let state = self.pods.get_mut(id.0);
        state.at = at;
        if ours {
            self.gangs.get_or_new(&gang).add(id, &state.pod, at.is_some());
        }
        self.charge(id);
        self.count_gang(&gang, true);
    }

    /// The opposite of [`Self::enter`].
    fn leave(&mut self, id: PodId) {
        self.uncharge(id);
        let state = self.pods.get_mut(id.0);
        let (requests, gang) = (state.pod.requests, state.pod.gang.clone());
        let at = state.at.take();
        if state.pod.ours {
            let members = self.gangs.by_key.get_mut(&gang).expect("a pod of ours is in its gang");
            members.remove(id, &state.pod, at.is_some());
        }
        if let Some(node) = at {
            self.nodes.remove_pod(node, id, requests);
        }
        self.count_gang(&gang, true);
    }

    fn charge(&mut self, id: PodId) {
        let state = self.pods.get(id.0);
        let Some(node) = state.at else { return };
        // Pods of other schedulers are charged only where they ask for it.
        if !state.pod.ours && state.pod.queue.is_none() {
            return;
        }
        let Ok(queue) = self.queues.of_pod(&state.pod) else { return };
        let requests = state.pod.requests;
        let mut usage = QueueUsage {
            cpu_millis: requests.cpu_millis,
            memory_bytes: requests.memory_bytes,
            pods: 1,
            ..QueueUsage::default()
        };
        if requests.gpus > 0 {
            // What the node has is what is used; what was asked for counts only while the node is not there.
            let node_type = self.nodes.get(node).gpu_type();
            let gpu_type = node_type.or_else(|| state.pod.gpu_type.clone()).unwrap_or_else(GpuType::unknown);
            usage.gpus.insert(gpu_type, requests.gpus);
        }
        self.queues.charge(queue, &usage, 1);
        self.pods.get_mut(id.0).charged = Some((queue, usage));
    }

    fn uncharge(&mut self, id: PodId) {
        if let Some((queue, usage)) = self.pods.get_mut(id.0).charged.take() {
            self.queues.charge(queue, &usage, -1);
        }
    }

    /// Brings a gang's place in the order of planning and in its queue's counts up to date, or with `count` false
    /// takes it out of its queue's counts.
    fn count_gang(&mut self, key: &GangKey, count: bool) {
        let Some(gang) = self.gangs.by_key.get(key) else { return };
        let lead = gang.members.first().map(|(_, _, pod)| &self.pods.get(pod.0).pod);
        let order = lead.filter(|_| !gang.pending.is_empty()).map(|lead| GangOrder {
            finishes: Reverse(gang.finishes_its_start(lead.gang_size)),
            priority: Reverse(lead.priority),
            created: lead.created,
            key: key.clone(),
        });
        let counted = lead
            .filter(|_| count)
            .and_then(|lead| self.queues.of_pod(lead).ok())
            .map(|queue| (queue, gang.bound + gang.leaving > 0, !gang.pending.is_empty()));

        let is_empty = lead.is_none();
        let gang = self.gangs.by_key.get_mut(key).expect("it was there a moment ago");
        if gang.order != order {
            if let Some(old) = gang.order.take() {
                self.gangs.waiting.remove(&old);
            }
            self.gangs.waiting.extend(order.clone());
            gang.order = order;
        }
        let old = std::mem::replace(&mut gang.counted, counted);
        if old != counted {
            for (counted, sign) in [(old, -1), (counted, 1)] {
                if let Some((queue, running, waiting)) = counted {
                    let usage = QueueUsage {
                        gangs_running: i64::from(running),
                        gangs_waiting: i64::from(waiting),
                        ..QueueUsage::default()
                    };
                    self.queues.charge(queue, &usage, sign);
                }
            }
        }
        if is_empty {
            self.gangs.by_key.remove(key);
        }
    }
}
