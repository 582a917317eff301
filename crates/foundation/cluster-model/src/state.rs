//! The state, and what can be read of it. `changes.rs` says what happens to it: every change goes through
//! [`ClusterState::apply`], [`ClusterState::assume`], [`ClusterState::forget`], [`ClusterState::hold`] or
//! [`ClusterState::release`].
//!
//! ```text
//!            assume            seen with a node
//!   pending ────────► assumed ─────────────────► bound ──► terminating ──► gone
//!    │ ▲ ▲               │ ▲                              (holds what it has)
//!    │ │ └─── forget ────┘ │ assume: what was in the way is gone
//!    │ └───── release ──┐  │
//!    └──── hold ─────► held
//! ```

mod budgets;
mod evicted;
mod holds;
mod moments;

pub use crate::assume_error::AssumeError;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use jiff::Timestamp;

use crate::budgets::Budgets;
use crate::decay::SavedAccounts;
use crate::evicted::Evicted;
use crate::gangs::{Gang, Gangs};
use crate::history::History;
use crate::holds::Holds;
use crate::memory::PlannerMemory;
use crate::moments::Steps;
use crate::names::{GangKey, GpuType, NodeName, PodKey, QueueName};
use crate::near::{LabelSet, Near};
use crate::nodes::{NodeId, NodeState, Nodes};
use crate::objects::{Node, Pod, Queue, ResourceName};
use crate::plan::WaitReason;
use crate::pods::{PodId, PodStanding, PodState, Role};
use crate::queues::{QueueChain, QueueUsage, Queues};
use crate::shapes::Shapes;
use crate::slots::Slots;
use crate::waiting::{ClassOfGangs, WaitingClass};
use crate::workload::LearnedWorkload;

/// The cluster at one moment. See the crate's documentation.
#[derive(Clone, Debug, Default)]
pub struct ClusterState {
    pub(crate) generation: u64,
    pub(crate) nodes: Nodes,
    pub(crate) near: Near,
    pub(crate) pods: Slots<PodState>,
    pub(crate) pod_by_name: HashMap<PodName, PodId>,
    pub(crate) pods_by_namespace: HashMap<Arc<str>, BTreeSet<PodId>>,
    pub(crate) shapes: Shapes,
    pub(crate) queues: Queues,
    pub(crate) gangs: Gangs,
    pub(crate) holds: Holds,
    pub(crate) evicted: Evicted,
    pub(crate) budgets: Budgets,
    pub(crate) history: History,
    pub(crate) workload: LearnedWorkload,
    /// The standing of pods before open forks changed it, in order.
    pub(crate) undo: Vec<(PodId, PodStanding)>,
    pub(crate) steps: Steps,
    pub(crate) memory: PlannerMemory,
    pub(crate) forks_open: usize,
}

/// A pod's name without its uid: only one pod has it at a time.
pub(crate) type PodName = (Arc<str>, Arc<str>);

impl ClusterState {
    /// Grows with every change that says something new, so that a plan can name the state it was made from.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The time up to which everything is computed.
    pub fn now(&self) -> Timestamp {
        self.queues.now()
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
        self.pods.iter().filter(|(_, pod)| !pod.stand_in).map(|(slot, pod)| (PodId(slot), pod))
    }

    /// Whether a pod is ours, has no node and is not being deleted.
    pub fn is_pending(&self, id: PodId) -> bool {
        let pod = self.pod(id);
        pod.pod.ours && pod.role() == Role::Pending
    }

    /// The node of that name, if it is there.
    pub fn node_id(&self, name: &NodeName) -> Option<NodeId> {
        self.nodes.id(name).filter(|id| self.node(*id).object.is_some())
    }

    /// The node of that name as it was last seen, if it is there.
    pub fn node_object(&self, name: &NodeName) -> Option<&Node> {
        self.node(self.node_id(name)?).object()
    }

    /// A node by its number.
    pub fn node(&self, id: NodeId) -> &NodeState {
        self.nodes.get(id)
    }

