//! The objects that the model takes in, already parsed: no Kubernetes types, no quantities as text.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::{AddAssign, SubAssign},
    sync::Arc,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::budgets::{Budget, BudgetKey};
use crate::devices::{DeviceAsk, DeviceUse};
use crate::features::Features;
use crate::names::{GangKey, GpuType, NodeName, PodKey, QueueName};
use crate::near::{LabelSet, Neighbours};
use crate::node_affinity::NodeAffinity;
use crate::other_resources::OtherResources;
use crate::ports::HostPorts;
use crate::priority::Tier;
use crate::taints::{Taint, Toleration};
use crate::terms::Terms;

/// A week: a queue that used much last week waits a little this week, and last month is forgotten.
pub const HALF_LIFE_SECONDS_DEFAULT: u32 = 7 * 24 * 3600;

/// One thing that happened to the cluster. Changes of different kinds may arrive in any order.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterChange {
    /// A node is new or different.
    Node(Node),
    /// A node is gone.
    NodeGone(NodeName),
    /// A pod is new or different.
    Pod(Pod),
    /// A pod is gone, or has ended and holds nothing any more.
    PodGone(PodKey),
    /// A queue is new or different.
    Queue(Queue),
    /// A queue is gone.
    QueueGone(QueueName),
    /// A namespace is new or different.
    Namespace {
        /// Its name.
        name: Arc<str>,
        /// Its labels.
        labels: LabelSet,
    },
    /// A namespace is gone.
    NamespaceGone(Arc<str>),
    /// A disruption budget is new or different.
    Budget(Budget),
    /// A disruption budget is gone.
    BudgetGone(BudgetKey),
}

/// Amounts on one node or of one pod. Signed: what is free may be below zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resources {
    /// Whole GPUs.
    pub gpus: i64,
    /// CPU in thousandths of a core.
    pub cpu_millis: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Pods; every pod asks for one.
    pub pods: i64,
}

impl Resources {
    /// Whether all of it is available in `free`. A resource that is not asked for cannot be short: a pod without GPUs
    /// fits on a node whose GPUs are overcommitted.
    pub fn fits(&self, free: &Self) -> bool {
        let fits = |asked: i64, free: i64| asked <= 0 || asked <= free;
        fits(self.gpus, free.gpus)
            && fits(self.cpu_millis, free.cpu_millis)
            && fits(self.memory_bytes, free.memory_bytes)
            && fits(self.pods, free.pods)
    }
}

impl AddAssign for Resources {
    // Saturating: absurd amounts must not bring the scheduler down. Conversion bounds them far below the limits.
    fn add_assign(&mut self, other: Self) {
        self.gpus = self.gpus.saturating_add(other.gpus);
        self.cpu_millis = self.cpu_millis.saturating_add(other.cpu_millis);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
        self.pods = self.pods.saturating_add(other.pods);
    }
}

impl SubAssign for Resources {
    fn sub_assign(&mut self, other: Self) {
        self.gpus = self.gpus.saturating_sub(other.gpus);
        self.cpu_millis = self.cpu_millis.saturating_sub(other.cpu_millis);
        self.memory_bytes = self.memory_bytes.saturating_sub(other.memory_bytes);
        self.pods = self.pods.saturating_sub(other.pods);
    }
}

impl std::ops::Add for Resources {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl std::ops::Sub for Resources {
    type Output = Self;
    fn sub(mut self, other: Self) -> Self {
        self -= other;
        self
    }
}

/// A node. It is *Counted* if the kubelet picks the devices, so that we know how many are in use and not which. It is
/// *Exact* if we pick them, by dynamic resource allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts about a machine that have nothing to do with each other"
)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// The type of its GPUs.
    pub gpu_type: Option<GpuType>,
    /// What pods may use of it. It may fall below what they do use.
    pub allocatable: Resources,
    /// What pods may use of its other resources.
    pub other_allocatable: OtherResources,
    /// Whether it takes new pods at all: not while it is being deleted.
    pub schedulable: bool,
    /// Whether somebody closed it to new pods, except for those that tolerate [`Taint::cordon`]. Mostly it soon has
    /// that taint too.
    pub cordoned: bool,
    /// Its abilities.
    pub features: Features,
    /// Its labels.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// The domains it is in, the outermost first (zone, block, rack, NVLink domain); any number of levels. Two nodes
    /// are in the same domain of a level if their paths agree up to there.
    pub topology: Vec<Arc<str>>,
    /// Whether its devices are known one by one. There are as many as its allocatable GPUs.
    pub exact: bool,
    /// Its power draw, if that is known.
    pub power: Option<Power>,
    /// Whether it can be taken away at short notice.
    pub spot: bool,
}

