//! Nodes, and what is in use of them. Each is found by name, in its class, and in its domains.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::classes::{ClassId, ClassKey, Classes, KindId, NodeKind};
use crate::devices::{DeviceState, DeviceTally};
pub use crate::ids::NodeId;
use crate::labels::Labels;
use crate::names::{GpuType, NodeName};
use crate::objects::{Node, Pod, Resources};
use crate::other_resources::{Asked, Extras, OtherResources, OthersInUse, count_others};
use crate::pods::{PodId, PodState};
use crate::ports::{HostPort, PortsInUse, count_ports};
use crate::ranks::Ranks;
use crate::slots::Slots;
use crate::topology::{DomainId, ROOT, Topology};

/// A node, and what is in use of it. It also stands for a node that is not there (not yet, or no more) if pods say
/// that they are on it.
#[derive(Clone, Debug)]
pub struct NodeState {
    pub(crate) name: NodeName,
    pub(crate) object: Option<Node>,
    pub(crate) used: Resources,
    pub(crate) others_used: OthersInUse,
    pub(crate) ports_used: PortsInUse,
    pub(crate) pods: BTreeSet<PodId>,
    gpu_type: Option<GpuType>,
    /// What pods say they use of devices, by index.
    tallies: Vec<DeviceTally>,
    devices: Vec<DeviceState>,
    /// Devices that are in use in parts.
    in_parts: i64,
    /// Its number in the order of place, while it is there.
    pub(crate) rank: u64,
    /// Its domains, the outermost first, without the root.
    pub(crate) domains: Vec<DomainId>,
    /// Its kind and class, if it takes pods.
    pub(crate) class: Option<(KindId, ClassId)>,
}

impl NodeState {
    /// Its name.
    pub fn name(&self) -> &NodeName {
        &self.name
    }

    /// The node, if it is there.
    pub fn object(&self) -> Option<&Node> {
        self.object.as_ref()
    }

    /// What bound, assumed, held and terminating pods of every scheduler ask for.
    pub fn used(&self) -> Resources {
        self.used
    }

    /// What is left. It is below zero if allocatable fell below what is used, or if a node is held that others still
    /// use. A device that is in use in parts is not a free GPU.
    pub fn free(&self) -> Resources {
        let mut free = self.object.as_ref().map(|node| node.allocatable).unwrap_or_default() - self.used;
        free.gpus = free.gpus.saturating_sub(self.in_parts);
        free
    }

    /// What is left of another resource; nothing if the node does not have it.
    pub fn free_of(&self, name: &str) -> i64 {
        let has = self.object.as_ref().map_or(0, |node| node.other_allocatable.get(name));
        let used = self.others_used.get(name).copied().unwrap_or(0);
        let free = i128::from(has) - used;
        i64::try_from(free).unwrap_or(if free < 0 { i64::MIN } else { i64::MAX })
    }

    /// The ports of the host that pods have taken, in order.
    pub fn ports(&self) -> impl Iterator<Item = &HostPort> {
        self.ports_used.keys()
    }

    /// Whether the node has the free amounts and the ports that a pod asks for. Nothing else is checked.
    pub fn has_room_for(&self, pod: &Pod) -> bool {
        pod.requests.fits(&self.free())
            && pod.other_requests.iter().all(|(name, asked)| asked <= 0 || asked <= self.free_of(name))
            && pod.host_ports.iter().all(|port| !self.ports_used.keys().any(|used| used.conflicts(port)))
    }

    /// What is left of each device, if the node is Exact; else none. Pods that do not say which devices they have
    /// count only in [`Self::free`].
    pub fn devices(&self) -> &[DeviceState] {
        &self.devices
    }

    /// The type of its GPUs; GPUs without a name have the type [`GpuType::unknown`].
    pub fn gpu_type(&self) -> Option<GpuType> {
        self.gpu_type.clone()
    }

    /// The pods on it.
    pub fn pods(&self) -> impl Iterator<Item = PodId> {
        self.pods.iter().copied()
    }

    /// Its power draw; nothing while no pod is on it, because then it can be switched off.
    fn drawn_watts(&self) -> u64 {
        let power = self.object.as_ref().and_then(|node| node.power).filter(|_| !self.pods.is_empty());
        let gpus = u64::try_from(self.used.gpus.saturating_add(self.in_parts)).unwrap_or(0);
        power.map_or(0, |power| u64::from(power.idle_watts) + gpus * u64::from(power.gpu_watts))
    }

    fn class_key(&self, asked: &Asked) -> ClassKey {
        let mut devices = self.devices.clone();
        devices.sort_unstable();
        ClassKey { free: self.free(), devices, extras: self.extras(asked).map(Arc::new) }
    }

