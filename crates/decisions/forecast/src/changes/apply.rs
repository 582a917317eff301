//! A change, made.

use std::sync::Arc;

use cluster_model::{ClusterState, DeviceAsk, GangKey, Level, Pod, PodKey, Terms, TopologyTerms};
use jiff::Timestamp;

use super::change::{RequestChange, Topology};

impl RequestChange {
    /// The cluster changes that submit a gang again with this change: its pods go, and come back under the same
    /// names. Empty for a gang that runs in part.
    pub fn steps(
        &self,
        state: &ClusterState,
        gang: &GangKey,
        now: Timestamp,
    ) -> Vec<cluster_model::ClusterChange> {
        let old = waiting_pods(state, gang);
        let gone = old.iter().map(|pod| cluster_model::ClusterChange::PodGone(pod.key.clone()));
        let new = self.made(&old, now).into_iter().map(cluster_model::ClusterChange::Pod);
        gone.chain(new).collect()
    }

    fn made(&self, old: &[Pod], now: Timestamp) -> Vec<Pod> {
        let mut pods: Vec<Pod> = old.iter().map(|pod| anew(pod, now)).collect();
        match self {
            Self::FewerGpus { gpus } => {
                each(&mut pods, |pod| pod.requests.gpus = pod.requests.gpus.min(*gpus));
            }
            Self::FewerMembers { members } => {
                pods.truncate(*members as usize);
                each(&mut pods, |pod| pod.gang_size = pod.gang_size.map(|size| size.min(*members)));
            }
            Self::GpuType { gpu_type } => {
                each(&mut pods, |pod| {
                    if uses_gpus(pod) {
                        pod.gpu_types = vec![gpu_type.clone()];
                    }
                });
            }
            Self::Topology { within } => with_terms(&mut pods, |terms| widen(terms, *within)),
            Self::Queue { queue } => each(&mut pods, |pod| pod.queue = Some(queue.clone())),
            Self::Spot => with_terms(&mut pods, |terms| terms.takes_spot = true),
        }
        pods
    }
}

pub(super) fn uses_gpus(pod: &Pod) -> bool {
    pod.requests.gpus > 0 || pod.device != DeviceAsk::Whole
}

/// The fewest members that the gang starts with.
pub(super) fn fewest_members(pods: &[Pod]) -> u32 {
    let all = u32::try_from(pods.len()).unwrap_or(u32::MAX);
    pods.first().and_then(|pod| pod.gang_size).map_or(all, |size| size.min(all))
}

/// The innermost level at which any members must be together.
pub(super) fn innermost(terms: &Terms) -> Option<Level> {
    let groups = terms.groups.values().map(|group| &group.topology);
    let levels = |topology: &TopologyTerms| [topology.required, topology.segment.map(|it| it.level)];
    groups.chain([&terms.topology]).flat_map(levels).flatten().max()
}

fn widen(terms: &mut Terms, within: Topology) {
    let groups = terms.groups.values_mut().map(|group| &mut group.topology);
    for topology in groups.chain([&mut terms.topology]) {
        match within {
            Topology::Anywhere => (topology.required, topology.segment) = (None, None),
            Topology::Domain(outer) => {
                topology.required = topology.required.map(|level| level.min(outer));
                if let Some(segment) = &mut topology.segment {
                    segment.level = segment.level.min(outer);
                }
            }
        }
    }
}

fn anew(pod: &Pod, now: Timestamp) -> Pod {
    let PodKey { namespace, name, uid } = pod.key.clone();
    Pod { key: PodKey::new(namespace, name, format!("{uid}+")), created: now, ..pod.clone() }
}

fn each(pods: &mut [Pod], change: impl Fn(&mut Pod)) {
    pods.iter_mut().for_each(change);
}

/// Members share their terms, before and after.
fn with_terms(pods: &mut [Pod], change: impl Fn(&mut Terms)) {
    let Some(first) = pods.first() else { return };
    let old = first.terms.clone();
    let mut terms = (*old).clone();
    change(&mut terms);
    let new = Arc::new(terms);
    for pod in pods {
        if pod.terms == old {
            pod.terms = new.clone();
        }
    }
}

/// Members, by index, of a gang of which none has a node; else none.
pub(super) fn waiting_pods(state: &ClusterState, gang: &GangKey) -> Vec<Pod> {
    let Some(gang) = state.gang(gang) else { return Vec::new() };
    let all_wait = gang.members().count() == gang.pending().len();
    let pods = gang.pending().map(|id| state.pod(id).pod().clone());
    if all_wait { pods.collect() } else { Vec::new() }
}
