//! Everything the state knows, in plain sorted maps: for tests that compare two states, and for debugging.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::classes::NodeKind;
use crate::devices::DeviceState;
use crate::gangs::Gang;
use crate::names::{GangKey, GpuType, NodeName, PodKey, QueueName};
use crate::near::TallyDump;
use crate::nodes::{NodeId, NodeState};
use crate::objects::{Node, Pod, Queue, ResourceName, Resources};
use crate::other_resources::Extras;
use crate::plan::Departure;
use crate::pods::{Place, PodId};
use crate::ports::HostPort;
use crate::queues::{QueueSlot, QueueUsage};
use crate::state::ClusterState;

/// A picture of the state. Two states with the same dump plan the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Nodes that are there or have pods.
    pub nodes: BTreeMap<NodeName, NodeDump>,
    /// Pods, with the node they count on, why, and the queue they are charged to.
    #[allow(clippy::type_complexity, reason = "plain data, for comparing")]
    pub pods: BTreeMap<PodKey, (Pod, Option<NodeName>, Option<Place>, Option<QueueName>)>,
    /// Queues.
    pub queues: BTreeMap<QueueName, QueueDump>,
    /// Gangs.
    pub gangs: BTreeMap<GangKey, GangDump>,
    /// Gangs that wait, in the order of planning.
    pub waiting: Vec<GangKey>,
    /// The same in their classes.
    pub waiting_classes: Vec<(Option<QueueName>, i32, Vec<GangKey>)>,
    /// Gangs that run, in order.
    pub running: Vec<GangKey>,
    /// What is held for each gang, where, and until when.
    #[allow(clippy::type_complexity, reason = "plain data, for comparing")]
    pub held: BTreeMap<GangKey, (Timestamp, BTreeSet<(PodKey, Option<NodeName>, bool)>)>,
    /// Classes of nodes, each with its nodes in order.
    #[allow(clippy::type_complexity, reason = "plain data, for comparing")]
    pub classes: Vec<(NodeKind, Resources, Vec<DeviceState>, Option<Extras>, Vec<NodeName>)>,
    /// Domains by their path.
    pub domains: BTreeMap<Vec<Arc<str>>, DomainDump>,
    /// Counts of neighbours.
    pub tallies: BTreeMap<String, TallyDump>,
    /// Allocatable GPUs by type, CPU and memory.
    pub capacity: (BTreeMap<GpuType, i64>, i64, i64),
}

/// One gang of a [`Dump`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangDump {
    /// Its members.
    pub members: BTreeSet<PodKey>,
    /// Those that need a node, in order.
    pub pending: Vec<PodKey>,
    /// How many have a node, are held, have ended.
    pub counts: (u32, u32, u32),
    /// GPUs of all, and of those with a node.
    pub gpus: (i64, i64),
    /// When the first got its node.
    pub started: Option<Timestamp>,
    /// Why it was told to leave.
    pub departure: Option<Departure>,
}

/// One domain of a [`Dump`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainDump {
    /// Its nodes, in order.
    pub nodes: Vec<NodeName>,
    /// Its nodes that take pods, by class, in the order of classes, each in order.
    pub classes: Vec<(Resources, u32, Vec<NodeName>)>,
    /// Free GPUs.
    pub gpus_free: i64,
}

/// One node of a [`Dump`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDump {
    /// The node, if it is there.
    pub object: Option<Node>,
    /// What is in use.
    pub used: Resources,
    /// What is in use of other resources, and ports with the number of pods that take them.
    pub extras_used: (BTreeMap<Arc<str>, i128>, BTreeMap<HostPort, u32>),
    /// What is free.
    pub free: Resources,
    /// The states of its devices.
    pub devices: Vec<DeviceState>,
    /// The type of its GPUs.
    pub gpu_type: Option<GpuType>,
    /// The pods on it.
    pub pods: BTreeSet<PodKey>,
}

/// One queue of a [`Dump`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDump {
    /// The queue.
    pub object: Queue,
    /// What the queue itself holds.
    pub own: QueueUsage,
    /// What it and the queues below it hold.
    pub total: QueueUsage,
    /// Fading use, the same beyond the quota, and savings, in millionths of a GPU second.
    pub accounts_gpu_micros: (u128, u128, i128),
    /// What its children keep for themselves.
    pub children_keep: BTreeMap<ResourceName, i64>,
    /// The gangs that count in it, by name.
    pub gangs: Vec<GangKey>,
}

