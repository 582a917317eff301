//! The wiring: four watches, one queue of Runs, a bounded number of reconciles, and the meter.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::store::Ledger;
use api_types::Run;
use api_types::names::RUN_LABEL;
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
use service_kit::backoff;
use service_kit::metric_table::{MetricEntry, MetricKind, MetricTable};
use slim_objects::{SlimNode, SlimPod};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::cleanup::{self, Cleaner};
use crate::members::{Members, RunKey};
use crate::meter::Meter;
use crate::nodes::Nodes;
use crate::run::build::Surroundings;
use crate::run::{self, Context, reconcile, teardown};
use crate::watches::{objects, whole_objects};

/// Reconciles at the same time. Each is a handful of requests of a few milliseconds, so 32 keep up with some
/// thousands of Runs per minute and stay far below the API server's limits for one client.
const CONCURRENCY: u16 = 32;
/// Events of one Run within this time are handled together: a gang's pods change in bursts.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// How often we look for Jobs whose Run is gone.
const SWEEP: Duration = Duration::from_mins(1);
/// The wait after the first failure; it doubles with each further one, up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// The longest wait between two tries.
const RETRY_MAX: Duration = Duration::from_mins(1);

/// Runs until `stop` is cancelled, and finishes writes under way first. Calls `ready` when all caches are
/// complete. With books, pods are metered, and carry a finalizer until then, and ended Runs are archived; Runs never
/// wait for the ledger.
/// If the meter panics, this ends at once to be restarted, because nothing else removes the finalizer.
pub async fn run(
    client: kube::Client,
    metrics: Metrics,
    books: Option<Books>,
    around: Surroundings,
    stop: CancellationToken,
    ready: impl FnOnce(),
) -> Result<(), MeterPanicked> {
    let (runs, run_writer) = store::<Run>();
    let (jobs, job_writer) = store::<Job>();
    let meter = books.as_ref().map(|books| Arc::clone(&books.meter));
    let context = Arc::new(Context {
        client: client.clone(),
        jobs: jobs.clone(),
        members: Members::default(),
        nodes: Nodes::default(),
        around,
    });
    let listed = watch::Sender::new(Listed::default());

    let of_runs = watcher::Config::default().labels(RUN_LABEL);
    let told_of_runs = meter.clone();
    let run_events = whole_objects::<Run>(client.clone(), watcher::Config::default()).inspect(move |event| {
        if let Some(meter) = &told_of_runs {
            meter.run_event(event);
        }
    });
    let job_events =
        whole_objects::<Job>(client.clone(), of_runs.clone()).map(|event| event.modify(slim_job));
    // One watch for both: the meter needs all pods, and Runs need their own.
    let pod_config = if meter.is_some() { watcher::Config::default() } else { of_runs };
    let unseen = meter.clone();
    let pod_events = objects(Api::<SlimPod>::all(client.clone()), pod_config, move || {
        if let Some(meter) = &unseen {
            meter.pods_unseen();
        }
    });

    let node_events = objects(Api::<SlimNode>::all(client.clone()), watcher::Config::default(), || {});

    let note = |list: fn(&mut Listed)| {
        let listed = listed.clone();
        move || listed.send_modify(list)
    };
    let run_of_run = |run: &Run| Some(ObjectRef::from_obj(run));
    let queue = stream::select_all([
        keys(run_events, run_writer, runs.clone(), run_of_run, note(|listed| listed.runs = true)),
        keys(job_events, job_writer, jobs, run_of_job, note(|listed| listed.jobs = true)),
        pod_keys(pod_events, Arc::clone(&context), meter.clone(), note(|listed| listed.pods = true)),
        node_keys(node_events, Arc::clone(&context), note(|listed| listed.nodes = true)),
    ])
    .map(Ok::<_, Infallible>)
    .take_until(stop.clone().cancelled_owned());

    let worker = Arc::new(Worker {
        context: Arc::clone(&context),
        listed: listed.subscribe(),
        stop: stop.clone(),
        metrics,
        failures: Mutex::default(),
    });
    let config = Config::default().concurrency(CONCURRENCY).debounce(DEBOUNCE);
    let cleaner = books.as_ref().map(|books| Cleaner {
        client: client.clone(),
        runs: runs.clone(),
        ledger: books.ledger.clone(),
        meter: Arc::clone(&books.meter),
        limits: books.limits,
        metrics: books.cleanup_metrics.clone(),
    });
    let results = applier(
        |run, worker| Worker::handle(worker, run).boxed(),
        Worker::retry,
        worker,
        runs,
        queue,
        config,
    );
    let announce = async {
        Listed::all(listed.subscribe()).await;
        ready();
    };
    let sweeps = sweep(&context, listed.subscribe(), &stop);
    let metering = async {
        if let Some(Books { ledger, meter, .. }) = books {
            // In a task of its own, so that a slow database delays nothing here.
            finished(tokio::spawn(meter.run(client, ledger, stop.clone()))).await?;
        }
        Ok(())
    };
    let cleaning = clean_up(cleaner, listed.subscribe(), &stop);
    // Until Runs are listed nothing has begun, and kube would wait for that list for ever.
    let stopped_early = async {
        stop.cancelled().await;
        if listed.borrow().runs {
            std::future::pending::<()>().await;
        }
    };
    let reconciles = async {
        tokio::select! {
            () = results.for_each(|result| async { report(result) }) => {}
            () = stopped_early => {}
        }
    };
    let controlling = async {
        tokio::join!(reconciles, announce_until(&stop, announce), sweeps, cleaning);
        Ok(())
    };
    tokio::try_join!(controlling, metering).map(|_| ())
}