    fn extras(&self, asked: &Asked) -> Option<Extras> {
        if self.ports_used.is_empty() && asked.is_empty() {
            return None;
        }
        let has = self.object.as_ref().map(|node| &node.other_allocatable);
        let here = has.into_iter().flat_map(OtherResources::iter).map(|(name, _)| name);
        let names: BTreeSet<&Arc<str>> =
            here.chain(self.others_used.keys()).filter(|name| asked.contains(name)).collect();
        let free = names.into_iter().map(|name| (name.clone(), self.free_of(name)));
        let free = free.filter(|(_, free)| *free != 0).collect();
        let extras = Extras { free, ports: self.ports_used.keys().cloned().collect() };
        (!extras.is_empty()).then_some(extras)
    }

    /// Counts what a pod uses, down to the devices it says it has.
    fn count_pod(&mut self, pod: &PodState, add: bool) {
        if add {
            self.used += pod.pod.requests;
        } else {
            self.used -= pod.pod.requests;
        }
        count_others(&mut self.others_used, &pod.pod.other_requests, add);
        count_ports(&mut self.ports_used, &pod.pod.host_ports, add);
        for used in pod.devices() {
            let index = usize::from(used.device);
            if self.tallies.len() <= index {
                self.tallies.resize(index + 1, DeviceTally::default());
            }
            let tally = &mut self.tallies[index];
            let before = tally.is_in_parts();
            tally.count(used.part, add);
            if let Some(state) = self.devices.get_mut(index) {
                *state = tally.state();
                self.in_parts += i64::from(tally.is_in_parts()) - i64::from(before);
            }
        }
    }

    fn set_object(&mut self, object: Option<Node>) {
        self.object = object;
        let node = self.object.as_ref();
        self.gpu_type = node.and_then(|node| {
            node.gpu_type.clone().or_else(|| (node.allocatable.gpus > 0).then(GpuType::unknown))
        });
        // A device's index has 8 bits.
        let devices = node.filter(|node| node.exact).map_or(0, |node| node.allocatable.gpus.clamp(0, 256));
        let devices = usize::try_from(devices).unwrap_or(0);
        let tally = |index: usize| self.tallies.get(index).copied().unwrap_or_default();
        self.devices = (0..devices).map(|index| tally(index).state()).collect();
        let in_parts = (0..devices).filter(|index| tally(*index).is_in_parts()).count();
        self.in_parts = i64::try_from(in_parts).unwrap_or(0);
    }
}

/// What a pod looks at on nodes, so that nodes differ in it.
pub(crate) struct Interests {
    labels: Vec<Arc<str>>,
    resources: OtherResources,
}

impl Interests {
    pub fn of(pod: &Pod) -> Self {
        Self { labels: pod.label_keys().cloned().collect(), resources: pod.other_requests.clone() }
    }
}

/// All nodes, by name, in their classes and domains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    states: Slots<NodeState>,
    by_name: HashMap<NodeName, NodeId>,
    classes: Classes,
    topology: Topology,
    ranks: Ranks,
    labels: Labels,
    asked: Asked,
    /// Allocatable GPUs by type, and everything allocatable, on nodes that are there.
    capacity: BTreeMap<GpuType, i64>,
    total: Resources,
    /// The power draw of all nodes that are there.
    drawn_watts: u64,
    /// Whether a fork is open: then nothing loses its number.
    pub in_fork: bool,
    /// While several changes are undone at once: the nodes that change, which get their class at the end.
    taken_back: Option<Vec<NodeId>>,
}

impl Nodes {
    pub fn capacity(&self) -> &BTreeMap<GpuType, i64> {
        &self.capacity
    }

    pub fn total(&self) -> Resources {
        self.total
    }

    pub fn drawn_watts(&self) -> u64 {
        self.drawn_watts
    }

    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    pub fn id(&self, name: &NodeName) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// The node of that name, created if it is not there.
    pub fn id_or_new(&mut self, name: &NodeName) -> NodeId {
        if let Some(id) = self.id(name) {
            return id;
        }
        let id = NodeId(self.states.insert(NodeState {
            name: name.clone(),
            object: None,
            used: Resources::default(),
            others_used: OthersInUse::new(),
            ports_used: PortsInUse::new(),
            pods: BTreeSet::new(),
            gpu_type: None,
            tallies: Vec::new(),
            devices: Vec::new(),
            in_parts: 0,
            rank: 0,
            domains: Vec::new(),
            class: None,
        }));
        self.by_name.insert(name.clone(), id);
        id
    }

    pub fn get(&self, id: NodeId) -> &NodeState {
        self.states.get(id.0)
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &NodeState)> {
        self.states.iter().map(|(slot, node)| (NodeId(slot), node))
    }