    /// Every node that is there or has pods, in no useful order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeState)> {
        self.nodes.iter()
    }

    /// The labels of a namespace, if it is there.
    pub fn namespace(&self, name: &str) -> Option<&LabelSet> {
        self.near.namespace(name)
    }

    /// Allocatable GPUs by type, on all nodes that are there.
    pub fn capacity(&self) -> &BTreeMap<GpuType, i64> {
        self.nodes.capacity()
    }

    /// What is allocatable of a resource on all nodes that are there.
    pub fn capacity_of(&self, resource: &ResourceName) -> i64 {
        match resource {
            ResourceName::Gpu(gpu_type) => self.capacity().get(gpu_type).copied().unwrap_or(0),
            ResourceName::Cpu => self.nodes.total().cpu_millis,
            ResourceName::Memory => self.nodes.total().memory_bytes,
        }
    }

    /// A gang of which at least one pod has not ended.
    pub fn gang(&self, key: &GangKey) -> Option<&Gang> {
        self.gangs.slot(key).map(|slot| self.gangs.get(slot))
    }

    /// Every gang, by name.
    pub fn gangs(&self) -> impl Iterator<Item = (&GangKey, &Gang)> {
        self.gangs.iter().map(|gang| (&*gang.key, gang))
    }

    /// Gangs with members that need a node, in the order of planning: first those that finish their start, then by
    /// priority, then the oldest; ties are broken by name.
    pub fn waiting_gangs(&self) -> impl ExactSizeIterator<Item = &GangKey> {
        self.gangs.waiting.iter().map(|(_, key)| &**key)
    }

    /// Waiting gangs, in classes of gangs that differ only in name and age: by queue, the highest priority first,
    /// then by their first gang. The cost depends on the number of classes.
    pub fn waiting_classes(&self) -> Vec<&WaitingClass> {
        self.gangs.classes.in_order()
    }

    /// How many such classes there are. They are not sorted for this.
    pub fn waiting_class_count(&self) -> usize {
        self.gangs.classes.count()
    }

    /// The next waiting gang of a class after this one, and since when it waits.
    pub fn waiting_after(
        &self,
        class: ClassOfGangs,
        gang: &(Timestamp, GangKey),
    ) -> Option<&(Timestamp, GangKey)> {
        self.gangs.classes.after(class, gang)
    }

    /// Gangs of which at least one member has a node, bound or assumed: by the creation of their oldest member, then by
    /// name.
    pub fn running_gangs(&self) -> impl ExactSizeIterator<Item = &GangKey> {
        self.gangs.running.iter().map(|(_, key)| &**key)
    }

    /// Gangs that run and have a time limit, by the end that it sets, then by name.
    pub fn certain_ends(&self) -> impl ExactSizeIterator<Item = (Timestamp, &GangKey)> {
        self.gangs.ends.iter().map(|(end, key)| (*end, &**key))
    }

    /// What a queue itself holds, without the queues below it.
    pub fn own_usage(&self, queue: &QueueName) -> Option<&QueueUsage> {
        self.queues.own_usage(queue)
    }

    /// How long gangs ran, as far as it was seen.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What the planner remembers of this state. A copy of the state has none.
    pub fn planner_memory(&mut self) -> &mut PlannerMemory {
        &mut self.memory
    }

    /// Makes what was learned from arrived pods count from now on, if it is enough. Call it before a plan.
    pub fn refresh_workload(&mut self) {
        self.workload.refresh();
    }

    /// What is usually asked for.
    pub fn workload(&self) -> &LearnedWorkload {
        &self.workload
    }

    /// What a queue and those below it used until now, in GPU seconds: use of a half-life ago counts half.
    pub fn decayed_gpu_seconds(&self, queue: &QueueName) -> u64 {
        self.decayed_gpu_milliseconds(queue) / 1000
    }

    /// The same in thousandths of a GPU second.
    pub fn decayed_gpu_milliseconds(&self, queue: &QueueName) -> u64 {
        self.queues.decayed_gpu_milliseconds(queue)
    }

    /// The same for use beyond the quota at the time; without a quota, all use is beyond it.
    pub fn decayed_beyond_quota_gpu_milliseconds(&self, queue: &QueueName) -> u64 {
        self.queues.decayed_beyond_quota_gpu_milliseconds(queue)
    }

    /// A queue's use and savings as they are written down for the next leader.
    pub fn saved_accounts(&self, queue: &QueueName) -> Option<SavedAccounts> {
        self.queues.saved_accounts(queue)
    }

    /// When a queue that spends its savings runs out of them, if nothing changes.
    pub fn bank_empty_at(&self, queue: &QueueName) -> Option<Timestamp> {
        self.queues.bank_empty_at(queue)
    }

    /// What a queue saved by not using its quota, in GPU seconds; nothing without a bank.
    pub fn bank_gpu_seconds(&self, queue: &QueueName) -> i64 {
        self.queues.bank_gpu_seconds(queue)
    }

    /// What the children of a queue keep for themselves: the sum of what each owns, and neither holds nor lends.
    pub fn lent_reserve(&self, queue: &QueueName, resource: &ResourceName) -> i64 {
        self.queues.lent_reserve(queue, resource)
    }

    /// Whether the children of a queue keep anything for themselves.
    pub fn has_lent_reserve(&self, queue: &QueueName) -> bool {
        self.queues.children_keep(queue).is_some_and(|kept| !kept.is_empty())
    }

    /// The queues directly below one, by name, with what they hold; for `None` those without a parent.
    pub fn queues_below(&self, queue: Option<&QueueName>) -> impl Iterator<Item = (&Queue, &QueueUsage)> {
        self.queues.children(queue)
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
}
