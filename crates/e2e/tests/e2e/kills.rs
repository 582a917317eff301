//! The scheduler is killed again and again in the middle of its binds. Every gang ends whole, and no node is ever
//! given more than it has.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::history::Recorder;
use e2e::objects::{GangOfPods, create_namespace, create_queue, h100_nodes};
use e2e::observe::{node_of, pods};
use e2e::random::Random;
use e2e::wait;
use kube::{Client, ResourceExt};
use serde_json::Value;
use test_cluster::platform::{LeaseTimes, Platform, Service};
use test_cluster::{TestCluster, figures};

const NAMESPACE: &str = "load";
const KILLS_SHORT_LEASE: usize = 40;
const KILLS_PRODUCTION_LEASE: usize = 10;
const GANGS: usize = 200;
const GANGS_PER_KILL: usize = GANGS / (KILLS_SHORT_LEASE + KILLS_PRODUCTION_LEASE);
/// A kill that found no bind in flight does not count; so many may be wasted before the test gives up.
const WASTED_MAX: usize = 25;
const SEED: u64 = 20_261_115;

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_in_the_middle_of_its_binds_leaves_no_gang_in_part_and_no_node_overbooked()
-> anyhow::Result<()> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 8)).start().await?;
    let client = cluster.admin_client();
    create_namespace(&client, NAMESPACE).await?;
    create_queue(&client, "load", None, &[], &[NAMESPACE]).await?;
    let recorder = Recorder::start(&client);

    println!("seed {SEED}");
    let mut load = Load { client: client.clone(), random: Random(SEED), run_time: "6s", created: 0 };
    let mut kills = Kills::new(&cluster).await?;
    while kills.counted < KILLS_SHORT_LEASE + KILLS_PRODUCTION_LEASE {
        let short = kills.counted < KILLS_SHORT_LEASE;
        // With a short lease the rest of a gang is bound while its first members run. At production values some end
        // before, which is the harder case: half of them.
        load.run_time = if short || kills.counted.is_multiple_of(2) { "6s" } else { "20s" };
        load.create_gangs(GANGS_PER_KILL.min(GANGS - load.created)).await?;
        if load.created == GANGS {
            load.create_spare_gang().await?;
        }
        let delay = Duration::from_micros(load.random.below(60_000));
        kills
            .kill_in_the_middle(if short { LeaseTimes::Short } else { LeaseTimes::Production }, delay)
            .await?;
        ensure!(kills.wasted <= WASTED_MAX, "too many kills found no bind in flight: {}", kills.wasted);
    }
    load.create_gangs(GANGS - load.created).await?;

    let mut last = kills.leader.take().context("a standby is left")?;
    last.ready().await?;
    let whole = wait::until("every member of every gang got a node", Duration::from_mins(3), || async {
        let pods = pods(&client, NAMESPACE).await?;
        Ok(pods.iter().all(|pod| node_of(pod).is_some()).then_some(()))
    })
    .await;
    let history = recorder.finish().await?;
    println!(
        "{} kills with binds in flight, {} without; {} events judged",
        kills.counted, kills.wasted, history.events
    );
    println!(
        "binds in flight at death: {}, of which the API server had done {}",
        kills.in_flight, kills.landed
    );
    let reference = format!("{} kills with binds in flight, {} gangs; bar: 0", kills.counted, load.created);
    figures::print("kills.double_booked", figures::count(history.overbooked.len()), "nodes", &reference);
    figures::print("kills.partial_gangs", figures::count(history.partial.len()), "gangs", &reference);
    whole.with_context(|| format!("seed {SEED}: gangs in part: {:#?}", history.partial))?;
    ensure!(
        history.overbooked.is_empty(),
        "seed {SEED}: nodes given more than they have: {:#?}",
        history.overbooked
    );
    ensure!(history.partial.is_empty(), "seed {SEED}: gangs in part: {:#?}", history.partial);
    cluster.stop().await;
    Ok(())
}

/// Two identities take turns, so that there is always a standby with a pod of its own.
struct Kills<'a> {
    platform: Platform<'a>,
    client: Client,
    identities: [PathBuf; 2],
    lives: usize,
    leader: Option<Service>,
    counted: usize,
    wasted: usize,
    in_flight: usize,
    landed: usize,
}

