//! The API server that a case runs on, and the requests that people, controllers and kubelets make of it.

use std::time::Duration;

use anyhow::Context;
use api_types::Hold;
use cluster_apply::Writes;
use cluster_convert::hold_record;
use cluster_model::plan::HoldRecord;
use jiff::Timestamp;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};
use slim_objects::SlimPod;

/// The API server of a case.
#[derive(Clone)]
pub struct Server {
    /// A client that may create, delete and read everything.
    pub client: Client,
    /// Writes effects: as the leader, if there is a fence.
    pub writes: Writes,
    /// The epoch in which the leader leads.
    pub epoch: i64,
    /// A namespace with a default service account, used by this case alone.
    pub namespace: String,
    /// When the case begins.
    pub now: Timestamp,
    /// How long effects may take to show.
    pub patience: Duration,
    /// The time before the first look, in which a wrong effect must show; it doubles before each further look.
    pub pause: Duration,
}

impl Server {
    /// Removes the objects of a case, so that another one can begin.
    pub async fn clear(&self) -> anyhow::Result<()> {
        let (at_once, all) = (DeleteParams::default().grace_period(0), ListParams::default());
        let pods: Api<SlimPod> = Api::namespaced(self.client.clone(), &self.namespace);
        pods.delete_collection(&at_once, &all).await.context("deleting all pods")?;
        let holds: Api<Hold> = Api::namespaced(self.client.clone(), &self.namespace);
        holds.delete_collection(&at_once, &all).await.context("deleting all holds")?;
        Ok(())
    }

    /// Creates a pod.
    pub(crate) async fn create_pod(&self, pod: &Json) -> anyhow::Result<()> {
        let pods = format!("/api/v1/namespaces/{}/pods", self.namespace);
        self.send(http::Request::post(pods), "application/json", pod).await
    }

    /// Gives a pod its node, as if it had it since `since`. No pod of ours may name its node when it is
    /// created.
    pub(crate) async fn bind_pod(&self, name: &str, node: &str, since: Timestamp) -> anyhow::Result<()> {
        let pod = format!("/api/v1/namespaces/{}/pods/{name}", self.namespace);
        let target = json!({ "apiVersion": "v1", "kind": "Node", "name": node });
        let metadata = json!({ "name": name });
        let binding =
            json!({ "apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target });
        self.send(http::Request::post(format!("{pod}/binding")), "application/json", &binding).await?;
        let since = Timestamp::from_second(since.as_second())?.to_string();
        let condition = json!({ "type": "PodScheduled", "status": "True", "lastTransitionTime": since });
        let status = json!({ "status": { "conditions": [condition] } });
        let patch = http::Request::patch(format!("{pod}/status"));
        self.send(patch, "application/strategic-merge-patch+json", &status).await
    }

    async fn send(&self, request: http::request::Builder, kind: &str, body: &Json) -> anyhow::Result<()> {
        let request = request.header(http::header::CONTENT_TYPE, kind);
        let request = request.body(body.to_string().into_bytes()).context("an invalid request")?;
        let _: IgnoredAny = self.client.request(request).await.context("the server refused an object")?;
        Ok(())
    }

    /// Removes a pod at once, like a kubelet that has ended it.
    pub(crate) async fn delete_pod(&self, pod: &SlimPod) -> anyhow::Result<()> {
        let pods: Api<SlimPod> = Api::namespaced(self.client.clone(), &self.namespace);
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        pods.delete(name, &DeleteParams::default().grace_period(0)).await.context("deleting a pod")?;
        Ok(())
    }

    pub(crate) async fn pods(&self) -> anyhow::Result<Vec<SlimPod>> {
        let pods: Api<SlimPod> = Api::namespaced(self.client.clone(), &self.namespace);
        Ok(pods.list(&ListParams::default()).await.context("listing pods")?.items)
    }

    pub(crate) async fn holds(&self) -> anyhow::Result<Vec<HoldRecord>> {
        let holds: Api<Hold> = Api::namespaced(self.client.clone(), &self.namespace);
        let holds = holds.list(&ListParams::default()).await.context("listing holds")?;
        Ok(holds.items.iter().map(hold_record).collect())
    }
}
