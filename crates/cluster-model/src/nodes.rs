//! Nodes, what is in use of them, and the order in which a planner looks at them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::names::{GpuType, NodeName};
use crate::objects::{Node, Resources, Taint};
use crate::slots::Slots;
use crate::state::PodId;

/// A node's number. It is good until the next change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// A node, and what is in use of it. It also stands for a node that is not there (not yet, or no more) while pods
/// say that they are on it.
#[derive(Clone, Debug)]
pub struct NodeState {
    pub(crate) name: NodeName,
    pub(crate) object: Option<Node>,
    pub(crate) used: Resources,
    pub(crate) pods: BTreeSet<PodId>,
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

    /// What bound, assumed and terminating pods of every scheduler use.
    pub fn used(&self) -> Resources {
        self.used
    }

    /// What is left; less than nothing where allocatable fell below what is used.
    pub fn free(&self) -> Resources {
        self.object.as_ref().map(|node| node.allocatable).unwrap_or_default() - self.used
    }

    /// The type of its GPUs; GPUs that nobody named have the type [`GpuType::unknown`].
    pub fn gpu_type(&self) -> Option<GpuType> {
        let node = self.object.as_ref()?;
        node.gpu_type.clone().or_else(|| (node.allocatable.gpus > 0).then(GpuType::unknown))
    }

    /// The pods on it.
    pub fn pods(&self) -> impl Iterator<Item = PodId> {
        self.pods.iter().copied()
    }
}

/// What nodes of one pool have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolKey {
    /// The type of their GPUs; `None`, which sorts first, has none.
    pub gpu_type: Option<GpuType>,
    /// Their taints that repel pods, sorted.
    pub taints: Vec<Taint>,
}

/// Nodes that take pods and are alike in GPU type and taints, ordered by what is free of them. Every order breaks
/// ties by the node's name.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    by_free_gpus: BTreeSet<(i64, NodeName, NodeId)>,
    by_free_cpu: BTreeSet<(i64, NodeName, NodeId)>,
    gpus_free: i64,
    sizes: BTreeMap<i64, u32>,
}

impl Pool {
    /// Nodes with at least so many free GPUs, the fewest first, then by name.
    pub fn with_free_gpus(&self, at_least: i64) -> impl Iterator<Item = (i64, &NodeName, NodeId)> {
        from(&self.by_free_gpus, at_least)
    }

    /// Nodes with at least so much free CPU, the least first, then by name.
    pub fn with_free_cpu(&self, at_least: i64) -> impl Iterator<Item = (i64, &NodeName, NodeId)> {
        from(&self.by_free_cpu, at_least)
    }

    /// Free GPUs on all nodes; a node that is overcommitted counts as none.
    pub fn gpus_free(&self) -> i64 {
        self.gpus_free
    }

    /// Allocatable GPUs of the largest node.
    pub fn largest_node_gpus(&self) -> i64 {
        self.sizes.last_key_value().map_or(0, |(gpus, _)| *gpus)
    }

    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.by_free_cpu.len()
    }

    /// Whether it has no node.
    pub fn is_empty(&self) -> bool {
        self.by_free_cpu.is_empty()
    }
}

fn from(
    order: &BTreeSet<(i64, NodeName, NodeId)>,
    at_least: i64,
) -> impl Iterator<Item = (i64, &NodeName, NodeId)> {
    // The empty name and number zero sort before every node with the same amount.
    let start = (at_least, NodeName::from(""), NodeId(0));
    order.range(start..).map(|(free, name, id)| (*free, name, *id))
}

/// All nodes, by name and in their pools.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    states: Slots<NodeState>,
    by_name: HashMap<NodeName, NodeId>,
    pools: BTreeMap<PoolKey, Pool>,
}

impl Nodes {
    pub fn id(&self, name: &NodeName) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// The node of that name, made up if it is not there.
    pub fn id_or_new(&mut self, name: &NodeName) -> NodeId {
        if let Some(id) = self.id(name) {
            return id;
        }
        let state =
            NodeState { name: name.clone(), object: None, used: Resources::default(), pods: BTreeSet::new() };
        let id = NodeId(self.states.insert(state));
        self.by_name.insert(name.clone(), id);
        id
    }

    pub fn get(&self, id: NodeId) -> &NodeState {
        self.states.get(id.0)
    }

