//! The life of the process, from its first request to its last.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api_types::names::{SCHEDULER_LEASE, SYSTEM_NAMESPACE};
use cluster_apply::{Binder, Fenced, StatusWriter, Target, Writes};
use cluster_watch::Kind;
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use service_kit::health::Readiness;
use service_kit::lease::{self, LeaseName};
use service_kit::{client, health, shutdown};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::args::Args;
use crate::metrics::Metrics;
use crate::planner::{Inputs, Outputs, Planner};
use crate::{absent, fence};

/// Changes that may wait for the loop: 4,096 slim pods are a few MB, and then the watches wait.
const CHANGES_MAX: usize = 4_096;
/// Runs per page of the one list of them.
const PAGE_SIZE: u32 = 500;
/// Finding out who we are takes one request.
const REVIEW_MAX: Duration = Duration::from_secs(30);
/// Taking the fence: a few requests, and probes for up to twice 10 s.
const FENCE_MAX: Duration = Duration::from_secs(30);
/// From the lease to the first plan, without the settle time. A leader that cannot list by then (a dead connection
/// without an end, for example) must not keep others from leading.
const FIRST_PLAN_MAX: Duration = Duration::from_mins(2);

/// Stands by, leads, and ends: `Ok` when it was asked to stop, an error when it may not go on.
pub async fn run(args: Args) -> anyhow::Result<()> {
    args.validate()?;
    let stop = shutdown::on_signal().context("watching for signals")?;
    let (metrics, registry) = Metrics::new();
    let readiness = Readiness::starting("connects to the API server");
    health::serve(args.common.health_listen, readiness.clone(), registry, stop.clone()).await?;
    let config = client::config(args.common.kubeconfig.as_deref()).await?;
    let reads = client::client(&config)?;
    let uid = tokio::time::timeout(REVIEW_MAX, fence::pod_uid(&reads)).await;
    let uid = uid.context("asking the API server who this process is: no answer")??;
    // A standby is ready: it does what it is there for.
    readiness.ready();
    let name = LeaseName {
        namespace: SYSTEM_NAMESPACE.to_owned(),
        name: SCHEDULER_LEASE.to_owned(),
        identity: lease::identity(&uid),
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
        uid,
        args,
        metrics,
        readiness,
        fenced: Fenced::default(),
    };
    tokio::select! {
        lost = held.lost() => {
            error!(reason = %lost, "Lost the lease.");
            cluster_apply::failpoint!("lease-lost");
            // Not by returning: nothing that is under way may delay the end.
            std::process::exit(1)
        }
        led = leader.lead(&stop) => led?,
    }
    held.release().await;
    Ok(())
}

struct Leader {
    args: Args,
    reads: Client,
    writes: Writes,
    uid: String,
    metrics: Metrics,
    readiness: Readiness,
    fenced: Fenced,
}

impl Leader {
    async fn lead(&self, stop: &CancellationToken) -> anyhow::Result<()> {
        self.readiness.not_ready("takes over");
        let limit = FIRST_PLAN_MAX + self.args.settle;
        let deadline = tokio::time::Instant::now() + limit;
        let leftovers = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            leftovers = tokio::time::timeout_at(deadline, self.take_over()) => {
                leftovers.with_context(|| format!("did not take over within {limit:?}"))??
            }
        };
        let status = StatusWriter::start(self.writes.clone(), self.fenced.clone());
        let (reports_sender, reports) = mpsc::unbounded_channel();
        let binder = Binder::start(
            self.writes.clone(),
            self.args.binds_in_flight.into(),
            status.clone(),
            self.fenced.clone(),
            reports_sender,
        );
        let (questions, asked) = mpsc::unbounded_channel();
        let (answers_sender, answers) = mpsc::unbounded_channel();
        tokio::spawn(absent::answer(self.reads.clone(), asked, answers_sender));
        let inputs = Inputs { watches: self.watch(), reports, answers, stop: stop.child_token() };
        let stop_planning = inputs.stop.clone();
        let planner =
            Planner::new(Outputs { binder, status, questions, metrics: self.metrics.clone() }, leftovers);
        let begun = CancellationToken::new();
        let mut ended = spawn(planner, inputs, self.readiness.clone(), begun.clone())?;
        let late = async {
            if tokio::time::timeout_at(deadline, begun.cancelled()).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        let why = tokio::select! {
            message = self.fenced.fenced() => {
                cluster_apply::failpoint!("fenced");
                format!("the API server refused a write: {message}")
            }
            () = late => format!("could not list everything within {limit:?} after taking the lease"),
            binder = &mut ended => {
                // Only a panic drops the sender: the thread has said why.
                let binder = binder.context("the planning thread ended")?;
                binder.stop().await;
                return Ok(());
            }
        };
        self.metrics.is_leader.set(0);
        stop_planning.cancel();
        if let Ok(binder) = ended.await {
            binder.stop().await;
        }
        anyhow::bail!(why)
    }

