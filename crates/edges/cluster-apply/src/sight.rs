//! The part of a pod that shows how a write ended: read when the answer was not clear.

use cluster_model::PodKey;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::writes::Writes;

/// A pod as it was read.
#[derive(Deserialize)]
pub(crate) struct PodSight {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    #[serde(default)]
    init_container_statuses: Vec<Container>,
    #[serde(default)]
    container_statuses: Vec<Container>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    #[serde(default)]
    state: ContainerState,
    #[serde(default)]
    last_state: ContainerState,
}

#[derive(Deserialize, Default)]
struct ContainerState {
    running: Option<IgnoredAny>,
    terminated: Option<IgnoredAny>,
}

impl ContainerState {
    fn has_started(&self) -> bool {
        self.running.is_some() || self.terminated.is_some()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

impl PodSight {
    /// Whether it is this pod, and not another one of the same name.
    pub fn is(&self, pod: &PodKey) -> bool {
        self.metadata.uid == *pod.uid
    }

    /// Whether it is being deleted.
    pub fn is_leaving(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether any of its containers was started, or has ended. The phase is `Pending` while init containers run.
    pub fn has_started(&self) -> bool {
        let Status { phase, init_container_statuses, container_statuses } = &self.status;
        let mut containers = init_container_statuses.iter().chain(container_statuses);
        phase.as_deref().is_some_and(|phase| phase != "Pending")
            || containers.any(|it| it.state.has_started() || it.last_state.has_started())
    }

    /// Its node.
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref()
    }
}

/// The request that reads it.
pub(crate) fn read(writes: &Writes, pod: &PodKey) -> http::Request<Vec<u8>> {
    let PodKey { namespace, name, .. } = pod;
    http::Request::get(format!("/api/v1/namespaces/{namespace}/pods/{name}?{}", writes.query()))
        .body(Vec::new())
        .expect("names that the API server accepted make a valid URL")
}
