//! Evictions: whole gangs. A gang is evicted after the Holds that it leaves for are written, and
//! each of its pods is followed until it is known to leave.
//!
//! ```text
//!   gang ─► all Holds written? ──no longer wanted──────────────────► Spared
//!             │ yes                 (unwindings and moves have no Holds; an unwinding may be called off)
//!             ▼ if it may go only before it starts
//!           read each pod ─► one has started ──────────────────────► Started
//!             │ none has
//!             ▼ for each pod, a bounded number of requests at a time
//!           condition DisruptionTarget ─► DELETE with the uid ─────► Leaves
//!             │ 404, 409 or 4xx and another uid, being deleted: it leaves
//!             │ 429: wait as asked;  no answer, 5xx: again, all are safe to repeat
//!             │ 4xx: again, less and less often ───────────────────► Refused
//!             └ before each try, until one is accepted: still wanted? ──no──► Spared
//! ```
//!
//! The condition comes first: a Job counts a pod that vanished without it as failed. The pod keeps
//! its own grace period, so that it can save its state. Once one pod of a gang is told to go, the
//! whole gang goes.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use api_types::conditions::pod::{MOVED, PREEMPTED, START_FAILED};
use cluster_model::plan::{EvictCause, EvictRequest};
use cluster_model::{GangKey, PodKey};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::apart::apart;
use crate::holds::HoldWriter;
use crate::outcome::{Answer, answer};
use crate::pod_status::PodCondition;
use crate::sight::{self, PodSight};
use crate::writes::{Fenced, Writes};

/// Requests at a time, reads included.
const IN_FLIGHT_MAX: usize = 32;
/// The first wait before a write is tried again; it doubles.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Refusals in a row until a pod is given up: about half a minute, with the waits between them.
const REFUSALS_MAX: u32 = 10;

/// How the eviction of a gang ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictReport {
    /// The gang, and why it was to leave.
    pub request: EvictRequest,
    /// How it ended.
    pub outcome: EvictOutcome,
    /// From the request to knowing.
    pub took: Duration,
}

/// How an eviction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictOutcome {
    /// All its pods are being deleted, or gone.
    Leaves,
    /// The eviction is not wanted any more, and none of its pods was deleted. If a condition was
    /// being written then, the pod keeps it until Kubernetes removes it, about two minutes later.
    Spared,
    /// Nothing was done: the gang was to go only before it started, and it has started.
    Started,
    /// The server refused for at least one pod, again and again.
    Refused,
    /// Another process leads.
    Fenced,
}

impl EvictOutcome {
    /// A word for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Leaves => "leaves",
            Self::Spared => "spared",
            Self::Started => "started",
            Self::Refused => "refused",
            Self::Fenced => "fenced",
        }
    }
}

/// A request to the evictor.
#[derive(Debug)]
enum Order {
    Evict(EvictRequest),
    CallOff(GangKey),
}

