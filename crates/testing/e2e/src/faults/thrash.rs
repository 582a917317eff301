//! Half an hour of borrowing and reclaim: no gang gives way twice for the same claimant, and none for nothing.
//!
//! ```text
//!   64 GPUs: `owner` and `borrower` own half each
//!   borrower ── long runs, always more than there is room for ──► fills what the owner leaves
//!   owner    ── short runs, again and again ────────────────────► takes back its half, gives it up, takes it back …
//! ```
//!
//! Read from the store: Holds name victims and claimants before any victim is told to go; pods show which gangs
//! started.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use seeded_random::Random;
use serde_json::Value;
use test_cluster::TestCluster;
use test_cluster::etcd::{KeyEvent, Watch};
use test_cluster::platform::{LeaseTimes, Platform};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Findings;
use super::keeper::Keeper;
use super::site::Site;
use crate::objects::{create_lending_teams, create_run, h100_nodes, run as run_of};

const HOLDS: &str = "/registry/warpyard.dev/holds/";
const EVENTS: &str = "/registry/events/";
const OWNER: &str = "owner";
const BORROWER: &str = "borrower";
/// Gangs that have run for less are not evicted.
const MIN_RUN_SECONDS: u32 = 5;
/// On average the owner requests nine tenths of its quota, and its small runs go first. So some large ones wait
/// at the end, at most for this long.
const SETTLED_WITHIN: Duration = Duration::from_mins(5);

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// For how long.
    pub lasts: Duration,
    /// Names the run.
    pub seed: u64,
}

/// Statistics of the victims.
#[derive(Debug, Default)]
pub struct Thrash {
    /// Gangs that were told to go, once for each time.
    pub evictions: usize,
    /// Times that a gang gave way to the same claimant again.
    pub repeats: usize,
    /// Claimants with victims that never started, and without an event that says why.
    pub for_nothing: usize,
}

/// Borrows and takes back.
pub async fn run(wanted: Size) -> anyhow::Result<(Findings, Thrash)> {
    println!("thrash: {wanted:?}");
    let site = Site::start(TestCluster::builder().nodes(h100_nodes("node", 8))).await?;
    // More above than there is, so that nobody is kept off while others still end.
    let teams = [(OWNER, 32), (BORROWER, 32)];
    create_lending_teams(&site.client, ("all", 128), &teams, 64, MIN_RUN_SECONDS).await?;
    let followers = [HOLDS, EVENTS].map(|prefix| Follower::start(&site, prefix));
    let mut keeper = Keeper::start(&site.cluster, site.cluster.url(), LeaseTimes::Production).await?;
    let mut controllers = Platform::same_build(&site.cluster).controllers("controllers").await?;
    tokio::try_join!(keeper.service.ready(), controllers.ready())?;
    let mut random = Random::new(wanted.seed);
    let began = Instant::now();
    keeper
        .while_alive(async {
            // Twice as much as there is, for longer than this lasts: what gave way waits, and comes back.
            for index in 0..16 {
                let spec = run_of(BORROWER, 2, 4, Some("2h"));
                create_run(&site.client, BORROWER, &format!("long-{index:02}"), spec).await?;
            }
            let mut index = 0;
            while began.elapsed() < wanted.lasts {
                let members = 1 + u32::try_from(random.below(4))?;
                let spec = run_of(OWNER, members, 4, Some(["10s", "20s", "40s"][index % 3]));
                create_run(&site.client, OWNER, &format!("short-{index:04}"), spec).await?;
                index += 1;
                tokio::time::sleep(Duration::from_millis(4_000 + random.below(8_000))).await;
            }
            Ok(())
        })
        .await?;
    let ended = Instant::now();
    keeper
        .while_alive(async {
            site.settle_in(OWNER, SETTLED_WITHIN).await;
            Ok(())
        })
        .await?;
    let [holds, events] = followers;
    let (holds, events) = (holds.finish().await?, events.finish().await?);
    drop(keeper);
    drop(controllers);
    let (mut findings, judgement) = site.judge("thrash", ended).await?;
    let thrash = judge(&holds, &events, &judgement.started)?;
    println!("{thrash:?}");
    ensure!(thrash.evictions > 0, "nobody had to give way: this shows nothing");
    // The borrower asks for twice what there is, so that some of its pods wait at the end as they should.
    let waits = |line: &String| line.contains(&format!("pod {BORROWER}/"));
    findings.lost_pods -= findings.wrong.iter().filter(|line| waits(line)).count();
    findings.wrong.retain(|line| !waits(line));
    if thrash.repeats + thrash.for_nothing > 0 {
        findings.wrong.push(format!("{thrash:?}"));
    }
    Ok((findings, thrash))
}

