//! The tree of queues, and what each holds.
//!
//! A queue may be named (as a parent) before it is there, so the tree has entries without an object. What a pod holds
//! is added along the whole chain of ancestors at once; when a queue moves, what it holds moves with it. A ring of
//! parents is cut: every queue on it counts as a root until the ring is opened, and nothing is placed below it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::decay::{Accounts, Rates, SavedAccounts};
use crate::names::{GpuType, QueueName};
use crate::objects::{Pod, Queue, ResourceName};
use crate::plan::WaitReason;
use crate::slots::Slots;

/// How many queues may be between a gang and the root of the tree. Organisations are shallow; a chain longer
/// than this is a mistake, and each of its queues would cost time in every decision.
pub const QUEUE_DEPTH_MAX: usize = 32;

/// What a queue and the queues below it hold, and how many of their gangs run and wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueUsage {
    /// Whole GPUs held, by type; no type is zero.
    pub gpus: BTreeMap<GpuType, i64>,
    /// Shares of devices and MIG instances held, in thousandths of a device.
    pub gpu_share_millis: i64,
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

    /// What one pod holds, times `sign` (1 or −1).
    fn add_charge(&mut self, charge: &Charge, sign: i64) {
        if let Some((gpu_type, gpus)) = &charge.gpus {
            match self.gpus.get_mut(gpu_type) {
                Some(held) => {
                    *held += sign * gpus;
                    if *held == 0 {
                        self.gpus.remove(gpu_type);
                    }
                }
                None => drop(self.gpus.insert(gpu_type.clone(), sign * gpus)),
            }
        }
        self.gpu_share_millis += sign * charge.gpu_share_millis;
        self.cpu_millis += sign * charge.cpu_millis;
        self.memory_bytes += sign * charge.memory_bytes;
        self.pods += sign;
    }

    /// What others hold, times `sign` (1 or −1).
    fn add(&mut self, other: &Self, sign: i64) {
        for (gpu_type, gpus) in &other.gpus {
            let held = self.gpus.entry(gpu_type.clone()).or_default();
            *held += sign * gpus;
            if *held == 0 {
                self.gpus.remove(gpu_type);
            }
        }
        self.gpu_share_millis += sign * other.gpu_share_millis;
        self.cpu_millis += sign * other.cpu_millis;
        self.memory_bytes += sign * other.memory_bytes;
        self.pods += sign * other.pods;
        self.gangs_running += sign * other.gangs_running;
        self.gangs_waiting += sign * other.gangs_waiting;
    }
}

/// What one pod is charged, and to which queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub queue: QueueSlot,
    pub gpus: Option<(GpuType, i64)>,
    pub gpu_share_millis: i64,
    pub cpu_millis: i64,
    pub memory_bytes: i64,
}

/// A queue and its ancestors, from the queue to the root, with what each holds.
pub type QueueChain<'a> = Vec<(&'a Queue, &'a QueueUsage)>;

#[derive(Clone, Debug)]
struct Entry {
    name: QueueName,
    object: Option<Queue>,
    /// The entry of the parent that the object names.
    parent: Option<u32>,
    /// Whether the parent is ignored, because the chain of parents leads back here.
    on_ring: bool,
    children: BTreeSet<(QueueName, QueueSlot)>,
    own: QueueUsage,
    total: QueueUsage,
    /// What it owns and neither holds nor lends, by resource.
    keeps: Vec<(ResourceName, i64)>,
    /// The sum of what its children keep.
    children_keep: BTreeMap<ResourceName, i64>,
    /// As of the last time that the rates changed.
    accounts: Accounts,
    /// Whether the rates may differ from those in the accounts from now on.
    is_stale: bool,
}

/// A queue's number inside the model.
pub(crate) type QueueSlot = u32;

#[derive(Clone, Debug, Default)]
pub(crate) struct Queues {
    entries: Slots<Entry>,
    by_name: BTreeMap<QueueName, QueueSlot>,
    by_namespace: HashMap<Arc<str>, BTreeSet<QueueName>>,
    rings: usize,
    now: Timestamp,
    /// Queues whose rates may have changed since time last advanced.
    stale: Vec<QueueSlot>,
}