impl ClusterState {
    /// A picture of everything; O(n), for tests and debugging.
    pub fn dump(&self) -> Dump {
        let mut gangs_by_queue = self.gangs_by_queue();
        Dump {
            nodes: self.nodes().map(|(_, node)| (node.name.clone(), self.dump_node(node))).collect(),
            pods: self
                .pods()
                .map(|(_, state)| {
                    let node = state.at.map(|node| self.node(node).name.clone());
                    let queue = state.charged.as_ref().map(|charge| self.queues.name(charge.queue).clone());
                    (state.pod.key.clone(), (state.pod.clone(), node, state.place(), queue))
                })
                .collect(),
            queues: self
                .queues()
                .map(|(queue, total)| {
                    let slot = self.queues.slot(&queue.name);
                    let gangs = slot.and_then(|slot| gangs_by_queue.remove(&slot)).unwrap_or_default();
                    (queue.name.clone(), self.dump_queue(queue, total, gangs))
                })
                .collect(),
            gangs: self.gangs().map(|(key, gang)| (key.clone(), self.dump_gang(gang))).collect(),
            waiting: self.waiting_gangs().cloned().collect(),
            waiting_classes: self
                .waiting_classes()
                .into_iter()
                .map(|class| (class.queue().cloned(), class.priority(), class.gangs().cloned().collect()))
                .collect(),
            running: self.running_gangs().cloned().collect(),
            held: self
                .held_gangs()
                .map(|(gang, until)| (gang.clone(), (until, self.dump_held(gang))))
                .collect(),
            classes: self
                .classes()
                .map(|(_, class)| {
                    let nodes = class.nodes().map(|node| self.node(node).name.clone()).collect();
                    let (devices, extras) = (class.devices().to_vec(), class.extras().cloned());
                    (class.kind().clone(), class.free(), devices, extras, nodes)
                })
                .collect(),
            domains: self.dump_domains(),
            tallies: self.near.dump(&self.pods),
            capacity: (
                self.capacity().clone(),
                self.capacity_of(&ResourceName::Cpu),
                self.capacity_of(&ResourceName::Memory),
            ),
        }
    }

    fn key_of(&self, id: PodId) -> PodKey {
        self.pod(id).pod.key.clone()
    }

    fn dump_node(&self, node: &NodeState) -> NodeDump {
        NodeDump {
            object: node.object.clone(),
            used: node.used,
            extras_used: (node.others_used.clone(), node.ports_used.clone()),
            free: node.free(),
            devices: node.devices().to_vec(),
            gpu_type: node.gpu_type(),
            pods: node.pods().map(|pod| self.key_of(pod)).collect(),
        }
    }

    /// The gangs that count in each queue itself, not below it, by name.
    fn gangs_by_queue(&self) -> BTreeMap<QueueSlot, Vec<GangKey>> {
        let mut queues: BTreeMap<QueueSlot, Vec<GangKey>> = BTreeMap::new();
        for (key, gang) in self.gangs() {
            if let Some((queue, ..)) = gang.counted.queue {
                queues.entry(queue).or_default().push(key.clone());
            }
        }
        queues
    }

    fn dump_queue(&self, queue: &Queue, total: &QueueUsage, gangs: Vec<GangKey>) -> QueueDump {
        QueueDump {
            object: queue.clone(),
            own: self.queues.own_usage(&queue.name).cloned().unwrap_or_default(),
            total: total.clone(),
            accounts_gpu_micros: self.queues.accounts_exactly(&queue.name),
            children_keep: self.queues.children_keep(&queue.name).cloned().unwrap_or_default(),
            gangs,
        }
    }

    fn dump_gang(&self, gang: &Gang) -> GangDump {
        GangDump {
            members: gang.members().map(|pod| self.key_of(pod)).collect(),
            pending: gang.pending().map(|pod| self.key_of(pod)).collect(),
            counts: (gang.bound(), gang.held(), gang.ended()),
            gpus: (gang.gpus(), gang.gpus_placed()),
            started: gang.started(),
            departure: gang.departure().cloned(),
        }
    }

    fn dump_held(&self, gang: &GangKey) -> BTreeSet<(PodKey, Option<NodeName>, bool)> {
        let node = |id| self.pod(id).at.map(|node| self.node(node).name.clone());
        self.held_members(gang).map(|id| (self.key_of(id), node(id), self.is_stand_in(id))).collect()
    }

    fn dump_domains(&self) -> BTreeMap<Vec<Arc<str>>, DomainDump> {
        let mut domains = BTreeMap::new();
        let mut next = vec![(Vec::new(), self.root())];
        while let Some((path, id)) = next.pop() {
            let domain = self.domain(id);
            for child in domain.children() {
                let path: Vec<_> = path.iter().cloned().chain([self.domain(child).name().clone()]).collect();
                next.push((path, child));
            }
            let name = |node: NodeId| self.node(node).name.clone();
            let classes = self.classes_in(id).into_iter().map(|(class, count)| {
                (self.class(class).free(), count, self.nodes_in(id, class).map(name).collect())
            });
            let (nodes, classes) = (domain.nodes().map(name).collect(), classes.collect());
            domains.insert(path, DomainDump { nodes, classes, gpus_free: domain.gpus_free() });
        }
        domains
    }
}