/// What needs PostgreSQL: the meter, and the archive of ended Runs.
pub struct Books {
    /// The database.
    pub ledger: Ledger,
    /// Meters pods and nodes into it.
    pub meter: Arc<Meter>,
    /// How many ended Runs stay in the cluster.
    pub limits: cleanup::Limits,
    /// Counts and gauges of cleaning up.
    pub cleanup_metrics: cleanup::metrics::Metrics,
}

/// Which caches are complete. Not by `Store::wait_until_ready`: of several tasks that wait for a store, kube wakes one.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each watch")]
struct Listed {
    runs: bool,
    jobs: bool,
    pods: bool,
    nodes: bool,
}

impl Listed {
    /// Waits until all caches are complete; `false` if the process is asked to end before.
    async fn all_or(stop: &CancellationToken, listed: watch::Receiver<Self>) -> bool {
        tokio::select! {
            () = stop.cancelled() => false,
            () = Self::all(listed) => true,
        }
    }

    /// Waits until all caches are complete, or for ever if the process is ending.
    async fn all(mut listed: watch::Receiver<Self>) {
        if listed.wait_for(|listed| listed.runs && listed.jobs && listed.pods && listed.nodes).await.is_err()
        {
            std::future::pending::<()>().await;
        }
    }
}

/// The meter panicked. Work under way is left as it is, and a new process goes on with it.
#[derive(Debug, thiserror::Error)]
#[error("the meter panicked, see the message above; this process must be started again")]
pub struct MeterPanicked;

async fn finished(meter: JoinHandle<()>) -> Result<(), MeterPanicked> {
    meter.await.map_err(|_| MeterPanicked)
}

/// All metrics of the Run controller.
pub const TABLE: MetricTable = MetricTable {
    prefix: "warpyard_controllers",
    entries: &[MetricEntry::new("reconciles", MetricKind::Counter, "Reconciles of Runs by result")
        .labels(&[("result", "`Ok`, `Conflict`, `Error`")])],
};

/// The Run controller's metrics.
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
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "warpyard_controllers_reconciles",
            TABLE.help("reconciles"),
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
    listed: watch::Receiver<Listed>,
    stop: CancellationToken,
    metrics: Metrics,
    /// Failures in a row, by Run. A success removes the entry, so failing Runs bound its size.
    failures: Mutex<HashMap<RunKey, u32>>,
}