impl Queues {
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Advances the time. What was held until now goes into the accounts; costs O(queues that changed).
    pub fn advance(&mut self, now: Timestamp) {
        if now <= self.now {
            return;
        }
        for slot in std::mem::take(&mut self.stale) {
            // It may be gone, and its number given to another queue, which then is brought up to date too early. That
            // does no harm.
            let Some(entry) = self.entries.find_mut(slot) else { continue };
            entry.is_stale = false;
            let rates = entry.rates();
            if rates != entry.accounts.rates {
                entry.accounts.settle(self.now, rates);
            }
        }
        self.now = now;
    }

    pub fn decayed_gpu_milliseconds(&self, name: &QueueName) -> u64 {
        self.entry(name).map_or(0, |entry| entry.accounts.decayed_gpu_milliseconds(self.now))
    }

    pub fn decayed_beyond_quota_gpu_milliseconds(&self, name: &QueueName) -> u64 {
        self.entry(name).map_or(0, |entry| entry.accounts.beyond_gpu_milliseconds(self.now))
    }

    /// Fading use, the same beyond the quota, and savings, to the last digit.
    pub fn accounts_exactly(&self, name: &QueueName) -> (u128, u128, i128) {
        self.entry(name).map(|entry| entry.accounts.exactly(self.now)).unwrap_or_default()
    }

    pub fn bank_gpu_seconds(&self, name: &QueueName) -> i64 {
        self.entry(name).map_or(0, |entry| entry.accounts.bank_gpu_seconds(self.now))
    }

    pub fn bank_empty_at(&self, name: &QueueName) -> Option<Timestamp> {
        self.entry(name)?.accounts.bank_empty_at(self.now)
    }

    pub fn saved_accounts(&self, name: &QueueName) -> Option<SavedAccounts> {
        self.entry(name).map(|entry| entry.accounts.save())
    }

    pub fn restore_accounts(&mut self, name: &QueueName, saved: &SavedAccounts) {
        if let Some(slot) = self.slot(name) {
            let entry = self.entries.get_mut(slot);
            entry.accounts = Accounts::restore(saved, entry.rates(), self.now);
        }
    }

    /// What the children of a queue keep for themselves: quota that they neither hold nor lend.
    pub fn lent_reserve(&self, name: &QueueName, resource: &ResourceName) -> i64 {
        self.entry(name).and_then(|entry| entry.children_keep.get(resource)).copied().unwrap_or(0)
    }

    /// The same for every resource.
    pub fn children_keep(&self, name: &QueueName) -> Option<&BTreeMap<ResourceName, i64>> {
        self.entry(name).map(|entry| &entry.children_keep)
    }

    /// The queues below one, by name; for `None` those without a parent.
    pub fn children(&self, parent: Option<&QueueName>) -> impl Iterator<Item = (&Queue, &QueueUsage)> {
        let below = parent.map(|name| self.entry(name).into_iter().flat_map(|entry| &entry.children));
        let roots = parent.is_none().then(|| self.by_name.values());
        let below = below.into_iter().flatten().map(|(_, slot)| *slot);
        let is_root = |slot: &&QueueSlot| self.entries.get(**slot).parent.is_none();
        let roots = roots.into_iter().flatten().filter(is_root).copied();
        below.chain(roots).filter_map(|slot| {
            let entry = self.entries.get(slot);
            Some((entry.object.as_ref()?, &entry.total))
        })
    }

    /// The accounts of all queues, including those that are only named.
    pub fn accounts(&self) -> impl Iterator<Item = (&QueueName, &Accounts)> {
        self.by_name.iter().map(|(name, slot)| (name, &self.entries.get(*slot).accounts))
    }

    /// Restores accounts as they were, at the time for which they were computed.
    pub fn put_accounts(&mut self, accounts: Vec<(QueueName, Accounts)>, now: Timestamp) {
        self.now = now;
        for (name, accounts) in accounts {
            if let Some(slot) = self.slot(&name) {
                self.entries.get_mut(slot).accounts = accounts;
                self.mark_stale(slot);
            }
        }
    }

