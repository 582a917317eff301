//! Every running gang that might give way: read once per plan, shared by all claimants.
//!
//! The gangs on each node are in the order of what is lost per GPU, and the nodes of each GPU type in the order of
//! the least that could be lost on them. A claimant looks at the nodes from the cheapest on and stops when it has
//! enough, so that the cost of a claim depends on what it takes, not on what runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cluster_model::{
    ClusterState, DeviceAsk, DeviceUse, Gang, GangKey, GpuType, NodeId, PodId, QueueName, ResourceName,
    Resources,
};
use jiff::Timestamp;

use super::budgets::{Allowed, BudgetIndex};
use super::loss;

/// A gang that might give way, by its place in [`Ground::gangs`].
pub(super) type GangIndex = usize;
/// A node, by its place in [`Ground::spots`].
pub(super) type SpotIndex = usize;
/// A queue, by its place in [`Ground::queues`].
pub(super) type QueueIndex = usize;

pub(super) struct Ground {
    pub gangs: Vec<Candidate>,
    pub spots: Vec<Spot>,
    pub queues: Vec<QueueName>,
    /// Spots by GPU type, the cheapest first.
    pub by_type: BTreeMap<Option<GpuType>, Vec<SpotIndex>>,
    /// The gangs of each queue and the queues below it, the least lost per GPU first.
    below: Vec<Vec<GangIndex>>,
    /// What gangs that start in this plan add to each queue: it cannot be taken away.
    fresh: HashMap<(QueueIndex, ResourceName), i64>,
    queue_by_name: HashMap<QueueName, QueueIndex>,
    gang_by_key: HashMap<GangKey, GangIndex>,
    spot_by_node: HashMap<NodeId, SpotIndex>,
    /// The devices of pods that have any. A pod that was just assumed does not name them itself.
    devices: HashMap<PodId, Vec<DeviceUse>>,
    /// What disruption budgets still allow.
    pub allowed: Allowed,
}

/// A gang that might give way.
pub(super) struct Candidate {
    pub key: GangKey,
    /// Its queue and those above.
    pub chain: Vec<QueueIndex>,
    pub priority: i32,
    /// The type of its GPUs.
    pub gpu_type: Option<GpuType>,
    /// What it holds in all.
    pub holds: Resources,
    pub lost_gpu_seconds: u64,
    pub started: Option<Timestamp>,
    /// Whether it may be moved: it saves its state, all of it runs and comes back, and it has GPUs that it asked for.
    pub is_movable: bool,
    pub members: Vec<(PodId, SpotIndex)>,
    /// How many of its pods each disruption budget covers.
    pub budgets: Vec<(BudgetIndex, i64)>,
    /// Whether it is not a candidate any more: it was evicted in this plan, or starts in it.
    pub is_gone: bool,
}

/// A node.
pub(super) struct Spot {
    pub id: NodeId,
    /// Gangs that might leave it, with what they have here; the least lost per GPU first.
    pub victims: Vec<(GangIndex, Resources)>,
    /// Nothing costs less here.
    pub floor: u64,
}

impl Ground {
    /// Reads all running gangs; `started` are gangs that start in this plan, and stay.
    pub fn read(state: &ClusterState, started: &BTreeSet<GangKey>, now: Timestamp) -> Self {
        let mut ground = Self {
            gangs: Vec::new(),
            spots: Vec::new(),
            queues: Vec::new(),
            by_type: BTreeMap::new(),
            below: Vec::new(),
            fresh: HashMap::new(),
            queue_by_name: HashMap::new(),
            gang_by_key: HashMap::new(),
            spot_by_node: HashMap::new(),
            devices: HashMap::new(),
            allowed: Allowed::read(state),
        };
        ground.read_spots(state);
        for key in state.running_gangs().filter(|key| !started.contains(*key)) {
            if let Some(gang) = state.gang(key) {
                ground.read_gang(state, key, gang, now);
            }
        }
        ground.order(state);
        for key in started {
            ground.note_started(state, key);
        }
        ground
    }

    pub fn spot_of(&self, node: NodeId) -> Option<SpotIndex> {
        self.spot_by_node.get(&node).copied()
    }

    /// What a pod that might give way uses of its node's devices.
    pub fn devices_of(&self, pod: PodId) -> &[DeviceUse] {
        self.devices.get(&pod).map_or(&[], Vec::as_slice)
    }

