//! What people read, with the readers' role: row-level security shows only what the scope names.

mod report;
mod run;

use std::sync::Arc;
use std::time::Duration;

use costing::{Amount, Class, Day, Moment};
use sqlx::{PgConnection, PgPool, PgTransaction};

use crate::Error;
use crate::connect::{self, Limits};
use crate::ledger::prices;

/// The ledger of one cluster, opened for reading.
#[derive(Clone, Debug)]
pub struct Reader {
    pool: PgPool,
    cluster: Arc<str>,
}

/// Whose rows a transaction may see. The database holds this line, not the queries.
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
    /// Rows by what.
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
    /// Rows to skip to: the key of the last row seen (rows are in the order of keys, the row without a key first).
    pub after: Option<Option<String>>,
    /// At most so many rows.
    pub limit: u32,
}

/// Sums of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportRow {
    /// The key; `None` where there is none, for example the queue of an idle node.
    pub key: Option<String>,
    /// Money, where there is a price.
    pub amount: Amount,
    /// What it grows by each second now.
    pub rate: Amount,
    /// What it would have cost more without spot machines.
    pub saved: Amount,
    /// What of the money interruptions cost.
    pub interruptions: Amount,
    /// GPUs times seconds.
    pub gpu_seconds: i64,
    /// Those of them without a price.
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

const LIMITS: Limits = Limits {
    connections_max: 8,
    acquire_timeout: Duration::from_secs(2),
    statement_timeout: Duration::from_secs(10),
    read_only: true,
};

impl Reader {
    /// Opens a pool (at most 8 connections; 2 s to get one; statement timeout 10 s; read-only transactions). Does not
    /// wait for the database. Needs a tokio runtime around it.
    pub fn open(reader_url: &str, cluster: &str) -> Result<Self, Error> {
        let pool = connect::pool(reader_url, "warpyard-reader", &LIMITS)?;
        Ok(Self { pool, cluster: cluster.into() })
    }

    /// Sums, open use until `now` included.
    pub async fn report(&self, scope: &Scope, query: &ReportQuery, now: Moment) -> Result<Report, Error> {
        let mut transaction = self.begin(scope).await?;
        let currency = self.currency(&mut transaction).await?;
        let (rows, total, more) = report::report(&mut transaction, &self.cluster, query, now).await?;
        finish(transaction).await;
        Ok(Report { currency, rows, more, total })
    }

    /// One Run, open use until `now` included. All zero for a Run that has used nothing.
    pub async fn run_cost(
        &self,
        scope: &Scope,
        namespace: &str,
        run: &str,
        now: Moment,
    ) -> Result<RunCost, Error> {
        let mut transaction = self.begin(scope).await?;
        let currency = self.currency(&mut transaction).await?;
        let parts = run::parts(&mut transaction, &self.cluster, namespace, run, now).await?;
        finish(transaction).await;
        Ok(run::cost(currency, parts))
    }

    /// A transaction that sees one state of the ledger, and of it only the scope.
    async fn begin(&self, scope: &Scope) -> Result<PgTransaction<'static>, Error> {
        let begun = self.pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await;
        let mut transaction = begun.map_err(Error::to("begin to read"))?;
        let (everything, namespaces, queues) = match scope {
            Scope::Everything => ("yes", None, None),
            Scope::Namespaces(names) => ("", Some(names), None),
            Scope::Queues(names) => ("", None, Some(names)),
        };
        // Until the end of the transaction, so nothing is left on a connection that another request gets.
        sqlx::query(
            "SELECT set_config('warpyard.everything', $1, true), set_config('warpyard.namespaces', $2, true),
                    set_config('warpyard.queues', $3, true)",
        )
        .bind(everything)
        .bind(setting(namespaces))
        .bind(setting(queues))
        .execute(&mut *transaction)
        .await
        .map_err(Error::to("set whose rows to see"))?;
        Ok(transaction)
    }

    async fn currency(&self, connection: &mut PgConnection) -> Result<Option<String>, Error> {
        Ok(prices::version(connection, &self.cluster).await?.map(|version| version.currency))
    }
}

/// Names as the policies read them: a JSON array, or nothing.
fn setting(names: Option<&Vec<String>>) -> String {
    names.map(|names| serde_json::Value::from(names.clone()).to_string()).unwrap_or_default()
}

/// It wrote nothing: if ending it fails, what was read still holds.
async fn finish(transaction: PgTransaction<'static>) {
    let _ = transaction.rollback().await;
}