impl Worker {
    /// Reconciles in a task of its own, so that a slow one never delays the watches.
    async fn handle(worker: Arc<Self>, run: Arc<Run>) -> Result<Action, run::Error> {
        let key = key_of(&run);
        let task = {
            let worker = Arc::clone(&worker);
            tokio::spawn(async move {
                // Nothing is decided before all caches are complete.
                if !Listed::all_or(&worker.stop, worker.listed.clone()).await {
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
        *count = count.saturating_add(1);
        Action::requeue(backoff::wait(RETRY_FIRST, RETRY_MAX, *count))
    }
}

fn report(result: Result<(ObjectRef<Run>, Action), ApplierError<run::Error, Infallible>>) {
    match result {
        Ok((run, _)) => debug!(%run, "Reconciled."),
        // Children outlive a deleted Run for a moment, so their events find no Run, as expected.
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

/// Keeps the store and yields the Runs to reconcile: each changed one, and all after a list, because a list
/// does not show what changed.
fn keys<K>(
    events: impl futures::Stream<Item = Event<K>> + Send + 'static,
    mut writer: kube::runtime::reflector::store::Writer<K>,
    store: Store<K>,
    run_of: fn(&K) -> Option<ObjectRef<Run>>,
    on_listed: impl Fn() + Send + 'static,
) -> BoxStream<'static, ObjectRef<Run>>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    events
        .flat_map(move |event| {
            writer.apply_watcher_event(&event);
            if matches!(event, Event::InitDone) {
                on_listed();
            }
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
    on_listed: impl Fn() + Send + 'static,
) -> BoxStream<'static, ObjectRef<Run>> {
    events
        .flat_map(move |event| {
            let complete = matches!(event, Event::InitDone);
            if let Some(meter) = &meter {
                meter.pod_event(&event);
            }
            let touched = context.members.apply(&event);
            if complete {
                on_listed();
            }
            stream::iter(touched.into_iter().map(|key| ObjectRef::new(&key.name).within(&key.namespace)))
        })
        .boxed()
}

/// Yields the Runs with a member on a node that leaves, is lost or comes back.
fn node_keys(
    events: BoxStream<'static, Event<SlimNode>>,
    context: Arc<Context>,
    on_listed: impl Fn() + Send + 'static,
) -> BoxStream<'static, ObjectRef<Run>> {
    events
        .flat_map(move |event| {
            let changed = context.nodes.apply(&event);
            if matches!(event, Event::InitDone) {
                on_listed();
            }
            let touched =
                if changed.is_empty() { BTreeSet::new() } else { context.members.on_nodes(&changed) };
            stream::iter(touched.into_iter().map(|key| ObjectRef::new(&key.name).within(&key.namespace)))
        })
        .boxed()
}

/// Drops what is never read back: only status, metadata and `suspend` are read.
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

async fn clean_up(cleaner: Option<Cleaner>, listed: watch::Receiver<Listed>, stop: &CancellationToken) {
    let Some(cleaner) = cleaner else { return };
    if Listed::all_or(stop, listed).await {
        cleaner.run(stop).await;
    }
}

async fn sweep(context: &Context, listed: watch::Receiver<Listed>, stop: &CancellationToken) {
    if !Listed::all_or(stop, listed).await {
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
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_meter_that_panics_is_an_error_and_one_that_stops_is_none() {
        let broken = tokio::spawn(async { assert!(std::hint::black_box(false), "as a test") });
        assert!(finished(broken).await.is_err());
        assert!(finished(tokio::spawn(async {})).await.is_ok());
    }

    #[test]
    fn the_table_names_every_metric_of_the_registry_and_no_other() {
        let mut registry = Registry::default();
        Metrics::register(&mut registry).count(ReconcileResult::Ok);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
        assert_eq!(TABLE.differences(&text), Vec::<String>::new());
    }

    /// More Runs than are reconciled at the same time.
    const RUNS: u64 = 40;

    /// An API server with runs that are over. It is slow to list one kind, and its watches bring nothing.
    fn server(slow: &'static str, takes: Duration) -> kube::Client {
        let run = |index: u64| {
            json!({
                "metadata": { "name": format!("run-{index}"), "namespace": "team", "resourceVersion": "1" },
                "spec": { "members": 1, "image": "i", "command": ["c"] },
                "status": { "phase": "Succeeded" },
            })
        };
        let service = tower::service_fn(move |request: http::Request<Body>| async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            assert_eq!(request.method(), http::Method::GET, "nothing is left to be written");
            if query.contains("watch=true") {
                std::future::pending::<()>().await;
            }
            if path.ends_with(slow) {
                tokio::time::sleep(takes).await;
            }
            let items: Vec<_> = (0..if path.ends_with("/runs") { RUNS } else { 0 }).map(run).collect();
            let metadata = json!({ "resourceVersion": "1" });
            let list = json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items });
            Ok::<_, Infallible>(http::Response::new(Body::from(list.to_string().into_bytes())))
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn every_run_is_looked_at_though_jobs_are_listed_long_after_it() {
        let metrics = Metrics::default();
        let (announced, ready) = tokio::sync::oneshot::channel();
        let announce = || announced.send(()).expect("it is waited for");
        let client = server("/jobs", DEBOUNCE * 4);
        let works = tokio::spawn(run(
            client,
            metrics.clone(),
            None,
            Surroundings::default(),
            CancellationToken::new(),
            announce,
        ));
        ready.await.expect("everything is listed");
        tokio::time::sleep(Duration::from_secs(5)).await;
        works.abort();
        let looked_at =
            metrics.reconciles.get_or_create(&ReconcileLabels { result: ReconcileResult::Ok }).get();
        assert_eq!(looked_at, RUNS);
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_asked_though_not_everything_is_listed() {
        const HOUR: Duration = Duration::from_hours(1);
        for slow in ["/runs", "/jobs", "/pods"] {
            let stop = CancellationToken::new();
            let works = tokio::spawn(run(
                server(slow, HOUR),
                Metrics::default(),
                None,
                Surroundings::default(),
                stop.clone(),
                || {},
            ));
            tokio::time::sleep(DEBOUNCE * 4).await;
            stop.cancel();
            let ended = tokio::time::timeout(HOUR / 2, works).await;
            assert!(matches!(ended, Ok(Ok(Ok(())))), "it does not wait for {slow}: {ended:?}");
        }
    }
}
