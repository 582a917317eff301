//! The tree of queues, and what each holds.
//!
//! A queue may be named (as a parent) before it is there, so the tree has entries without an object. What a pod
//! holds is added along the whole chain of ancestors at once; when a queue moves, what it holds moves with it.
//! Parents that lead back to where one came from are cut: every queue on such a ring counts as a root until the
//! ring is opened, and nothing is placed below it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::names::{GpuType, QueueName};
use crate::objects::{Pod, Queue, ResourceName};
use crate::plan::WaitReason;
use crate::slots::Slots;

/// How many queues may lie between a gang and the root of the tree. Organisations are shallow; a chain longer
/// than this is a mistake, and each of its queues would cost time in every decision.
pub const QUEUE_DEPTH_MAX: usize = 32;

/// What a queue and the queues below it hold, and how many of their gangs run and wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueUsage {
    /// GPUs held, by type; no type is zero.
    pub gpus: BTreeMap<GpuType, i64>,
    /// CPU held, in thousandths of a core.
    pub cpu_millis: i64,
    /// Memory held, in bytes.
    pub memory_bytes: i64,
    /// Pods that hold something.
    pub pods: i64,
    /// Gangs of which at least one member has a node.
    pub gangs_running: i64,
    /// Gangs of which at least one member waits for a node.
    pub gangs_waiting: i64,
}

impl QueueUsage {
    /// How much is held of a resource, in its unit.
    pub fn held(&self, resource: &ResourceName) -> i64 {
        match resource {
            ResourceName::Gpu(gpu_type) => self.gpus.get(gpu_type).copied().unwrap_or(0),
            ResourceName::Cpu => self.cpu_millis,
            ResourceName::Memory => self.memory_bytes,
        }
    }

    /// What one gang or pod adds, times `sign` (1 or −1).
    pub(crate) fn add(&mut self, other: &Self, sign: i64) {
        for (gpu_type, gpus) in &other.gpus {
            let held = self.gpus.entry(gpu_type.clone()).or_default();
            *held += sign * gpus;
            if *held == 0 {
                self.gpus.remove(gpu_type);
            }
        }
        self.cpu_millis += sign * other.cpu_millis;
        self.memory_bytes += sign * other.memory_bytes;
        self.pods += sign * other.pods;
        self.gangs_running += sign * other.gangs_running;
        self.gangs_waiting += sign * other.gangs_waiting;
    }
}

/// A queue and its ancestors, from the queue to the root, with what each holds.
pub type QueueChain<'a> = Vec<(&'a Queue, &'a QueueUsage)>;

#[derive(Clone, Debug)]
struct Entry {
    name: QueueName,
    object: Option<Queue>,
    /// The entry of the parent that the object names.
    parent: Option<u32>,
    /// Whether the parent is left out of account, because the chain of parents leads back here.
    on_ring: bool,
    children: u32,
    own: QueueUsage,
    total: QueueUsage,
}

/// A queue's number inside the model.
pub(crate) type QueueSlot = u32;

#[derive(Clone, Debug, Default)]
pub(crate) struct Queues {
    entries: Slots<Entry>,
    by_name: BTreeMap<QueueName, QueueSlot>,
    by_namespace: HashMap<Arc<str>, BTreeSet<QueueName>>,
    rings: usize,
}

impl Queues {
    /// The queue that a pod names, else the only one that is open to its namespace; it must be open to it either way.
    /// Whether the pod is charged there at all is not decided here.
    pub fn of_pod(&self, pod: &Pod) -> Result<QueueSlot, WaitReason> {
        let namespace = &pod.key.namespace;
        let name = match &pod.queue {
            Some(name) => name,
            None => self.only_queue_of(namespace)?,
        };
        let found = self.by_name.get(name).map(|slot| (*slot, self.entries.get(*slot)));
        match found.and_then(|(slot, entry)| Some((slot, entry.object.as_ref()?))) {
            None => Err(WaitReason::QueueUnknown { queue: name.clone(), child: None }),
            Some((slot, queue)) if queue.namespaces.contains(namespace) => Ok(slot),
            // A label costs nothing to write: who may use a queue is for the queue to say.
            Some(_) => Err(WaitReason::QueueNotOpen { queue: name.clone(), namespace: namespace.clone() }),
        }
    }

    fn only_queue_of(&self, namespace: &Arc<str>) -> Result<&QueueName, WaitReason> {
        let mut queues = self.by_namespace.get(namespace).into_iter().flatten();
        match (queues.next(), queues.next()) {
            (None, _) => Err(WaitReason::NoQueue { namespace: namespace.clone() }),
            (Some(queue), None) => Ok(queue),
            (Some(_), Some(_)) => Err(WaitReason::SeveralQueues {
                namespace: namespace.clone(),
                queues: self.by_namespace[namespace].iter().cloned().collect(),
            }),
        }
    }

    pub fn name(&self, slot: QueueSlot) -> &QueueName {
        &self.entries.get(slot).name
    }

