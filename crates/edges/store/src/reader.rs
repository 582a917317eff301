//! People's side of the ledger, with the readers' role: row-level security shows only what the scope names.

mod answers;
mod archive;
mod report;
mod run;

pub use answers::{Grouping, Report, ReportQuery, ReportRow, RunCost, Scope};
pub use archive::{ArchiveQuery, Place};

use std::sync::Arc;
use std::time::Duration;

use costing::Moment;
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

    /// A page of archived Runs, newest first: the objects as they were.
    pub async fn archived_runs(
        &self,
        scope: &Scope,
        query: &ArchiveQuery,
    ) -> Result<Vec<serde_json::Value>, Error> {
        let mut transaction = self.begin(scope).await?;
        let runs = archive::runs(&mut transaction, &self.cluster, query).await?;
        finish(transaction).await;
        Ok(runs)
    }

    /// The newest archived Run of this name.
    pub async fn archived_run(
        &self,
        scope: &Scope,
        namespace: &str,
        name: &str,
    ) -> Result<Option<serde_json::Value>, Error> {
        let mut transaction = self.begin(scope).await?;
        let run = archive::run(&mut transaction, &self.cluster, namespace, name).await?;
        finish(transaction).await;
        Ok(run)
    }

    /// Every namespace with an archived Run within the scope.
    pub async fn archived_namespaces(&self, scope: &Scope) -> Result<Vec<String>, Error> {
        let mut transaction = self.begin(scope).await?;
        let namespaces = archive::namespaces(&mut transaction, &self.cluster).await?;
        finish(transaction).await;
        Ok(namespaces)
    }

    /// A transaction that sees one state of the ledger, limited to the scope.
    async fn begin(&self, scope: &Scope) -> Result<PgTransaction<'static>, Error> {
        let begun = self.pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await;
        let mut transaction = begun.map_err(Error::to("begin to read"))?;
        let (everything, namespaces, queues) = match scope {
            Scope::Everything => ("yes", None, None),
            Scope::Namespaces(names) => ("", Some(names), None),
            Scope::Queues(names) => ("", None, Some(names)),
        };
        // Set until the end of the transaction, so that nothing is left on a connection that another request
        // gets.
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

/// Ends a transaction that wrote nothing: if this fails, what was read is still valid.
async fn finish(transaction: PgTransaction<'static>) {
    let _ = transaction.rollback().await;
}
