//! A queue keeps for itself what it does not lend. A borrower takes from what the others leave.
//!
//! Of its quota `q` a queue lends at most `l`, so it keeps back `q − l`, less what it holds. A gang that makes its queue
//! borrow leaves room under the same parent for what the siblings keep back:
//!
//! ```text
//!   parent holds + gang asks + Σ siblings max(0, q − l − holds)  ≤  parent's bound, else what the cluster has
//! ```
//!
//! A gang that stays within quota takes only what its queue owns, and is not checked.

use cluster_model::plan::WaitReason;
use cluster_model::{ClusterState, Queue, QueueChain, QueueUsage, ResourceName};

use super::need::Need;
use super::standing::owned;

/// Every level of the chain at which the gang would take what siblings keep back, for every resource.
pub(super) fn reserved(state: &ClusterState, chain: &QueueChain<'_>, needs: &[Need]) -> Vec<WaitReason> {
    let mut reasons = Vec::new();
    for level in chain.windows(2) {
        let [(child, child_usage), (parent, parent_usage)] = level else { continue };
        if !state.has_lent_reserve(&parent.name) {
            continue;
        }
        for (resource, asks) in needs {
            if is_own(child, child_usage, resource, *asks) {
                continue;
            }
            let of_children = state.lent_reserve(&parent.name, resource);
            let reserved = of_children.saturating_sub(kept_back(child, child_usage, resource));
            let holds = parent_usage.held(resource);
            let bound = parent.bound(resource).unwrap_or_else(|| state.capacity_of(resource));
            if reserved > 0 && holds.saturating_add(*asks).saturating_add(reserved) > bound {
                let (queue, resource) = (parent.name.clone(), resource.clone());
                reasons.push(WaitReason::LendingReserve {
                    queue,
                    resource,
                    holds,
                    reserved,
                    bound,
                    asks: *asks,
                });
            }
        }
    }
    reasons
}

/// Whether the queue only takes what it owns. It does not own what its quota does not name.
fn is_own(queue: &Queue, usage: &QueueUsage, resource: &ResourceName, asks: i64) -> bool {
    owned(queue, resource).is_some_and(|owned| usage.held(resource).saturating_add(asks) <= owned)
}

/// What a queue keeps back of its quota at present, and does not hold yet.
fn kept_back(queue: &Queue, usage: &QueueUsage, resource: &ResourceName) -> i64 {
    let Some(lend) = queue.lend.as_ref().and_then(|lend| lend.get(resource)) else { return 0 };
    let quota = owned(queue, resource).unwrap_or(0);
    quota.saturating_sub(lend).saturating_sub(usage.held(resource)).max(0)
}
