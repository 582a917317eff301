//! Gangs get all of their machines or pay for none, whatever becomes of launches; beside it, the same pods through Karpenter's
//! own path and kube-scheduler.
//!
//! A launch of ours that fails costs at most its size times the time until that is seen, and until the machines are gone:
//! `late_after` of `capacity::launches`, and [`GONE`].

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use api_types::names;
use e2e::claims::node_pools;
use e2e::objects::{create_run, run};
use e2e::observe::{pods, run_status};
use e2e::wait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use seeded_random::Random;
use serde_json::json;
use test_cluster::figures;
use test_cluster::karpenter::{Fate, Life, NODE_CLASS, Odds};

use crate::Size;
use crate::yard::{BOOT, MACHINE, TEAM, TIMES, Yard};

const GANGS: usize = 200;
/// So many at a time: some 180 machines.
const WAVE: usize = 20;
const FAULT_PERCENT: u32 = 30;
/// A wave is through by then: each fault costs a launch up to a minute and a half, and few meet more than three in a row.
const BOUND: Duration = Duration::from_mins(15);
/// From the decision to give a machine back until the cloud does not bill it any more.
const GONE: Duration = Duration::from_secs(30);

/// Runs both.
pub async fn measure(size: Size) -> anyhow::Result<()> {
    let sizes = sizes(size);
    let ours = ours(size, &sizes).await?;
    println!("ours: {ours:?}");
    let theirs = through_pools(size, &sizes).await?;
    println!("Karpenter's own path: {theirs:?}");
    if size.rehearse {
        return Ok(());
    }
    let of = format!(
        "{} gangs of 2 to 16 nodes, {FAULT_PERCENT} % of tries meet a fault, seed {}",
        sizes.len(),
        size.seed
    );
    let percent = 100.0 * count(ours.whole) / count(sizes.len());
    figures::print("capacity.gangs_started_whole_percent", percent, "%", &of);
    let bound = format!(
        "failed tries that cost more than their size × {} s; of {} failed tries",
        limit().as_secs(),
        ours.failed_tries
    );
    figures::print("capacity.unpaid_bound_violations", count(ours.violations), "tries", &bound);
    figures::print(
        "capacity.wasted_node_seconds",
        ours.wasted_seconds,
        "node-s",
        "launches that failed, whole",
    );
    let theirs_of =
        format!("paid for before the gang was whole; {} of {} gangs became whole", theirs.whole, sizes.len());
    figures::print("capacity.wasted_node_seconds_karpenter", theirs.wasted_seconds, "node-s", &theirs_of);
    ensure!(ours.whole == sizes.len() && ours.violations == 0, "{ours:?}");
    Ok(())
}

fn sizes(size: Size) -> Vec<u32> {
    let mut random = Random::new(size.seed);
    (0..size.of(GANGS)).map(|_| 2 + u32::try_from(random.below(15)).unwrap_or(0)).collect()
}

fn odds(size: Size, labels: &[&str]) -> Odds {
    Odds {
        seed: size.seed,
        percent: FAULT_PERCENT,
        group_labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        fates: vec![
            Fate::StockOut,
            Fate::Slow(Duration::from_mins(10)),
            Fate::NeverRegisters,
            Fate::Disappears(BOOT / 2),
        ],
    }
}

/// The most that a machine of a failed launch may be paid for.
fn limit() -> Duration {
    let late = capacity::launches::late_after(TIMES.boot_seconds);
    late.unsigned_abs() + GONE
}

#[derive(Debug, Default)]
struct Findings {
    whole: usize,
    failed_tries: usize,
    violations: usize,
    wasted_seconds: f64,
}

async fn ours(size: Size, sizes: &[u32]) -> anyhow::Result<Findings> {
    let yard = Yard::start().await?;
    let (client, karpenter) = (yard.cluster.admin_client(), yard.cluster.karpenter()?);
    karpenter.odds(Some(odds(size, &[names::LAUNCH_LABEL])))?;
    let _platform = yard.platform().await?;
    let mut found = Findings::default();
    for (wave, members) in sizes.chunks(WAVE).enumerate() {
        for (index, members) in members.iter().enumerate() {
            create_run(&client, TEAM, &format!("run-{wave}-{index}"), run(TEAM, *members, 8, Some("2s")))
                .await?;
        }
        for (index, members) in members.iter().enumerate() {
            let name = format!("run-{wave}-{index}");
            wait::until(&format!("{name} of {members} has run"), BOUND, || async {
                let status = run_status(&client, TEAM, &name).await?;
                ensure!(status.attempts.len() <= 1, "it was begun twice: {status:?}");
                Ok(status.phase.is_final().then_some(()))
            })
            .await?;
            let status = run_status(&client, TEAM, &name).await?;
            let is_whole = status.members.succeeded == *members;
            found.whole += usize::from(is_whole);
        }
        yard.until_empty(BOUND).await?;
        println!("wave {wave}: {} of {} gangs whole so far", found.whole, (wave * WAVE) + members.len());
    }
    judge(&karpenter.lives()?, &mut found);
    yard.cluster.stop().await;
    Ok(found)
}

