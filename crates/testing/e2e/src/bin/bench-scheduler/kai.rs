//! KAI's published suite (`test/e2e/scale` of its repository, results of 2026-07-03) on our scheduler: 500 KWOK nodes of
//! eight GPUs, 512 for the topology gang; pods end without grace. Beside each figure stands what the API server takes for
//! the same writes alone, with KWOK beside it as well.
//!
//! Where KAI's tests stop the scheduler while they submit, ours is stopped too, and the clock runs from the start of its
//! process; so a figure includes its lease, its fence and the five seconds in which older writes end. The topology gang
//! is submitted to a running scheduler, and the clock runs from the first pod's creation.

mod consolidation;
mod fill;
mod reclaim;

use std::path::PathBuf;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::report::Report;
use crate::yard::{NAMESPACE, Yard};

const NODES: usize = 500;
const GPUS_PER_NODE: usize = 8;
/// The queue that owns what the other one uses.
const OWNER: &str = "owner";
const BORROWER: &str = "borrower";
const GPU_TYPE: &str = "H100";
/// As many as KAI takes the mean of.
const SAMPLES: usize = 10;

pub async fn run(scenario: &str, report: Report) -> anyhow::Result<()> {
    match scenario {
        "kai.fill" => fill::fill(report).await,
        "kai.gang512" => fill::topology_gang(report).await,
        "kai.reclaim1" => reclaim::one_by_one(report).await,
        "kai.reclaim4000" => reclaim::all_at_once(report).await,
        "kai.verdict" => reclaim::verdict(report).await,
        "kai.consolidation" => consolidation::run(report).await,
        _ => bail!("there is no scenario {scenario}"),
    }
}

/// Two queues on a cluster of so many GPUs: what each owns. Each may hold all that others leave, and what is its own is
/// taken back at once.
async fn create_queues(
    yard: &Yard,
    gpus: usize,
    owner_owns: usize,
    borrower_owns: usize,
) -> anyhow::Result<()> {
    // Nobody is kept off by the queue above: not by what the borrower still holds while it gives way.
    create_queue(yard, "all", json!({ "quota": { "gpus": { GPU_TYPE: 2 * gpus } } })).await?;
    for (name, quota) in [(OWNER, owner_owns), (BORROWER, borrower_owns)] {
        let spec = json!({
            "parent": "all",
            "quota": { "gpus": { GPU_TYPE: quota } },
            "limit": { "gpus": { GPU_TYPE: gpus } },
            "reclaim": { "graceSeconds": 0, "minRunSeconds": 0 },
            "namespaces": [NAMESPACE],
        });
        create_queue(yard, name, spec).await?;
    }
    Ok(())
}

async fn create_queue(yard: &Yard, name: &str, spec: serde_json::Value) -> anyhow::Result<()> {
    let body = json!({
        "apiVersion": "warpyard.dev/v1alpha1",
        "kind": "Queue",
        "metadata": { "name": name },
        "spec": spec,
    });
    let request = http::Request::post("/apis/warpyard.dev/v1alpha1/queues")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())?;
    yard.client.request::<serde_json::Value>(request).await.context("failed to create a queue")?;
    Ok(())
}

/// A policy for the scheduler, as an argument: what is set, on top of what is installed.
fn policy(yard: &Yard, settings: &[(&str, &str)]) -> anyhow::Result<Vec<String>> {
    let path: PathBuf = yard.cluster.dir().join("policy.yaml");
    let lines = settings.iter().map(|(key, value)| format!("{key}: {value}\n"));
    std::fs::write(&path, std::iter::once("base: installed\n".to_owned()).chain(lines).collect::<String>())?;
    Ok(vec![format!("--policy={}", path.display())])
}

/// Placements worked out beforehand, eight GPUs to a node.
fn node_of(index: usize, gpus: usize) -> String {
    format!("node-{}", index * gpus / GPUS_PER_NODE)
}

fn annotate(pods: &mut [Pod], annotation: &str, value: &str) {
    for pod in pods {
        pod.metadata.annotations.get_or_insert_default().insert(annotation.to_owned(), value.to_owned());
    }
}
