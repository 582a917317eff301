//! Binds: a bounded number at a time, each followed until its outcome is known.
//!
//! ```text
//!   attempt ─► Bound | Gone | Fenced                                       ─► report
//!      │ 4xx                                                               ─► Refused *
//!      │ 429: wait as asked, at most 5 times                               ─► Throttled *
//!      │ 409: read the pod                                                 ─► Bound | OnAnotherNode | Gone | Refused *
//!      └ no answer, 5xx: attempt again on the same node, at most 3 times   ─► Unknown *
//!
//!   * only if every attempt had a clear answer; else, once the server must have given that attempt up,
//!     the pod is read until the read succeeds: it has a node after all, or it has none and never will
//! ```
//!
//! Until the report, the pod's GPUs stay assumed by the planner: a bind that may still happen must not be
//! forgotten, or its GPUs would be given away twice. So there is no bound on the reads but the binder's own end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cluster_model::{NodeName, PodKey};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use kube::core::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::apart::apart;
use crate::outcome::{Answer, BindOutcome, answer};
use crate::sight::{self, PodSight};
use crate::status::StatusWriter;
use crate::writes::{Fenced, Writes};

/// Tries of a bind whose outcome is unknown, all on the same node.
const UNKNOWN_TRIES: u32 = 3;
/// Tries of a bind that is throttled; with up to 10 s between them, it ends within a minute.
const THROTTLED_TRIES: u32 = 5;
/// Between two reads of a pod to learn its fate.
const READ_DELAY: Duration = Duration::from_secs(1);
/// The log warns each time that this many reads have failed.
const READS_PER_WARNING: u32 = 30;
/// The first wait before an unknown bind is tried again; it doubles.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// One pod to be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// The pod.
    pub pod: PodKey,
    /// Its node.
    pub node: NodeName,
}

/// How a bind ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindReport {
    /// The pod.
    pub pod: PodKey,
    /// The node it was to get.
    pub node: NodeName,
    /// How it ended.
    pub outcome: BindOutcome,
    /// From sending to knowing.
    pub took: Duration,
}