    /// Gangs of a queue and the queues below it that are still there, the least lost per GPU first.
    pub fn gangs_below(&self, queue: QueueIndex) -> impl Iterator<Item = GangIndex> + '_ {
        let gangs = self.below.get(queue).into_iter().flatten().copied();
        gangs.filter(|index| !self.gangs[*index].is_gone)
    }

    /// How much of a resource some gangs hold in a queue and the queues below it.
    pub fn held_in<'a>(
        &self,
        queue: QueueIndex,
        gangs: impl IntoIterator<Item = &'a GangIndex>,
        resource: &ResourceName,
    ) -> i64 {
        let gangs = gangs.into_iter().map(|index| &self.gangs[*index]);
        gangs.filter(|gang| gang.chain.contains(&queue)).map(|gang| gang.held(resource)).sum()
    }

    pub fn queue(&self, name: &QueueName) -> Option<QueueIndex> {
        self.queue_by_name.get(name).copied()
    }

    /// The spots that a claimant of this GPU type may look at, by their floor; all spots for one without GPUs.
    pub fn spots_for(&self, gpu_type: Option<&GpuType>) -> Vec<SpotIndex> {
        if let Some(gpu_type) = gpu_type {
            return self.by_type.get(&Some(gpu_type.clone())).cloned().unwrap_or_default();
        }
        let mut spots: Vec<_> = self.by_type.values().flatten().copied().collect();
        spots.sort_by_key(|index| (self.spots[*index].floor, *index));
        spots
    }

    /// A queue and those above it.
    pub fn chain(&mut self, state: &ClusterState, pod: PodId) -> Vec<QueueIndex> {
        let chain = state.queue_chain_of(state.pod(pod).pod()).unwrap_or_default();
        chain.into_iter().map(|(queue, _)| self.queue_index(&queue.name)).collect()
    }

    /// Counts a gang that starts in this plan. If some of it ran before, that stays as well.
    pub fn note_started(&mut self, state: &ClusterState, key: &GangKey) {
        if let Some(index) = self.gang_by_key.get(key) {
            self.gangs[*index].is_gone = true;
        }
        let Some(gang) = state.gang(key) else { return };
        for id in gang.members() {
            let member = state.pod(id);
            let Some(node) = member.at() else { continue };
            let requests = member.pod().requests;
            let gpu_type = state.node(node).gpu_type().filter(|_| requests.gpus > 0);
            for queue in self.chain(state, id) {
                if let Some(gpu_type) = &gpu_type {
                    *self.fresh.entry((queue, ResourceName::Gpu(gpu_type.clone()))).or_default() +=
                        requests.gpus;
                }
                *self.fresh.entry((queue, ResourceName::Cpu)).or_default() += requests.cpu_millis;
                *self.fresh.entry((queue, ResourceName::Memory)).or_default() += requests.memory_bytes;
            }
        }
    }

    pub fn fresh(&self, queue: QueueIndex, resource: &ResourceName) -> i64 {
        if self.fresh.is_empty() {
            return 0;
        }
        self.fresh.get(&(queue, resource.clone())).copied().unwrap_or(0)
    }

    fn read_spots(&mut self, state: &ClusterState) {
        let mut nodes: Vec<_> = state
            .nodes()
            .filter(|(_, node)| node.object().is_some_and(|object| object.schedulable))
            .map(|(id, node)| (node.name(), id))
            .collect();
        nodes.sort_unstable();
        for (_, id) in nodes {
            self.spot_by_node.insert(id, self.spots.len());
            self.spots.push(Spot { id, victims: Vec::new(), floor: 0 });
        }
    }

    fn read_gang(&mut self, state: &ClusterState, key: &GangKey, gang: &Gang, now: Timestamp) {
        let pods: Vec<PodId> = loss::running(state, gang).collect();
        let has_node = gang.members().filter(|id| state.pod(*id).at().is_some()).count();
        let terms = &state.pod(gang.lead()).pod().terms;
        // It leaves already, is about to land, or must stay. Terms may differ between members that wait for each
        // other.
        let stays = |id: &PodId| state.pod(*id).pod().terms.eviction.never;
        if pods.is_empty() || pods.len() < has_node || gang.is_leaving() || pods.iter().any(stays) {
            return;
        }
        let mut candidate = Candidate {
            key: key.clone(),
            chain: self.chain(state, pods[0]),
            priority: i32::MIN,
            gpu_type: None,
            holds: Resources::default(),
            lost_gpu_seconds: loss::lost_gpu_seconds(state, gang, now),
            started: None,
            is_movable: terms.eviction.checkpoints && gang.pending().len() == 0,
            members: Vec::with_capacity(pods.len()),
            budgets: self.allowed.pods_of(state, &pods),
            is_gone: false,
        };
        for id in pods {
            let member = state.pod(id);
            let (pod, node) = (member.pod(), member.at().expect("it runs"));
            // On a node that takes no pods it frees nothing.
            let Some(spot) = self.spot_of(node) else { return };
            candidate.priority = candidate.priority.max(pod.priority);
            candidate.started = candidate.started.max(pod.started);
            candidate.holds += pod.requests;
            // A gang that could not start again is not moved.
            candidate.is_movable &= pod.comes_back && !pod.gated && pod.unsupported.is_empty();
            if pod.requests.gpus > 0 || pod.device != DeviceAsk::Whole {
                let gpu_type = state.node(node).gpu_type();
                let as_asked = |it: &GpuType| pod.gpu_types.is_empty() || pod.gpu_types.contains(it);
                let is_first = candidate.gpu_type.is_none();
                candidate.is_movable &= gpu_type.as_ref().is_some_and(as_asked);
                candidate.is_movable &= is_first || candidate.gpu_type == gpu_type;
                candidate.gpu_type = gpu_type;
            }
            if !member.devices().is_empty() {
                self.devices.insert(id, member.devices().to_vec());
            }
            candidate.members.push((id, spot));
        }
        self.gang_by_key.insert(key.clone(), self.gangs.len());
        self.gangs.push(candidate);
    }

    fn order(&mut self, state: &ClusterState) {
        for (index, gang) in self.gangs.iter().enumerate() {
            for (pod, spot) in &gang.members {
                let requests = state.pod(*pod).pod().requests;
                match self.spots[*spot].victims.last_mut() {
                    Some((last, here)) if *last == index => *here += requests,
                    // Members on one node may be apart in the list; they are few.
                    _ => match self.spots[*spot].victims.iter_mut().find(|(other, _)| *other == index) {
                        Some((_, here)) => *here += requests,
                        None => self.spots[*spot].victims.push((index, requests)),
                    },
                }
            }
        }
        for spot in &mut self.spots {
            let gangs = &self.gangs;
            // Gangs are in the order of their names: that breaks ties.
            spot.victims.sort_by_key(|(index, _)| (gangs[*index].lost_per_gpu(), *index));
            let least = spot.victims.iter().map(|(index, here)| gangs[*index].share_of(here, i64::MAX)).min();
            spot.floor = if state.node(spot.id).free().gpus > 0 { 0 } else { least.unwrap_or(u64::MAX) };
        }
        for (index, spot) in self.spots.iter().enumerate() {
            self.by_type.entry(state.node(spot.id).gpu_type()).or_default().push(index);
        }
        for spots in self.by_type.values_mut() {
            spots.sort_by_key(|index| (self.spots[*index].floor, *index));
        }
        let mut by_loss: Vec<GangIndex> = (0..self.gangs.len()).collect();
        by_loss.sort_by_key(|index| (self.gangs[*index].lost_per_gpu(), *index));
        self.below = vec![Vec::new(); self.queues.len()];
        for index in by_loss {
            for queue in &self.gangs[index].chain {
                self.below[*queue].push(index);
            }
        }
    }

    fn queue_index(&mut self, name: &QueueName) -> QueueIndex {
        if let Some(index) = self.queue_by_name.get(name) {
            return *index;
        }
        self.queues.push(name.clone());
        self.queue_by_name.insert(name.clone(), self.queues.len() - 1);
        self.queues.len() - 1
    }
}

