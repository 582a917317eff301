//! On 500 nodes, each with three pods of one GPU, five GPUs are free on each. 41 gangs of ten pods of six GPUs
//! wait, and have room only if pods move together. KAI: 456 s.
//!
//! The pods belong to `ReplicaSets`, which replace a pod as soon as it is told to go. As in KAI's test, the
//! number of moves has no bound, and no pod is evicted for another reason.

use std::time::Duration;

use anyhow::Context;
use e2e::wait;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

use super::scene::{GPUS_PER_NODE, NODES, annotate, policy};
use crate::scheduler::bare::{Bare, Write};
use crate::scheduler::observer::Observer;
use crate::scheduler::report::Report;
use crate::scheduler::yard::{Kubelets, NAMESPACE, PATIENCE, Yard, gangs, nodes};

const MEMBERS: usize = 10;
const GPUS_OF_MEMBER: usize = 6;
const SMALL_PER_NODE: usize = 3;
/// A `ReplicaSet` makes its pods in bursts of 500.
const REPLICAS: usize = 500;
const CHECKPOINTS: &str = "warpyard.dev/checkpoints";

pub async fn run(report: Report) -> anyhow::Result<()> {
    let node_count = report.size(NODES);
    let free = node_count * (GPUS_PER_NODE - SMALL_PER_NODE);
    let gang_count = free / (MEMBERS * GPUS_OF_MEMBER);
    let members = gang_count * MEMBERS;

    let yard =
        Yard::start(nodes(node_count, 1), Kubelets::KwokAndControllers).await?.with_open_queue().await?;
    wait::until("the default service account exists", Duration::from_secs(30), || async {
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
            Api::namespaced(yard.client.clone(), NAMESPACE);
        Ok(accounts.get_opt("default").await?.map(drop))
    })
    .await?;
    let small = create_small(&yard, node_count * SMALL_PER_NODE).await?;
    let mut observer = Observer::start(&yard.client, NAMESPACE).await?;
    let bare = Bare::start(&yard).await?;
    let node = |index: usize| format!("node-{}", index / SMALL_PER_NODE);
    let one_write_each = bare
        .write(small.iter().enumerate().map(|(index, pod)| Write::Bind(pod, node(index))))
        .await?
        .as_secs_f64()
        / toolbox::figures::count(small.len());
    drop(bare);
    yard.create(gangs("gang", NAMESPACE, gang_count, u32::try_from(MEMBERS)?, 6)).await?;

    let moves = u32::MAX.to_string();
    let settings = [
        ("reclaim", "false"),
        ("priority-evicts", "false"),
        ("consolidation-moves", moves.as_str()),
        ("consolidation-after-seconds", "0"),
    ];
    let scheduler = yard.start_scheduler(&policy(&yard, &settings)?).await?;
    let span = observer.bound("gang", members, PATIENCE).await?;
    let whole = span.last.duration_since(scheduler.started).as_secs_f64();
    // Who moved has a place too, or it was no move.
    observer
        .bound("small", node_count * SMALL_PER_NODE, PATIENCE)
        .await
        .context("not all that moved landed")?;
    // A move is a condition, a deletion, a creation and a bind; then each member is bound.
    let bare_seconds = one_write_each * toolbox::figures::count(4 * members + members);
    let reference = format!(
        "{gang_count} gangs × {MEMBERS} × {GPUS_OF_MEMBER} GPUs; KAI 456; from the start of the process, the first bind \
         after {:.1} s, {:.1} s planning; bare writes for as many moves as members {bare_seconds:.1} s; bar: 46",
        span.first.duration_since(scheduler.started).as_secs_f64(),
        scheduler.plan_seconds().await?,
    );
    report.figure("kai.consolidation_seconds", whole, "s", &reference);
    yard.stop().await;
    Ok(())
}

/// Pods of one GPU that may move, waiting.
async fn create_small(yard: &Yard, count: usize) -> anyhow::Result<Vec<Pod>> {
    let sets: Api<ReplicaSet> = Api::namespaced(yard.client.clone(), NAMESPACE);
    let mut template = gangs("small", NAMESPACE, 1, 1, 1);
    annotate(&mut template, CHECKPOINTS, "true");
    let mut template = template.remove(0);
    // Each pod is a gang of its own; and a ReplicaSet's pods always restart.
    template.metadata.labels = Some([("app".to_owned(), "small".to_owned())].into());
    template.spec.get_or_insert_default().restart_policy = Some("Always".to_owned());
    template.metadata.annotations.get_or_insert_default().remove(api_types::names::GANG_SIZE_ANNOTATION);
    for (index, begin) in (0..count).step_by(REPLICAS).enumerate() {
        let set: ReplicaSet = serde_json::from_value(json!({
            "metadata": { "name": format!("small-{index}") },
            "spec": {
                "replicas": REPLICAS.min(count - begin),
                "selector": { "matchLabels": { "app": "small", "set": index.to_string() } },
                "template": {
                    "metadata": {
                        "labels": { "app": "small", "set": index.to_string() },
                        "annotations": template.metadata.annotations,
                    },
                    "spec": template.spec,
                },
            },
        }))?;
        sets.create(&PostParams::default(), &set).await.context("failed to create a ReplicaSet")?;
    }
    let pods: Api<Pod> = Api::namespaced(yard.client.clone(), NAMESPACE);
    let made = wait::until("every small pod exists", Duration::from_mins(3), || async {
        let made = pods.list(&ListParams::default().labels("app=small")).await?.items;
        Ok((made.len() == count).then_some(made))
    });
    made.await
}
