//! Leader election on a `coordination.k8s.io/v1` Lease.
//!
//! ```text
//!   standby ──decide──► Create | Take ──accepted──► leader ──renew each retry──► leader
//!      ▲                      │ 409                    │ another holder, or not renewed for renew_deadline
//!      └──── Wait ◄───────────┘                        ▼
//!                                                   Held::lost completes; the binary exits at once
//! ```
//!
//! The lease has a client of its own, so that renewals never wait behind other traffic. Every request is bounded.
//! A lease does not fence: it only makes two leaders rare, see `decide`.

mod decide;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Config};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub use decide::{LeaseRecord, Observed, Step, decide};

/// A failed renewal is tried again this many times faster. If an API server fails one request in four, four
/// tries in five seconds would lose a lease every few minutes; twenty would not lose one in years.
const RETRIES_PER_PACE: u32 = 5;

/// How long a lease lasts and how it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    duration: Duration,
    renew_deadline: Duration,
    retry: Duration,
}

impl LeaseTimes {
    /// Checks `retry < renew_deadline < duration`, and that the duration is whole seconds, as the Lease stores it.
    pub fn new(duration: Duration, renew_deadline: Duration, retry: Duration) -> Result<Self, Error> {
        let in_order = Duration::ZERO < retry && retry < renew_deadline && renew_deadline < duration;
        let whole = duration.subsec_nanos() == 0 && i32::try_from(duration.as_secs()).is_ok();
        if in_order && whole {
            Ok(Self { duration, renew_deadline, retry })
        } else {
            Err(Error::Times { duration, renew_deadline, retry })
        }
    }

    /// How long the lease is valid without renewal.
    pub fn duration(&self) -> Duration {
        self.duration
    }
}

/// Which Lease, and as whom.
#[derive(Clone, Debug)]
pub struct LeaseName {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// This process; unique to it, see [`identity`].
    pub identity: String,
}

/// Why the election failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The times contradict each other.
    #[error(
        "the lease times do not fit: duration {duration:?} (whole seconds), renew deadline {renew_deadline:?}, retry {retry:?}\n\nhint: retry < renew deadline < duration"
    )]
    Times {
        /// As given.
        duration: Duration,
        /// As given.
        renew_deadline: Duration,
        /// As given.
        retry: Duration,
    },
    /// The lease's client could not be made.
    #[error("cannot make the lease's client")]
    Client(#[from] crate::client::Error),
    /// The process was asked to stop while it was a standby.
    #[error("asked to stop while waiting for the lease")]
    Stopped,
}

/// Why a lease was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Someone else holds it.
    #[error("the lease is held by {0}")]
    Taken(String),
    /// The Lease object was deleted.
    #[error("the lease was deleted")]
    Deleted,
    /// It could not be renewed in time.
    #[error("the lease could not be renewed for {0:?}")]
    NotRenewed(Duration),
    /// The renewing task is gone, so it must have panicked.
    #[error("the lease is not renewed any more")]
    TaskEnded,
}

/// An identity that no other process has: `prefix` and a random number.
pub fn identity(prefix: &str) -> String {
    format!("{prefix}_{:016x}", RandomState::new().build_hasher().finish())
}

/// Stands by until the lease is ours, then keeps it in the background.
pub async fn acquire(
    config: &Config,
    name: LeaseName,
    times: LeaseTimes,
    stop: &CancellationToken,
) -> Result<Held, Error> {
    let mut config = config.clone();
    // We decide about retries: a renewal that waits in a queue is worse than one that failed.
    config.default_retry = false;
    let client: Client = crate::client::client(&config)?;
    let mut election = Election {
        api: Api::namespaced(client, &name.namespace),
        name,
        times,
        observed: None,
        last_error: None,
    };
    info!(lease = election.name.name, identity = election.name.identity, "Waiting for the lease.");
    let renewed = tokio::select! {
        () = stop.cancelled() => return Err(Error::Stopped),
        renewed = election.stand_by() => renewed,
    };
    info!(lease = election.name.name, "Took the lease.");
    let (lost_sender, lost) = watch::channel(None);
    let release = CancellationToken::new();
    let stop_renewing = release.clone();
    let task = tokio::spawn(async move {
        let outcome = tokio::select! {
            () = stop_renewing.cancelled() => None,
            lost = election.keep(renewed) => Some(lost),
        };
        match outcome {
            Some(reason) => {
                lost_sender.send_replace(Some(reason));
            }
            None => election.release().await,
        }
    });
    Ok(Held { lost, release, task })
}

