//! Holds: objects that name the claimant for which nodes are kept, and the gangs that leave them. A
//! Hold is written before any gang is told to go, and deleted when the claimant has its nodes or
//! will not get them.
//!
//! ```text
//!   write ─► POST ─409: there is one─► PATCH the spec ─► written: the victims may be told to go
//!   delete ─► DELETE (404 is a success)
//! ```

use std::time::Duration;

use api_types::hold::{HoldSpec, hold_name};
use api_types::names::SCHEDULER_FIELD_MANAGER;
use cluster_convert::hold_spec;
use cluster_model::GangKey;
use cluster_model::plan::HoldRecord;
use http::Method;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::outcome::{Answer, answer};
use crate::pending::{Done, Pace, Paced, Pending};
use crate::writer::{Ends, Writer};
use crate::writes::{Fenced, Writes};

/// Writes of Holds at a time. A preemption waits for its Hold, so they must not be the bottleneck.
const IN_FLIGHT_MAX: usize = 32;
/// Refused for good, as with a right that is missing: the log says so, and it is tried again at the pace of [`Pending`].
const CONTENT_JSON: &str = "application/json";
const CONTENT_MERGE: &str = "application/merge-patch+json";

/// The Hold that a gang is to have; `None` if it is to have none.
#[derive(Clone, Debug, PartialEq)]
struct Wanted(Option<HoldRecord>);

impl Paced for Wanted {
    fn pace(&self, old: &Self) -> Option<Pace> {
        (self != old).then_some(Pace::NOW)
    }

    fn is_last(&self) -> bool {
        self.0.is_none()
    }
}

/// Takes Holds and writes them in the background. Clones share the queue.
#[derive(Clone)]
pub struct HoldWriter(Writer<GangKey, Wanted>);

impl HoldWriter {
    /// Starts writing, as the leader of an epoch.
    pub fn start(writes: Writes, epoch: i64, fenced: Fenced) -> Self {
        let (stop, settled_after) = (CancellationToken::new(), writes.settled_after());
        let ends = Ends { fenced: fenced.clone(), stop: stop.clone(), settled_after };
        Self(Writer::start(IN_FLIGHT_MAX, ends, move |gang, wanted| {
            let (writes, fenced, stop) = (writes.clone(), fenced.clone(), stop.clone());
            async move { write(&writes, epoch, &fenced, &stop, &gang, wanted).await }
        }))
    }

    /// Begins no further write, and waits until those in flight are answered or their time is up.
    pub async fn stop(&self) {
        self.0.stop().await;
    }

    /// Asks for a gang's Hold to be as given.
    pub fn write(&self, hold: HoldRecord) {
        self.0.change(|pending, now| pending.submit(hold.gang.clone(), Wanted(Some(hold)), now));
    }

    /// Asks for a gang to have no Hold. Callers that wait for it to be written learn that it will
    /// not be.
    pub fn delete(&self, gang: &GangKey) {
        self.0.change(|pending, now| pending.submit(gang.clone(), Wanted(None), now));
        self.0.look_again(gang);
    }

    /// Completes when it is clear whether the gang's Hold with this expiry is written: `false` if
    /// none, or another one, is wanted.
    pub async fn is_written(&self, gang: &GangKey, expires: Timestamp) -> bool {
        self.0.until(gang, |pending| standing(pending, gang, expires)).await
    }
}

/// Whether the latest wanted Hold is this one and is written; `None` if that is not known yet. No
/// two Holds of a gang expire at the same moment.
fn standing(pending: &Pending<GangKey, Wanted>, gang: &GangKey, expires: Timestamp) -> Option<bool> {
    match pending.latest(gang) {
        Some((Wanted(Some(hold)), written)) if hold.expires == expires => written.then_some(true),
        _ => Some(false),
    }
}

async fn write(
    writes: &Writes,
    epoch: i64,
    fenced: &Fenced,
    stop: &CancellationToken,
    gang: &GangKey,
    wanted: Wanted,
) -> Done {
    let spec = wanted.0.as_ref().map(|record| hold_spec(record, epoch));
    let result = match &spec {
        None => attempt(writes, Method::DELETE, gang, None).await,
        Some(hold) => {
            crate::failpoint!("before-hold");
            match attempt(writes, Method::POST, gang, Some(hold)).await {
                Answer::Conflict(_) if !stop.is_cancelled() => {
                    attempt(writes, Method::PATCH, gang, Some(hold)).await
                }
                answer => answer,
            }
        }
    };
    match result {
        Answer::Done => {
            debug!(%gang, held = wanted.0.is_some(), "Wrote hold.");
            Done::Written
        }
        Answer::NotFound if wanted.0.is_none() => Done::Written,
        Answer::Fenced(message) => {
            warn!(%gang, answer = message, "Hold refused by the fence.");
            fenced.report(&message);
            Done::Dropped
        }
        // It was there and is gone, or its namespace is about to be.
        Answer::NotFound => Done::Failed,
        Answer::Refused(message) | Answer::Conflict(message) => {
            warn!(%gang, answer = message, "Hold refused.");
            Done::Failed
        }
        Answer::Throttled(patience, message) => {
            debug!(%gang, answer = message, "Hold throttled.");
            let rest = tokio::time::sleep(patience.saturating_sub(Duration::from_secs(1)));
            stop.run_until_cancelled(rest).await;
            Done::Failed
        }
        Answer::Unknown(message) => {
            // Writing it again, or deleting it again, has the same effect.
            debug!(%gang, answer = message, "Hold without a clear answer.");
            Done::Failed
        }
    }
}

async fn attempt(writes: &Writes, method: Method, gang: &GangKey, hold: Option<&HoldSpec>) -> Answer {
    let (namespace, name) = (&gang.namespace, hold_name(&gang.name));
    let folder = format!("/apis/warpyard.dev/v1alpha1/namespaces/{namespace}/holds");
    let query = format!("fieldManager={SCHEDULER_FIELD_MANAGER}&{}", writes.query());
    let is_new = method == Method::POST;
    let path = if is_new { format!("{folder}?{query}") } else { format!("{folder}/{name}?{query}") };
    let body = hold.map(|hold| body(&name, hold).to_string().into_bytes());
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, if is_new { CONTENT_JSON } else { CONTENT_MERGE })
        .body(body.unwrap_or_default())
        .expect("names that the API server accepted make a valid URL");
    answer(&writes.send::<IgnoredAny>(request).await)
}

fn body(name: &str, hold: &HoldSpec) -> Json {
    json!({
        "apiVersion": "warpyard.dev/v1alpha1", "kind": "Hold",
        "metadata": { "name": name },
        "spec": hold,
    })
}

#[cfg(test)]
mod tests;
