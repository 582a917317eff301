//! Room in the tree of queues: what a gang needs in order to start, whatever the nodes have.
//!
//! ```text
//!   needs, by resource ──► budget ──► bound ──► lending ──► reasons, or none: it may start
//! ```
//!
//! Each rule looks at the gang's queue and every queue above it, and says all that is in the way, with numbers. What
//! a queue owns, and on which account it would take more, is its [`QuotaStanding`]: the order of planning depends on it.

mod bound;
mod budget;
mod lending;
mod need;
mod standing;

use cluster_model::plan::WaitReason;
use cluster_model::{ClusterState, GpuType, QueueChain};

use crate::gang::Request;

pub(crate) use need::{Need, needs};
pub(crate) use standing::{QuotaStanding, owned, standing_of};

/// What is in the way of a gang with these needs, in its queue and those above.
type Rule = fn(&ClusterState, &QueueChain<'_>, &[Need]) -> Vec<WaitReason>;

/// In the order in which their reasons are given.
const RULES: [Rule; 3] = [budget::spent, bound::exceeded, lending::reserved];

/// Everything in the tree of queues that is in the way of a gang, if it took GPUs of this type.
pub(crate) fn exceeded(
    state: &ClusterState,
    request: &Request,
    gpu_type: Option<&GpuType>,
) -> Vec<WaitReason> {
    // A gang that finishes its start was granted its room, and money was spent on its run already.
    if request.is_granted {
        return Vec::new();
    }
    let first = state.pod_id(&request.first_pod).expect("a pod of a gang that waits is known");
    let chain = match state.queue_chain_of(state.pod(first).pod()) {
        Ok(chain) => chain,
        Err(problem) => return vec![problem],
    };
    let needs = needs(&request.needs, gpu_type);
    RULES.iter().flat_map(|rule| rule(state, &chain, &needs)).collect()
}
