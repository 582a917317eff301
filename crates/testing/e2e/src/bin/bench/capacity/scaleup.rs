//! Many pods of one GPU on a cluster without nodes: how long until all run, with our scheduler and with
//! kube-scheduler. In both cases Karpenter's pool buys.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use api_types::names;
use e2e::claims::node_pools;
use e2e::machines::billed;
use e2e::wait;
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use toolbox::figures;

use crate::capacity::size::Size;
use crate::capacity::yard::{TEAM, Yard, pool};

const PODS: usize = 800;
const BOUND: Duration = Duration::from_mins(10);
const ROUNDS: usize = 2;

/// Runs both, in turn, and compares the best of each.
pub async fn measure(size: Size) -> anyhow::Result<()> {
    let pods = size.of(PODS);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..if size.rehearse { 1 } else { ROUNDS } {
        theirs.push(scale_up(pods, Scheduler::Kube).await?);
        ours.push(scale_up(pods, Scheduler::Ours).await?);
        println!("round {round}: ours {:?}, kube-scheduler {:?}", ours[round], theirs[round]);
    }
    if size.rehearse {
        return Ok(());
    }
    let best = |found: &[Found]| found.iter().map(|it| it.seconds).fold(f64::INFINITY, f64::min);
    let price = |found: &[Found]| found.iter().map(|it| it.micros_per_hour).max().unwrap_or(0);
    let of = format!(
        "{pods} pods, the best of {ROUNDS}: {:.1} s, with kube-scheduler {:.1} s; per hour {} and {} millionths",
        best(&ours),
        best(&theirs),
        price(&ours),
        price(&theirs)
    );
    figures::print("capacity.scaleup_over_karpenter", best(&ours) / best(&theirs), "×", &of);
    anyhow::ensure!(price(&ours) <= price(&theirs), "at a higher price: {of}");
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheduler {
    Ours,
    Kube,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    seconds: f64,
    micros_per_hour: i64,
}

async fn scale_up(pods: usize, scheduler: Scheduler) -> anyhow::Result<Found> {
    let yard = Yard::start().await?;
    let client = yard.cluster.admin_client();
    let labels = json!({ "labels": { names::GPU_TYPE_NODE_LABEL: "H100" } });
    node_pools(&client).create(&PostParams::default(), &pool("h100", &labels)?).await?;
    let _ours = match scheduler {
        Scheduler::Kube => {
            yard.cluster.start_kube_scheduler(1_000)?;
            None
        }
        Scheduler::Ours => Some(yard.platform().await?),
    };
    let api: Api<Pod> = Api::namespaced(client.clone(), TEAM);
    let began = Instant::now();
    create(&api, 0..pods, scheduler).await?;
    wait::until("all run", BOUND, || async {
        let running = ListParams::default().fields("status.phase=Running");
        if api.list_metadata(&running).await?.items.len() == pods {
            return Ok(Some(()));
        }
        create(&api, missing(&api, pods).await?, scheduler).await?;
        Ok(None)
    })
    .await?;
    let seconds = began.elapsed().as_secs_f64();
    let micros_per_hour = billed(yard.cluster.karpenter()?)?.iter().map(|life| life.micros_per_hour).sum();
    yard.cluster.stop().await;
    Ok(Found { seconds, micros_per_hour })
}

async fn create(
    api: &Api<Pod>,
    indices: impl IntoIterator<Item = usize>,
    scheduler: Scheduler,
) -> anyhow::Result<()> {
    stream::iter(indices)
        .map(|index| async move {
            let pod: Pod = serde_json::from_value(pod(index, scheduler))?;
            api.create(&PostParams::default(), &pod).await?;
            anyhow::Ok(())
        })
        .buffer_unordered(16)
        .try_collect()
        .await
}

/// Deleted pods, which their owner would replace. kube-controller-manager evicts one now and then: it sees the
/// pod on its node before it sees that the node's taint from before its registration is gone.
async fn missing(api: &Api<Pod>, pods: usize) -> anyhow::Result<Vec<usize>> {
    let first = api.list_metadata(&ListParams::default().limit(1)).await?;
    let others = first.metadata.remaining_item_count.unwrap_or(0);
    if first.items.len() + usize::try_from(others)? == pods {
        return Ok(Vec::new());
    }
    let all = api.list_metadata(&ListParams::default()).await?;
    let names: BTreeSet<String> = all.items.iter().map(ResourceExt::name_any).collect();
    let gone: Vec<usize> = (0..pods).filter(|&index| !names.contains(&name(index))).collect();
    println!("{} pods were evicted and are created anew", gone.len());
    Ok(gone)
}

fn name(index: usize) -> String {
    format!("pod-{index}")
}

fn pod(index: usize, scheduler: Scheduler) -> Value {
    let scheduler = match scheduler {
        Scheduler::Ours => names::SCHEDULER_NAME,
        Scheduler::Kube => "default-scheduler",
    };
    json!({
        "metadata": {
            "name": name(index), "namespace": TEAM,
            "annotations": { names::FAKE_RUN_TIME_ANNOTATION: "3600s" },
        },
        "spec": {
            "schedulerName": scheduler,
            "restartPolicy": "Never",
            "containers": [{
                "name": "main", "image": "example/train:1",
                "resources": { "requests": { names::GPU_RESOURCE: "1" }, "limits": { names::GPU_RESOURCE: "1" } },
            }],
        },
    })
}