/// Everything that happens under a prefix.
struct Follower {
    stop: CancellationToken,
    task: JoinHandle<anyhow::Result<Vec<KeyEvent>>>,
}

impl Follower {
    fn start(site: &Site, prefix: &'static str) -> Self {
        let (etcd, stop) = (site.cluster.etcd(), CancellationToken::new());
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut watch: Watch = etcd.watch(prefix, 1).await?;
            let mut seen = Vec::new();
            loop {
                tokio::select! {
                    events = watch.next() => seen.extend(events?),
                    () = stopped.cancelled() => return Ok(seen),
                }
            }
        });
        Self { stop, task }
    }

    async fn finish(self) -> anyhow::Result<Vec<KeyEvent>> {
        self.stop.cancel();
        self.task.await.context("following the store")?
    }
}

/// Judges the Holds that were written, with the events and the gangs that started.
pub fn judge(holds: &[KeyEvent], events: &[KeyEvent], started: &BTreeSet<String>) -> anyhow::Result<Thrash> {
    // For each claimant and each gang that gives way: the pods that were told to go, each time others.
    let mut told: BTreeMap<(String, String), BTreeSet<BTreeSet<String>>> = BTreeMap::new();
    for event in holds {
        let Some(value) = &event.value else { continue };
        let hold: Value = serde_json::from_slice(value)?;
        let namespace = hold["metadata"]["namespace"].as_str().unwrap_or_default();
        let claimant = format!("{namespace}/{}", hold["spec"]["claimant"].as_str().unwrap_or_default());
        for victim in hold["spec"]["victims"].as_array().into_iter().flatten() {
            let text = |field: &str| victim[field].as_str().unwrap_or_default().to_owned();
            let uids = victim["uids"].as_array().into_iter().flatten();
            let uids: BTreeSet<_> = uids.filter_map(|uid| uid.as_str().map(str::to_owned)).collect();
            let pair = (claimant.clone(), format!("{}/{}", text("namespace"), text("gang")));
            told.entry(pair).or_default().insert(uids);
        }
    }
    let explained = |claimant: &str| {
        let name = claimant.rsplit('/').next().unwrap_or_default();
        events.iter().filter_map(|event| event.value.as_ref()).any(|value| {
            let text = String::from_utf8_lossy(value);
            text.contains(name) && text.contains("Hold")
        })
    };
    let claimants: BTreeSet<&String> = told.keys().map(|(claimant, _)| claimant).collect();
    let for_nothing = claimants.iter().filter(|it| !started.contains(**it) && !explained(it)).count();
    Ok(Thrash {
        evictions: told.values().map(BTreeSet::len).sum(),
        // A Hold that is written again with fewer of the same pods is no second time.
        repeats: told.values().map(|times| separate(times).saturating_sub(1)).sum(),
        for_nothing,
    })
}

/// How many of these sets of pods have no pod in common with one before.
fn separate(times: &BTreeSet<BTreeSet<String>>) -> usize {
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    let mut count = 0;
    for pods in times {
        count += usize::from(pods.iter().all(|pod| !seen.contains(pod)));
        seen.extend(pods);
    }
    count
}