/// A lease that is kept by a background task.
#[derive(Debug)]
pub struct Held {
    lost: watch::Receiver<Option<Lost>>,
    release: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Held {
    /// Completes when the lease is lost, and says why. The process must then exit at once.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + use<> {
        let mut receiver = self.lost.clone();
        async move {
            match receiver.wait_for(Option::is_some).await {
                Ok(lost) => lost.clone().unwrap_or(Lost::TaskEnded),
                Err(_) => Lost::TaskEnded,
            }
        }
    }

    /// Gives the lease up, so that another process need not wait until it runs out. Call it when no write is
    /// under way.
    pub async fn release(self) {
        self.release.cancel();
        // The task ends within the timeouts of three requests.
        let _ = self.task.await;
    }
}

/// The I/O around [`decide`].
struct Election {
    api: Api<Lease>,
    name: LeaseName,
    times: LeaseTimes,
    observed: Option<Observed>,
    last_error: Option<String>,
}

impl Election {
    /// Returns once the lease is ours, with the moment from which it counts: before the request that took it
    /// was sent.
    async fn stand_by(&mut self) -> Instant {
        loop {
            match self.try_once().await {
                Ok(Some(sent)) => return sent,
                Ok(None) => self.last_error = None,
                Err(error) => self.report("take", &error),
            }
            tokio::time::sleep(self.times.retry).await;
        }
    }

    /// Reads the Lease, and takes it if it may be taken. Returns when the request that took it was sent.
    async fn try_once(&mut self) -> Result<Option<Instant>, RequestError> {
        let seen = self.bounded(self.api.get_opt(&self.name.name)).await?;
        let now = Instant::now();
        self.observed = seen.map(|lease| Observed::update(self.observed.take(), self.record(&lease), now));
        let step = decide(self.observed.as_ref(), now, &self.name.identity);
        debug!(?step, "Decided on the lease.");
        let sent = Instant::now();
        let is_ours = match (step, self.observed.clone()) {
            (Step::Wait(_), _) => false,
            (Step::Create, _) | (_, None) => self.write(None).await?,
            (Step::Take | Step::Renew, Some(observed)) => self.write(Some(&observed.record)).await?,
        };
        Ok(is_ours.then_some(sent))
    }

    /// Renews until the lease is lost. `renewed` is when the last accepted request was sent: the server counts
    /// from later, so we step down before another process may take over.
    ///
    /// The pace is from one request to the next, not from an answer to the next request. Otherwise a server
    /// that takes two seconds would leave time for only two requests in a deadline of five seconds, and could
    /// cost us the lease.
    async fn keep(&mut self, mut renewed: Instant) -> Lost {
        let mut sent = renewed;
        loop {
            let deadline = renewed + self.times.renew_deadline;
            let pace = if self.last_error.is_some() {
                self.times.retry / RETRIES_PER_PACE
            } else {
                self.times.retry
            };
            tokio::time::sleep_until((sent + pace).min(deadline).into()).await;
            sent = Instant::now();
            if sent >= deadline {
                return Lost::NotRenewed(sent.saturating_duration_since(renewed));
            }
            match tokio::time::timeout_at(deadline.into(), self.renew()).await {
                Ok(Ok(())) => {
                    renewed = sent;
                    self.last_error = None;
                }
                Ok(Err(RenewError::Lost(lost))) => return lost,
                Ok(Err(RenewError::Request(error))) => self.report("renew", &error),
                Err(_) => return Lost::NotRenewed(renewed.elapsed()),
            }
        }
    }

    async fn renew(&mut self) -> Result<(), RenewError> {
        // No read before the write: the version that we wrote last is the newest unless another process
        // interfered.
        if let Some(observed) = self.observed.clone()
            && self.write(Some(&observed.record)).await?
        {
            return Ok(());
        }
        let Some(lease) = self.bounded(self.api.get_opt(&self.name.name)).await? else {
            return Err(RenewError::Lost(Lost::Deleted));
        };
        let record = self.record(&lease);
        if record.holder != self.name.identity {
            return Err(RenewError::Lost(Lost::Taken(record.holder)));
        }
        let ours = self.write(Some(&record)).await?;
        if ours { Ok(()) } else { Err(RenewError::Request(RequestError::Conflict)) }
    }