impl Candidate {
    /// Thousandths of a GPU second for each GPU that becomes free.
    pub fn lost_per_gpu(&self) -> u64 {
        self.lost_gpu_seconds.saturating_mul(1000) / u64::try_from(self.holds.gpus).unwrap_or(0).max(1)
    }

    /// The part of the loss that counts for a node. A claimant that needs as many GPUs as the gang frees uses all of
    /// them, so each bears its part. A claimant that needs fewer pays for those that it does not need as well.
    pub fn share_of(&self, here: &Resources, needed_gpus: i64) -> u64 {
        let part = |gpus: i64| u128::from(u64::try_from(gpus).unwrap_or(0).max(1));
        let used = self.holds.gpus.min(needed_gpus.max(here.gpus));
        let share = u128::from(self.lost_gpu_seconds) * 1000 * part(here.gpus) / part(used);
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// What decides whether its queue borrows it: its GPUs, or CPU and memory for a gang without GPUs.
    pub fn judged_by(&self) -> impl Iterator<Item = ResourceName> {
        let gpus = self.gpu_type.clone().filter(|_| self.holds.gpus > 0).map(ResourceName::Gpu);
        let without = [ResourceName::Cpu, ResourceName::Memory].into_iter().filter(|_| self.holds.gpus == 0);
        gpus.into_iter().chain(without)
    }

    /// How much it holds of a resource.
    pub fn held(&self, resource: &ResourceName) -> i64 {
        match resource {
            ResourceName::Gpu(gpu_type) if self.gpu_type.as_ref() == Some(gpu_type) => self.holds.gpus,
            ResourceName::Gpu(_) => 0,
            ResourceName::Cpu => self.holds.cpu_millis,
            ResourceName::Memory => self.holds.memory_bytes,
        }
    }
}