/// Takes evictions. One report follows for each, unless the evictor stops before; an eviction that
/// panicked is reported as `Refused`.
#[derive(Debug)]
pub struct Evictor {
    // Unbounded in type, bounded by use: a gang that was told to go is not told again before its report.
    orders: mpsc::UnboundedSender<Order>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Evictor {
    /// Starts evicting. Reports go to `reports`: at most one per gang and cause is outstanding.
    pub fn start(
        writes: Writes,
        holds: HoldWriter,
        fenced: Fenced,
        reports: mpsc::UnboundedSender<EvictReport>,
    ) -> Self {
        let (orders, receiver) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let permits = Semaphore::new(IN_FLIGHT_MAX);
        let worker = Worker { writes, holds, fenced, permits, reports, stop: stop.clone() };
        let task = tokio::spawn(run(worker, receiver));
        Self { orders, stop, task }
    }

    /// Tells a gang to leave.
    pub fn evict(&self, request: EvictRequest) {
        self.send(Order::Evict(request));
    }

    /// Takes back the unwinding of a gang. The gang stays if none of its pods was told yet.
    pub fn call_off(&self, gang: GangKey) {
        self.send(Order::CallOff(gang));
    }

    fn send(&self, order: Order) {
        // An error means that it has stopped, and then the process is ending.
        let _ = self.orders.send(order);
    }

    /// Begins no further eviction, and waits until writes in flight are answered or their time is
    /// up.
    pub async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// One task for all evictions, as for binds.
async fn run(worker: Worker, mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut under_way = FuturesUnordered::new();
    // Unwindings under way, each with the token that calls it off.
    let mut unwinding: BTreeMap<GangKey, CancellationToken> = BTreeMap::new();
    loop {
        tokio::select! {
            () = worker.stop.cancelled() => break,
            Some(unwound) = under_way.next() => {
                if let Some(gang) = unwound {
                    unwinding.remove(&gang);
                }
            }
            order = orders.recv() => match order {
                Some(Order::Evict(request)) => {
                    let called_off = CancellationToken::new();
                    let unwinds = matches!(request.cause, EvictCause::Unwind { .. }).then(|| request.gang.clone());
                    if let Some(gang) = &unwinds {
                        unwinding.insert(gang.clone(), called_off.clone());
                    }
                    let evicted = worker.evict(request, called_off);
                    under_way.push(async move {
                        evicted.await;
                        unwinds
                    });
                }
                Some(Order::CallOff(gang)) => {
                    if let Some(unwinding) = unwinding.get(&gang) {
                        unwinding.cancel();
                    }
                }
                None => break,
            },
        }
    }
    // Without a permit nothing new begins. Requests that have one are answered within the write's
    // time.
    worker.permits.close();
    let limit = worker.writes.settled_after();
    let in_flight = async { while under_way.next().await.is_some() {} };
    if tokio::time::timeout(limit, in_flight).await.is_err() {
        debug!("Stopped with evictions under way; the next leader reads their holds.");
    }
}

struct Worker {
    writes: Writes,
    holds: HoldWriter,
    fenced: Fenced,
    permits: Semaphore,
    reports: mpsc::UnboundedSender<EvictReport>,
    stop: CancellationToken,
}

/// How the eviction of one pod ended. The gang's outcome is that of the pod that is last in this
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PodOutcome {
    Leaves,
    Refused,
    /// The gang need not go any more, and none of its pods was deleted.
    Spared,
    Fenced,
    /// The process is ending.
    Stopped,
}

impl PodOutcome {
    /// `None` if the process is ending.
    fn of_gang(self) -> Option<EvictOutcome> {
        match self {
            Self::Leaves => Some(EvictOutcome::Leaves),
            Self::Refused => Some(EvictOutcome::Refused),
            Self::Spared => Some(EvictOutcome::Spared),
            Self::Fenced => Some(EvictOutcome::Fenced),
            Self::Stopped => None,
        }
    }
}

/// One eviction under way.
struct Leaving {
    request: EvictRequest,
    /// Cancelled when its unwinding is taken back.
    called_off: CancellationToken,
    /// Whether the gang goes, once that is clear. It goes when the first write is accepted; it
    /// stays when its Holds are found taken back, or its unwinding called off. This holds for all
    /// its pods.
    goes: OnceLock<bool>,
}

impl Leaving {
    /// Whether it is clear that the gang stays. Ask this right before a request.
    fn is_spared(&self) -> bool {
        if self.called_off.is_cancelled() {
            self.goes.get_or_init(|| false);
        }
        self.goes.get() == Some(&false)
    }
}

impl Worker {
    async fn evict(&self, request: EvictRequest, called_off: CancellationToken) {
        let started = Instant::now();
        let ended = apart(&request.gang, self.evict_all(request.clone(), called_off)).await;
        let Some(outcome) = ended.unwrap_or(Some(EvictOutcome::Refused)) else { return };
        let (gang, took) = (&request.gang, started.elapsed());
        info!(%gang, outcome = outcome.as_str(), took_seconds = took.as_secs_f64(), "Eviction ended.");
        // Without a receiver the process is ending.
        let _ = self.reports.send(EvictReport { request, outcome, took });
    }

    /// `None` if the process is ending.
    async fn evict_all(&self, request: EvictRequest, called_off: CancellationToken) -> Option<EvictOutcome> {
        if !self.stop.run_until_cancelled(self.is_wanted(&request)).await? {
            return Some(EvictOutcome::Spared);
        }
        let leaving = Leaving { request, called_off, goes: OnceLock::new() };
        if matches!(leaving.request.cause, EvictCause::Unwind { unless_started: true, .. }) {
            match self.has_started(&leaving).await {
                Ok(false) => {}
                Ok(true) => return Some(EvictOutcome::Started),
                Err(outcome) => return outcome.of_gang(),
            }
        }
        crate::failpoint!("before-evictions");
        let pods = leaving.request.pods.iter();
        let mut evictions: FuturesUnordered<_> =
            pods.map(|pod| apart(pod, self.evict_pod(&leaving, pod))).collect();
        let mut last = PodOutcome::Leaves;
        while let Some(ended) = evictions.next().await {
            last = last.max(ended.unwrap_or(PodOutcome::Refused));
        }
        last.of_gang()
    }

    /// Whether all Holds that it leaves for are written and still wanted; completes when that is
    /// clear.
    async fn is_wanted(&self, request: &EvictRequest) -> bool {
        let EvictCause::Claim { after, .. } = &request.cause else { return true };
        for (gang, expires) in after {
            if !self.holds.is_written(gang, *expires).await {
                return false;
            }
        }
        true
    }

    async fn evict_pod(&self, leaving: &Leaving, pod: &PodKey) -> PodOutcome {
        let (reason, message) = (condition_reason(&leaving.request.cause), leaving.request.told());
        debug!(%pod, reason, "Evicting.");
        let condition = || self.condition(reason, &message, pod);
        let told = self.until_known::<IgnoredAny>(leaving, pod, condition).await;
        if let Err(outcome) = told {
            return outcome;
        }
        if !leaving.goes.get_or_init(|| true) {
            return PodOutcome::Spared;
        }
        crate::failpoint!("between-condition-and-delete");
        let deleted = self.until_known::<IgnoredAny>(leaving, pod, || self.delete(pod)).await;
        deleted.err().unwrap_or(PodOutcome::Leaves)
    }

    /// Repeats a request until its outcome is known; `Err` if it was not done.
    async fn until_known<T: DeserializeOwned>(
        &self,
        leaving: &Leaving,
        pod: &PodKey,
        request: impl Fn() -> http::Request<Vec<u8>>,
    ) -> Result<T, PodOutcome> {
        let (mut tries, mut refusals) = (0_u32, 0_u32);
        loop {
            // It may have waited for long, and may not be needed any more.
            if leaving.goes.get().is_none() && !self.is_wanted(&leaving.request).await {
                leaving.goes.get_or_init(|| false);
            }
            let Some(turn) = self.turn().await else { return Err(PodOutcome::Stopped) };
            // Its turn may have come late. If that is not clear yet, it waits without the turn.
            if leaving.goes.get().is_none() {
                match tokio::time::timeout(Duration::ZERO, self.is_wanted(&leaving.request)).await {
                    Ok(true) => {}
                    Ok(false) => drop(leaving.goes.set(false)),
                    Err(_) => continue,
                }
            }
            if leaving.is_spared() {
                return Err(PodOutcome::Spared);
            }
            let answer = match self.send::<T>(request(), turn).await {
                Ok(done) => return Ok(done),
                Err(answer) => answer,
            };
            tries += 1;
            let backoff = RETRY_MAX.min(RETRY_MIN * 2_u32.pow(tries.min(7)));
            let wait = match answer {
                Answer::NotFound => return Err(PodOutcome::Leaves),
                Answer::Fenced(message) => {
                    self.fenced.report(&message);
                    return Err(PodOutcome::Fenced);
                }
                Answer::Conflict(message) => {
                    if self.is_gone(pod).await {
                        return Err(PodOutcome::Leaves);
                    }
                    debug!(%pod, answer = message, "Eviction in conflict.");
                    backoff
                }
                // Also another uid, if the server says so as 422.
                Answer::Refused(_) if self.is_gone(pod).await => return Err(PodOutcome::Leaves),
                Answer::Refused(message) => {
                    warn!(%pod, answer = message, "Eviction refused.");
                    refusals += 1;
                    if refusals >= REFUSALS_MAX {
                        return Err(PodOutcome::Refused);
                    }
                    backoff
                }
                Answer::Throttled(patience, _) => patience,
                Answer::Unknown(_) | Answer::Done => {
                    debug!(%pod, ?answer, "Eviction without a clear answer.");
                    backoff
                }
            };
            if self.stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return Err(PodOutcome::Stopped);
            }
        }
    }

    /// Waits for the right to one request; `None` if the process is ending.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.acquire().await.ok()
    }

