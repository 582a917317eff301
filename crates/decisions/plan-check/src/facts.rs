//! The objects, where pods are, and which gangs are held or evicted; none of the state's orders and sums.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::{
    Budget, ClusterState, DeviceAsk, DeviceUse, GangKey, GpuType, History, LabelSet, Level, Node, NodeName,
    Place, Pod, PodKey, PodState, Queue, QueueName, ResourceName, Terms,
};
use jiff::Timestamp;

use crate::mig::slices_of as slices;

/// A pod, and where it counts.
#[derive(Clone, Copy)]
pub(crate) struct Member<'a> {
    pub pod: &'a Pod,
    /// Where it is, is about to be, or is held.
    pub at: Option<&'a NodeName>,
    pub is_held: bool,
    pub devices: &'a [DeviceUse],
    /// Since when it has its node.
    pub started: Option<Timestamp>,
}

impl<'a> Member<'a> {
    fn of(state: &'a ClusterState, pod: &'a PodState) -> Self {
        Self {
            pod: pod.pod(),
            at: pod.at().map(|node| state.node(node).name()),
            is_held: pod.place() == Some(Place::Held),
            devices: pod.devices(),
            started: pod.started(),
        }
    }

    /// The node it is on or about to be on.
    pub fn runs_on(&self) -> Option<&'a NodeName> {
        self.at.filter(|_| !self.is_held)
    }
}

pub(crate) struct Facts<'a> {
    pub nodes: BTreeMap<&'a NodeName, &'a Node>,
    pub pods: BTreeMap<&'a PodKey, Member<'a>>,
    pub queues: BTreeMap<&'a QueueName, &'a Queue>,
    pub gangs: BTreeMap<&'a GangKey, Vec<Member<'a>>>,
    /// Nodes kept for the successors of pods that are moved.
    pub stand_ins: Vec<Member<'a>>,
    /// Members that had a node and ended.
    ended: BTreeMap<&'a GangKey, usize>,
    /// Gangs that give way already, and their claimants.
    pub leaving_for: BTreeMap<&'a GangKey, &'a GangKey>,
    /// Gangs with a hold, and until when.
    pub held: BTreeMap<&'a GangKey, Timestamp>,
    /// Queues with credit in their bank. [`crate::Course`] judges how it was earned.
    credit: BTreeSet<&'a QueueName>,
    /// Labels of the namespaces that pods are in, as far as they are known.
    pub namespaces: BTreeMap<&'a Arc<str>, &'a LabelSet>,
    /// Disruption budgets.
    pub budgets: Vec<&'a Budget>,
    /// How long gangs are expected to run.
    pub history: &'a History,
}

impl<'a> Facts<'a> {
    pub fn read(state: &'a ClusterState) -> Self {
        let mut gangs: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let pods: BTreeMap<_, _> =
            state.pods().map(|(_, pod)| (&pod.pod().key, Member::of(state, pod))).collect();
        for member in pods.values().filter(|member| member.pod.ours) {
            gangs.entry(&member.pod.gang).or_default().push(*member);
        }
        let names = pods.keys().map(|key| &key.namespace);
        Self {
            namespaces: names.filter_map(|name| Some((name, state.namespace(name)?))).collect(),
            nodes: state.nodes().filter_map(|(_, node)| Some((node.name(), node.object()?))).collect(),
            pods,
            queues: state.queues().map(|(queue, _)| (&queue.name, queue)).collect(),
            gangs,
            stand_ins: state
                .held_gangs()
                .flat_map(|(gang, _)| state.held_members(gang))
                .filter(|pod| state.is_stand_in(*pod))
                .map(|pod| Member::of(state, state.pod(pod)))
                .collect(),
            ended: state
                .gangs()
                .filter(|(_, gang)| gang.ended() > 0)
                .map(|(key, gang)| (key, gang.ended() as usize))
                .collect(),
            // A gang that moves leaves for its own next start.
            leaving_for: state
                .gangs()
                .filter(|(_, gang)| gang.is_leaving())
                .map(|(key, gang)| (key, gang.claimant().unwrap_or(key)))
                .collect(),
            held: state.held_gangs().collect(),
            credit: state
                .queues()
                .map(|(queue, _)| queue)
                .filter(|queue| queue.bank.is_some() && state.bank_gpu_seconds(&queue.name) > 0)
                .map(|queue| &queue.name)
                .collect(),
            budgets: state.budgets().collect(),
            history: state.history(),
        }
    }

    /// Whether what a queue holds beyond its quota counts as within it.
    pub fn has_credit(&self, queue: &Queue) -> bool {
        self.credit.contains(&queue.name)
    }

    /// Whether the hold of a gang has expired.
    pub fn is_outdated(&self, gang: &GangKey, now: Timestamp) -> bool {
        self.held.get(gang).is_some_and(|expires| *expires <= now)
    }

