//! Measures event streams while runs and nodes change.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use e2e::sse::take_frame;
use e2e::usage::{cpu_seconds, memory};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use test_cluster::TestCluster;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use crate::latency::{milliseconds, percentile_95};
use crate::portal::args::Args;
use crate::portal::fill::{
    MARKS, SHARED, STREAMS_OF_USER, TEAMS, mark_name, run_name, set_status, team_name, user_name,
};
use crate::portal::observe::watches;

/// Other changes in the second of a mark: of runs that some of the users see, and of nodes.
const RUN_CHANGES_PER_MARK: usize = 20;
const NODE_CHANGES_PER_MARK: usize = 5;
/// Changes in a second.
pub const CHANGES_PER_SECOND: usize = 1 + RUN_CHANGES_PER_MARK + NODE_CHANGES_PER_MARK;
const PATIENCE: Duration = Duration::from_mins(1);

/// The measurements.
pub struct Told {
    /// Streams that got every mark.
    pub complete: f64,
    /// From before the write to Kubernetes until a reader has it, 95 of 100.
    pub delay_p95_ms: f64,
    /// The same for the first mark, for which Kubernetes is asked about each user's rights.
    pub first_delay_p95_ms: f64,
    /// Memory of the API server at the end.
    pub memory_mb: f64,
    /// Processor time of the API server in a second.
    pub cpu_cores: f64,
    /// Watches that Kubernetes has open while the streams are.
    pub watches: BTreeMap<String, f64>,
}

/// Opens the streams, changes things, and counts; `pid` is the API server's.
pub async fn measure_streams(
    args: &Args,
    cluster: &TestCluster,
    url: &str,
    client: &Client,
    pid: u32,
) -> anyhow::Result<Told> {
    let (began, clock) = (Instant::now(), Instant::now());
    let http = reqwest::Client::new();
    let (stop, stopped) = watch::channel(false);
    let (live, mut opened) = mpsc::channel(args.streams.max(1));
    let (done, mut completed) = mpsc::channel(args.streams.max(1));
    let readers: Vec<_> = (0..args.streams)
        .map(|number| {
            let token = cluster.token_for_user(&user_name(number / STREAMS_OF_USER)).map(str::to_owned);
            let reader = Reader {
                http: http.clone(),
                clock,
                live: live.clone(),
                done: done.clone(),
                stopped: stopped.clone(),
            };
            let url = url.to_owned();
            tokio::spawn(async move { reader.read_marks(&url, &token?).await })
        })
        .collect();
    drop((live, done));
    all_say_so(&mut opened, args.streams).await.context("not all streams opened")?;
    eprintln!("{} streams open after {:.1?}", args.streams, began.elapsed());
    // Before the first event, Kubernetes is asked what each user may see of each namespace.
    change_things(args, client, clock, 0).await?;
    all_say_so(&mut opened, args.streams).await.context("the first mark did not reach every stream")?;

    let (cpu_before, measured) = (cpu_seconds(pid)?, Instant::now());
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for mark in 1..MARKS {
        second.tick().await;
        change_things(args, client, clock, mark).await?;
    }
    // Whoever misses a mark is counted, not waited for beyond this.
    let in_time = all_say_so(&mut completed, args.streams).await.is_ok();
    eprintln!("all streams were told everything: {in_time}, after {:.1?}", measured.elapsed());
    let cpu_cores = (cpu_seconds(pid)? - cpu_before) / measured.elapsed().as_secs_f64();
    let (memory_mb, watches) = (memory(pid)?.resident_mib, watches(client).await?);
    stop.send(true).ok();

    let (mut complete, mut delays, mut first_delays) = (0_u32, Vec::new(), Vec::new());
    for reader in readers {
        let mut marks = reader.await.context("a reader panicked")??;
        complete += u32::from(marks.len() == MARKS);
        first_delays.extend(marks.remove(&0));
        delays.extend(marks.into_values());
    }
    delays.sort();
    first_delays.sort();
    let delay_p95_ms = milliseconds(percentile_95(&delays));
    let first_delay_p95_ms = milliseconds(percentile_95(&first_delays));
    Ok(Told {
        complete: f64::from(complete),
        delay_p95_ms,
        first_delay_p95_ms,
        memory_mb,
        cpu_cores,
        watches,
    })
}

