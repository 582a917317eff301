//! The ledger for handlers: it may be absent, its time is bounded, and its errors say what to do next.
//!
//! ```text
//!   handler ─► Ledger ─► store::Reader ─► PostgreSQL, as the readers' role, for one scope
//!                 └─► 503 NoLedger | LedgerUnavailable | 500 LedgerRefused
//! ```
//!
//! It never decides whose rows are shown (see [`crate::cost::scope`]), and never logs the address it connects to,
//! which holds a password.

use std::future::Future;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use api_types::Run;
use costing::Moment;
use http::StatusCode;
use slim_objects::Readable;
use store::{ArchiveQuery, Reader, Report, ReportQuery, RunCost, Scope};
use tracing::{error, warn};

use crate::http::problem::ApiError;

/// The longest time for one question: 2 s for a connection, 10 s for its statement. The database itself gives
/// up after that, but one that vanished from the network does not answer, so the time is bounded here too.
const QUESTION_TIME_MAX: Duration = Duration::from_secs(12);
/// The longest address: a user, a password, a host and options.
const ADDRESS_BYTES_MAX: u64 = 4 * 1024;

/// The ledger of one cluster, opened for reading.
#[derive(Clone, Debug)]
pub struct Ledger {
    reader: Reader,
}

/// Why there is no ledger to open.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file with the address cannot be read.
    #[error("cannot read the ledger's address from {path}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file holds no address.
    #[error("{path} must hold the ledger's address, as one line postgresql://user:password@host/database")]
    NoAddress {
        /// The file.
        path: String,
    },
    /// The address cannot be used. Its text is left out: it holds a password.
    #[error("the ledger's address in {path} cannot be used")]
    Invalid {
        /// The file.
        path: String,
    },
}

impl Ledger {
    /// The ledger of `cluster` at the address in `file`. Does not wait for the database.
    pub fn open(file: &Path, cluster: &str) -> Result<Self, Error> {
        let path = file.display().to_string();
        let mut address = String::new();
        std::fs::File::open(file)
            .and_then(|file| file.take(ADDRESS_BYTES_MAX).read_to_string(&mut address))
            .map_err(|source| Error::Unreadable { path: path.clone(), source })?;
        let address = address.trim();
        if address.is_empty() || address.contains(char::is_whitespace) {
            return Err(Error::NoAddress { path });
        }
        let reader = Reader::open(address, cluster).map_err(|_| Error::Invalid { path })?;
        Ok(Self { reader })
    }

    /// Sums within the scope.
    pub async fn report(&self, scope: &Scope, query: &ReportQuery, now: Moment) -> Result<Report, ApiError> {
        bounded(self.reader.report(scope, query, now)).await
    }

    /// The cost of one run, within the scope.
    pub async fn run_cost(
        &self,
        scope: &Scope,
        namespace: &str,
        run: &str,
        now: Moment,
    ) -> Result<RunCost, ApiError> {
        bounded(self.reader.run_cost(scope, namespace, run, now)).await
    }

    /// A page of archived runs within the scope, newest first.
    pub async fn archived_runs(&self, scope: &Scope, query: &ArchiveQuery) -> Result<Vec<Run>, ApiError> {
        let documents = bounded(self.reader.archived_runs(scope, query)).await?;
        documents.into_iter().map(read).collect()
    }

    /// The newest archived run of this name.
    pub async fn archived_run(&self, namespace: &str, name: &str) -> Result<Option<Run>, ApiError> {
        let scope = Scope::Namespaces(vec![namespace.to_owned()]);
        bounded(self.reader.archived_run(&scope, namespace, name)).await?.map(read).transpose()
    }

    /// Every namespace with an archived run. Names only: check the caller's rights in each.
    pub async fn archived_namespaces(&self) -> Result<Vec<String>, ApiError> {
        bounded(self.reader.archived_namespaces(&Scope::Everything)).await
    }
}

/// The answer if no ledger is configured.
pub fn not_configured() -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "NoLedger", "this server keeps no ledger, so nothing has a cost")
        .hint("an administrator can set one up and start the API server with --database-url-file: see docs/guides/operate.md")
}

async fn bounded<T>(question: impl Future<Output = Result<T, store::Error>>) -> Result<T, ApiError> {
    match tokio::time::timeout(QUESTION_TIME_MAX, question).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(refusal(&error)),
        Err(_) => {
            warn!(seconds = QUESTION_TIME_MAX.as_secs(), "The ledger's database did not answer.");
            Err(unavailable())
        }
    }
}

fn read(document: serde_json::Value) -> Result<Run, ApiError> {
    serde_json::from_value(document).map(|Readable(run)| run).map_err(|error| {
        error!(%error, "An archived run cannot be read.");
        refused()
    })
}

fn refusal(problem: &store::Error) -> ApiError {
    let source = std::error::Error::source(problem).map(ToString::to_string);
    if problem.is_unavailable() {
        warn!(error = %problem, source, "The ledger's database is not available.");
        return unavailable();
    }
    error!(error = %problem, source, "The ledger's database refused.");
    refused()
}

fn refused() -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "LedgerRefused", "the ledger cannot answer this")
        .hint("this is a fault of the platform: an administrator finds the cause in the API server's log")
}

fn unavailable() -> ApiError {
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "LedgerUnavailable",
        "the ledger's database does not answer at the moment",
    )
    .hint("try again in a few seconds; nothing is lost meanwhile: what runs goes on, and its cost is counted later")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Error, Ledger};

    #[test]
    fn a_missing_or_empty_file_says_which() {
        let missing = Ledger::open(Path::new("/no/such/file"), "c").expect_err("there is none");
        assert_eq!(missing.to_string(), "cannot read the ledger's address from /no/such/file");
        let empty = Ledger::open(Path::new("/dev/null"), "c").expect_err("it is empty");
        assert!(matches!(empty, Error::NoAddress { .. }), "{empty}");
    }
}
