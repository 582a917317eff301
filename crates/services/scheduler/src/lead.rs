//! The lifetime of the process, from its first request to its last.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api_types::names::{SCHEDULER_LEASE, SYSTEM_NAMESPACE};
use cluster_apply::fence::{self, Endpoint};
use cluster_apply::{ClaimWriter, EffectWriter, Fenced, Reports, StatusWriter, Writes};
use cluster_model::PodKey;
use cluster_watch::Kind;
use cluster_watch::landmark::Landmark;
use kube::Client;
use opentelemetry_sdk::trace::SdkTracerProvider;
use placement::Policy;
use service_kit::health::Readiness;
use service_kit::lease::{self, LeaseName};
use service_kit::{client, health, otlp, shutdown};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::args::Args;
use crate::dispatcher::{Dispatcher, Inputs, Lag, Observers, Outbox, Settings, TakenOver};
use crate::judge::Judge;
use crate::machines::{Buyer, CapacityBackend, Decided, Karpenter};
use crate::metrics::Metrics;
use crate::record::TraceFile;
use crate::spans::Spans;
use crate::tell::answers::NOBODY_BUYS;
use crate::tell::desk::Desk;
use crate::tell::door::Door;
use crate::tell::forecaster;
use crate::tell::learned::Teller;
use crate::{ended, leftovers, policy};

/// Changes that may wait for the loop: 4,096 slim pods are a few MB. Beyond that the watches wait.
const CHANGES_MAX: usize = 4_096;
/// The bound on finding out our identity: one request.
const REVIEW_MAX: Duration = Duration::from_secs(30);
/// The bound on taking the fence: a few requests, and four probes of up to 10 s each.
const FENCE_MAX: Duration = Duration::from_secs(50);
/// From the lease to the first plan, without the settle time. A leader that cannot list by then (a dead connection
/// without an end, for example) must not keep others from leading.
const FIRST_PLAN_MAX: Duration = Duration::from_mins(2);
/// When every kind is listed, a healthy watch of pods brings the mark within a second. After this long without
/// a plan the watch counts as dead, and lists again.
const WATCH_MAX: Duration = Duration::from_secs(30);

/// Stands by, leads, and ends: `Ok` if it was asked to stop, an error if it must not go on.
pub async fn run(args: Args) -> anyhow::Result<()> {
    args.validate()?;
    let policy = policy::read(args.policy.as_deref())?;
    let traces = args.otlp_endpoint.as_deref().map(|endpoint| otlp::provider(endpoint, "warpyard-scheduler"));
    let traces = traces.transpose()?;
    let stop = shutdown::on_signal().context("watching for signals")?;
    let (metrics, registry) = Metrics::new();
    let readiness = Readiness::starting("connects to the API server");
    health::serve(args.common.health_listen, readiness.clone(), registry, stop.clone()).await?;
    let config = client::config(args.common.kubeconfig.as_deref()).await?;
    let reads = client::watching(&config)?;
    let own_pod = tokio::time::timeout(REVIEW_MAX, fence::own_pod(&reads)).await;
    let own_pod = own_pod.context("asking the API server who this process is: no answer")??;
    // A standby is ready: it does its work.
    readiness.ready();
    let name = LeaseName {
        namespace: SYSTEM_NAMESPACE.to_owned(),
        name: SCHEDULER_LEASE.to_owned(),
        identity: lease::identity(&own_pod.uid),
    };
    let held = match lease::acquire(&config, name, args.lease.times()?, &stop).await {
        Err(lease::Error::Stopped) => return Ok(()),
        held => held?,
    };
    let mut write_config = config.clone();
    write_config.default_retry = false;
    let leader = Leader {
        writes: Writes::new(client::client(&write_config)?, args.write_timeout),
        reads,
        own_pod,
        policy,
        args,
        metrics,
        readiness,
        fenced: Fenced::default(),
        traces: traces.clone(),
    };
    tokio::select! {
        lost = held.lost() => {
            error!(reason = %lost, "Lost the lease.");
            cluster_apply::failpoint!("lease-lost");
            // Not by returning: requests under way must not delay the end.
            std::process::exit(1)
        }
        led = leader.lead(&stop) => led?,
    }
    held.release().await;
    send_rest(traces).await;
    Ok(())
}

/// Sends the spans that still wait, for a bounded time and not on the runtime's threads.
async fn send_rest(traces: Option<SdkTracerProvider>) {
    let Some(traces) = traces else { return };
    let sent = tokio::task::spawn_blocking(move || traces.shutdown()).await;
    if let Ok(Err(error)) = sent {
        warn!(%error, "Some traces were not sent.");
    }
}

struct Leader {
    args: Args,
    reads: Client,
    writes: Writes,
    own_pod: PodKey,
    policy: Policy,
    metrics: Metrics,
    readiness: Readiness,
    fenced: Fenced,
    traces: Option<SdkTracerProvider>,
}

