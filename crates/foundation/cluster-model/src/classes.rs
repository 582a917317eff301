//! Classes of nodes: what fits on one node of a class fits on each.
//!
//! ```text
//!   kind    GPU type, taints, labels that pods select by, spot, power, what it has        changes with the node
//!    └─ class   … and what is free of it, down to the states of its devices and to ports   changes with each pod
//!        └─ nodes, in the order of place
//! ```
//!
//! A node changes its class with every pod that comes or goes, at O(log n). While a fork is open, the numbers of
//! classes are stable: a class that lost its last node in a fork may get it back when the fork is undone.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::devices::DeviceState;
use crate::features::Features;
use crate::hash::QuickHash;
use crate::names::GpuType;
use crate::nodes::NodeId;
use crate::objects::{Power, Resources};
use crate::other_resources::Extras;
use crate::slots::Slots;
use crate::taints::Taint;

/// A kind's number. It is valid until the next change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub(crate) u32);

/// A class's number. It is valid until the next change is applied. Its order means nothing: break ties by what the
/// class is, or by the place of its first node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub(crate) u32);

impl ClassId {
    /// The number, as an index of tables: numbers stay small.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a class is, for code that keeps an order of classes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassContent {
    kind: Arc<NodeKind>,
    key: ClassKey,
}

/// Entries of the log. A reader that was away for longer reads all classes again.
const LOG_MAX: usize = 1 << 16;

/// Classes that got nodes after they had none, in order: what is new for code that keeps an order of classes. A
/// number in it may be invalid by now, or belong to another class, which then was born later.
#[derive(Clone, Debug, Default)]
pub struct ClassLog {
    start: u64,
    filled: VecDeque<ClassId>,
}

impl ClassLog {
    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.start + self.filled.len() as u64
    }

    /// What was written since it ended there; `None` if some of that is forgotten.
    pub fn since(&self, end: u64) -> Option<impl Iterator<Item = ClassId>> {
        let skip = usize::try_from(end.checked_sub(self.start)?).ok()?;
        Some(self.filled.range(skip.min(self.filled.len())..).copied())
    }

    fn write(&mut self, class: ClassId) {
        self.filled.push_back(class);
        if self.filled.len() > LOG_MAX {
            self.filled.pop_front();
            self.start += 1;
        }
    }
}

/// What nodes have in common that differ only in name, in place and in what is in use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeKind {
    /// The type of their GPUs; `None`, which sorts first, for nodes without any.
    pub gpu_type: Option<GpuType>,
    /// What they have.
    pub allocatable: Resources,
    /// Their taints that repel pods, sorted; a cordon is among them even if it is not written as a taint.
    pub taints: Vec<Taint>,
    /// Those of their labels that split kinds; see [`crate::ClusterState::label_splits_kinds`].
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Their abilities.
    pub features: Features,
    /// Whether they can be taken away at short notice.
    pub spot: bool,
    /// Their power draw.
    pub power: Option<Power>,
    /// Whether their devices are known one by one.
    pub exact: bool,
}

/// Nodes of one kind that take pods and have the same resources free.
#[derive(Clone, Debug)]
pub struct NodeClass {
    kind: Arc<NodeKind>,
    kind_id: KindId,
    key: ClassKey,
    born: u64,
    pub(crate) nodes: BTreeSet<(u64, NodeId)>,
}

impl NodeClass {
    /// What its nodes are.
    pub fn kind(&self) -> &NodeKind {
        &self.kind
    }

    /// The number of their kind.
    pub fn kind_id(&self) -> KindId {
        self.kind_id
    }

    /// What is free of each.
    pub fn free(&self) -> Resources {
        self.key.free
    }

    /// The states of the devices of each, sorted: which device of a node is in which state differs from node to node. Empty
    /// if they are Counted.
    pub fn devices(&self) -> &[DeviceState] {
        &self.key.devices
    }

    /// What else is free or taken on each: resources that some pod asks for, and ports.
    pub fn extras(&self) -> Option<&Extras> {
        self.key.extras.as_deref()
    }

    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it has none; only in a fork, for a class that had some before.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Its nodes, in the order of place.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> {
        self.nodes.iter().map(|(_, node)| *node)
    }

    /// What it is, as a value to keep.
    pub fn content(&self) -> ClassContent {
        ClassContent { kind: self.kind.clone(), key: self.key.clone() }
    }

    /// Distinguishes it from earlier and later classes with its number; never zero.
    pub fn born(&self) -> u64 {
        self.born
    }

    /// Sorts classes by what they are: by kind, then by what is free.
    pub fn compare(&self, other: &Self) -> Ordering {
        let by_kind =
            if self.kind_id == other.kind_id { Ordering::Equal } else { self.kind.cmp(&other.kind) };
        by_kind.then_with(|| self.key.cmp(&other.key))
    }
}

/// What distinguishes a class within its kind. Free GPUs lead the order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassKey {
    pub free: Resources,
    pub devices: Vec<DeviceState>,
    /// `None` where there are none, as almost everywhere.
    pub extras: Option<Arc<Extras>>,
}

#[derive(Clone, Debug)]
struct Kind {
    what: Arc<NodeKind>,
    nodes: u32,
    /// Free GPUs on its nodes; an overcommitted node counts as none.
    gpus_free: i64,
    /// Classes that have nodes.
    classes: BTreeMap<ClassKey, ClassId>,
}

/// All kinds and classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    kinds: Slots<Kind>,
    by_kind: BTreeMap<Arc<NodeKind>, KindId>,
    slots: Slots<NodeClass>,
    /// Classes that lost their last node while a fork is open, and keep their number until it ends.
    dormant: HashMap<(KindId, ClassKey), ClassId, QuickHash>,
    retired: Vec<ClassId>,
    log: ClassLog,
    births: u64,
    /// How many kinds there are of each GPU type.
    gpu_types: BTreeMap<GpuType, u32>,
}

