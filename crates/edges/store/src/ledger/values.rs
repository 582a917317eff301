//! Arguments and results of the ledger.

use costing::{Amount, Moment, NodeRecord, PodRecord};

/// Facts learnt since the last batch, to be joined with the records.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Pods.
    pub pods: Vec<PodRecord>,
    /// Nodes.
    pub nodes: Vec<NodeRecord>,
}

/// An attempt of a Run that lost work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostUse {
    /// The tenant.
    pub namespace: String,
    /// The Run.
    pub run: String,
    /// The attempt.
    pub attempt: u32,
    /// When the lost work began: a later attempt began from a checkpoint of that time.
    pub from: Moment,
}

/// The result of one round of posting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Posted {
    /// Accounts that were brought up to date.
    pub accounts: u64,
    /// Lines charged.
    pub charges: u64,
    /// Lines reversed.
    pub reversals: u64,
    /// Problems that the folds found; each is also a row of the table `problem`.
    pub problems: u64,
}

/// The spend of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSpend {
    /// The queue.
    pub queue: String,
    /// Money.
    pub amount: Amount,
    /// GPUs times seconds.
    pub gpu_seconds: i64,
}