impl Node {
    /// A node that has nothing and takes pods.
    pub fn new(name: impl Into<NodeName>) -> Self {
        Self {
            name: name.into(),
            gpu_type: None,
            allocatable: Resources::default(),
            other_allocatable: OtherResources::default(),
            schedulable: true,
            cordoned: false,
            features: Features::default(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            topology: Vec::new(),
            exact: false,
            power: None,
            spot: false,
        }
    }

    /// The taints that keep pods away, a cordon among them.
    pub fn repelling(&self) -> impl Iterator<Item = Taint> {
        let cordon = self.cordoned.then(Taint::cordon);
        self.taints.iter().filter(|taint| taint.repels()).cloned().chain(cordon)
    }
}

/// The power draw of a node, in watts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Power {
    /// As soon as it is switched on. A node without pods can be switched off, and draws nothing.
    pub idle_watts: u32,
    /// In addition for each GPU in use.
    pub gpu_watts: u32,
}

/// A pod that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts about a pod that have nothing to do with each other"
)]
pub struct Pod {
    /// Its identity.
    pub key: PodKey,
    /// The gang it is a member of; a pod on its own is a gang of one.
    pub gang: GangKey,
    /// How many members must start together. Without it, those seen so far.
    pub gang_size: Option<u32>,
    /// The queue it names. Without it, the one queue that lists its namespace.
    pub queue: Option<QueueName>,
    /// What it asks for.
    pub requests: Resources,
    /// What it asks for of other resources.
    pub other_requests: OtherResources,
    /// The ports of the host that it takes.
    pub host_ports: HostPorts,
    /// The GPU types that are acceptable, sorted; any if empty. A gang gets GPUs of one of them.
    pub gpu_types: Vec<GpuType>,
    /// Higher comes first.
    pub priority: i32,
    /// Whether others give way to its priority. If not, its priority only orders it.
    pub preempts: bool,
    /// When it was created.
    pub created: Timestamp,
    /// The node it is bound to.
    pub node: Option<NodeName>,
    /// Whether it is being deleted; it holds what it has until it is gone.
    pub terminating: bool,
    /// Whether we are its scheduler.
    pub ours: bool,
    /// Labels its node must have.
    pub node_selector: BTreeMap<Arc<str>, Arc<str>>,
    /// What else it requires of its node's labels and name.
    pub node_affinity: Option<Arc<NodeAffinity>>,
    /// The abilities that its node must have.
    pub node_features: Features,
    /// Taints its node may have.
    pub tolerations: Vec<Toleration>,
    /// What it asks for and we cannot honour yet; such a pod is not placed.
    pub unsupported: Vec<String>,
    /// The Run it belongs to.
    pub run: Option<Arc<str>>,
    /// Its place within the gang.
    pub member_index: Option<u32>,
    /// Whether a scheduling gate holds it back.
    pub gated: bool,
    /// Whether something recreates it when it is gone.
    pub comes_back: bool,
    /// The controller that recreates it, if its successor is recognized by that: it has another name, and no index.
    #[serde(default)]
    pub controller: Option<Arc<str>>,
    /// How long it may take to end, once it is told to.
    pub grace_seconds: u32,
    /// What its gang asks beyond resources.
    pub terms: Arc<Terms>,
    /// The group within its gang.
    pub group: Option<Arc<str>>,
    /// What it asks of devices.
    pub device: DeviceAsk,
    /// The devices it has, where its node is Exact and it is bound.
    pub devices: Vec<DeviceUse>,
    /// Its labels, by which others select it.
    pub labels: LabelSet,
    /// What it asks of other pods.
    pub neighbours: Option<Arc<Neighbours>>,
    /// Since when it has a node.
    pub started: Option<Timestamp>,
    /// When it last saved its state.
    pub checkpointed: Option<Timestamp>,
}

impl Pod {
    /// The labels of nodes that it looks at; some perhaps more than once.
    pub(crate) fn label_keys(&self) -> impl Iterator<Item = &Arc<str>> {
        let in_affinity = self.node_affinity.iter().flat_map(|affinity| affinity.keys());
        self.node_selector.keys().chain(in_affinity)
    }

    /// A pod of ours that asks for nothing but its place, and waits for a node.
    pub fn new(key: PodKey, gang: GangKey) -> Self {
        Self {
            key,
            gang,
            gang_size: None,
            queue: None,
            requests: Resources { pods: 1, ..Resources::default() },
            other_requests: OtherResources::default(),
            host_ports: HostPorts::default(),
            gpu_types: Vec::new(),
            priority: 0,
            preempts: true,
            created: Timestamp::UNIX_EPOCH,
            node: None,
            terminating: false,
            ours: true,
            node_selector: BTreeMap::new(),
            node_affinity: None,
            node_features: Features::default(),
            tolerations: Vec::new(),
            unsupported: Vec::new(),
            run: None,
            member_index: None,
            gated: false,
            comes_back: true,
            controller: None,
            grace_seconds: 0,
            terms: Arc::default(),
            group: None,
            device: DeviceAsk::Whole,
            devices: Vec::new(),
            labels: LabelSet::default(),
            neighbours: None,
            started: None,
            checkpointed: None,
        }
    }
}

