//! No queue holds more than it may: its limit if that names the resource, else its quota.

use cluster_model::plan::WaitReason;
use cluster_model::{ClusterState, QueueChain};

use super::need::Need;

/// Every queue of the chain that has no room, for every resource that is short.
pub(super) fn exceeded(_state: &ClusterState, chain: &QueueChain<'_>, needs: &[Need]) -> Vec<WaitReason> {
    let mut reasons = Vec::new();
    for (queue, usage) in chain {
        for (resource, asks) in needs {
            let holds = usage.held(resource);
            if let Some(bound) = queue.bound(resource)
                && holds.saturating_add(*asks) > bound
            {
                let (queue, resource) = (queue.name.clone(), resource.clone());
                reasons.push(WaitReason::QuotaExceeded { queue, resource, holds, bound, asks: *asks });
            }
        }
    }
    reasons
}
