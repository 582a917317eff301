//! On which account a queue would take more: its own, its bank's, or that of others.

use cluster_model::{ClusterState, Queue, QueueUsage, ResourceName};

use super::need::Need;

/// On which account a queue would take what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QuotaStanding {
    /// It stays within its quota.
    WithinQuota,
    /// It goes beyond its quota in GPUs, and pays with credit of its bank. For order and reclaim that is as good as
    /// its quota; its limit still holds.
    OnCredit,
    /// It takes what other queues own, or what none owns.
    Borrows,
}

impl QuotaStanding {
    /// Whether the queue has a claim to it: it comes before those that borrow, and is not reclaimed from.
    pub fn is_entitled(self) -> bool {
        self != Self::Borrows
    }
}

/// On which account a queue would take this in addition to what it holds, its children included, for this long.
/// Credit must last until then for what is beyond the quota, as far as is known. That is how a bank spends what it
/// earned and no more, although nothing is stopped.
pub(crate) fn standing_of(
    state: &ClusterState,
    queue: &Queue,
    usage: &QueueUsage,
    needs: &[Need],
    run_seconds: i64,
) -> QuotaStanding {
    let mut standing = QuotaStanding::WithinQuota;
    for (resource, asks) in needs {
        let holds = usage.held(resource).saturating_add(*asks);
        let beyond = owned(queue, resource).map_or(0, |owned| holds.saturating_sub(owned));
        if beyond <= 0 {
            continue;
        }
        let is_gpu = matches!(resource, ResourceName::Gpu(_));
        if !is_gpu || queue.bank.is_none() {
            return QuotaStanding::Borrows;
        }
        let credit = state.bank_gpu_seconds(&queue.name);
        if credit <= 0 || beyond.saturating_mul(run_seconds) > credit {
            return QuotaStanding::Borrows;
        }
        standing = QuotaStanding::OnCredit;
    }
    standing
}

/// What a queue owns of a resource: its quota. GPUs that it does not name belong to others. CPU and memory that it
/// does not name are not counted in quotas (`None`): a quota in GPUs alone is not used up by the CPU that goes with
/// them.
pub(crate) fn owned(queue: &Queue, resource: &ResourceName) -> Option<i64> {
    let named = queue.quota.as_ref().and_then(|quota| quota.get(resource));
    named.or_else(|| matches!(resource, ResourceName::Gpu(_)).then_some(0))
}