/// A place in the tree that governs who may hold how much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: QueueName,
    /// The queue above.
    pub parent: Option<QueueName>,
    /// Share of what is left over, relative to its siblings.
    pub weight: u32,
    /// What it owns.
    pub quota: Option<Amounts>,
    /// The most it may hold; resources that it leaves out are bounded by the quota.
    pub limit: Option<Amounts>,
    /// What others may use of its quota while it does not; `None` is all of it. A resource that it does not name is
    /// lent in full.
    pub lend: Option<Amounts>,
    /// How it takes back what others borrowed.
    pub reclaim: Reclaim,
    /// The time after which use counts half in the fair share.
    pub half_life_seconds: u32,
    /// Credits for unused quota.
    pub bank: Option<BankTerms>,
    /// The most urgent tier of gangs in it or below it.
    #[serde(default)]
    pub highest_tier: Option<Tier>,
    /// Whether its budget is spent: nothing in it or below it starts.
    pub out_of_budget: bool,
    /// The most that the machines bought for any one gang of it, or of a queue below, may cost per hour, in millionths of the
    /// currency.
    #[serde(default)]
    pub max_price_micros: Option<i64>,
    /// The most machines at a time that may be bought for gangs in it or below it.
    #[serde(default)]
    pub machines_max: Option<u32>,
    /// The most that those may cost per hour, in millionths of the currency.
    #[serde(default)]
    pub machines_per_hour_micros_max: Option<i64>,
    /// Namespaces whose pods may use it.
    pub namespaces: BTreeSet<Arc<str>>,
}

/// How a queue takes back what others borrowed, and how long its own borrowing gangs are left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reclaim {
    /// From the creation of a gang's oldest pod to the first eviction for it, if it is within quota and finds no
    /// nodes.
    pub grace_seconds: u32,
    /// How long a gang of this queue that borrows must have run before it may be reclaimed.
    pub min_run_seconds: u32,
}

impl Default for Reclaim {
    fn default() -> Self {
        Self { grace_seconds: 300, min_run_seconds: 0 }
    }
}

/// Unused quota earns credits, which pay for later bursts: while there is credit, use beyond the quota counts as
/// within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankTerms {
    /// Credits per unused GPU second, in thousandths.
    pub earn_millis: u32,
    /// The most credits, in GPU seconds.
    pub cap_gpu_seconds: u64,
}

impl Queue {
    /// A queue without bounds that is open to no namespace.
    pub fn new(name: impl Into<QueueName>) -> Self {
        Self {
            name: name.into(),
            parent: None,
            weight: 1,
            quota: None,
            limit: None,
            lend: None,
            reclaim: Reclaim::default(),
            half_life_seconds: HALF_LIFE_SECONDS_DEFAULT,
            bank: None,
            highest_tier: None,
            out_of_budget: false,
            max_price_micros: None,
            machines_max: None,
            machines_per_hour_micros_max: None,
            namespaces: BTreeSet::new(),
        }
    }

    /// The most the queue may hold of a resource, its children included; `None` is no bound. The limit decides if it
    /// names the resource, else the quota. A GPU type that neither names is zero as soon as one of them names any
    /// type.
    pub fn bound(&self, resource: &ResourceName) -> Option<i64> {
        let named = [&self.limit, &self.quota].into_iter().flatten();
        named.clone().find_map(|amounts| amounts.get(resource)).or_else(|| {
            let gpus_are_bounded = named.clone().any(|amounts| !amounts.gpus.is_empty());
            (matches!(resource, ResourceName::Gpu(_)) && gpus_are_bounded).then_some(0)
        })
    }
}

/// Amounts per resource of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// GPUs by type. Empty: GPUs are not bounded by it.
    pub gpus: BTreeMap<GpuType, i64>,
    /// CPU in thousandths of a core.
    pub cpu_millis: Option<i64>,
    /// Memory in bytes.
    pub memory_bytes: Option<i64>,
}

impl Amounts {
    /// The amount of a resource, if it is named.
    pub fn get(&self, resource: &ResourceName) -> Option<i64> {
        match resource {
            ResourceName::Gpu(gpu_type) => self.gpus.get(gpu_type).copied(),
            ResourceName::Cpu => self.cpu_millis,
            ResourceName::Memory => self.memory_bytes,
        }
    }
}

/// A resource that a queue's quota bounds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ResourceName {
    /// GPUs of one type.
    Gpu(GpuType),
    /// CPU, counted in thousandths of a core.
    Cpu,
    /// Memory, counted in bytes.
    Memory,
}

impl ResourceName {
    /// A type of GPUs, `cpu` or `memory`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Gpu(gpu_type) => gpu_type.as_str(),
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
