//! The loop: turns reports of the sources into writes to the Node.

use std::time::Duration;

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::Api;
use service_kit::backoff;
use service_kit::health::Readiness;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::args::Args;
use crate::metrics::{Metrics, WriteResult};
use crate::node;
use crate::policy::{NodePatch, Seen, decide};
use crate::probe::{Probes, Report, Reports};

/// The time limit for one read or write of the Node.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Conflicts in a row before a pause. Others write to a Node every few seconds at most.
const CONFLICTS_MAX: u32 = 8;
/// The wait after the first failure; it doubles with each further one, up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(250);
/// The longest wait between two tries: short, because a spot machine has 30 s to live.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Runs until `stop` is cancelled.
pub async fn run(
    args: Args,
    client: Client,
    metrics: Metrics,
    readiness: Readiness,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let file = &args.boot_id_file;
    let boot = std::fs::read_to_string(file)
        .with_context(|| format!("failed to read the boot's id in {}", file.display()))?;
    let probes = Probes::new(&args)?;
    let reports = Reports::new(&probes.sources(), boot.trim());
    info!(node = args.node_name, sources = ?probes.sources(), "Starting.");
    let (_tasks, receiver) = probes.start(&metrics);
    let agent = Agent {
        nodes: Api::all(client),
        lead: SignedDuration::try_from(args.maintenance_lead).context("--maintenance-lead is too long")?,
        node_name: args.node_name,
        resync: args.resync,
        metrics,
        readiness,
    };
    tokio::select! {
        () = stop.cancelled() => Ok(()),
        () = agent.serve(reports, receiver) => anyhow::bail!("all sources have stopped"),
    }
}

struct Agent {
    nodes: Api<Node>,
    node_name: String,
    lead: SignedDuration,
    resync: Duration,
    metrics: Metrics,
    readiness: Readiness,
}

impl Agent {
    /// Updates the Node whenever a source reports, and from time to time in case others changed it.
    async fn serve(&self, mut reports: Reports, mut receiver: Receiver<Report>) {
        let mut failures = 0;
        let mut next_look = Instant::now();
        loop {
            tokio::select! {
                report = receiver.recv() => match report {
                    Some(report) => reports.take_in(report),
                    None => return,
                },
                () = sleep_until(next_look) => {}
            }
            while let Ok(report) = receiver.try_recv() {
                reports.take_in(report);
            }
            let seen = reports.seen();
            let wait = match self.bring_up_to_date(&seen).await {
                Ok(()) => {
                    if failures > 0 || !self.readiness.is_ready() {
                        info!("Watching.");
                    }
                    failures = 0;
                    self.readiness.ready();
                    self.resync
                }
                Err(error) => {
                    self.metrics.wrote(WriteResult::Error);
                    self.readiness.not_ready("cannot write to its Node");
                    warn!(
                        error = format!("{error:#}"),
                        failures, "Could not bring the Node up to date; trying again."
                    );
                    failures += 1;
                    backoff::wait(RETRY_FIRST, RETRY_MAX, failures)
                }
            };
            next_look = Instant::now() + wait;
        }
    }

    async fn bring_up_to_date(&self, seen: &Seen) -> anyhow::Result<()> {
        for _ in 0..CONFLICTS_MAX {
            let read = timeout(CALL_TIMEOUT, self.nodes.get(&self.node_name)).await;
            let node = read.context("timed out reading the Node")?.context("failed to read the Node")?;
            let change = decide(&node, seen, self.lead, Timestamp::now());
            if change.is_empty() {
                return Ok(());
            }
            let written = timeout(CALL_TIMEOUT, node::write(&self.nodes, &node, &change)).await;
            match written.context("timed out writing the Node")? {
                Ok(()) => {
                    self.metrics.wrote(WriteResult::Ok);
                    log(&change);
                    return Ok(());
                }
                Err(error) if node::is_conflict(&error) => self.metrics.wrote(WriteResult::Conflict),
                Err(error) => return Err(error).context("failed to write the Node"),
            }
        }
        anyhow::bail!("others wrote to the Node {CONFLICTS_MAX} times while we did")
    }
}

fn log(change: &NodePatch) {
    for condition in &change.conditions {
        info!(
            condition = condition.type_,
            status = condition.status,
            reason = condition.reason,
            message = condition.message,
            "The Node says."
        );
    }
    if let Some(taints) = &change.taints {
        let taints: Vec<_> = taints.iter().map(|taint| (&taint.key, &taint.value)).collect();
        info!(?taints, "The Node's taints.");
    }
}
