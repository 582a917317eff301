//! Events: what `kubectl describe` should show. They are few and have a bounded rate, and nothing
//! waits for them. An event above the rate is dropped, because the condition or the Hold says the same.

use std::time::Duration;

use api_types::names::SCHEDULER_FIELD_MANAGER;
use cluster_model::PodKey;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use crate::outcome::{Answer, answer};
use crate::writes::{Fenced, Writes};

/// Events that may wait. Nobody reads more than a burst of them.
const WAITING_MAX: usize = 256;
/// One in this time on average: 10 per second.
const INTERVAL: Duration = Duration::from_millis(100);
/// Events in one burst.
const BURST: u32 = 50;
/// The API server takes at most 1,024 characters of a note.
const NOTE_CHARS_MAX: usize = 1_000;

/// Something that happened to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRequest {
    /// The pod.
    pub pod: PodKey,
    /// What happened, in CamelCase.
    pub reason: &'static str,
    /// What was done, in CamelCase.
    pub action: &'static str,
    /// A sentence.
    pub note: String,
}

/// Takes events and writes them in the background. Clones share the queue.
#[derive(Clone, Debug)]
pub struct EventWriter {
    sender: mpsc::Sender<EventRequest>,
    stop: CancellationToken,
    /// The one task that writes.
    task: TaskTracker,
}

impl EventWriter {
    /// Starts writing, as this instance of the scheduler.
    pub fn start(writes: Writes, fenced: Fenced, instance: String) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let (stop, task) = (CancellationToken::new(), TaskTracker::new());
        task.spawn(run(writes, fenced, instance, receiver, stop.clone()));
        task.close();
        Self { sender, stop, task }
    }

    /// Begins no further write, and waits until the one in flight is answered or its time is up.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.task.wait().await;
    }

    /// Asks for an event; it is dropped if too many wait.
    pub fn submit(&self, event: EventRequest) {
        if let Err(full) = self.sender.try_send(event) {
            let (TrySendError::Full(event) | TrySendError::Closed(event)) = full;
            debug!(pod = %event.pod, reason = event.reason, "Event dropped.");
        }
    }
}

async fn run(
    writes: Writes,
    fenced: Fenced,
    instance: String,
    mut events: mpsc::Receiver<EventRequest>,
    stop: CancellationToken,
) {
    let mut bucket = Bucket::new(Instant::now());
    while let Some(Some(event)) = stop.run_until_cancelled(events.recv()).await {
        let turn = tokio::time::sleep_until(bucket.take(Instant::now()));
        if stop.run_until_cancelled(turn).await.is_none() || fenced.is_fenced() {
            return;
        }
        let request = request(&writes, &event, &instance, Timestamp::now());
        match answer(&writes.send::<IgnoredAny>(request).await) {
            Answer::Done => {}
            Answer::Fenced(message) => fenced.report(&message),
            // It is not worth a second try: the condition or the Hold says the same.
            other => debug!(pod = %event.pod, reason = event.reason, answer = ?other, "Event not written."),
        }
    }
}

/// Lets a burst through, then one per interval.
struct Bucket {
    /// When the bucket is full again.
    full_at: Instant,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Takes a place for the next event, and returns when it may be sent.
    fn take(&mut self, now: Instant) -> Instant {
        self.full_at = self.full_at.max(now) + INTERVAL;
        // At once, if less than a burst is missing from the bucket.
        (self.full_at - INTERVAL * BURST).max(now)
    }
}

fn request(writes: &Writes, event: &EventRequest, instance: &str, now: Timestamp) -> http::Request<Vec<u8>> {
    let namespace = &event.pod.namespace;
    let query = format!("fieldManager={SCHEDULER_FIELD_MANAGER}&{}", writes.query());
    http::Request::post(format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events?{query}"))
        .header(CONTENT_TYPE, "application/json")
        .body(body(event, instance, now).to_string().into_bytes())
        .expect("names that the API server accepted make a valid URL")
}

fn body(event: &EventRequest, instance: &str, now: Timestamp) -> Json {
    let PodKey { namespace, name, uid } = &event.pod;
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": { "namespace": namespace, "name": format!("{name}.{:016x}", now.as_nanosecond()) },
        // With six digits after the point: the API server takes no others.
        "eventTime": format!("{now:.6}"),
        "reportingController": "warpyard.dev/scheduler",
        "reportingInstance": instance,
        "action": event.action,
        "reason": event.reason,
        "type": "Normal",
        "note": event.note.chars().take(NOTE_CHARS_MAX).collect::<String>(),
        "regarding": { "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid },
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster_model::PodKey;
    use jiff::Timestamp;
    use tokio::time::Instant;

    use super::{BURST, Bucket, EventRequest, INTERVAL, body};

    #[test]
    fn a_burst_goes_at_once_and_then_one_in_each_interval() {
        let now = Instant::now();
        let mut bucket = Bucket::new(now);
        for _ in 0..BURST {
            assert_eq!(bucket.take(now), now);
        }
        assert_eq!(bucket.take(now), now + INTERVAL);
        assert_eq!(bucket.take(now), now + INTERVAL * 2);
        let later = now + Duration::from_mins(10);
        for _ in 0..BURST {
            assert_eq!(bucket.take(later), later, "it fills up again, and not beyond the burst");
        }
        assert_eq!(bucket.take(later), later + INTERVAL);
    }

    #[test]
    fn an_event_is_about_the_pod_and_no_longer_than_the_server_takes() {
        let event = EventRequest {
            pod: PodKey::new("ns", "pod", "uid"),
            reason: "Preempted",
            action: "Evict",
            note: "x".repeat(5_000),
        };
        let now = Timestamp::from_nanosecond(1_800_000_000_123_456_789).expect("in range");
        let body = body(&event, "instance", now);
        assert_eq!(body["eventTime"], "2027-01-15T08:00:00.123456Z");
        assert_eq!(body["regarding"]["uid"], "uid");
        assert_eq!(body["note"].as_str().map(str::len), Some(1_000));
    }
}