    pub fn pools(&self) -> &BTreeMap<PoolKey, Pool> {
        &self.pools
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &NodeState)> {
        self.states.iter().map(|(slot, node)| (NodeId(slot), node))
    }

    pub fn set_object(&mut self, id: NodeId, object: Option<Node>) {
        self.leave_pool(id);
        self.states.get_mut(id.0).object = object;
        self.enter_pool(id);
        self.drop_if_unused(id);
    }

    pub fn add_pod(&mut self, id: NodeId, pod: PodId, requests: Resources) {
        self.change(id, |node| {
            node.used += requests;
            node.pods.insert(pod);
        });
    }

    pub fn remove_pod(&mut self, id: NodeId, pod: PodId, requests: Resources) {
        self.change(id, |node| {
            node.used -= requests;
            node.pods.remove(&pod);
        });
        self.drop_if_unused(id);
    }

    /// Changes what is used of a node, and its place in the orders of its pool with it.
    fn change(&mut self, id: NodeId, change: impl FnOnce(&mut NodeState)) {
        let node = self.states.get_mut(id.0);
        let before = node.free();
        change(node);
        let after = node.free();
        let Some(key) = pool_key(node) else { return };
        let pool = self.pools.get_mut(&key).expect("a node that takes pods is in its pool");
        pool.move_node(&node.name, id, before, after);
    }

    fn leave_pool(&mut self, id: NodeId) {
        let node = self.states.get(id.0);
        let (Some(key), Some(object)) = (pool_key(node), &node.object) else { return };
        let pool = self.pools.get_mut(&key).expect("a node that takes pods is in its pool");
        pool.remove(&node.name, id, node.free(), object.allocatable.gpus);
        if pool.is_empty() {
            self.pools.remove(&key);
        }
    }

    fn enter_pool(&mut self, id: NodeId) {
        let node = self.states.get(id.0);
        let (Some(key), Some(object)) = (pool_key(node), &node.object) else { return };
        self.pools.entry(key).or_default().insert(&node.name, id, node.free(), object.allocatable.gpus);
    }

    fn drop_if_unused(&mut self, id: NodeId) {
        let node = self.states.get(id.0);
        if node.object.is_none() && node.pods.is_empty() {
            let node = self.states.remove(id.0);
            self.by_name.remove(&node.name);
        }
    }
}

/// The pool a node is in: none if it is not there or takes no pods.
fn pool_key(node: &NodeState) -> Option<PoolKey> {
    let object = node.object.as_ref().filter(|node| node.schedulable)?;
    let mut taints: Vec<_> = object.taints.iter().filter(|taint| taint.repels()).cloned().collect();
    taints.sort();
    Some(PoolKey { gpu_type: node.gpu_type(), taints })
}

impl Pool {
    fn insert(&mut self, name: &NodeName, id: NodeId, free: Resources, size: i64) {
        self.by_free_gpus.insert((free.gpus, name.clone(), id));
        self.by_free_cpu.insert((free.cpu_millis, name.clone(), id));
        self.gpus_free += free.gpus.max(0);
        *self.sizes.entry(size).or_default() += 1;
    }

    fn remove(&mut self, name: &NodeName, id: NodeId, free: Resources, size: i64) {
        self.by_free_gpus.remove(&(free.gpus, name.clone(), id));
        self.by_free_cpu.remove(&(free.cpu_millis, name.clone(), id));
        self.gpus_free -= free.gpus.max(0);
        let nodes = self.sizes.get_mut(&size).expect("the size of a node in the pool is counted");
        *nodes -= 1;
        if *nodes == 0 {
            self.sizes.remove(&size);
        }
    }

    fn move_node(&mut self, name: &NodeName, id: NodeId, before: Resources, after: Resources) {
        if before.gpus != after.gpus {
            self.by_free_gpus.remove(&(before.gpus, name.clone(), id));
            self.by_free_gpus.insert((after.gpus, name.clone(), id));
            self.gpus_free += after.gpus.max(0) - before.gpus.max(0);
        }
        if before.cpu_millis != after.cpu_millis {
            self.by_free_cpu.remove(&(before.cpu_millis, name.clone(), id));
            self.by_free_cpu.insert((after.cpu_millis, name.clone(), id));
        }
    }
}