    /// One request. While it waits for another try, others have its turn.
    async fn send<T: DeserializeOwned>(
        &self,
        request: http::Request<Vec<u8>>,
        turn: SemaphorePermit<'_>,
    ) -> Result<T, Answer> {
        let result = self.writes.send::<T>(request).await;
        drop(turn);
        let answer = answer(&result);
        result.map_err(|_| answer)
    }

    /// Whether one of its pods has started. A read that fails is repeated: an unclear answer
    /// neither evicts nor spares the gang.
    async fn has_started(&self, leaving: &Leaving) -> Result<bool, PodOutcome> {
        let pods = leaving.request.pods.iter();
        let mut looks: FuturesUnordered<_> =
            pods.map(|pod| apart(pod, self.pod_has_started(leaving, pod))).collect();
        while let Some(looked) = looks.next().await {
            // One is enough: the other reads end here.
            if looked.unwrap_or(Err(PodOutcome::Refused))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn pod_has_started(&self, leaving: &Leaving, pod: &PodKey) -> Result<bool, PodOutcome> {
        let read = || sight::read(&self.writes, pod);
        match self.until_known::<PodSight>(leaving, pod, read).await {
            Ok(seen) => Ok(seen.is(pod) && seen.has_started()),
            // It is gone, with all that it had started.
            Err(PodOutcome::Leaves) => Ok(false),
            Err(outcome) => Err(outcome),
        }
    }

    /// Whether one read says that the pod of that uid is gone or being deleted.
    async fn is_gone(&self, pod: &PodKey) -> bool {
        let Some(turn) = self.turn().await else { return false };
        match self.send::<PodSight>(sight::read(&self.writes, pod), turn).await {
            Ok(seen) => !seen.is(pod) || seen.is_leaving(),
            Err(answer) => answer == Answer::NotFound,
        }
    }

    fn condition(&self, reason: &str, message: &str, pod: &PodKey) -> http::Request<Vec<u8>> {
        let condition = PodCondition { type_: "DisruptionTarget", holds: true, reason, message };
        self.writes.pod_status(pod, &condition.status(Timestamp::now()))
    }

    fn delete(&self, pod: &PodKey) -> http::Request<Vec<u8>> {
        // Without a grace period of ours: the pod's own applies.
        let body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": pod.uid },
        });
        let PodKey { namespace, name, .. } = pod;
        http::Request::delete(format!("/api/v1/namespaces/{namespace}/pods/{name}?{}", self.writes.query()))
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .expect("names that the API server accepted make a valid URL")
    }
}

/// The reason in the condition that tells a pod why it must leave.
fn condition_reason(cause: &EvictCause) -> &'static str {
    match cause {
        EvictCause::Claim { .. } => PREEMPTED,
        EvictCause::Unwind { .. } => START_FAILED,
        EvictCause::Move { .. } => MOVED,
    }
}

#[cfg(test)]
mod tests;