/// Takes binds; one report follows for each, unless the binder was stopped before the bind began.
#[derive(Debug)]
pub struct Binder {
    // Unbounded in type, bounded by use: at most one entry per pod, because a pod is assumed until its report.
    requests: mpsc::UnboundedSender<Vec<BindRequest>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Binder {
    /// Starts binding with at most `in_flight_max` requests at a time. Reports go to `reports`, at most one per
    /// pod outstanding.
    pub fn start(
        writes: Writes,
        in_flight_max: usize,
        status: StatusWriter,
        fenced: Fenced,
        reports: mpsc::UnboundedSender<BindReport>,
    ) -> Self {
        let (requests, receiver) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let worker = Worker { writes, status, fenced, reports };
        let task = tokio::spawn(run(worker, receiver, in_flight_max, stop.clone()));
        Self { requests, stop, task }
    }

    /// Hands over the binds of one plan, in order.
    pub fn bind(&self, batch: Vec<BindRequest>) {
        // An error means that the binder has stopped, and then the process is ending.
        let _ = self.requests.send(batch);
    }

    /// Begins no further bind, and waits until those in flight are answered or their time is up.
    pub async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// One task for all binds, see [`crate::apart`].
async fn run(
    worker: Worker,
    mut requests: mpsc::UnboundedReceiver<Vec<BindRequest>>,
    in_flight_max: usize,
    stop: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(in_flight_max));
    let mut under_way = FuturesUnordered::new();
    let issue = async {
        let mut waiting = VecDeque::<BindRequest>::new();
        loop {
            tokio::select! {
                biased;
                Some(_) = under_way.next() => {}
                Some(turn) = Turn::take(&permits), if !waiting.is_empty() => {
                    if let Some(request) = waiting.pop_front() {
                        under_way.push(apart(request.pod.clone(), worker.bind(request, turn)));
                    }
                }
                Some(batch) = requests.recv() => {
                    crate::failpoint!("before-binds");
                    waiting.extend(batch);
                }
                else => return,
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = issue => {}
    }
    let limit = worker.writes.settled_after();
    let drained = tokio::time::timeout(limit, async { while under_way.next().await.is_some() {} }).await;
    if drained.is_err() {
        warn!(
            unanswered = under_way.len(),
            "Stopped with binds unanswered; the server has given them up by now."
        );
    }
}

/// One of the requests that may be under way. A bind that only waits gives it to others: with one request in ten throttled
/// for a second, those would otherwise be most of all that is under way.
struct Turn {
    permits: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

impl Turn {
    /// Waits for a turn; `None` when the binder stops.
    async fn take(permits: &Arc<Semaphore>) -> Option<Self> {
        let held = Arc::clone(permits).acquire_owned().await.ok()?;
        Some(Self { permits: Arc::clone(permits), held: Some(held) })
    }

    /// Waits until that time, and for another turn.
    async fn wait_until(&mut self, then: Instant) {
        self.held = None;
        tokio::time::sleep_until(then).await;
        self.held = Arc::clone(&self.permits).acquire_owned().await.ok();
    }

    async fn wait(&mut self, patience: Duration) {
        self.wait_until(Instant::now() + patience).await;
    }
}

struct Worker {
    writes: Writes,
    status: StatusWriter,
    fenced: Fenced,
    reports: mpsc::UnboundedSender<BindReport>,
}

impl Worker {
    async fn bind(&self, request: BindRequest, mut turn: Turn) {
        self.status.settled(&request.pod).await;
        let started = Instant::now();
        debug!(pod = %request.pod, node = %request.node, "Binding.");
        let outcome = self.attempt_until_known(&request, &mut turn).await;
        let took = started.elapsed();
        let (pod, node, word) = (&request.pod, &request.node, outcome.as_str());
        match &outcome {
            BindOutcome::Bound => {
                debug!(%pod, %node, outcome = word, took_seconds = took.as_secs_f64(), "Bound.");
            }
            BindOutcome::Refused(message)
            | BindOutcome::Throttled(message)
            | BindOutcome::Fenced(message)
            | BindOutcome::Unknown(message) => {
                warn!(%pod, %node, outcome = word, answer = message, "Bind refused.");
            }
            BindOutcome::OnAnotherNode(other) => info!(%pod, %node, outcome = word, other, "Bind refused."),
            BindOutcome::Gone => info!(%pod, %node, outcome = word, "Bind refused."),
        }
        if let BindOutcome::Fenced(message) = &outcome {
            self.fenced.report(message);
        }
        // Without a receiver the process is ending.
        let _ = self.reports.send(BindReport { pod: request.pod, node: request.node, outcome, took });
    }

    async fn attempt_until_known(&self, request: &BindRequest, turn: &mut Turn) -> BindOutcome {
        let (mut unknown, mut throttled) = (0, 0);
        // When the last try was sent whose answer does not say whether it was executed.
        let mut unknown_sent = None;
        let outcome = loop {
            let sent = Instant::now();
            let result = self.writes.send::<Status>(self.writes.binding(&request.pod, &request.node)).await;
            match answer(&result) {
                Answer::Done => return BindOutcome::Bound,
                // An earlier try cannot succeed any more either: the pod of this uid is gone.
                Answer::NotFound => return BindOutcome::Gone,
                Answer::Fenced(message) => return BindOutcome::Fenced(message),
                Answer::Refused(message) => break BindOutcome::Refused(message),
                Answer::Conflict(message) => {
                    break self.resolve(request, turn, BindOutcome::Refused(message)).await;
                }
                Answer::Throttled(patience, message) => {
                    throttled += 1;
                    if throttled >= THROTTLED_TRIES {
                        break BindOutcome::Throttled(message);
                    }
                    turn.wait(patience).await;
                }
                Answer::Unknown(message) => {
                    unknown += 1;
                    unknown_sent = Some(sent);
                    debug!(pod = %request.pod, answer = message, "Bind without a clear answer.");
                    if unknown >= UNKNOWN_TRIES {
                        break BindOutcome::Unknown(message);
                    }
                    turn.wait(RETRY_DELAY * 2_u32.pow(unknown - 1)).await;
                }
            }
        };
        match (unknown_sent, &outcome) {
            (Some(sent), BindOutcome::Refused(_) | BindOutcome::Throttled(_) | BindOutcome::Unknown(_)) => {
                turn.wait_until(sent + self.writes.settled_after()).await;
                self.resolve(request, turn, outcome).await
            }
            _ => outcome,
        }
    }

    /// Reads the pod to learn how the bind ended; `otherwise` if the pod has no node. Returns only
    /// when that is known; when the binder stops, this future is dropped.
    async fn resolve(&self, request: &BindRequest, turn: &mut Turn, otherwise: BindOutcome) -> BindOutcome {
        let mut reads = 0_u32;
        loop {
            let result = self.writes.send::<PodSight>(sight::read(&self.writes, &request.pod)).await;
            let failure = match (answer(&result), result) {
                (Answer::NotFound, _) => return BindOutcome::Gone,
                (_, Ok(pod)) => return fate(&pod, request, otherwise),
                (failure, Err(_)) => failure,
            };
            reads = reads.wrapping_add(1);
            if reads.is_multiple_of(READS_PER_WARNING) {
                let BindRequest { pod, node } = request;
                warn!(%pod, %node, reads, answer = ?failure, "Cannot read whether the pod was bound; its GPUs stay taken.");
            }
            turn.wait(READ_DELAY).await;
        }
    }
}

/// The outcome that a read pod shows; `otherwise` if it has no node and may get one.
fn fate(pod: &PodSight, request: &BindRequest, otherwise: BindOutcome) -> BindOutcome {
    if !pod.is(&request.pod) {
        return BindOutcome::Gone;
    }
    match pod.node() {
        Some(node) if node == request.node.as_str() => BindOutcome::Bound,
        Some(node) => BindOutcome::OnAnotherNode(node.to_owned()),
        None if pod.is_leaving() => BindOutcome::Gone,
        None => otherwise,
    }
}

#[cfg(test)]
mod tests;
