//! Karpenter's own path: each gang has a pool of its own, so that the cloud knows its claims, and pods that kube-scheduler
//! places one by one.

use std::time::{Duration, Instant};

use api_types::names;
use e2e::claims::{node_claims, node_pools};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use super::finding::{Findings, Gang, PATIENCE, odds};
use super::slots;
use super::slots::{LOOK, Sight};
use crate::capacity::size::Size;
use crate::capacity::yard::{TEAM, Yard, pool};

const GANG: &str = "bench.warpyard.dev/gang";
const GONE_BOUND: Duration = Duration::from_mins(3);

/// Starts all gangs.
pub async fn run(size: Size, gangs: &[Gang]) -> anyhow::Result<Findings> {
    let yard = Yard::start().await?;
    let (client, karpenter) = (yard.cluster.admin_client(), yard.cluster.karpenter()?);
    yard.cluster.start_kube_scheduler(1_000)?;
    karpenter.odds(Some(odds(size, GANG)))?;
    let began = Instant::now();
    let ended = slots::run(size, &client, gangs, |_, gang, sight| start(client.clone(), gang, sight)).await?;
    println!("{} gangs in {:?}", gangs.len(), began.elapsed());
    let (lives, mut found) = (karpenter.lives()?, Findings::default());
    for Ended { gang, is_whole, at } in ended {
        found.whole += usize::from(is_whole);
        let its = |claim: &str| claim.rsplit_once('-').is_some_and(|(pool, _)| pool == gang.name);
        let its = lives.iter().filter(|life| its(&life.claim));
        found.wasted_seconds += its.map(|life| life.paid_seconds(at)).sum::<f64>();
    }
    yard.cluster.stop().await;
    Ok(found)
}

/// A gang that was whole at `at`, or was given up then.
struct Ended {
    gang: Gang,
    is_whole: bool,
    at: Timestamp,
}

async fn start(client: Client, gang: Gang, mut sight: Sight) -> anyhow::Result<Ended> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), TEAM);
    let (pools, claims) = (node_pools(&client), node_claims(&client));
    pools.create(&PostParams::default(), &pool(&gang.name, &marks(&gang))?).await?;
    for member in 0..gang.members {
        pods.create(&PostParams::default(), &pod(&gang, member)?).await?;
    }
    let own = ListParams::default().labels(&format!("{GANG}={}", gang.name));
    let running = own.clone().fields("status.phase=Running");
    let (began, mut is_whole) = (Instant::now(), false);
    while !is_whole && began.elapsed() < PATIENCE {
        tokio::time::sleep(LOOK).await;
        is_whole = pods.list_metadata(&running).await?.items.len() == gang.members as usize;
    }
    let at = Timestamp::now();
    // Without its pods and its pool nothing new is bought.
    pods.delete_collection(&DeleteParams::default().grace_period(0), &own).await?;
    pools.delete(&gang.name, &DeleteParams::default()).await?;
    claims.delete_collection(&DeleteParams::default(), &own).await?;
    sight.until_gone(&gang.name, GONE_BOUND).await?;
    Ok(Ended { gang, is_whole, at })
}

/// The marks that identify its machines.
fn marks(gang: &Gang) -> Value {
    json!({
        "labels": { GANG: gang.name },
        "annotations": {
            names::FOR_GANG_ANNOTATION: gang.annotation(),
            names::LAUNCH_SIZE_ANNOTATION: gang.members.to_string(),
        },
    })
}

fn pod(gang: &Gang, member: u32) -> anyhow::Result<Pod> {
    let gpus: Value = json!({ names::GPU_RESOURCE: "8" });
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": format!("{}-{member}", gang.name), "namespace": TEAM, "labels": { GANG: gang.name },
            "annotations": { names::FAKE_RUN_TIME_ANNOTATION: "3600s" },
        },
        "spec": {
            "nodeSelector": { GANG: gang.name },
            "restartPolicy": "Never",
            "containers": [{
                "name": "train", "image": "example/train:1",
                "resources": { "requests": gpus, "limits": gpus },
            }],
        },
    }))?)
}
