//! A queue whose budget is spent starts nothing, and neither does any below it. Running gangs continue.

use cluster_model::plan::WaitReason;
use cluster_model::{ClusterState, QueueChain};

use super::need::Need;

/// Every queue of the chain whose budget is spent.
pub(super) fn spent(_state: &ClusterState, chain: &QueueChain<'_>, _needs: &[Need]) -> Vec<WaitReason> {
    let spent = chain.iter().filter(|(queue, _)| queue.out_of_budget);
    spent.map(|(queue, _)| WaitReason::OutOfBudget { queue: queue.name.clone() }).collect()
}
