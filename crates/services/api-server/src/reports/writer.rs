//! Writes progress into the status of runs: one write per run and second, with all waiting reports.
//!
//! ```text
//!   report ─► waits ─► write ─► 202 to all reports in it ─► a second's pause ─► those that came meanwhile …
//!                        │ conflict: read again, decide again
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_types::Run;
use api_types::names::API_SERVER_FIELD_MANAGER;
use http::StatusCode;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use slim_objects::Readable;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::debug;

use super::check::Told;
use super::record::record;
use crate::cache::cluster_cache::ClusterCache;
use crate::http::problem::ApiError;

/// From the beginning of one write for a run to that of the next.
const PACE: Duration = Duration::from_secs(1);
/// Reports of one run that may wait: one process reports, and at most 256 at once after an outage, one after the other.
const WAITING_MAX: usize = 32;
/// Controllers, scheduler and users write a run only a few times in a second.
const TRIES: u32 = 5;
/// The longest wait of a report for its write.
const WRITE_TIME_MAX: Duration = Duration::from_secs(10);

type Answer = Result<(), ApiError>;
type Key = (String, String);
/// Waiting reports, for each run that is being written or was in the last second.
type Waiting = HashMap<Key, Vec<(Told, oneshot::Sender<Answer>)>>;

/// Takes reports of all runs.
pub struct Writer {
    client: Client,
    cache: Arc<ClusterCache>,
    waiting: Mutex<Waiting>,
}

impl Writer {
    /// Writes with this client, as this server.
    pub fn new(client: Client, cache: Arc<ClusterCache>) -> Self {
        Self { client, cache, waiting: Mutex::default() }
    }

    /// Returns when the report is in the run's status.
    pub async fn write(self: &Arc<Self>, namespace: &str, name: &str, told: Told) -> Answer {
        let key = (namespace.to_owned(), name.to_owned());
        let (sender, answer) = oneshot::channel();
        {
            let mut runs = self.lock();
            let is_at_work = runs.contains_key(&key);
            let waiting = runs.entry(key.clone()).or_default();
            if waiting.len() >= WAITING_MAX {
                return Err(too_many());
            }
            waiting.push((told, sender));
            if !is_at_work {
                tokio::spawn(Arc::clone(self).work(key));
            }
        }
        answer.await.unwrap_or_else(|_| Err(unwritten("the write was given up")))
    }

    /// Writes for one run until no report waits.
    async fn work(self: Arc<Self>, key: Key) {
        loop {
            let waiting = {
                let mut runs = self.lock();
                let waiting = runs.get_mut(&key).map(std::mem::take).unwrap_or_default();
                if waiting.is_empty() {
                    runs.remove(&key);
                    return;
                }
                waiting
            };
            let next = Instant::now() + PACE;
            let (told, senders): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
            let write = tokio::time::timeout(WRITE_TIME_MAX, self.write_all(&key, &told));
            let answer = write.await.unwrap_or_else(|_| Err(unwritten("Kubernetes took too long")));
            for sender in senders {
                // A member that hung up meanwhile sends again.
                let _ = sender.send(answer.clone());
            }
            tokio::time::sleep_until(next).await;
        }
    }

    async fn write_all(&self, (namespace, name): &Key, told: &[Told]) -> Answer {
        let runs: Api<Readable<Run>> = Api::namespaced(self.client.clone(), namespace);
        // The cache first. If the run was written since, Kubernetes refuses, and the run is read from it.
        let mut run = self.cache.runs().get(namespace, name).map(Arc::unwrap_or_clone);
        for _ in 0..TRIES {
            let current = match run.take() {
                Some(run) => run,
                None => match runs.get_opt(name).await {
                    Ok(Some(Readable(run))) => run,
                    Ok(None) => return Err(gone()),
                    Err(error) => return Err(ApiError::from_kube(&error, "read the run")),
                },
            };
            let now = Timestamp::now();
            let old = current.status.as_ref().and_then(|status| status.progress.clone());
            let Some(progress) = told.iter().fold(old, |progress, told| Some(record(progress, told, now)))
            else {
                return Ok(());
            };
            let parameters = PatchParams::apply(API_SERVER_FIELD_MANAGER).force();
            // Only the progress, and only on the same version of the run.
            let patch = Patch::Apply(current.status_patch(&json!({ "progress": progress })));
            match runs.patch_status(name, &parameters, &patch).await {
                Ok(_) => {
                    debug!(namespace, run = name, step = progress.step, "Recorded progress.");
                    return Ok(());
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(kube::Error::Api(status)) if status.code == 404 => return Err(gone()),
                Err(error) => return Err(ApiError::from_kube(&error, "record the report")),
            }
        }
        Err(unwritten("others kept writing the run"))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // It is changed by total functions only; a poisoned lock holds a usable map.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_many() -> ApiError {
    ApiError::new(
        StatusCode::TOO_MANY_REQUESTS,
        "TooManyReports",
        "the run reports faster than it is recorded",
    )
}

fn unwritten(detail: &str) -> ApiError {
    ApiError::unavailable("NotRecorded", detail)
}

fn gone() -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "NotAMember", "the run is gone")
}

#[cfg(test)]
mod tests;
