//! What is lost when a gang gives way.

use cluster_model::{ClusterState, Gang, Place, Pod, PodId};
use jiff::Timestamp;

/// GPUs × seconds since the last checkpoint, if the gang saves its state, else since its start. Members save
/// together, so the newest save that any of them names is that of all. A gang that never said when it started has
/// nothing to lose that we know of.
pub(super) fn lost_gpu_seconds(state: &ClusterState, gang: &Gang, now: Timestamp) -> u64 {
    let pods = || running(state, gang).map(|id| state.pod(id).pod());
    let saved = pods().filter(|pod| pod.terms.eviction.checkpoints).filter_map(|pod| pod.checkpointed).max();
    pods().map(|pod| of_pod(pod, saved, now)).sum()
}

/// Members on a node that are not being deleted. A node that is only held cannot be left.
pub(super) fn running<'a>(state: &'a ClusterState, gang: &'a Gang) -> impl Iterator<Item = PodId> + 'a {
    gang.members().filter(|id| {
        let member = state.pod(*id);
        !member.pod().terminating && matches!(member.place(), Some(Place::Bound | Place::Assumed))
    })
}

fn of_pod(pod: &Pod, saved: Option<Timestamp>, now: Timestamp) -> u64 {
    let saved = saved.filter(|_| pod.terms.eviction.checkpoints);
    let Some(since) = saved.max(pod.started) else { return 0 };
    let seconds = u64::try_from(now.as_second() - since.as_second()).unwrap_or(0);
    u64::try_from(pod.requests.gpus).unwrap_or(0).saturating_mul(seconds)
}
