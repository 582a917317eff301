//! The wiring: three watches, one queue of Runs, a bounded number of reconciles, and the meter beside them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::store::Ledger;
use api_types::Run;
use api_types::names::RUN_LABEL;
use cluster_convert::SlimPod;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::api::Api;
use kube::runtime::controller::{Action, Config, Error as ApplierError, applier};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::EncodeLabelValue;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::members::{Members, RunKey};
use crate::meter::Meter;
use crate::run::{self, Context, reconcile, teardown};
use crate::watches::{objects, whole_objects};

/// Reconciles at the same time. Each is a handful of requests of a few milliseconds, so 32 keep up with some
/// thousands of Runs per minute and stay far below the API server's limits for one client.
const CONCURRENCY: u16 = 32;
/// Events of one Run that come within this time are handled together: a gang's pods change in bursts.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// How often Jobs are looked through for those whose Run is gone.
const SWEEP: Duration = Duration::from_mins(1);
/// The wait after the first failure; it doubles with each further one, up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// The longest wait between two tries.
const RETRY_MAX: Duration = Duration::from_mins(1);

/// Runs until `stop` is cancelled; what is being written then is finished first. Calls `ready` when all caches are
/// complete. With a ledger, pods are metered, and carry a finalizer until they are; nothing here waits for it. But
/// without a meter nobody would take the finalizer away: if it panics this ends at once, to be started again.
pub async fn run(
    client: kube::Client,
    metrics: Metrics,
    ledger: Option<(Ledger, Arc<Meter>)>,
    stop: CancellationToken,
    ready: impl FnOnce(),
) -> Result<(), MeterPanicked> {
    let (runs, run_writer) = store::<Run>();
    let (jobs, job_writer) = store::<Job>();
    let (ledger, meter) = ledger.unzip();
    let context = Arc::new(Context {
        client: client.clone(),
        jobs: jobs.clone(),
        members: Members::default(),
        metered: meter.is_some(),
    });
    let synced = watch::Sender::new(false);

    let of_runs = watcher::Config::default().labels(RUN_LABEL);
    let run_events = whole_objects::<Run>(client.clone(), watcher::Config::default());
    let job_events =
        whole_objects::<Job>(client.clone(), of_runs.clone()).map(|event| event.modify(slim_job));
    // One watch for both: all pods for the meter, of which those of Runs are for the Runs.
    let pod_config = if meter.is_some() { watcher::Config::default() } else { of_runs };
    let unseen = meter.clone();
    let pod_events = objects(Api::<SlimPod>::all(client.clone()), pod_config, move || {
        if let Some(meter) = &unseen {
            meter.pods_unseen();
        }
    });

    let queue = stream::select_all([
        keys(run_events, run_writer, runs.clone(), |run: &Run| Some(ObjectRef::from_obj(run))),
        keys(job_events, job_writer, jobs.clone(), run_of_job),
        pod_keys(pod_events, Arc::clone(&context), meter.clone(), synced.clone()),
    ])
    .map(Ok::<_, Infallible>)
    .take_until(stop.clone().cancelled_owned());

    let worker = Arc::new(Worker {
        context: Arc::clone(&context),
        synced: synced.subscribe(),
        metrics,
        failures: Mutex::default(),
    });
    let config = Config::default().concurrency(CONCURRENCY).debounce(DEBOUNCE);
    let results = applier(
        |run, worker| Worker::handle(worker, run).boxed(),
        Worker::retry,
        worker,
        runs,
        queue,
        config,
    );
    let announce = async {
        // An error means that everything has ended already.
        if jobs.wait_until_ready().await.is_ok()
            && synced.subscribe().wait_for(|synced| *synced).await.is_ok()
        {
            ready();
        }
    };
    let sweeps = sweep(&context, &jobs, &stop);
    let metering = async {
        if let (Some(ledger), Some(meter)) = (ledger, meter) {
            // In a task of its own: a slow database holds up nothing here.
            finished(tokio::spawn(meter.run(client, ledger, stop.clone()))).await?;
        }
        Ok(())
    };
    let controlling = async {
        tokio::join!(
            results.for_each(|result| async { report(result) }),
            announce_until(&stop, announce),
            sweeps
        );
        Ok(())
    };
    tokio::try_join!(controlling, metering).map(|_| ())
}

/// The meter panicked: what was being done is left as it is, and a new process goes on with it.
#[derive(Debug, thiserror::Error)]
#[error("the meter panicked, see the message above; this process must be started again")]
pub struct MeterPanicked;

async fn finished(meter: JoinHandle<()>) -> Result<(), MeterPanicked> {
    meter.await.map_err(|_| MeterPanicked)
}

/// Counts of what the controller did.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    reconciles: Family<ReconcileLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    result: ReconcileResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
enum ReconcileResult {
    Ok,
    Conflict,
    Error,
}

impl Metrics {
    /// Metrics that are served with the registry's others.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "warpyard_controllers_reconciles",
            "Reconciles of Runs by result",
            metrics.reconciles.clone(),
        );
        metrics
    }

    fn count(&self, result: ReconcileResult) {
        self.reconciles.get_or_create(&ReconcileLabels { result }).inc();
    }
}

struct Worker {
    context: Arc<Context>,
    synced: watch::Receiver<bool>,
    metrics: Metrics,
    /// Failures in a row by Run; a success removes the entry, so it is bounded by the Runs that fail.
    failures: Mutex<HashMap<RunKey, u32>>,
}