impl<'a> Kills<'a> {
    async fn new(cluster: &'a TestCluster) -> anyhow::Result<Self> {
        let account = (api_types::names::SYSTEM_NAMESPACE, api_types::names::SCHEDULER_SERVICE_ACCOUNT);
        let identities = [
            cluster.kubeconfig_for_service_account(account.0, account.1).await?,
            cluster.kubeconfig_for_service_account(account.0, account.1).await?,
        ];
        Ok(Self {
            platform: Platform::debug(cluster),
            client: cluster.admin_client(),
            identities,
            lives: 0,
            leader: None,
            counted: 0,
            wasted: 0,
            in_flight: 0,
            landed: 0,
        })
    }

    fn start(&mut self, times: LeaseTimes) -> anyhow::Result<Service> {
        self.lives += 1;
        let name = format!("scheduler-{:03}", self.lives);
        Ok(self.platform.scheduler_as(&name, &self.identities[self.lives % 2], times, "")?)
    }

    /// Waits until the leader binds, kills it `delay` after its first bind, and puts the standby in its place.
    async fn kill_in_the_middle(&mut self, times: LeaseTimes, delay: Duration) -> anyhow::Result<()> {
        let mut leader = match self.leader.take() {
            Some(leader) => leader,
            None => self.start(times)?,
        };
        // The next standby starts once this one leads: two that wait would race for the lease.
        leader.wait_for_line("Took the lease.", Duration::from_secs(30)).await?;
        let standby = self.start(times)?;
        let first =
            leader.wait_for_line("Binding.", Duration::from_mins(1)).await.context("the leader binds")?;
        tokio::time::sleep(delay).await;
        leader.kill();
        self.leader = Some(standby);

        let in_flight = binds_without_end(first, leader.read_lines());
        if in_flight.is_empty() {
            self.wasted += 1;
            return Ok(());
        }
        self.counted += 1;
        self.in_flight += in_flight.len();
        let pods = pods(&self.client, NAMESPACE).await?;
        let landed = pods
            .iter()
            .filter(|pod| {
                node_of(pod).is_some() && in_flight.contains(&format!("{NAMESPACE}/{}", pod.name_any()))
            })
            .count();
        self.landed += landed;
        println!(
            "kill {:2} ({times:?}): {} binds in flight, {landed} of them done",
            self.counted,
            in_flight.len()
        );
        Ok(())
    }
}

fn binds_without_end(first: Value, rest: Vec<Value>) -> BTreeSet<String> {
    let mut open = BTreeSet::new();
    for line in std::iter::once(first).chain(rest) {
        let pod = line["pod"].as_str().unwrap_or_default().to_owned();
        match line["message"].as_str() {
            Some("Binding.") => drop(open.insert(pod)),
            Some("Bound." | "Bind refused.") => drop(open.remove(&pod)),
            _ => {}
        }
    }
    open
}

/// Gangs of 1 to 8 members with 1 or 2 GPUs each, of which 64 GPUs hold only a few at a time.
struct Load {
    client: Client,
    random: Random,
    run_time: &'static str,
    created: usize,
}

impl Load {
    async fn create_gangs(&mut self, count: usize) -> anyhow::Result<()> {
        for _ in 0..count {
            let name = format!("gang-{:03}", self.created);
            self.create(&name).await?;
            self.created += 1;
        }
        Ok(())
    }

    /// When all gangs have been created but kills are still owed, because some were wasted.
    async fn create_spare_gang(&mut self) -> anyhow::Result<()> {
        let name = format!("spare-{}", self.random.below(u64::MAX));
        self.create(&name).await
    }

    async fn create(&mut self, name: &str) -> anyhow::Result<()> {
        let members = 1 + u32::try_from(self.random.below(8))?;
        let gpus = 1 + u32::try_from(self.random.below(2))?;
        let gang =
            GangOfPods { namespace: NAMESPACE, name, queue: "load", members, gpus, run_time: self.run_time };
        gang.create(&self.client).await
    }
}