impl Classes {
    pub fn get(&self, id: ClassId) -> &NodeClass {
        self.slots.get(id.0)
    }

    /// Whether the number is in use.
    pub fn has(&self, id: ClassId) -> bool {
        self.slots.find(id.0).is_some()
    }

    pub fn gpu_types(&self) -> impl Iterator<Item = &GpuType> {
        self.gpu_types.keys()
    }

    pub fn log(&self) -> &ClassLog {
        &self.log
    }

    pub fn kind(&self, id: KindId) -> &NodeKind {
        &self.kinds.get(id.0).what
    }

    pub fn gpus_free_of(&self, id: KindId) -> i64 {
        self.kinds.get(id.0).gpus_free
    }

    /// Adds to the free GPUs on the nodes of a kind (or takes from them, below zero).
    pub fn add_free(&mut self, id: KindId, gpus: i64) {
        self.kinds.get_mut(id.0).gpus_free += gpus;
    }

    pub fn kinds(&self) -> impl Iterator<Item = (KindId, &NodeKind)> {
        self.by_kind.values().map(|id| (*id, self.kind(*id)))
    }

    /// Classes of one kind with at least this many free GPUs, those with the fewest first.
    pub fn of_kind(
        &self,
        kind: KindId,
        gpus_free: i64,
    ) -> impl DoubleEndedIterator<Item = (ClassId, &NodeClass)> {
        let (cpu_millis, memory_bytes, pods) = (i64::MIN, i64::MIN, i64::MIN);
        let free = Resources { gpus: gpus_free, cpu_millis, memory_bytes, pods };
        let first = ClassKey { free, devices: Vec::new(), extras: None };
        self.kinds.get(kind.0).classes.range(first..).map(|(_, id)| (*id, self.get(*id)))
    }

    /// Adds a node to a kind, and returns the kind's number.
    pub fn enter_kind(&mut self, kind: NodeKind) -> KindId {
        if let Some(id) = self.by_kind.get(&kind) {
            self.kinds.get_mut(id.0).nodes += 1;
            return *id;
        }
        if let Some(gpu_type) = &kind.gpu_type {
            *self.gpu_types.entry(gpu_type.clone()).or_default() += 1;
        }
        let kind = Arc::new(kind);
        let id = KindId(self.kinds.insert(Kind {
            what: kind.clone(),
            nodes: 1,
            gpus_free: 0,
            classes: BTreeMap::new(),
        }));
        self.by_kind.insert(kind, id);
        id
    }

    pub fn leave_kind(&mut self, id: KindId) {
        let kind = self.kinds.get_mut(id.0);
        kind.nodes -= 1;
        if kind.nodes == 0 {
            let kind = self.kinds.remove(id.0);
            self.by_kind.remove(&kind.what);
            if let Some(gpu_type) = &kind.what.gpu_type
                && let Some(kinds) = self.gpu_types.get_mut(gpu_type)
            {
                *kinds -= 1;
                if *kinds == 0 {
                    self.gpu_types.remove(gpu_type);
                }
            }
        }
    }

    /// Puts a node into the class of its kind with these resources free.
    pub fn insert(&mut self, kind: KindId, key: ClassKey, rank: u64, node: NodeId) -> ClassId {
        let id = self.id_or_new(kind, key);
        self.slots.get_mut(id.0).nodes.insert((rank, node));
        id
    }

    /// Takes a node out of its class. With `keep` the class keeps its number even without nodes.
    pub fn remove(&mut self, id: ClassId, rank: u64, node: NodeId, keep: bool) {
        let class = self.slots.get_mut(id.0);
        class.nodes.remove(&(rank, node));
        if !class.nodes.is_empty() {
            return;
        }
        self.kinds.get_mut(class.kind_id.0).classes.remove(&class.key);
        if keep {
            self.dormant.insert((class.kind_id, class.key.clone()), id);
            self.retired.push(id);
        } else {
            self.slots.remove(id.0);
        }
    }

    /// The last fork ended: classes without nodes are not needed any more.
    pub fn drop_dormant(&mut self) {
        for id in std::mem::take(&mut self.retired) {
            if let Some(class) = self.slots.find_mut(id.0).filter(|class| class.nodes.is_empty()) {
                self.dormant.remove(&(class.kind_id, class.key.clone()));
                self.slots.remove(id.0);
            }
        }
        debug_assert!(self.dormant.is_empty(), "a class without nodes has lost its last one in a fork");
    }

    pub fn change_rank(&mut self, id: ClassId, node: NodeId, old: u64, new: u64) {
        let class = self.slots.get_mut(id.0);
        class.nodes.remove(&(old, node));
        class.nodes.insert((new, node));
    }

    fn id_or_new(&mut self, kind_id: KindId, key: ClassKey) -> ClassId {
        let kind = self.kinds.get_mut(kind_id.0);
        if let Some(id) = kind.classes.get(&key) {
            return *id;
        }
        let sleeping =
            if self.retired.is_empty() { None } else { self.dormant.remove(&(kind_id, key.clone())) };
        let id = sleeping.unwrap_or_else(|| {
            let (kind, key) = (kind.what.clone(), key.clone());
            self.births += 1;
            let class = NodeClass { kind, kind_id, key, born: self.births, nodes: BTreeSet::new() };
            ClassId(self.slots.insert(class))
        });
        self.log.write(id);
        kind.classes.insert(key, id);
        id
    }
}
