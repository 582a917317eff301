//! Everything the state knows, in plain sorted maps: for tests that compare two states, and for debugging.

use std::collections::{BTreeMap, BTreeSet};

use crate::names::{GangKey, GpuType, NodeName, PodKey, QueueName};
use crate::nodes::PoolKey;
use crate::objects::{Node, Pod, Queue, Resources};
use crate::queues::QueueUsage;
use crate::state::ClusterState;

/// A picture of the state. Two states with the same dump plan the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Nodes that are there or have pods.
    pub nodes: BTreeMap<NodeName, NodeDump>,
    /// Per pool: the orders by free GPUs and by free CPU, free GPUs in all, and the largest node.
    #[allow(clippy::type_complexity)]
    pub pools: BTreeMap<PoolKey, (Vec<(i64, NodeName)>, Vec<(i64, NodeName)>, i64, i64)>,
    /// Pods, with the node they count on, whether that is assumed, and the queue they are charged to.
    pub pods: BTreeMap<PodKey, (Pod, Option<NodeName>, bool, Option<QueueName>)>,
    /// Queues.
    pub queues: BTreeMap<QueueName, QueueDump>,
    /// Gangs: members, members that need a node, how many have one, how many ended.
    pub gangs: BTreeMap<GangKey, (BTreeSet<PodKey>, Vec<PodKey>, u32, u32)>,
    /// Gangs that wait, in the order of planning.
    pub waiting: Vec<GangKey>,
}

/// One node of a [`Dump`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDump {
    /// The node, if it is there.
    pub object: Option<Node>,
    /// What is in use.
    pub used: Resources,
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
}

impl ClusterState {
    /// A picture of everything; O(n), for tests and debugging.
    pub fn dump(&self) -> Dump {
        let key = |id| self.pod(id).pod.key.clone();
        Dump {
            nodes: self
                .nodes()
                .map(|(_, node)| {
                    let pods = node.pods().map(key).collect();
                    let dump = NodeDump {
                        object: node.object.clone(),
                        used: node.used,
                        gpu_type: node.gpu_type(),
                        pods,
                    };
                    (node.name.clone(), dump)
                })
                .collect(),
            pools: self
                .pools()
                .iter()
                .map(|(key, pool)| {
                    let by_gpus =
                        pool.with_free_gpus(i64::MIN).map(|(free, name, _)| (free, name.clone())).collect();
                    let by_cpu =
                        pool.with_free_cpu(i64::MIN).map(|(free, name, _)| (free, name.clone())).collect();
                    (key.clone(), (by_gpus, by_cpu, pool.gpus_free(), pool.largest_node_gpus()))
                })
                .collect(),
            pods: self
                .pods()
                .map(|(_, state)| {
                    let node = state.at.map(|node| self.node(node).name.clone());
                    let queue = state.charged.as_ref().map(|(queue, _)| self.queues.name(*queue).clone());
                    (state.pod.key.clone(), (state.pod.clone(), node, state.is_assumed(), queue))
                })
                .collect(),
            queues: self
                .queues()
                .map(|(queue, total)| {
                    let own = self.queues.own_usage(&queue.name).cloned().unwrap_or_default();
                    (queue.name.clone(), QueueDump { object: queue.clone(), own, total: total.clone() })
                })
                .collect(),
            gangs: self
                .gangs()
                .map(|(name, gang)| {
                    (
                        name.clone(),
                        (
                            gang.members().map(key).collect(),
                            gang.pending().map(key).collect(),
                            gang.bound(),
                            gang.ended(),
                        ),
                    )
                })
                .collect(),
            waiting: self.waiting_gangs().cloned().collect(),
        }
    }
}
