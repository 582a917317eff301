//! Status writes: why a Run and its first pod wait, what a Queue holds, what machines really have. They share the binder's
//! client, which opens a connection per request in flight. Only a few are in flight at a time, so
//! they do not slow binds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use api_types::machine_type::MachineTypeStatus;
use api_types::names::SCHEDULER_FIELD_MANAGER;
use api_types::queue::QueueStatus;
use api_types::run::Waiting;
use cluster_model::{PodKey, QueueName};
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::outcome::{Answer, answer};
use crate::pending::{Done, Pace, Paced};
use crate::pod_status::PodCondition;
use crate::writer::{Ends, Writer};
use crate::writes::{Fenced, Writes};

/// Status writes at a time.
const IN_FLIGHT_MAX: usize = 4;
/// Between two writes of one Run that differ in numbers only. Nearly every placement changes the numbers of every Run
/// that waits for the same queue or GPUs: 10,000 of them are at most 167 writes per second, behind all others.
const NUMBERS_PACE: Pace = Pace { wait: Duration::from_mins(1), yields: true };
/// Between two writes of one Queue. Queues are few.
const QUEUE_PACE: Pace = Pace { wait: Duration::from_secs(2), yields: false };

/// The object and field to write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// `status.waiting` of a Run: namespace and name.
    Run(Arc<str>, Arc<str>),
    /// The condition `PodScheduled` of a pod.
    Pod(PodKey),
    /// The status of a Queue.
    Queue(QueueName),
    /// The status of a `MachineType`.
    MachineType(Arc<str>),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(namespace, name) => write!(f, "run {namespace}/{name}"),
            Self::Pod(pod) => write!(f, "pod {pod}"),
            Self::Queue(queue) => write!(f, "queue {queue}"),
            Self::MachineType(machine) => write!(f, "machine type {machine}"),
        }
    }
}

/// The value to write.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Why the Run waits; `None` takes it back.
    Waiting(Option<Waiting>),
    /// Why the pod waits: a code and a sentence.
    NotScheduled {
        /// CamelCase; never `Unschedulable`, which asks autoscalers for a node.
        code: &'static str,
        /// The sentence.
        message: String,
    },
    /// What the Queue holds.
    Queue(QueueStatus),
    /// What machines of the type really have.
    MachineType(MachineTypeStatus),
}

impl Paced for Value {
    fn pace(&self, old: &Self) -> Option<Pace> {
        match (self, old) {
            (new, old) if new == old => None,
            (Self::Waiting(Some(new)), Self::Waiting(Some(old))) if same_kind(new, old) => Some(NUMBERS_PACE),
            // A condition changes only on a transition: new numbers go to the Run.
            (Self::NotScheduled { code: new, .. }, Self::NotScheduled { code: old, .. }) if new == old => {
                None
            }
            (Self::Queue(_), Self::Queue(_)) => Some(QUEUE_PACE),
            _ => Some(Pace::NOW),
        }
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Waiting(None))
    }
}

/// Whether two lists of reasons differ in numbers only.
fn same_kind(new: &Waiting, old: &Waiting) -> bool {
    let kinds = |waiting: &Waiting| -> Vec<_> {
        waiting
            .reasons
            .iter()
            .map(|reason| (reason.code.clone(), reason.queue.clone(), reason.resource.clone(), reason.never))
            .collect()
    };
    kinds(new) == kinds(old)
}

/// Takes status writes and makes them in the background. Clones share the queue.
#[derive(Clone)]
pub struct StatusWriter(Writer<Target, Value>);

impl StatusWriter {
    /// Starts writing.
    pub fn start(writes: Writes, fenced: Fenced) -> Self {
        let (stop, settled_after) = (CancellationToken::new(), writes.settled_after());
        let ends = Ends { fenced: fenced.clone(), stop, settled_after };
        Self(Writer::start(IN_FLIGHT_MAX, ends, move |target, value| {
            let (writes, fenced) = (writes.clone(), fenced.clone());
            async move { write(&writes, &fenced, &target, &value).await }
        }))
    }

    /// Asks for a write; it is made when it is worth one, see [`Paced`].
    pub fn submit(&self, target: Target, value: Value) {
        self.0.change(|pending, now| pending.submit(target, value, now));
    }

    /// Takes back the reasons written to a Run; does nothing if there were none.
    pub fn clear_run(&self, target: &Target) {
        self.0.change(|pending, now| pending.submit_if_known(target, Value::Waiting(None), now));
    }

    /// Writes nothing more to an object that waits no more.
    pub fn forget(&self, target: &Target) {
        self.0.change(|pending, _| pending.forget(target));
    }

    /// Completes when no write to the pod's condition is under way; call it after [`StatusWriter::forget`].
    /// Bounded by the timeout of that write.
    pub async fn settled(&self, pod: &PodKey) {
        let target = Target::Pod(pod.clone());
        self.0.until(&target, |pending| (!pending.is_in_flight(&target)).then_some(())).await;
    }