    fn entry(&self, name: &QueueName) -> Option<&Entry> {
        self.by_name.get(name).map(|slot| self.entries.get(*slot))
    }

    fn mark_stale(&mut self, slot: QueueSlot) {
        let entry = self.entries.get_mut(slot);
        if !std::mem::replace(&mut entry.is_stale, true) {
            self.stale.push(slot);
        }
    }

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
            // A label costs nothing to write, so the queue says who may use it.
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

    pub fn slot(&self, name: &QueueName) -> Option<QueueSlot> {
        self.by_name.get(name).copied()
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
    pub fn charge(&mut self, charge: &Charge, sign: i64) {
        self.entries.get_mut(charge.queue).own.add_charge(charge, sign);
        self.along_chain(Some(charge.queue), |usage| usage.add_charge(charge, sign));
    }

    /// Counts a gang in the queue and its ancestors (or with −1 stops counting it).
    pub fn count_gang(&mut self, slot: QueueSlot, running: bool, waiting: bool, sign: i64) {
        let count = |usage: &mut QueueUsage| {
            usage.gangs_running += sign * i64::from(running);
            usage.gangs_waiting += sign * i64::from(waiting);
        };
        count(&mut self.entries.get_mut(slot).own);
        let mut next = Some(slot);
        while let Some(slot) = next {
            let entry = self.entries.get_mut(slot);
            count(&mut entry.total);
            next = if entry.on_ring { None } else { entry.parent };
        }
    }

    /// Sets a queue, or removes it with `None`.
    pub fn set_object(&mut self, name: &QueueName, object: Option<Queue>) {
        let slot = self.slot_or_new(name);
        self.set_namespaces(slot, object.as_ref());
        let parent = object.as_ref().and_then(|queue| queue.parent.clone());
        self.entries.get_mut(slot).object = object;
        self.mark_stale(slot);
        let old_parent = self.entries.get(slot).parent;
        if old_parent.map(|parent| self.name(parent)) != parent.as_ref() {
            let new_parent = parent.map(|parent| self.slot_or_new(&parent));
            self.set_parent(slot, new_parent);
        }
        self.count_kept(slot);
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
            children: BTreeSet::new(),
            own: QueueUsage::default(),
            total: QueueUsage::default(),
            keeps: Vec::new(),
            children_keep: BTreeMap::new(),
            accounts: Accounts::new(self.now, Rates::default()),
            is_stale: false,
        });
        self.by_name.insert(name.clone(), slot);
        slot
    }

    fn drop_if_unused(&mut self, slot: QueueSlot) {
        let entry = self.entries.get(slot);
        if entry.object.is_none() && entry.children.is_empty() && entry.own == QueueUsage::default() {
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
        let child = (self.name(slot).clone(), slot);
        let kept = self.entries.get(slot).keeps.clone();
        self.add_kept(old, &kept, -1);
        self.add_kept(parent, &kept, 1);
        if let Some(parent) = parent {
            self.entries.get_mut(parent).children.insert(child.clone());
        }
        if self.rings > 0 || self.is_on_ring(slot) {
            // A ring opens or closes: rare enough to count everything again.
            self.recount();
        } else {
            let total = self.entries.get(slot).total.clone();
            self.along_chain(old, |usage| usage.add(&total, -1));
            self.along_chain(parent, |usage| usage.add(&total, 1));
        }
        if let Some(old) = old {
            self.entries.get_mut(old).children.remove(&child);
        }
    }

    /// Changes what a queue and its ancestors hold.
    fn along_chain(&mut self, from: Option<QueueSlot>, change: impl Fn(&mut QueueUsage)) {
        let mut next = from;
        while let Some(slot) = next {
            let entry = self.entries.get_mut(slot);
            change(&mut entry.total);
            if !entry.is_stale {
                entry.is_stale = true;
                self.stale.push(slot);
            }
            next = if entry.on_ring { None } else { entry.parent };
            if entry.object.as_ref().is_some_and(|queue| queue.lend.is_some()) {
                self.count_kept(slot);
            }
        }
    }

    /// Brings up to date what a queue keeps for itself, and the sum at its parent.
    fn count_kept(&mut self, slot: QueueSlot) {
        let entry = self.entries.get(slot);
        let kept = entry.object.as_ref().map(|queue| kept(queue, &entry.total)).unwrap_or_default();
        let parent = entry.parent;
        let old = std::mem::replace(&mut self.entries.get_mut(slot).keeps, kept);
        self.add_kept(parent, &old, -1);
        let new = self.entries.get(slot).keeps.clone();
        self.add_kept(parent, &new, 1);
    }

    fn add_kept(&mut self, parent: Option<QueueSlot>, kept: &[(ResourceName, i64)], sign: i64) {
        let Some(parent) = parent.filter(|_| !kept.is_empty()) else { return };
        let sums = &mut self.entries.get_mut(parent).children_keep;
        for (resource, amount) in kept {
            let sum = sums.entry(resource.clone()).or_default();
            *sum += sign * amount;
            if *sum == 0 {
                sums.remove(resource);
            }
        }
    }

    /// Whether the parents of a queue lead back to it. Bounded by the number of queues: a longer chain runs in a ring
    /// further up.
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
            self.mark_stale(slot);
        }
        for &slot in &slots {
            let own = self.entries.get(slot).own.clone();
            self.along_chain(Some(slot), |usage| usage.add(&own, 1));
        }
        for &slot in &slots {
            self.count_kept(slot);
        }
    }
}

