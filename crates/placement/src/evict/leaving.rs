//! What gangs that give way still use.
//!
//! A plan is made in the view of what will be: victims are gone, claimants are where they will go. Who starts now must
//! also fit beside what is still there. That is kept here, and looked at only while somebody leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::plan::GangPlacement;
use cluster_model::{ClusterState, DeviceUse, NodeId, PodId, Resources};

#[derive(Default)]
pub(super) struct Leaving {
    /// By node: what is used, and which devices.
    nodes: BTreeMap<NodeId, (Resources, Vec<DeviceUse>)>,
    /// Marks of pods that leave.
    marks: BTreeSet<Arc<str>>,
    /// Marks that pods that leave keep apart from.
    shunned: BTreeSet<Arc<str>>,
}

impl Leaving {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Takes note of a pod, before it is taken out of the view.
    pub fn add(&mut self, state: &ClusterState, id: PodId) {
        let member = state.pod(id);
        let Some(node) = member.at() else { return };
        let (used, devices) = self.nodes.entry(node).or_default();
        *used += member.pod().requests;
        devices.extend(member.devices());
        self.marks.extend(member.pod().marks.iter().cloned());
        self.shunned.extend(member.pod().terms.keep_apart.iter().map(|apart| apart.mark.clone()));
    }

    /// Whether what was just placed would stand beside something that is still there. Places that are held for others
    /// count too: who starts now gets nothing of what is about to be theirs.
    pub fn blocks(&self, planned: &ClusterState, placement: &GangPlacement) -> bool {
        !self.is_empty()
            && placement.members.iter().any(|member| {
                let pod = planned.pod_id(&member.pod).map(|id| planned.pod(id).pod());
                let apart = pod.is_some_and(|pod| {
                    pod.marks.iter().any(|mark| self.shunned.contains(mark))
                        || pod.terms.keep_apart.iter().any(|apart| self.marks.contains(&apart.mark))
                });
                let node = planned.node_id(&member.node);
                let still_used = node.and_then(|node| Some((node, self.nodes.get(&node)?)));
                apart
                    || still_used.is_some_and(|(node, (used, devices))| {
                        let free = planned.node(node).free() - *used;
                        let asked = pod.map(|pod| pod.requests).unwrap_or_default();
                        !has_room(&asked, &free)
                            || devices
                                .iter()
                                .any(|used| member.devices.iter().any(|it| it.device == used.device))
                    })
            })
    }
}

/// Whether nothing that is asked for is overcommitted, what is asked for already counted.
pub(super) fn has_room(asked: &Resources, free: &Resources) -> bool {
    let fine = |asked: i64, free: i64| asked <= 0 || free >= 0;
    fine(asked.gpus, free.gpus)
        && fine(asked.cpu_millis, free.cpu_millis)
        && fine(asked.memory_bytes, free.memory_bytes)
        && fine(asked.pods, free.pods)
}