impl Leader {
    async fn lead(&self, stop: &CancellationToken) -> anyhow::Result<()> {
        self.readiness.not_ready("takes over");
        let limit = FIRST_PLAN_MAX + self.args.settle;
        let deadline = tokio::time::Instant::now() + limit;
        let desk = Arc::<Desk>::default();
        let panics = self.metrics.forecast_panics.clone();
        forecaster::start(Arc::clone(&desk), panics, stop.clone()).context("starting the forecast thread")?;
        let judge = Judge {
            desk: Arc::clone(&desk),
            judged: self.metrics.plans_judged.clone(),
            wrong: self.metrics.plans_wrong.clone(),
            folder: self.args.wrong_plans.clone().unwrap_or_else(|| std::env::temp_dir().join("warpyard")),
        };
        tokio::spawn(judge.run(stop.child_token()));
        // It says "not yet" until the first plan.
        let door = self.door(&desk, stop);
        let endpoint = door.open_now().await;
        let epoch = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            taken = self.take_fence(endpoint.as_ref()) => taken?,
        };
        if endpoint.is_none() {
            tokio::spawn(door.open_later(epoch));
        }
        let record = self.args.record.as_deref().map(TraceFile::start).transpose();
        let record = record.context("starting the recording thread")?;
        let observers = (record, self.traces.as_ref().map(Spans::new));
        let (taken_over, taken_over_receiver) = mpsc::channel(1);
        let (changes, watches) = mpsc::channel(CHANGES_MAX);
        let late = self.watch_pods(&changes);
        let (dispatcher, inputs) = self.connect(epoch, desk, observers, (watches, taken_over_receiver), stop);
        let stop_planning = inputs.stop.clone();
        let begun = CancellationToken::new();
        let mut ended = spawn(dispatcher, inputs, self.readiness.clone(), begun.clone())?;
        let out_of_time = async {
            if tokio::time::timeout_at(deadline, begun.cancelled()).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        let failed_to_take_over = async {
            match self.take_over(epoch, &changes).await {
                // Without a receiver the loop is ending.
                Ok(left) => drop(taken_over.send(left).await),
                Err(error) => return error,
            }
            await_plan(&begun, &late).await;
            std::future::pending().await
        };
        let why = tokio::select! {
            error = failed_to_take_over => format!("did not take over: {error:#}"),
            message = self.fenced.fenced() => {
                cluster_apply::failpoint!("fenced");
                format!("the API server refused a write: {message}")
            }
            () = out_of_time => format!("did not take over, or could not list everything, within {limit:?}"),
            outbox = &mut ended => {
                // Only a panic drops the sender: the thread has said why.
                let outbox = outbox.context("the dispatcher's thread ended")?;
                outbox.stop().await;
                return Ok(());
            }
        };
        self.metrics.is_leader.set(0);
        stop_planning.cancel();
        if let Ok(outbox) = ended.await {
            outbox.stop().await;
        }
        anyhow::bail!(why)
    }

    /// Starts the dispatcher's parts, and all that it communicates with.
    fn connect(
        &self,
        epoch: i64,
        desk: Arc<Desk>,
        (record, spans): (Option<TraceFile>, Option<Spans>),
        (watches, taken_over): (mpsc::Receiver<cluster_watch::Message>, mpsc::Receiver<TakenOver>),
        stop: &CancellationToken,
    ) -> (Dispatcher, Inputs) {
        let (writes, fenced) = (self.writes.of_epoch(epoch), &self.fenced);
        let (binds_sender, binds) = mpsc::unbounded_channel();
        let (evictions_sender, evictions) = mpsc::unbounded_channel();
        let leader = cluster_apply::WriterSettings {
            epoch,
            instance: self.own_pod.uid.to_string(),
            binds_in_flight_max: self.args.binds_in_flight.into(),
        };
        let status = StatusWriter::start(writes.clone(), fenced.clone());
        let reports = Reports { binds: binds_sender, evictions: evictions_sender };
        let effects = EffectWriter::start(&writes, leader, status.clone(), fenced, reports);
        let (questions, asked) = mpsc::unbounded_channel();
        let (answers_sender, answers) = mpsc::unbounded_channel();
        tokio::spawn(ended::answer(self.reads.clone(), asked, answers_sender));
        let teller = Teller::new(Arc::clone(&desk));
        let stop = stop.child_token();
        let (machines, decided) = self.buy_machines(epoch, &writes, &desk, &stop);
        let inputs = Inputs { watches, taken_over, binds, evictions, answers, decided, desk, stop };
        let (metrics, lag, measured) = (self.metrics.clone(), Lag::default(), None);
        let observers = Observers { metrics, teller, record, spans, lag, measured };
        let outbox = Outbox { effects, status, machines, questions };
        let settings = Settings {
            policy: self.policy.clone(),
            unwind_after: self.args.unwind_after,
            buys_machines: self.args.buy_machines,
        };
        (Dispatcher::new(settings, observers, outbox), inputs)
    }