    /// Gives the lease up. A renewal that was cut off for this may still have been executed. Then our version
    /// of the lease is old, and it is read once more.
    async fn release(&mut self) {
        let mut released = self.write_released().await;
        if matches!(released, Err(RequestError::Conflict)) {
            released = match self.bounded(self.api.get_opt(&self.name.name)).await {
                Ok(Some(lease)) if self.record(&lease).holder == self.name.identity => {
                    self.observed = Some(Observed { record: self.record(&lease), since: Instant::now() });
                    self.write_released().await
                }
                // Another process has it, or it is gone: there is nothing to give up.
                Ok(_) => return,
                Err(error) => Err(error),
            };
        }
        match released {
            Ok(()) => info!(lease = self.name.name, "Released the lease."),
            Err(error) => warn!(%error, "Could not release the lease; it runs out by itself."),
        }
    }

    async fn write_released(&self) -> Result<(), RequestError> {
        let Some(observed) = &self.observed else { return Ok(()) };
        let mut lease = self.lease(Some(&observed.record));
        lease.spec.get_or_insert_default().holder_identity = Some(String::new());
        let params = PostParams::default();
        self.bounded(self.api.replace(&self.name.name, &params, &lease)).await.map(drop)
    }

    /// Writes the Lease with us as its holder; false if another process wrote it first.
    async fn write(&mut self, old: Option<&LeaseRecord>) -> Result<bool, RequestError> {
        let lease = self.lease(old);
        let params = PostParams::default();
        let result = match old {
            None => self.bounded(self.api.create(&params, &lease)).await,
            Some(_) => self.bounded(self.api.replace(&self.name.name, &params, &lease)).await,
        };
        match result {
            Ok(lease) => {
                self.observed = Some(Observed { record: self.record(&lease), since: Instant::now() });
                Ok(true)
            }
            Err(RequestError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn lease(&self, old: Option<&LeaseRecord>) -> Lease {
        let now = MicroTime(Timestamp::now());
        let transitions = match old {
            None => 0,
            Some(old) if old.holder == self.name.identity => old.transitions,
            Some(old) => old.transitions.saturating_add(1),
        };
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.name.clone()),
                namespace: Some(self.name.namespace.clone()),
                resource_version: old.map(|old| old.resource_version.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name.identity.clone()),
                lease_duration_seconds: i32::try_from(self.times.duration.as_secs()).ok(),
                lease_transitions: Some(transitions),
                // For people only: no process decides by another machine's clock.
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        }
    }

    fn record(&self, lease: &Lease) -> LeaseRecord {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        LeaseRecord {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: seconds.map_or(self.times.duration, Duration::from_secs),
            transitions: spec.lease_transitions.unwrap_or_default(),
            resource_version: lease.metadata.resource_version.clone().unwrap_or_default(),
        }
    }

    /// One request may take half of the renew deadline, as in client-go. This leaves a slow server time to
    /// answer, and us time for a second try.
    async fn bounded<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, RequestError> {
        let limit = self.times.renew_deadline / 2;
        match tokio::time::timeout(limit, request).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(RequestError::Conflict),
            Ok(Err(error)) => Err(RequestError::Api(Box::new(error))),
            Err(_) => Err(RequestError::Timeout(limit)),
        }
    }