/// A launch of which one machine never was used is one that failed.
fn judge(lives: &[Life], found: &mut Findings) {
    let mut launches: BTreeMap<String, Vec<&Life>> = BTreeMap::new();
    for life in lives {
        let (launch, _) = life.claim.rsplit_once('-').unwrap_or((&life.claim, ""));
        launches.entry(launch.to_owned()).or_default().push(life);
    }
    // Of a gang's launches the last one is the one that it started on.
    let mut last: BTreeMap<&str, &str> = BTreeMap::new();
    for launch in launches.keys() {
        let (gang, _) = launch.rsplit_once('-').unwrap_or((launch, ""));
        last.insert(gang, launch);
    }
    for (launch, lives) in &launches {
        if last.values().any(|it| it == launch) {
            continue;
        }
        let seconds: Vec<f64> = lives.iter().map(|life| life.paid_seconds(Timestamp::MAX)).collect();
        found.failed_tries += 1;
        found.wasted_seconds += seconds.iter().sum::<f64>();
        if seconds.iter().any(|it| *it > limit().as_secs_f64()) {
            println!("{launch} cost too much: {seconds:?}");
            found.violations += 1;
        }
    }
}

/// Every gang has a pool of its own, so that the cloud knows its claims, and pods that kube-scheduler places.
async fn through_pools(size: Size, sizes: &[u32]) -> anyhow::Result<Findings> {
    const GANG: &str = "bench.warpyard.dev/gang";
    let yard = Yard::start().await?;
    let (client, karpenter) = (yard.cluster.admin_client(), yard.cluster.karpenter()?);
    yard.cluster.start_kube_scheduler(1_000)?;
    karpenter.odds(Some(odds(size, &[GANG])))?;
    let mut found = Findings::default();
    let pods_api: Api<Pod> = Api::namespaced(client.clone(), TEAM);
    for (wave, members) in sizes.chunks(WAVE).enumerate() {
        let gangs: Vec<(String, u32)> = members
            .iter()
            .enumerate()
            .map(|(index, members)| (format!("run-{wave}-{index}"), *members))
            .collect();
        for (gang, members) in &gangs {
            node_pools(&client).create(&PostParams::default(), &pool(gang, GANG)?).await?;
            for member in 0..*members {
                pods_api.create(&PostParams::default(), &pod(gang, member, GANG)?).await?;
            }
        }
        // As long as the slowest of ours may take; who is not whole by then is not counted as such.
        let until = Timestamp::now() + BOUND;
        let mut whole: BTreeMap<&str, Timestamp> = BTreeMap::new();
        while whole.len() < gangs.len() && Timestamp::now() < until {
            let all = pods(&client, TEAM).await?;
            for (gang, members) in &gangs {
                let runs = |pod: &&Pod| {
                    let is_its =
                        pod.metadata.labels.as_ref().is_some_and(|labels| labels.get(GANG) == Some(gang));
                    is_its && pod.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Running")
                };
                if !whole.contains_key(gang.as_str()) && all.iter().filter(runs).count() == *members as usize
                {
                    whole.insert(gang, Timestamp::now());
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        found.whole += whole.len();
        let now = Timestamp::now();
        for life in karpenter.lives()? {
            let Some((gang, _)) = life.claim.rsplit_once('-') else { continue };
            if !gangs.iter().any(|(it, _)| it == gang) {
                continue;
            }
            let until = whole.get(gang).copied().unwrap_or(now);
            found.wasted_seconds += life.paid_seconds(until);
        }
        for (gang, _) in &gangs {
            node_pools(&client).delete(gang, &DeleteParams::default()).await?;
        }
        pods_api.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
        yard.until_empty(BOUND).await?;
        println!("wave {wave} through pools: {} gangs whole so far", found.whole);
    }
    yard.cluster.stop().await;
    Ok(found)
}

fn pool(gang: &str, label: &str) -> anyhow::Result<kube::api::DynamicObject> {
    let is_in = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    Ok(serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": gang },
        "spec": {
            "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "10s" },
            "template": {
                "metadata": { "labels": { label: gang } },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": NODE_CLASS },
                    "expireAfter": "Never",
                    "requirements": [
                        is_in(names::CAPACITY_TYPE_NODE_LABEL, "on-demand"),
                        is_in(names::INSTANCE_TYPE_NODE_LABEL, MACHINE),
                    ],
                },
            },
        },
    }))?)
}

fn pod(gang: &str, member: u32, label: &str) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": format!("{gang}-{member}"), "namespace": TEAM, "labels": { label: gang },
            "annotations": { names::FAKE_RUN_TIME_ANNOTATION: "3600s" },
        },
        "spec": {
            "nodeSelector": { label: gang },
            "restartPolicy": "Never",
            "containers": [{
                "name": "train", "image": "example/train:1",
                "resources": { "requests": { names::GPU_RESOURCE: "8" }, "limits": { names::GPU_RESOURCE: "8" } },
            }],
        },
    }))?)
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred")]
fn count(number: usize) -> f64 {
    number as f64
}
