//! What gangs that give way still use.
//!
//! A plan is made in the view of what will be: victims are gone, claimants are where they will go. A gang that starts
//! now must also fit together with what is still there. That is kept here, and looked at only while gangs leave.

use std::collections::BTreeMap;

use cluster_model::plan::GangPlacement;
use cluster_model::{
    ClusterState, DeviceUse, HostPorts, NodeId, NodeState, OtherResources, Pod, PodId, Resources,
};

use super::neighbours;

#[derive(Default)]
pub(super) struct Leaving {
    /// By node: what is used.
    nodes: BTreeMap<NodeId, Used>,
    /// Pods that leave, and from where.
    pods: Vec<(PodId, NodeId)>,
    grace_seconds_max: u32,
}

/// What is still used of a node.
#[derive(Default)]
struct Used {
    resources: Resources,
    devices: Vec<DeviceUse>,
    /// Other resources, and ports.
    extras: Vec<(OtherResources, HostPorts)>,
}

impl Used {
    /// Whether a pod that counts on the node already cannot be there while this is.
    fn blocks(&self, node: &NodeState, pod: &Pod, devices: &[DeviceUse]) -> bool {
        let used =
            |name: &str| self.extras.iter().map(|(others, _)| others.get(name)).fold(0, i64::saturating_add);
        !has_room(&pod.requests, &(node.free() - self.resources))
            || self.devices.iter().any(|used| devices.iter().any(|it| it.device == used.device))
            || pod.other_requests.iter().any(|(name, _)| node.free_of(name) < used(name))
            || self.extras.iter().any(|(_, ports)| ports.conflict(&pod.host_ports))
    }
}

impl Leaving {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Records a pod, before it is taken out of the view.
    pub fn add(&mut self, state: &ClusterState, id: PodId) {
        let member = state.pod(id);
        let Some(node) = member.at() else { return };
        let used = self.nodes.entry(node).or_default();
        used.resources += member.pod().requests;
        used.devices.extend(member.devices());
        let (others, ports) = (&member.pod().other_requests, &member.pod().host_ports);
        if !others.is_empty() || !ports.is_empty() {
            used.extras.push((others.clone(), ports.clone()));
        }
        self.pods.push((id, node));
        self.grace_seconds_max = self.grace_seconds_max.max(member.pod().grace_seconds);
    }

    /// The longest that one of them may take to end.
    pub fn grace_seconds_max(&self) -> u32 {
        self.grace_seconds_max
    }

    /// Whether what was just placed conflicts with something that is still there. Nodes that are held for others
    /// count too: a gang that starts now gets nothing of what will be theirs.
    pub fn blocks(&self, planned: &ClusterState, placement: &GangPlacement) -> bool {
        !self.is_empty()
            && placement.members.iter().any(|member| {
                let pod = planned.pod_id(&member.pod).map(|id| planned.pod(id).pod());
                let node = planned.node_id(&member.node);
                let apart = pod.zip(node).is_some_and(|starts| self.keeps_away(planned, starts));
                let still_used = node.and_then(|node| Some((planned.node(node), self.nodes.get(&node)?)));
                let in_the_way = |(node, used): (&NodeState, &Used)| {
                    pod.is_some_and(|pod| used.blocks(node, pod, &member.devices))
                };
                apart || still_used.is_some_and(in_the_way)
            })
    }

    /// Whether a pod that leaves decides where a pod may start: the one must keep apart from the other, or counts on
    /// its presence.
    fn keeps_away(&self, planned: &ClusterState, (pod, at): (&Pod, NodeId)) -> bool {
        self.pods.iter().any(|(id, from)| {
            let leaves = planned.pod(*id).pod();
            neighbours::keep_apart(planned, (pod, at), (leaves, *from))
                || neighbours::leans_on(planned, pod, leaves)
        })
    }
}

/// Whether nothing that is asked for is overcommitted. What is asked for is already counted.
pub(super) fn has_room(asked: &Resources, free: &Resources) -> bool {
    let fine = |asked: i64, free: i64| asked <= 0 || free >= 0;
    fine(asked.gpus, free.gpus)
        && fine(asked.cpu_millis, free.cpu_millis)
        && fine(asked.memory_bytes, free.memory_bytes)
        && fine(asked.pods, free.pods)
}