    /// Logs an error once, not at every retry.
    fn report(&mut self, verb: &str, error: &RequestError) {
        let text = error.to_string();
        if self.last_error.as_ref() == Some(&text) {
            debug!(error = text, "Could not {verb} the lease again.");
        } else {
            warn!(error = text, lease = self.name.name, "Could not {verb} the lease; trying again.");
            self.last_error = Some(text);
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("another process wrote the lease meanwhile")]
    Conflict,
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("{0}")]
    Api(#[source] Box<kube::Error>),
}

#[derive(Debug, thiserror::Error)]
enum RenewError {
    #[error(transparent)]
    Lost(Lost),
    #[error(transparent)]
    Request(#[from] RequestError),
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use http::{Method, Request, Response, StatusCode};
    use kube::Client;
    use kube::api::Api;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::{Election, LeaseName, LeaseRecord, LeaseTimes, Observed, identity};

    /// An API server with one Lease, at version 2. It fails this many writes before it executes one.
    fn server(lease: &Arc<Mutex<Value>>, failures: usize) -> Client {
        let lease = Arc::clone(lease);
        let failures = Arc::new(AtomicUsize::new(failures));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (lease, failures) = (Arc::clone(&lease), Arc::clone(&failures));
            async move {
                let is_write = *request.method() == Method::PUT;
                let less_one = |left: usize| left.checked_sub(1);
                if is_write && failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less_one).is_ok() {
                    let error =
                        json!({ "kind": "Status", "status": "Failure", "code": 500, "message": "etcd" });
                    let mut response = Response::new(Body::from(error.to_string().into_bytes()));
                    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                    return Ok::<_, Infallible>(response);
                }
                let sent = request.into_body().collect_bytes().await.expect("a body");
                let mut lease = lease.lock().expect("nobody panicked");
                let sent: Value = serde_json::from_slice(&sent).unwrap_or_default();
                let is_old =
                    is_write && sent["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"];
                if is_write && !is_old {
                    *lease = sent;
                }
                let conflict =
                    json!({ "kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict" });
                let body = if is_old { conflict } else { lease.clone() };
                let mut response = Response::new(Body::from(body.to_string().into_bytes()));
                *response.status_mut() = if is_old { StatusCode::CONFLICT } else { StatusCode::OK };
                Ok::<_, Infallible>(response)
            }
        });
        Client::new(service, "default")
    }

    fn lease_of(holder: &str) -> Arc<Mutex<Value>> {
        Arc::new(Mutex::new(json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": "scheduler", "resourceVersion": "2" },
            "spec": { "holderIdentity": holder },
        })))
    }

    /// The election of `us`, which knows the Lease at a version.
    fn election(client: Client, times: [u64; 3], version: &str) -> Election {
        let [duration, deadline, retry] = times.map(Duration::from_millis);
        let record = LeaseRecord {
            holder: "us".to_owned(),
            duration,
            transitions: 0,
            resource_version: version.to_owned(),
        };
        Election {
            api: Api::namespaced(client, "system"),
            name: LeaseName {
                namespace: "system".to_owned(),
                name: "scheduler".to_owned(),
                identity: "us".to_owned(),
            },
            times: LeaseTimes::new(duration, deadline, retry).expect("they fit"),
            observed: Some(Observed { record, since: Instant::now() }),
            last_error: None,
        }
    }

    #[tokio::test]
    async fn a_lease_is_released_though_a_renewal_was_cut_off() {
        for (holder, expect) in [("us", ""), ("another", "another")] {
            let lease = lease_of(holder);
            // The renewal that was cut off wrote version 2.
            election(server(&lease, 0), [8_000, 5_000, 1_000], "1").release().await;
            assert_eq!(lease.lock().expect("nobody panicked")["spec"]["holderIdentity"], expect);
        }
    }

    #[tokio::test]
    async fn a_renewal_that_failed_is_tried_again_soon_and_many_in_a_row_cost_no_lease() {
        // At the pace of renewals only four would fit before the deadline.
        let mut election = election(server(&lease_of("us"), 8), [5_000, 3_000, 600], "2");
        let kept = tokio::time::timeout(Duration::from_millis(3_500), election.keep(Instant::now())).await;
        assert!(kept.is_err(), "the lease was lost: {kept:?}");
    }

    #[test]
    fn lease_times_must_leave_room_to_step_down() {
        let times = |duration, deadline, retry| {
            let millis = Duration::from_millis;
            LeaseTimes::new(millis(duration), millis(deadline), millis(retry)).is_ok()
        };
        for (duration, deadline, retry, valid) in [
            (8_000, 5_000, 1_000, true),
            (1_000, 600, 200, true),
            (8_000, 8_000, 1_000, false),
            (5_000, 8_000, 1_000, false),
            (8_000, 1_000, 1_000, false),
            (8_000, 5_000, 0, false),
            (1_500, 1_000, 200, false),
        ] {
            assert_eq!(times(duration, deadline, retry), valid, "{duration} {deadline} {retry}");
        }
    }

    #[test]
    fn two_processes_of_one_pod_have_two_identities() {
        assert_ne!(identity("pod"), identity("pod"));
    }
}