    /// The queue and its ancestors, if the chain is sound.
    pub fn chain(&self, slot: QueueSlot) -> Result<QueueChain<'_>, WaitReason> {
        let mut chain = QueueChain::new();
        let mut next = Some(slot);
        while let Some(slot) = next {
            let entry = self.entries.get(slot);
            let Some(queue) = &entry.object else {
                let child = chain.last().map(|(queue, _)| queue.name.clone());
                return Err(WaitReason::QueueUnknown { queue: entry.name.clone(), child });
            };
            if entry.on_ring {
                return Err(WaitReason::QueueCycle { queue: entry.name.clone() });
            }
            if chain.len() == QUEUE_DEPTH_MAX {
                let queue = chain[0].0.name.clone();
                return Err(WaitReason::QueueTooDeep { queue, depth_max: QUEUE_DEPTH_MAX });
            }
            chain.push((queue, &entry.total));
            next = entry.parent;
        }
        Ok(chain)
    }

    /// Adds to (or with −1 takes from) what the queue and its ancestors hold.
    pub fn charge(&mut self, slot: QueueSlot, usage: &QueueUsage, sign: i64) {
        self.entries.get_mut(slot).own.add(usage, sign);
        self.add_along_chain(Some(slot), usage, sign);
    }

    /// Puts a queue in place, or takes it away with `None`.
    pub fn set_object(&mut self, name: &QueueName, object: Option<Queue>) {
        let slot = self.slot_or_new(name);
        self.set_namespaces(slot, object.as_ref());
        let parent = object.as_ref().and_then(|queue| queue.parent.clone());
        self.entries.get_mut(slot).object = object;
        let old_parent = self.entries.get(slot).parent;
        if old_parent.map(|parent| self.name(parent)) != parent.as_ref() {
            let new_parent = parent.map(|parent| self.slot_or_new(&parent));
            self.set_parent(slot, new_parent);
        }
        // A queue may have been its own parent.
        for slot in BTreeSet::from_iter([Some(slot), old_parent]).into_iter().flatten() {
            self.drop_if_unused(slot);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Queue, &QueueUsage)> {
        self.by_name.values().filter_map(|slot| {
            let entry = self.entries.get(*slot);
            Some((entry.object.as_ref()?, &entry.total))
        })
    }

    pub fn get(&self, name: &QueueName) -> Option<(&Queue, &QueueUsage)> {
        let entry = self.entries.get(*self.by_name.get(name)?);
        Some((entry.object.as_ref()?, &entry.total))
    }

    /// What the queue itself holds, without the queues below it.
    pub fn own_usage(&self, name: &QueueName) -> Option<&QueueUsage> {
        Some(&self.entries.get(*self.by_name.get(name)?).own)
    }

    fn slot_or_new(&mut self, name: &QueueName) -> QueueSlot {
        if let Some(slot) = self.by_name.get(name) {
            return *slot;
        }
        let slot = self.entries.insert(Entry {
            name: name.clone(),
            object: None,
            parent: None,
            on_ring: false,
            children: 0,
            own: QueueUsage::default(),
            total: QueueUsage::default(),
        });
        self.by_name.insert(name.clone(), slot);
        slot
    }

    fn drop_if_unused(&mut self, slot: QueueSlot) {
        let entry = self.entries.get(slot);
        if entry.object.is_none() && entry.children == 0 && entry.own == QueueUsage::default() {
            let entry = self.entries.remove(slot);
            self.by_name.remove(&entry.name);
        }
    }

    fn set_namespaces(&mut self, slot: QueueSlot, object: Option<&Queue>) {
        let entry = self.entries.get(slot);
        for namespace in entry.object.iter().flat_map(|queue| &queue.namespaces) {
            let queues =
                self.by_namespace.get_mut(namespace).expect("a namespace that a queue lists is known");
            queues.remove(&entry.name);
            if queues.is_empty() {
                self.by_namespace.remove(namespace);
            }
        }
        for namespace in object.iter().flat_map(|queue| &queue.namespaces) {
            self.by_namespace.entry(namespace.clone()).or_default().insert(entry.name.clone());
        }
    }

    fn set_parent(&mut self, slot: QueueSlot, parent: Option<QueueSlot>) {
        let old = std::mem::replace(&mut self.entries.get_mut(slot).parent, parent);
        if let Some(parent) = parent {
            self.entries.get_mut(parent).children += 1;
        }
        if self.rings > 0 || self.is_on_ring(slot) {
            // A ring opens or closes: rare enough to count everything again.
            self.recount();
        } else {
            let total = self.entries.get(slot).total.clone();
            self.add_along_chain(old, &total, -1);
            self.add_along_chain(parent, &total, 1);
        }
        if let Some(old) = old {
            self.entries.get_mut(old).children -= 1;
        }
    }

    fn add_along_chain(&mut self, from: Option<QueueSlot>, usage: &QueueUsage, sign: i64) {
        let mut next = from;
        while let Some(slot) = next {
            let entry = self.entries.get_mut(slot);
            entry.total.add(usage, sign);
            next = if entry.on_ring { None } else { entry.parent };
        }
    }

    /// Whether the parents of a queue lead back to it. Bounded by the number of queues: a chain longer than that
    /// runs in a ring further up.
    fn is_on_ring(&self, slot: QueueSlot) -> bool {
        let mut next = self.entries.get(slot).parent;
        for _ in 0..self.by_name.len() {
            match next {
                None => return false,
                Some(ancestor) if ancestor == slot => return true,
                Some(ancestor) => next = self.entries.get(ancestor).parent,
            }
        }
        false
    }

    fn recount(&mut self) {
        let slots: Vec<QueueSlot> = self.by_name.values().copied().collect();
        self.rings = 0;
        for &slot in &slots {
            let on_ring = self.is_on_ring(slot);
            self.rings += usize::from(on_ring);
            let entry = self.entries.get_mut(slot);
            entry.on_ring = on_ring;
            entry.total = QueueUsage::default();
        }
        for &slot in &slots {
            let own = self.entries.get(slot).own.clone();
            self.add_along_chain(Some(slot), &own, 1);
        }
    }
}