    /// Begins no further write, and waits until those in flight are answered or their time is up.
    pub async fn stop(&self) {
        self.0.stop().await;
    }
}

async fn write(writes: &Writes, fenced: &Fenced, target: &Target, value: &Value) -> Done {
    let request = request(writes, target, value, Timestamp::now());
    let result = writes.send::<IgnoredAny>(request).await;
    match answer(&result) {
        Answer::Done => {
            debug!(object = %target, "Wrote status.");
            Done::Written
        }
        Answer::NotFound => Done::Dropped,
        // Another pod has the name now.
        Answer::Conflict(_) if matches!(target, Target::Pod(_)) => Done::Dropped,
        Answer::Conflict(message) | Answer::Refused(message) => {
            warn!(object = %target, answer = message, "Status write refused.");
            Done::Failed
        }
        Answer::Fenced(message) => {
            warn!(object = %target, answer = message, "Status write refused by the fence.");
            fenced.report(&message);
            Done::Dropped
        }
        Answer::Throttled(_, message) | Answer::Unknown(message) => {
            debug!(object = %target, answer = message, "Status write without a clear answer.");
            Done::Failed
        }
    }
}

/// Server-side apply owns exactly the fields it sends: an empty status removes `waiting`.
fn request(writes: &Writes, target: &Target, value: &Value, now: Timestamp) -> http::Request<Vec<u8>> {
    let status = status(value, now);
    let (path, kind, metadata) = match target {
        Target::Run(namespace, name) => {
            let metadata = json!({ "namespace": namespace, "name": name });
            (format!("namespaces/{namespace}/runs/{name}"), "Run", metadata)
        }
        Target::Queue(name) => (format!("queues/{name}"), "Queue", json!({ "name": name })),
        Target::MachineType(name) => (format!("machinetypes/{name}"), "MachineType", json!({ "name": name })),
        Target::Pod(pod) => return writes.pod_status(pod, &status),
    };
    let query = format!("force=true&fieldManager={SCHEDULER_FIELD_MANAGER}&{}", writes.query());
    let body = json!({
        "apiVersion": "warpyard.dev/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "status": status,
    });
    http::Request::patch(format!("/apis/warpyard.dev/v1alpha1/{path}/status?{query}"))
        .header(CONTENT_TYPE, "application/apply-patch+yaml")
        .body(body.to_string().into_bytes())
        .expect("names that the API server accepted make a valid URL")
}

fn status(value: &Value, now: Timestamp) -> Json {
    match value {
        Value::Waiting(None) => json!({}),
        Value::Waiting(Some(waiting)) => json!({ "waiting": waiting }),
        Value::Queue(status) => json!(status),
        Value::MachineType(status) => json!(status),
        Value::NotScheduled { code, message } => {
            PodCondition { type_: "PodScheduled", holds: false, reason: code, message }.status(now)
        }
    }
}

#[cfg(test)]
mod tests {
    use api_types::queue::QueueStatus;
    use api_types::run::{Reason, ReasonNumber, Waiting};

    use super::{NUMBERS_PACE, Pace, Paced, QUEUE_PACE, Value};

    fn waiting(code: &str, holds: i64) -> Value {
        let numbers = vec![ReasonNumber { value: holds, ..ReasonNumber::default() }];
        let reason = Reason { code: code.to_owned(), numbers, ..Reason::default() };
        Value::Waiting(Some(Waiting { reasons: vec![reason] }))
    }

    fn condition(code: &'static str, message: &str) -> Value {
        Value::NotScheduled { code, message: message.to_owned() }
    }

    #[test]
    fn a_change_is_written_as_soon_as_it_is_worth() {
        let queue = |gpus_used| Value::Queue(QueueStatus { gpus_used, ..QueueStatus::default() });
        for (old, new, expect) in [
            (waiting("QuotaExceeded", 1), waiting("QuotaExceeded", 1), None),
            (waiting("QuotaExceeded", 1), waiting("QuotaExceeded", 2), Some(NUMBERS_PACE)),
            (waiting("QuotaExceeded", 1), waiting("NotEnoughGpus", 1), Some(Pace::NOW)),
            (waiting("QuotaExceeded", 1), Value::Waiting(None), Some(Pace::NOW)),
            (Value::Waiting(None), waiting("QuotaExceeded", 1), Some(Pace::NOW)),
            (condition("QuotaExceeded", "1"), condition("QuotaExceeded", "2"), None),
            (condition("QuotaExceeded", "1"), condition("NotEnoughGpus", "1"), Some(Pace::NOW)),
            (queue(1), queue(1), None),
            (queue(1), queue(2), Some(QUEUE_PACE)),
        ] {
            assert_eq!(new.pace(&old), expect, "{old:?} to {new:?}");
        }
    }
}