impl Worker {
    /// Reconciles in a task of its own, so that a slow one never holds up the watches.
    async fn handle(worker: Arc<Self>, run: Arc<Run>) -> Result<Action, run::Error> {
        let key = key_of(&run);
        let task = {
            let worker = Arc::clone(&worker);
            tokio::spawn(async move {
                // Nothing is decided before all caches are complete.
                let synced = worker.synced.clone().wait_for(|synced| *synced).await.is_ok();
                if !synced || worker.context.jobs.wait_until_ready().await.is_err() {
                    return Ok(Action::await_change());
                }
                reconcile(run, Arc::clone(&worker.context)).await
            })
        };
        let result = task.await.unwrap_or(Err(run::Error::Panicked));
        let result_label = match &result {
            Ok(_) => ReconcileResult::Ok,
            Err(error) if error.is_conflict() => ReconcileResult::Conflict,
            Err(_) => ReconcileResult::Error,
        };
        worker.metrics.count(result_label);
        if result.is_ok() {
            worker.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        }
        result
    }

    #[expect(clippy::needless_pass_by_value, reason = "the signature is the applier's")]
    fn retry(run: Arc<Run>, error: &run::Error, worker: Arc<Self>) -> Action {
        if error.is_conflict() {
            return Action::requeue(RETRY_FIRST);
        }
        let mut failures = worker.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(key_of(&run)).or_default();
        let wait = RETRY_FIRST.saturating_mul(1 << (*count).min(16)).min(RETRY_MAX);
        *count = count.saturating_add(1);
        Action::requeue(wait)
    }
}

fn report(result: Result<(ObjectRef<Run>, Action), ApplierError<run::Error, Infallible>>) {
    match result {
        Ok((run, _)) => debug!(%run, "Reconciled."),
        // Children outlive a deleted Run for a moment; their events find no Run, and that is right.
        Err(ApplierError::ObjectNotFound(run)) => debug!(%run, "Nothing to reconcile."),
        Err(ApplierError::ReconcilerFailed(error, run)) if error.is_conflict() => {
            debug!(%run, %error, "Decided on an old object; will look again.");
        }
        Err(ApplierError::ReconcilerFailed(error, run)) => {
            warn!(%run, %error, answer = error.answer(), "Reconcile failed; will try again.");
        }
        Err(error) => warn!(%error, "The queue failed."),
    }
}

/// Keeps the store and yields the Runs to look at: each changed one, and after a list all, because what changed while
/// we were not watching is not told one by one.
fn keys<K>(
    events: impl futures::Stream<Item = Event<K>> + Send + 'static,
    mut writer: kube::runtime::reflector::store::Writer<K>,
    store: Store<K>,
    run_of: fn(&K) -> Option<ObjectRef<Run>>,
) -> BoxStream<'static, ObjectRef<Run>>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    events
        .flat_map(move |event| {
            writer.apply_watcher_event(&event);
            let touched: Vec<_> = match &event {
                Event::Init | Event::InitApply(_) => Vec::new(),
                Event::InitDone => store.state().iter().filter_map(|object| run_of(object)).collect(),
                Event::Apply(object) | Event::Delete(object) => run_of(object).into_iter().collect(),
            };
            stream::iter(touched)
        })
        .boxed()
}

fn pod_keys(
    events: BoxStream<'static, Event<SlimPod>>,
    context: Arc<Context>,
    meter: Option<Arc<Meter>>,
    synced: watch::Sender<bool>,
) -> BoxStream<'static, ObjectRef<Run>> {
    events
        .flat_map(move |event| {
            let complete = matches!(event, Event::InitDone);
            if let Some(meter) = &meter {
                meter.pod_event(&event);
            }
            let touched = context.members.apply(&event);
            if complete {
                synced.send_replace(true);
            }
            stream::iter(touched.into_iter().map(|key| ObjectRef::new(&key.name).within(&key.namespace)))
        })
        .boxed()
}

/// What is built is not read back: only status, metadata and `suspend` are.
fn slim_job(job: &mut Job) {
    if let Some(spec) = &mut job.spec {
        spec.template = PodTemplateSpec::default();
    }
}

fn run_of_job(job: &Job) -> Option<ObjectRef<Run>> {
    Some(ObjectRef::new(job.labels().get(RUN_LABEL)?).within(job.metadata.namespace.as_deref()?))
}

fn key_of(run: &Run) -> RunKey {
    RunKey { namespace: run.namespace().unwrap_or_default(), name: run.name_any() }
}

async fn announce_until(stop: &CancellationToken, announce: impl Future<Output = ()>) {
    tokio::select! {
        () = announce => {}
        () = stop.cancelled() => {}
    }
}

async fn sweep(context: &Context, jobs: &Store<Job>, stop: &CancellationToken) {
    let ready = tokio::select! {
        () = stop.cancelled() => return,
        ready = jobs.wait_until_ready() => ready,
    };
    if ready.is_err() {
        return;
    }
    let mut timer = tokio::time::interval(SWEEP);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = timer.tick() => {}
        }
        if let Err(error) = teardown::sweep(context).await {
            warn!(%error, "Could not look through the Jobs; will try again.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_meter_that_panics_is_an_error_and_one_that_stops_is_none() {
        let broken = tokio::spawn(async { assert!(std::hint::black_box(false), "as a test") });
        assert!(finished(broken).await.is_err());
        assert!(finished(tokio::spawn(async {})).await.is_ok());
    }
}
