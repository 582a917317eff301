//! Ended Runs leave the cluster: each is archived first, then deleted.
//!
//! ```text
//!   watch Runs ──► store ──► due (pure): too old, or too many in their namespace; the oldest first
//!                             │ a hundred at a time
//!                             ├─► Ledger::archive ─► PostgreSQL
//!                             └─► delete, if it is still as archived ─► teardown ─► its Jobs, pods and Services
//! ```
//!
//! Without a ledger nothing is deleted, because nothing else would remember it. A Run that somebody begins again
//! between the two writes stays, and is archived again when it has ended.

mod due;
pub mod metrics;
mod record;

pub use due::Limits;

use std::sync::Arc;
use std::time::Duration;

use api_types::Run;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Preconditions};
use kube::runtime::reflector::Store;
use service_kit::backoff;
use slim_objects::Readable;
use store::Ledger;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::due::due;
use self::metrics::Metrics;
use crate::meter::Meter;

/// Time between two looks while nothing is due.
const PACE: Duration = Duration::from_secs(10);
/// The wait after a first failure; it doubles with each further one, up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_mins(1);
/// Runs archived by one statement: a Run is a few KB, and some are 100 KB.
const BATCH: usize = 100;
/// Deletions at the same time: each makes the API server delete a Job, its pods and a Service.
const DELETIONS: usize = 8;

/// Archives and deletes ended Runs.
pub struct Cleaner {
    /// The client for deletions.
    pub client: kube::Client,
    /// Runs, from the watch.
    pub runs: Store<Run>,
    /// Where they are archived.
    pub ledger: Ledger,
    /// Knows the queues of Runs that name none.
    pub meter: Arc<Meter>,
    /// How many stay.
    pub limits: Limits,
    /// Counts and gauges.
    pub metrics: Metrics,
}

impl Cleaner {
    /// Cleans up until `stop` is cancelled. Call it when Runs are listed.
    pub async fn run(&self, stop: &CancellationToken) {
        let mut failures = 0_u32;
        loop {
            let wait = match self.pass().await {
                Ok(left) => {
                    failures = 0;
                    if left == 0 { PACE } else { Duration::ZERO }
                }
                Err(error) => {
                    self.metrics.failed();
                    if failures == 0 {
                        let cause = std::error::Error::source(&error).map(ToString::to_string);
                        warn!(%error, cause, "Ended runs stay in the cluster for now; will try again.");
                    }
                    failures = failures.saturating_add(1);
                    backoff::wait(RETRY_FIRST, RETRY_MAX, failures)
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Archives and deletes the Runs that have been due for longest; returns how many of the due ones are left.
    async fn pass(&self) -> Result<usize, store::Error> {
        let due = due(self.runs.state(), &self.limits, Timestamp::now());
        self.metrics.due(due.len());
        if due.is_empty() {
            return Ok(0);
        }
        let batch: Vec<_> = due.iter().take(BATCH).cloned().collect();
        let records: Vec<_> = batch.iter().map(|run| self.record(run)).collect();
        self.ledger.archive(&records).await?;
        let deleted = stream::iter(batch).map(|run| self.delete(run)).buffer_unordered(DELETIONS);
        let deleted = deleted.filter(|deleted| std::future::ready(*deleted)).count().await;
        self.metrics.archived(deleted);
        info!(runs = deleted, "Archived and deleted ended runs.");
        // The watch needs a moment to show that they are gone.
        Ok(if deleted == 0 { 0 } else { due.len().saturating_sub(BATCH) })
    }

    fn record(&self, run: &Run) -> store::ArchivedRun {
        let default = self.meter.default_queue(&run.namespace().unwrap_or_default());
        record::record(run, default)
    }

    /// Deletes the Run if it is still as it was archived.
    async fn delete(&self, run: Arc<Run>) -> bool {
        let api: Api<Readable<Run>> =
            Api::namespaced(self.client.clone(), &run.namespace().unwrap_or_default());
        let unchanged =
            Preconditions { uid: run.uid(), resource_version: run.metadata.resource_version.clone() };
        let parameters = DeleteParams { preconditions: Some(unchanged), ..DeleteParams::background() };
        match api.delete(&run.name_any(), &parameters).await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => false,
            Err(error) => {
                self.metrics.failed();
                warn!(run = run.name_any(), namespace = run.namespace(), %error, "Could not delete an ended run; will try again.");
                false
            }
        }
    }
}