    /// Sets the node's properties; `None` says that it is not there.
    pub fn set_object(&mut self, id: NodeId, object: Option<Node>) {
        self.leave_place(id);
        self.drawn_watts -= self.get(id).drawn_watts();
        let node = self.states.get_mut(id.0);
        let old = std::mem::take(&mut node.object);
        node.set_object(object);
        self.drawn_watts += self.get(id).drawn_watts();
        let mut relabelled = Vec::new();
        if let Some(old) = &old {
            relabelled = self.labels.count_labels(&old.labels, false);
        }
        if let Some(new) = &self.states.get(id.0).object {
            relabelled.extend(self.labels.count_labels(&new.labels, true));
        }
        self.enter_place(id);
        self.change_kinds(&relabelled);
        self.drop_if_unused(id);
    }

    /// Counts what a pod looks at. Costs O(nodes) if no other pod looks at the same label or resource.
    pub fn count_interests(&mut self, interests: &Interests, add: bool) {
        if !interests.labels.is_empty() {
            let changed = self.labels.count_keys(interests.labels.iter(), add);
            self.change_kinds(&changed);
        }
        let changed = self.asked.count(&interests.resources, add);
        if !changed.is_empty() {
            let has_one = |node: &NodeState| {
                let has = node.object.as_ref().map(|node| &node.other_allocatable);
                changed.iter().any(|name| {
                    has.is_some_and(|has| has.get(name) != 0) || node.others_used.contains_key(name)
                })
            };
            self.enter_classes_again(has_one);
        }
    }

    pub fn add_pod(&mut self, id: NodeId, pod_id: PodId, pod: &PodState) {
        self.drawn_watts -= self.get(id).drawn_watts();
        self.states.get_mut(id.0).pods.insert(pod_id);
        self.count_pod(id, pod, true);
        self.drawn_watts += self.get(id).drawn_watts();
    }

    pub fn remove_pod(&mut self, id: NodeId, pod_id: PodId, pod: &PodState) {
        self.drawn_watts -= self.get(id).drawn_watts();
        self.states.get_mut(id.0).pods.remove(&pod_id);
        self.count_pod(id, pod, false);
        self.drawn_watts += self.get(id).drawn_watts();
    }

    /// Forgets a node that is not there and has no pods. Not to be called while a fork is open, in which a pod may
    /// come back.
    pub fn drop_if_unused(&mut self, id: NodeId) {
        let unused = self.states.find_mut(id.0).filter(|node| node.object.is_none() && node.pods.is_empty());
        if unused.is_some() {
            let node = self.states.remove(id.0);
            self.by_name.remove(&node.name);
        }
    }

    /// The last fork ended.
    pub fn end_forks(&mut self) {
        self.in_fork = false;
        self.classes.drop_dormant();
    }

    /// From now on nodes keep their class, whatever comes or goes, until [`Self::end_taking_back`].
    pub fn begin_taking_back(&mut self) {
        self.taken_back = Some(Vec::new());
    }

    /// Gives the changed nodes their class.
    pub fn end_taking_back(&mut self) {
        let mut changed = self.taken_back.take().unwrap_or_default();
        changed.sort_unstable();
        changed.dedup();
        for id in changed {
            self.change_class(id);
        }
    }

    /// Changes what is used of a node, and its class with it.
    fn count_pod(&mut self, id: NodeId, pod: &PodState, add: bool) {
        let node = self.states.get_mut(id.0);
        node.count_pod(pod, add);
        if node.object.is_none() {
            return;
        }
        match &mut self.taken_back {
            // Members mostly come to one node after the other.
            Some(changed) if changed.last() == Some(&id) => {}
            Some(changed) => changed.push(id),
            None => self.change_class(id),
        }
    }

    /// Puts a node that takes pods into the class of what is free of it now.
    fn change_class(&mut self, id: NodeId) {
        let node = self.states.get_mut(id.0);
        let Some((kind, old)) = node.class else { return };
        let (class, after) = (self.classes.get(old), node.free());
        let (before, extras) = (class.free(), node.extras(&self.asked));
        if before == after && node.devices.is_empty() && class.extras() == extras.as_ref() {
            return;
        }
        let new = self.classes.insert(kind, node.class_key(&self.asked), node.rank, id);
        if new == old {
            return;
        }
        self.classes.remove(old, node.rank, id, self.in_fork);
        node.class = Some((kind, new));
        let gpus_free = after.gpus.max(0) - before.gpus.max(0);
        self.classes.add_free(kind, gpus_free);
        self.topology.change_class(&node.domains, Some(old), Some(new), gpus_free);
    }