impl Entry {
    /// What is held and saved at present, per unit of time. A hold for a gang that has not started counts, because no
    /// other gang can use it.
    fn rates(&self) -> Rates {
        let gpus: i64 = self.total.gpus.values().sum();
        let quota = self.object.as_ref().and_then(|queue| queue.quota.as_ref()).map(|quota| &quota.gpus);
        let owned = |gpu_type: &GpuType| quota.and_then(|quota| quota.get(gpu_type)).copied().unwrap_or(0);
        let held = |gpu_type: &GpuType| self.total.gpus.get(gpu_type).copied().unwrap_or(0);
        let beyond: i64 =
            self.total.gpus.iter().map(|(gpu_type, held)| (held - owned(gpu_type)).max(0)).sum();
        let mut rates = Rates {
            gpu_millis: gpus.saturating_mul(1000).saturating_add(self.total.gpu_share_millis),
            beyond_millis: beyond.saturating_mul(1000).saturating_add(self.total.gpu_share_millis),
            half_life_seconds: self.object.as_ref().map_or(0, |queue| queue.half_life_seconds),
            ..Rates::default()
        };
        let Some(bank) = self.object.as_ref().and_then(|queue| queue.bank) else { return rates };
        let unused: i64 = quota
            .into_iter()
            .flatten()
            .map(|(gpu_type, quota)| quota.saturating_sub(held(gpu_type)).max(0))
            .sum();
        // Thousandths per second are millionths per millisecond.
        rates.bank_per_millisecond = unused * i64::from(bank.earn_millis) - beyond * 1000;
        rates.bank_cap_gpu_seconds = bank.cap_gpu_seconds;
        rates
    }
}

/// Quota that a queue neither holds nor lends, by resource; nothing if it lends all.
fn kept(queue: &Queue, usage: &QueueUsage) -> Vec<(ResourceName, i64)> {
    let (Some(quota), Some(lend)) = (&queue.quota, &queue.lend) else { return Vec::new() };
    let gpus = quota.gpus.keys().cloned().map(ResourceName::Gpu);
    let keeps = |resource: &ResourceName| {
        let kept =
            quota.get(resource)?.saturating_sub(lend.get(resource)?).saturating_sub(usage.held(resource));
        Some(kept).filter(|kept| *kept > 0)
    };
    let resources = gpus.chain([ResourceName::Cpu, ResourceName::Memory]);
    resources
        .filter_map(|resource| Some((keeps(&resource)?, resource)))
        .map(|(kept, it)| (it, kept))
        .collect()
}
