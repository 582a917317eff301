//! Questions to the ledger, and the answers.

use costing::{Amount, Class, Day};

/// Whose rows a transaction may see. The database enforces this, not the queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything, idle nodes included.
    Everything,
    /// Rows of these namespaces.
    Namespaces(Vec<String>),
    /// Rows of these queues.
    Queues(Vec<String>),
}

/// What rows are summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Run (key `namespace/name`); use without a Run is the row without a key.
    Run,
    /// Who submitted it.
    User,
    /// Queue.
    Queue,
    /// Namespace.
    Namespace,
    /// Day, as `2026-11-15`.
    Day,
    /// Class.
    Class,
}

/// What to sum.
#[derive(Clone, Debug)]
pub struct ReportQuery {
    /// What rows are summed by.
    pub by: Grouping,
    /// First day.
    pub since: Day,
    /// First day after. Open use counts on its own day, so only if `until` is later than today.
    pub until: Day,
    /// Only of this namespace.
    pub namespace: Option<String>,
    /// Only of these queues.
    pub queues: Option<Vec<String>>,
    /// Only of this user.
    pub user: Option<String>,
    /// The key of the last row of the page before. Rows are in the order of keys, the row without a key first.
    pub after: Option<Option<String>>,
    /// At most this many rows.
    pub limit: u32,
}

/// Sums of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportRow {
    /// The key; `None` where there is none, for example the queue of an idle node.
    pub key: Option<String>,
    /// Money, where there is a price.
    pub amount: Amount,
    /// By how much the money grows each second now.
    pub rate: Amount,
    /// How much more it would have cost without spot machines.
    pub saved: Amount,
    /// The part of the money that interruptions cost.
    pub interruptions: Amount,
    /// GPUs times seconds.
    pub gpu_seconds: i64,
    /// GPU-seconds without a price.
    pub unpriced_gpu_seconds: i64,
}

/// A page of rows, and the sum of all pages.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The currency, once prices are set.
    pub currency: Option<String>,
    /// The rows.
    pub rows: Vec<ReportRow>,
    /// Whether there are more.
    pub more: bool,
    /// The sum of all rows, also those on other pages; its key is `None`.
    pub total: ReportRow,
}

/// What one Run has cost so far.
#[derive(Clone, Debug, Default)]
pub struct RunCost {
    /// The currency, once prices are set.
    pub currency: Option<String>,
    /// Everything; its key is `None`.
    pub total: ReportRow,
    /// By class.
    pub classes: Vec<(Class, ReportRow)>,
    /// By attempt.
    pub attempts: Vec<(u32, ReportRow)>,
}