    /// Starts to decide about machines. If the operator wants no more of them, those that were bought are still given
    /// back. There is no decision before the first plan, because there is no picture before it.
    fn buy_machines(
        &self,
        epoch: i64,
        writes: &Writes,
        desk: &Arc<Desk>,
        stop: &CancellationToken,
    ) -> (Option<Arc<dyn CapacityBackend>>, mpsc::Receiver<Decided>) {
        let (sender, decided) = mpsc::channel(1);
        let stopped = (!self.args.buy_machines).then_some(NOBODY_BUYS);
        let changed = Arc::<Notify>::default();
        let claims = ClaimWriter::start(writes.clone(), self.fenced.clone());
        let policies = Buyer::watch_policy(self.reads.clone(), Arc::clone(&changed));
        let metrics = self.metrics.machines.clone();
        let of_leader = (epoch, policies.clone(), metrics.clone());
        let karpenter = Karpenter::start(self.reads.clone(), claims, of_leader, Arc::clone(&changed));
        let backend: Arc<dyn CapacityBackend> = Arc::new(karpenter);
        let buyer = Buyer {
            backend: Arc::clone(&backend),
            machine_types: Buyer::watch_catalogue(self.reads.clone(), Arc::clone(&changed)),
            policies,
            stopped,
            metrics,
            desk: Arc::clone(desk),
            changed,
            decided: sender,
        };
        tokio::spawn(buyer.run(stop.clone()));
        (Some(backend), decided)
    }

    /// The door at which the API server asks why and when.
    fn door(&self, desk: &Arc<Desk>, stop: &CancellationToken) -> Door {
        Door {
            listen: self.args.leader_listen,
            advertised: self.args.leader_address.clone(),
            reads: self.reads.clone(),
            writes: self.writes.clone(),
            desk: Arc::clone(desk),
            stop: stop.clone(),
        }
    }

    /// Makes this process the one that may write; returns its epoch.
    async fn take_fence(&self, endpoint: Option<&Endpoint>) -> anyhow::Result<i64> {
        let taken = fence::take(&self.reads, &self.writes, &self.own_pod.uid, endpoint);
        let taken = tokio::time::timeout(FENCE_MAX, taken).await;
        let epoch = taken.with_context(|| format!("the fence was not taken within {FENCE_MAX:?}"))??;
        self.metrics.epoch.set(epoch);
        info!(epoch, settle = ?self.args.settle, "Admitted by the fence; waiting for older writes to end.");
        Ok(epoch)
    }

    /// Waits until the former leader cannot change anything any more, marks that moment in the history of pods,
    /// and lists the rest.
    async fn take_over(
        &self,
        epoch: i64,
        changes: &mpsc::Sender<cluster_watch::Message>,
    ) -> anyhow::Result<TakenOver> {
        tokio::time::sleep(self.args.settle).await;
        self.metrics.is_leader.set(1);
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Pods) {
            self.watch(kind, None, changes);
        }
        let pods_as_of = self.writes.mark(&self.own_pod, epoch).await?;
        let runs = leftovers::waiting_runs(&self.reads).await.context("listing runs that wait")?;
        let holds = leftovers::holds(&self.reads).await.context("listing holds")?;
        let accounts = leftovers::accounts(&self.reads).await.context("listing queues")?;
        Ok(TakenOver { pods_as_of, runs, holds, accounts })
    }

    /// Lists and watches pods while older writes end, because pods are many. Notify the returned handle if the
    /// mark does not come.
    fn watch_pods(&self, changes: &mpsc::Sender<cluster_watch::Message>) -> Arc<Notify> {
        let late = Arc::<Notify>::default();
        let landmark = Landmark::new(self.own_pod.clone(), Arc::clone(&late));
        self.watch(Kind::Pods, Some(landmark), changes);
        late
    }

    fn watch(&self, kind: Kind, landmark: Option<Landmark>, out: &mpsc::Sender<cluster_watch::Message>) {
        let counters = Arc::clone(&self.metrics.watches);
        tokio::spawn(cluster_watch::watch(kind, self.reads.clone(), landmark, out.clone(), counters));
    }
}

/// Waits for the first plan. The watch of pods that it depends on may be dead without noticing.
async fn await_plan(begun: &CancellationToken, late: &Notify) {
    while tokio::time::timeout(WATCH_MAX, begun.cancelled()).await.is_err() {
        late.notify_waiters();
    }
}

/// Runs the loop on a thread of its own; planning there blocks nothing else.
fn spawn(
    dispatcher: Dispatcher,
    inputs: Inputs,
    readiness: Readiness,
    begun: CancellationToken,
) -> anyhow::Result<oneshot::Receiver<Outbox>> {
    let (sender, receiver) = oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    let on_first_plan = move || {
        info!("Scheduling.");
        readiness.ready();
        begun.cancel();
    };
    std::thread::Builder::new()
        .name("dispatcher".to_owned())
        .spawn(move || {
            let outbox = runtime.block_on(dispatcher.run(inputs, on_first_plan));
            // Without a receiver the process is ending.
            let _ = sender.send(outbox);
        })
        .context("starting the dispatcher's thread")?;
    Ok(receiver)
}