    /// Gangs that give way and are expected to leave. Gangs whose claimant still waits and has lost its hold take
    /// longer than expected: they stay in the picture as long as they are there.
    pub fn leaving(&self, now: Timestamp) -> BTreeSet<&'a GangKey> {
        let is_awaited = |claimant: &GangKey| {
            let waits = self.members(claimant).any(|member| self.waits(&member.pod.key));
            !waits || (self.held.contains_key(claimant) && !self.is_outdated(claimant, now))
        };
        self.leaving_for.iter().filter(|(_, claimant)| is_awaited(claimant)).map(|(gang, _)| *gang).collect()
    }

    pub fn ended(&self, gang: &GangKey) -> usize {
        self.ended.get(gang).copied().unwrap_or(0)
    }

    /// A pod of ours without a node that is not being deleted; a node may be held for it.
    pub fn waits(&self, key: &PodKey) -> bool {
        self.pods
            .get(key)
            .is_some_and(|member| member.runs_on().is_none() && member.pod.ours && !member.pod.terminating)
    }

    /// Members of ours.
    pub fn members(&self, gang: &GangKey) -> impl Iterator<Item = Member<'a>> {
        self.gangs.get(gang).into_iter().flatten().copied()
    }

    /// Members on a node that are not being deleted.
    pub fn running(&self, gang: &GangKey) -> impl Iterator<Item = (&'a Pod, &'a NodeName)> {
        let members = self.members(gang).filter(|member| !member.pod.terminating);
        members.filter_map(|member| Some((member.pod, member.runs_on()?)))
    }

    /// Members that are charged to their queue: all that have a node or a hold. A pod that is moved is charged once,
    /// where it still is.
    pub fn charged(&self) -> impl Iterator<Item = Member<'a>> {
        let moved = self.stand_ins.iter().filter(|it| !self.pods.contains_key(&it.pod.key)).copied();
        self.pods.values().filter(|member| member.at.is_some()).copied().chain(moved)
    }

    /// Whether no member was there before.
    pub fn is_new(&self, gang: &GangKey, now: Timestamp) -> bool {
        self.members(gang).all(|member| member.pod.created == now)
    }

    /// The oldest member, then the first by name, speaks for the gang.
    pub fn lead(&self, gang: &GangKey) -> Option<&'a Pod> {
        self.members(gang).map(|member| member.pod).min_by_key(|pod| (pod.created, &pod.key.name))
    }

    pub fn size(&self, gang: &GangKey) -> Option<u32> {
        self.lead(gang)?.gang_size
    }

    pub fn terms(&self, gang: &GangKey) -> Option<&'a Terms> {
        self.lead(gang).map(|pod| &*pod.terms)
    }

    pub fn queue_of(&self, pod: &Pod) -> Option<&'a Queue> {
        let open = |queue: &&&Queue| queue.namespaces.contains(&pod.key.namespace);
        match &pod.queue {
            Some(name) => self.queues.get(name).filter(open).copied(),
            None if pod.ours => {
                let mut queues = self.queues.values().filter(open);
                queues.next().copied().filter(|_| queues.next().is_none())
            }
            None => None,
        }
    }

    /// A queue and the queues above it; none if one is missing or comes twice.
    pub fn chain(&self, queue: &'a Queue) -> Option<Vec<&'a Queue>> {
        let mut chain = vec![queue];
        while let Some(parent) = &chain.last()?.parent {
            let parent = *self.queues.get(parent)?;
            if chain.iter().any(|queue| queue.name == parent.name) {
                return None;
            }
            chain.push(parent);
        }
        Some(chain)
    }

    /// The queue that a pod is charged to and the queues above it; empty if it is charged to none.
    pub fn chain_of(&self, pod: &Pod) -> Vec<&'a Queue> {
        self.queue_of(pod).and_then(|queue| self.chain(queue)).unwrap_or_default()
    }

    pub fn gpu_type_of(&self, node: &NodeName) -> Option<GpuType> {
        let node = self.nodes.get(node)?;
        node.gpu_type.clone().or_else(|| (node.allocatable.gpus > 0).then(GpuType::unknown))
    }

    /// The domain of a level that a node is in: the path down to it. Without a level, the node itself. None if the
    /// node is in no domain of that level, or is not there.
    pub fn domain(&self, node: &'a NodeName, level: Option<Level>) -> Option<Domain<'a>> {
        let object = *self.nodes.get(node)?;
        match level {
            None => Some(Domain::Node(&object.name)),
            Some(Level(level)) => object.topology.get(..=usize::from(level)).map(Domain::Path),
        }
    }
}

/// A domain of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Domain<'a> {
    Node(&'a NodeName),
    Path(&'a [Arc<str>]),
}

/// Whether a pod uses GPUs at all, whole or in part.
pub(crate) fn uses_gpus(pod: &Pod) -> bool {
    pod.requests.gpus > 0 || pod.device != DeviceAsk::Whole
}

/// What a pod asks of a device that it shares, in thousandths; a memory slice is an eighth.
pub(crate) fn share_millis(pod: &Pod) -> i64 {
    match pod.device {
        DeviceAsk::Whole => 0,
        DeviceAsk::Share { millis } => i64::from(millis),
        DeviceAsk::Mig { profile } => i64::from(slices(profile)) * 125,
    }
}

/// What a pod on a node counts for in its queue; nothing that is zero.
pub(crate) fn amounts(
    facts: &Facts<'_>,
    pod: &Pod,
    node: &NodeName,
) -> impl Iterator<Item = (ResourceName, i64)> + use<> {
    let gpu_type =
        facts.gpu_type_of(node).or_else(|| pod.gpu_types.first().cloned()).unwrap_or_else(GpuType::unknown);
    let amounts = [
        (ResourceName::Gpu(gpu_type), pod.requests.gpus),
        (ResourceName::Cpu, pod.requests.cpu_millis),
        (ResourceName::Memory, pod.requests.memory_bytes),
    ];
    amounts.into_iter().filter(|(_, amount)| *amount > 0)
}
