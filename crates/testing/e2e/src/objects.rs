//! Objects that tests create; only the relevant fields are arguments.

use std::collections::BTreeMap;

use anyhow::Context;
use api_types::{
    PriceEntry, PriceSheet, PriceSheetSpec, Queue, QueueSpec, ReclaimSpec, ResourceAmounts, Run, RunSpec,
    names,
};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use test_cluster::FakeNodes;

/// A namespace in which no pod is to be created.
pub async fn create_bare_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.context("failed to create a namespace")?;
    Ok(())
}

/// A namespace.
pub async fn create_namespace(client: &Client, name: &str) -> anyhow::Result<()> {
    create_bare_namespace(client, name).await?;
    // Pods need the namespace's default service account, which the controller-manager adds.
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(client.clone(), name);
    crate::wait::until("the default service account exists", crate::wait::PATIENCE, || async {
        Ok(accounts.get_opt("default").await?.map(|_| ()))
    })
    .await
}

/// A queue that owns `gpus` (by type) and serves `namespaces`.
pub async fn create_queue(
    client: &Client,
    name: &str,
    parent: Option<&str>,
    gpus: &[(&str, u32)],
    namespaces: &[&str],
) -> anyhow::Result<()> {
    let gpus: BTreeMap<_, _> =
        gpus.iter().map(|(gpu_type, count)| ((*gpu_type).to_owned(), *count)).collect();
    let spec = QueueSpec {
        parent: parent.map(str::to_owned),
        quota: (!gpus.is_empty()).then(|| ResourceAmounts { gpus, ..ResourceAmounts::default() }),
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        ..QueueSpec::default()
    };
    create_queue_as(client, name, spec).await
}

/// A queue as specified, of weight 1 if it says none.
pub async fn create_queue_as(client: &Client, name: &str, spec: QueueSpec) -> anyhow::Result<()> {
    let spec = QueueSpec { weight: spec.weight.max(1), ..spec };
    let queues: Api<Queue> = Api::all(client.clone());
    queues
        .create(&PostParams::default(), &Queue::new(name, spec))
        .await
        .context("failed to create a queue")?;
    Ok(())
}

/// Teams below one queue, each with a namespace of its name and a quota of H100. Each may hold up to `limit`,
/// and reclaims its quota at once from gangs that have run for long enough.
pub async fn create_lending_teams(
    client: &Client,
    (above, above_quota): (&str, u32),
    teams: &[(&str, u32)],
    limit: u32,
    min_run_seconds: u32,
) -> anyhow::Result<()> {
    create_queue_as(client, above, QueueSpec { quota: Some(h100s(above_quota)), ..QueueSpec::default() })
        .await?;
    for (team, quota) in teams {
        create_namespace(client, team).await?;
        let spec = QueueSpec {
            parent: Some(above.to_owned()),
            quota: Some(h100s(*quota)),
            limit: Some(h100s(limit)),
            reclaim: Some(ReclaimSpec { grace_seconds: 0, min_run_seconds }),
            namespaces: vec![(*team).to_owned()],
            ..QueueSpec::default()
        };
        create_queue_as(client, team, spec).await?;
    }
    Ok(())
}

/// This many H100.
pub fn h100s(count: u32) -> ResourceAmounts {
    ResourceAmounts { gpus: BTreeMap::from([("H100".to_owned(), count)]), ..ResourceAmounts::default() }
}

/// A price for GPUs of one type, from long ago on.
pub async fn create_prices(client: &Client, gpu_type: &str, per_gpu_hour: &str) -> anyhow::Result<()> {
    let entry = PriceEntry {
        gpu_type: Some(gpu_type.to_owned()),
        per_gpu_hour: Some(per_gpu_hour.to_owned()),
        from: "2026-01-01T00:00:00Z".to_owned(),
        ..PriceEntry::default()
    };
    let spec = PriceSheetSpec { currency: "USD".to_owned(), prices: vec![entry] };
    let sheets: Api<PriceSheet> = Api::all(client.clone());
    let sheet = PriceSheet::new(&gpu_type.to_lowercase(), spec);
    sheets.create(&PostParams::default(), &sheet).await.context("failed to create a price sheet")?;
    Ok(())
}

/// A run whose members run on fake nodes for `run_time` (`None`: until they are stopped).
pub fn run(queue: &str, members: u32, gpus_per_member: u32, run_time: Option<&str>) -> RunSpec {
    RunSpec {
        queue: Some(queue.to_owned()),
        members,
        gpus_per_member,
        image: "example/train:1".to_owned(),
        command: vec!["train".to_owned()],
        annotations: run_time
            .map(|time| annotation(names::FAKE_RUN_TIME_ANNOTATION, time))
            .into_iter()
            .collect(),
        ..RunSpec::default()
    }
}

/// An annotation for a run's pods.
pub fn annotation(name: &str, value: &str) -> api_types::run::PodAnnotation {
    api_types::run::PodAnnotation { name: name.to_owned(), value: value.to_owned() }
}

/// Creates the run in `namespace`.
pub async fn create_run(client: &Client, namespace: &str, name: &str, spec: RunSpec) -> anyhow::Result<()> {
    let runs: Api<Run> = Api::namespaced(client.clone(), namespace);
    runs.create(&PostParams::default(), &Run::new(name, spec)).await.context("failed to create a run")?;
    Ok(())
}

/// Pods of one gang, written without our controllers.
pub struct GangOfPods<'a> {
    /// Where.
    pub namespace: &'a str,
    /// The gang's name; its pods are `<name>-<index>`.
    pub name: &'a str,
    /// The queue that is charged.
    pub queue: &'a str,
    /// How many members.
    pub members: u32,
    /// GPUs of each.
    pub gpus: u32,
    /// For how long each runs on a fake node.
    pub run_time: &'a str,
}

impl GangOfPods<'_> {
    /// Its pods.
    pub fn pods(&self) -> Vec<Pod> {
        (0..self.members).map(|index| self.pod(index)).collect()
    }

    /// Creates its pods, one call each.
    pub async fn create(&self, client: &Client) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), self.namespace);
        for pod in self.pods() {
            pods.create(&PostParams::default(), &pod)
                .await
                .with_context(|| format!("failed to create pod {}", pod.name_any()))?;
        }
        Ok(())
    }

    fn pod(&self, index: u32) -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": format!("{}-{index}", self.name),
                "namespace": self.namespace,
                "labels": { names::QUEUE_LABEL: self.queue, names::GANG_LABEL: self.name },
                "annotations": {
                    names::GANG_SIZE_ANNOTATION: self.members.to_string(),
                    names::FAKE_RUN_TIME_ANNOTATION: self.run_time,
                },
            },
            "spec": {
                "schedulerName": names::SCHEDULER_NAME,
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "tolerations": [{ "key": names::GPU_NODE_TAINT, "operator": "Exists" }],
                "containers": [{
                    "name": "main",
                    "image": "example/train:1",
                    "resources": { "limits": { names::GPU_RESOURCE: self.gpus.to_string() } },
                }],
            },
        }))
        .expect("the pod above is valid")
    }
}

/// Fake nodes with eight H100 each.
pub fn h100_nodes(prefix: &str, count: usize) -> FakeNodes {
    FakeNodes { prefix: prefix.to_owned(), count, ..FakeNodes::default() }
}