/// Waits until each task has sent a message.
async fn all_say_so(words: &mut mpsc::Receiver<()>, count: usize) -> anyhow::Result<()> {
    for _ in 0..count {
        tokio::time::timeout(PATIENCE, words.recv())
            .await
            .context("not in time")?
            .context("somebody failed")?;
    }
    Ok(())
}

/// One second's changes, all at once: a mark that everybody sees, runs of all teams, nodes.
async fn change_things(args: &Args, client: &Client, clock: Instant, mark: usize) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = (0..NODE_CHANGES_PER_MARK.min(args.nodes)).map(|change| {
        let name = format!("node-{}", (mark / 2 * NODE_CHANGES_PER_MARK + change) % args.nodes);
        let patch = Patch::Merge(json!({"spec": {"unschedulable": mark.is_multiple_of(2)}}));
        let nodes = nodes.clone();
        async move {
            nodes
                .patch(&name, &PatchParams::default(), &patch)
                .await
                .context("failed to change a node")
                .map(drop)
        }
    });
    let runs = (0..RUN_CHANGES_PER_MARK).map(|change| {
        let number = (mark * RUN_CHANGES_PER_MARK + change) % args.runs;
        let status = json!({"message": format!("changed in second {mark}")});
        async move { set_status(client, &team_name(number % TEAMS), &run_name(number), &status).await }
    });
    let sent = clock.elapsed().as_micros();
    let (mark_name, status) = (mark_name(mark), json!({"message": format!("mark {mark} {sent} end")}));
    let marked = set_status(client, SHARED, &mark_name, &status);
    tokio::try_join!(marked, try_join_all(nodes), try_join_all(runs)).map(drop)
}

/// Reads one stream, as a page does.
struct Reader {
    http: reqwest::Client,
    clock: Instant,
    live: mpsc::Sender<()>,
    done: mpsc::Sender<()>,
    stopped: watch::Receiver<bool>,
}

impl Reader {
    /// Reads until it is stopped; gives for each mark how long it took to arrive.
    async fn read_marks(mut self, url: &str, token: &str) -> anyhow::Result<BTreeMap<usize, Duration>> {
        // An answer that has not ended has its connection for itself, as every page's has.
        let request = self.http.get(format!("{url}/v1/events")).bearer_auth(token);
        let mut response = request.send().await?.error_for_status().context("a stream was refused")?;
        let (mut unread, mut marks) = (Vec::new(), BTreeMap::new());
        loop {
            let chunk = tokio::select! {
                chunk = response.chunk() => chunk?.context("a stream ended early")?,
                _ = self.stopped.wait_for(|stopped| *stopped) => return Ok(marks),
            };
            unread.extend_from_slice(&chunk);
            while let Some(frame) = take_frame(&mut unread) {
                if frame.contains("event: hello") {
                    self.live.send(()).await?;
                } else if frame.contains("event: reload") {
                    bail!("a stream was told to reload");
                } else if let Some((mark, sent)) = mark(&frame) {
                    marks.insert(mark, self.clock.elapsed().saturating_sub(sent));
                    if mark == 0 {
                        self.live.send(()).await?;
                    }
                    if marks.len() == MARKS {
                        self.done.send(()).await?;
                    }
                }
            }
        }
    }
}

/// A mark's number, and when it was sent.
fn mark(frame: &str) -> Option<(usize, Duration)> {
    let (_, mark) = frame.split_once("\"mark ")?;
    let mut words = mark.split(' ');
    let (number, sent) = (words.next()?, words.next()?);
    Some((number.parse().ok()?, Duration::from_micros(sent.parse().ok()?)))
}