    /// Everything before the first list; returns the runs that a former leader said wait.
    async fn take_over(&self) -> anyhow::Result<Vec<Target>> {
        let taken = tokio::time::timeout(FENCE_MAX, fence::take(&self.reads, &self.writes, &self.uid)).await;
        let epoch = taken.with_context(|| format!("the fence was not taken within {FENCE_MAX:?}"))??;
        self.metrics.epoch.set(epoch);
        info!(epoch, settle = ?self.args.settle, "Admitted by the fence; waiting for older writes to end.");
        tokio::time::sleep(self.args.settle).await;
        self.metrics.is_leader.set(1);
        waiting_runs(&self.reads).await.context("listing runs that wait")
    }

    fn watch(&self) -> mpsc::Receiver<cluster_watch::Message> {
        let (sender, receiver) = mpsc::channel(CHANGES_MAX);
        for kind in Kind::ALL {
            tokio::spawn(cluster_watch::watch(
                kind,
                self.reads.clone(),
                sender.clone(),
                Arc::clone(&self.metrics.watches),
            ));
        }
        receiver
    }
}

/// Runs the loop on a thread of its own; planning there blocks nothing else.
fn spawn(
    planner: Planner,
    inputs: Inputs,
    readiness: Readiness,
    begun: CancellationToken,
) -> anyhow::Result<oneshot::Receiver<Binder>> {
    let (sender, receiver) = oneshot::channel();
    let runtime = tokio::runtime::Handle::current();
    let on_first_plan = move || {
        info!("Scheduling.");
        readiness.ready();
        begun.cancel();
    };
    std::thread::Builder::new()
        .name("planner".to_owned())
        .spawn(move || {
            let binder = runtime.block_on(planner.run(inputs, on_first_plan));
            // Without a receiver the process is ending.
            let _ = sender.send(binder);
        })
        .context("starting the planning thread")?;
    Ok(receiver)
}

#[derive(Deserialize)]
struct RunList {
    metadata: ListMetadata,
    items: Vec<SlimRun>,
}

#[derive(Deserialize)]
struct ListMetadata {
    #[serde(rename = "continue", default)]
    next: String,
}

#[derive(Deserialize)]
struct SlimRun {
    metadata: RunMetadata,
    status: Option<SlimRunStatus>,
}

#[derive(Deserialize)]
struct RunMetadata {
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct SlimRunStatus {
    waiting: Option<IgnoredAny>,
}

/// Runs with `status.waiting`, read once per take-over, page by page, only as far as needed.
async fn waiting_runs(client: &Client) -> kube::Result<Vec<Target>> {
    const LIMIT: Duration = Duration::from_mins(1);
    let mut found = Vec::new();
    let mut next = String::new();
    loop {
        // A continue token is base64 for URLs.
        let path = format!("/apis/warpyard.dev/v1alpha1/runs?limit={PAGE_SIZE}&continue={next}");
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let page = tokio::time::timeout(LIMIT, client.request::<RunList>(request));
        let page = page.await.map_err(|elapsed| kube::Error::Service(elapsed.into()))??;
        for run in page.items {
            if run.status.is_some_and(|status| status.waiting.is_some()) {
                found.push(Target::Run(run.metadata.namespace.into(), run.metadata.name.into()));
            }
        }
        next = page.metadata.next;
        if next.is_empty() {
            return Ok(found);
        }
    }
}
