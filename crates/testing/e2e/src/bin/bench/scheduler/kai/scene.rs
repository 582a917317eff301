//! Shared by the cases: the cluster's size, its queues, and policies.

use std::path::PathBuf;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::scheduler::yard::{NAMESPACE, Yard};

pub const NODES: usize = 500;

pub const GPUS_PER_NODE: usize = 8;

/// The queue that owns the GPUs that the other one uses.
pub const OWNER: &str = "owner";

pub const BORROWER: &str = "borrower";

pub const GPU_TYPE: &str = "H100";

/// The number of samples of KAI's mean.
pub const SAMPLES: usize = 10;

/// Two queues on a cluster with the GPUs that they own. Each may borrow all that the other leaves, and reclaims
/// its quota at once.
pub async fn create_queues(
    yard: &Yard,
    gpus: usize,
    owner_owns: usize,
    borrower_owns: usize,
) -> anyhow::Result<()> {
    // The parent queue limits nobody: what the borrower still holds while it gives way must not count.
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

/// A policy for the scheduler, as an argument: the installed policy with these settings.
pub fn policy(yard: &Yard, settings: &[(&str, &str)]) -> anyhow::Result<Vec<String>> {
    let path: PathBuf = yard.cluster.dir().join("policy.yaml");
    let lines = settings.iter().map(|(key, value)| format!("{key}: {value}\n"));
    std::fs::write(&path, std::iter::once("base: installed\n".to_owned()).chain(lines).collect::<String>())?;
    Ok(vec![format!("--policy={}", path.display())])
}

/// Placements worked out beforehand, eight GPUs to a node.
pub fn node_of(index: usize, gpus: usize) -> String {
    format!("node-{}", index * gpus / GPUS_PER_NODE)
}

pub fn annotate(pods: &mut [Pod], annotation: &str, value: &str) {
    for pod in pods {
        pod.metadata.annotations.get_or_insert_default().insert(annotation.to_owned(), value.to_owned());
    }
}
