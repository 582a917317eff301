//! Bare calls: the time of the API server for the writes alone, with all decisions made beforehand. Uses the
//! scheduler's own client, identity and concurrency, and a watch like the scheduler's, but no scheduler.
//!
//! The fence lets these writes pass without a check, because no epoch was ever published. [`Bare::lead`]
//! publishes one, to measure the cost of the fence.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use api_types::scheduler_epoch::opening;
use api_types::{SchedulerEpoch, SchedulerEpochSpec, names};
use cluster_watch::Kind;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde::de::IgnoredAny;
use serde_json::json;
use service_kit::client;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::scheduler::yard::{IN_FLIGHT_MAX, NAMESPACE, Yard};

/// A process with the scheduler's client and identity.
pub struct Bare {
    client: Client,
    /// The pod that the identity is bound to.
    pod_uid: String,
    /// The epoch that the binds carry.
    epoch: Option<i64>,
    watch: JoinHandle<()>,
    drain: JoinHandle<()>,
}

/// One write.
pub enum Write<'a> {
    /// Gives the pod a node.
    Bind(&'a Pod, String),
    /// Writes on the pod that it is about to go.
    Condition(&'a Pod),
    /// Deletes the pod.
    Delete(&'a Pod),
}

impl Bare {
    pub async fn start(yard: &Yard) -> anyhow::Result<Self> {
        let (namespace, account) = (names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT);
        let login = yard.cluster.login_service_account(namespace, account).await?;
        let mut config = client::config(Some(&login.kubeconfig)).await?;
        let reads = client::client(&config)?;
        config.default_retry = false;
        let (sender, mut receiver) = mpsc::channel(4_096);
        let (synced, is_synced) = tokio::sync::oneshot::channel();
        let watch = tokio::spawn(cluster_watch::watch(Kind::Pods, reads, None, sender, Arc::default()));
        let drain = tokio::spawn(async move {
            let mut synced = Some(synced);
            while let Some(message) = receiver.recv().await {
                if matches!(message, cluster_watch::Message::Synced(_)) {
                    synced.take().map(|synced| synced.send(()));
                }
            }
        });
        is_synced.await.context("the attached watch did not begin")?;
        Ok(Self { client: client::client(&config)?, pod_uid: login.pod_uid, epoch: None, watch, drain })
    }

    /// Publishes an epoch whose leader this is, so that the fence lets its writes pass as it does the scheduler's.
    pub async fn lead(&mut self, yard: &Yard) -> anyhow::Result<()> {
        const EPOCH: i64 = 1;
        self.epoch = Some(EPOCH);
        let spec = SchedulerEpochSpec { epoch: EPOCH, holder: self.pod_uid.clone() };
        let epochs: Api<SchedulerEpoch> = Api::all(yard.client.clone());
        epochs.create(&PostParams::default(), &SchedulerEpoch::new(names::SCHEDULER_EPOCH, spec)).await?;
        let fence: Api<ValidatingAdmissionPolicyBinding> = Api::all(yard.client.clone());
        let read = fence.get(names::FENCE_OF_BINDS).await?;
        let open = Patch::Merge(opening(EPOCH, read.resource_version().as_deref()));
        fence.patch(names::FENCE_OF_BINDS, &PatchParams::default(), &open).await?;
        // Until the fence has heard of both.
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(())
    }

    /// Makes the writes, as many at a time as the scheduler would; returns how long it took.
    pub async fn write(&self, writes: impl IntoIterator<Item = Write<'_>>) -> anyhow::Result<Duration> {
        let began = Instant::now();
        stream::iter(writes)
            .map(|write| {
                let request = self.request(&write);
                async move { self.client.request::<IgnoredAny>(request?).await.map_err(anyhow::Error::from) }
            })
            .buffer_unordered(IN_FLIGHT_MAX)
            .try_for_each(|_| async { Ok(()) })
            .await
            .context("a bare call failed")?;
        Ok(began.elapsed())
    }

    fn request(&self, write: &Write<'_>) -> anyhow::Result<http::Request<Vec<u8>>> {
        let (Write::Bind(pod, _) | Write::Condition(pod) | Write::Delete(pod)) = write;
        let (name, uid) = (pod.name_any(), pod.uid().unwrap_or_default());
        let labels = self.epoch.map(|epoch| json!({ names::EPOCH_LABEL: epoch.to_string() }));
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
        let (method, path, content_type, body) = match write {
            Write::Bind(_, node) => (
                http::Method::POST,
                format!("{path}/binding?timeout=3000ms"),
                "application/json",
                json!({
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": { "namespace": NAMESPACE, "name": name, "uid": uid, "labels": labels },
                    "target": { "apiVersion": "v1", "kind": "Node", "name": node },
                }),
            ),
            Write::Condition(_) => (
                http::Method::PATCH,
                format!("{path}/status?timeout=3000ms"),
                "application/strategic-merge-patch+json",
                json!({
                    "metadata": { "uid": uid },
                    "status": { "conditions": [{
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "PreemptionByWarpyard",
                        "message": "gives way to a gang of a queue within its quota",
                    }] },
                }),
            ),
            Write::Delete(_) => (
                http::Method::DELETE,
                format!("{path}?timeout=3000ms"),
                "application/json",
                json!({ "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid } }),
            ),
        };
        Ok(http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(body.to_string().into_bytes())?)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.watch.abort();
        self.drain.abort();
    }
}