    /// Puts a node that is there into the order, its domains and its class.
    fn enter_place(&mut self, id: NodeId) {
        self.count_capacity(id, 1);
        let node = self.states.get(id.0);
        let Some(object) = &node.object else { return };
        let domains = self.topology.path(&object.topology);
        let (rank, moved) = self.ranks.insert((object.topology.clone(), node.name.clone()), id);
        for (id, old, new) in moved {
            self.change_rank(id, old, new);
        }
        for domain in [ROOT].iter().chain(&domains) {
            self.topology.get_mut(*domain).nodes.insert((rank, id));
        }
        let node = self.states.get_mut(id.0);
        (node.rank, node.domains) = (rank, domains);
        self.enter_class(id);
    }

    /// The opposite of [`Self::enter_place`].
    fn leave_place(&mut self, id: NodeId) {
        self.leave_class(id);
        self.count_capacity(id, -1);
        let node = self.states.get_mut(id.0);
        let Some(object) = &node.object else { return };
        let domains = std::mem::take(&mut node.domains);
        for domain in [ROOT].iter().chain(&domains) {
            self.topology.get_mut(*domain).nodes.remove(&(node.rank, id));
        }
        self.ranks.remove(&(object.topology.clone(), node.name.clone()));
        self.topology.prune(&domains);
    }

    fn enter_class(&mut self, id: NodeId) {
        let node = self.states.get_mut(id.0);
        let Some(object) = node.object.as_ref().filter(|node| node.schedulable) else { return };
        let kind = self.classes.enter_kind(kind_of(object, node.gpu_type.clone(), &self.labels));
        let class = self.classes.insert(kind, node.class_key(&self.asked), node.rank, id);
        node.class = Some((kind, class));
        let gpus_free = node.free().gpus.max(0);
        self.classes.add_free(kind, gpus_free);
        self.topology.change_class(&node.domains, None, Some(class), gpus_free);
    }

    fn leave_class(&mut self, id: NodeId) {
        let node = self.states.get_mut(id.0);
        let Some((kind, class)) = node.class.take() else { return };
        let gpus_free = node.free().gpus.max(0);
        self.classes.add_free(kind, -gpus_free);
        self.topology.change_class(&node.domains, Some(class), None, -gpus_free);
        self.classes.remove(class, node.rank, id, false);
        self.classes.leave_kind(kind);
    }

    /// Labels begin or cease to split kinds.
    fn change_kinds(&mut self, labels: &[Arc<str>]) {
        if labels.is_empty() {
            return;
        }
        let has_one = |node: &NodeState| {
            node.object
                .as_ref()
                .is_some_and(|node| labels.iter().any(|label| node.labels.contains_key(label)))
        };
        self.enter_classes_again(has_one);
    }

    fn enter_classes_again(&mut self, changed: impl Fn(&NodeState) -> bool) {
        let nodes: Vec<NodeId> = self.iter().filter(|(_, node)| changed(node)).map(|(id, _)| id).collect();
        for id in nodes {
            self.leave_class(id);
            self.enter_class(id);
        }
    }

    fn change_rank(&mut self, id: NodeId, old: u64, new: u64) {
        let node = self.states.get_mut(id.0);
        node.rank = new;
        for domain in [ROOT].iter().chain(&node.domains) {
            let nodes = &mut self.topology.get_mut(*domain).nodes;
            nodes.remove(&(old, id));
            nodes.insert((new, id));
        }
        if let Some((_, class)) = node.class {
            self.classes.change_rank(class, id, old, new);
        }
    }

    fn count_capacity(&mut self, id: NodeId, sign: i64) {
        let node = self.states.get(id.0);
        let Some(object) = &node.object else { return };
        if let Some(gpu_type) = &node.gpu_type {
            let gpus = self.capacity.entry(gpu_type.clone()).or_default();
            *gpus += sign * object.allocatable.gpus;
            if *gpus == 0 {
                self.capacity.remove(gpu_type);
            }
        }
        if sign > 0 {
            self.total += object.allocatable;
        } else {
            self.total -= object.allocatable;
        }
    }
}

fn kind_of(node: &Node, gpu_type: Option<GpuType>, labels: &Labels) -> NodeKind {
    let mut taints: Vec<_> = node.repelling().collect();
    taints.sort();
    taints.dedup();
    let splitting = node.labels.iter().filter(|(key, _)| labels.splits(key));
    NodeKind {
        gpu_type,
        allocatable: node.allocatable,
        taints,
        labels: splitting.map(|(key, value)| (key.clone(), value.clone())).collect(),
        features: node.features,
        spot: node.spot,
        power: node.power,
        exact: node.exact,
    }
}
