//! Reads of the cluster for tests.

use anyhow::Context;
use api_types::{Run, RunPhase, RunStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};

use crate::wait;

/// All pods of a namespace.
pub async fn pods(client: &Client, namespace: &str) -> anyhow::Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    Ok(pods.list(&ListParams::default()).await.context("failed to list pods")?.items)
}

/// How many pods of a namespace have a node.
pub async fn bound(client: &Client, namespace: &str) -> anyhow::Result<usize> {
    Ok(pods(client, namespace).await?.iter().filter(|pod| node_of(pod).is_some()).count())
}

/// How many pods of a namespace have a node and have not ended.
pub async fn placed(client: &Client, namespace: &str) -> anyhow::Result<usize> {
    let has_ended = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    };
    let pods = pods(client, namespace).await?;
    Ok(pods.iter().filter(|pod| node_of(pod).is_some() && !has_ended(pod)).count())
}

/// The pod's node, once it has one.
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The run's status as it is now.
pub async fn run_status(client: &Client, namespace: &str, name: &str) -> anyhow::Result<RunStatus> {
    let runs: Api<Run> = Api::namespaced(client.clone(), namespace);
    let run = runs.get(name).await.with_context(|| format!("failed to read run {name}"))?;
    Ok(run.status.unwrap_or_default())
}

/// Waits until the run is in `phase`, and gives its status then.
pub async fn phase_reached(
    client: &Client,
    namespace: &str,
    name: &str,
    phase: RunPhase,
) -> anyhow::Result<RunStatus> {
    wait::until(&format!("run {name} is {phase:?}"), wait::PATIENCE, || async {
        let status = run_status(client, namespace, name).await?;
        Ok((status.phase == phase).then_some(status))
    })
    .await
}
