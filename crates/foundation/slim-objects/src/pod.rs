//! Pods with only the fields we read, and what those say.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ObjectMeta;

use crate::local::{SlimHostPort, SlimNodeAffinity, SlimResources, host_ports, restarts_all};
use crate::near::{SlimPodAffinity, SlimSpreadConstraint};
use crate::parse::{how_many, is_there, null_is_default, resource_like, slim_metadata, volume_kinds};

/// Annotation (and label) that the Job controller puts on the pods of an Indexed Job.
pub(crate) const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A pod as we read it.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub struct SlimPod {
    /// Name, namespace, uid, resource version, labels, owners, finalizers, times, and the annotations that are ours.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    /// What it asks for.
    #[serde(default)]
    pub spec: SlimPodSpec,
    /// How it fares.
    #[serde(default)]
    pub status: SlimPodStatus,
}

/// What a pod asks for, as far as it decides where it can run.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlimPodSpec {
    /// The node it is bound to.
    #[serde(default)]
    pub node_name: Option<String>,
    /// Its scheduler.
    #[serde(default)]
    pub scheduler_name: Option<String>,
    /// Resolved from its priority class by the API server.
    #[serde(default)]
    pub priority: Option<i32>,
    /// `Never`: no gang gives way to its priority.
    #[serde(default)]
    pub preemption_policy: Option<String>,
    /// Labels its node must have.
    #[serde(default, deserialize_with = "null_is_default")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints its node may have.
    #[serde(default, deserialize_with = "null_is_default")]
    pub tolerations: Vec<SlimToleration>,
    /// Containers.
    #[serde(default, deserialize_with = "null_is_default")]
    pub containers: Vec<SlimContainer>,
    /// Containers that run before the others, or together with them if they always restart.
    #[serde(default, deserialize_with = "null_is_default")]
    pub init_containers: Vec<SlimContainer>,
    /// Resources of the pod as a whole; they replace the sum of its containers.
    #[serde(default, deserialize_with = "null_is_default")]
    pub resources: SlimResources,
    /// What the runtime itself uses.
    #[serde(default, deserialize_with = "null_is_default")]
    pub overhead: BTreeMap<String, String>,
    /// Whether it uses the node's network.
    #[serde(default, deserialize_with = "null_is_default")]
    pub host_network: bool,
    /// Whether it uses the node's users; it does by default.
    #[serde(default)]
    pub host_users: Option<bool>,
    /// How many gates hold it back.
    #[serde(default, deserialize_with = "how_many")]
    pub scheduling_gates: usize,
    /// Kinds of volume that a scheduler would have to look at, each once.
    #[serde(default, rename = "volumes", deserialize_with = "volume_kinds")]
    pub placed_volumes: Vec<String>,
    /// Rules on the node's labels and on neighbours.
    #[serde(default, deserialize_with = "null_is_default")]
    pub affinity: SlimAffinity,
    /// Over which nodes it is spread with others.
    #[serde(default, deserialize_with = "null_is_default")]
    pub topology_spread_constraints: Vec<SlimSpreadConstraint>,
    /// How many devices it claims.
    #[serde(default, deserialize_with = "how_many")]
    pub resource_claims: usize,
    /// Whether it is in a group of the native kind.
    #[serde(default, deserialize_with = "is_there")]
    pub scheduling_group: bool,
    /// How long it may run.
    #[serde(default)]
    pub active_deadline_seconds: Option<u64>,
    /// How long it may take to end.
    #[serde(default)]
    pub termination_grace_period_seconds: Option<i64>,
}

/// Hard rules. Preferences only rank nodes, so a pod that has only those is placed without them.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimAffinity {
    /// Rules on the node's labels.
    #[serde(deserialize_with = "null_is_default")]
    pub node_affinity: SlimNodeAffinity,
    /// Pods that must be near.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_affinity: SlimPodAffinity,
    /// Pods that must not be near.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_anti_affinity: SlimPodAffinity,
}

/// One toleration, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct SlimToleration {
    /// The taint's key.
    pub key: Option<String>,
    /// `Exists` or `Equal`.
    pub operator: Option<String>,
    /// The taint's value.
    pub value: Option<String>,
    /// The taint's effect.
    pub effect: Option<String>,
}

/// One container.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlimContainer {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `Always` on an init container makes it a sidecar.
    #[serde(default)]
    pub restart_policy: Option<String>,
    /// What it asks for.
    #[serde(default, deserialize_with = "null_is_default")]
    pub resources: SlimResources,
    /// The ports of the host that it takes.
    #[serde(default, rename = "ports", deserialize_with = "host_ports")]
    pub host_ports: Vec<SlimHostPort>,
    /// Whether its end may restart all containers of the pod.
    #[serde(default, rename = "restartPolicyRules", deserialize_with = "restarts_all")]
    pub restarts_all: bool,
}

impl SlimContainer {
    /// Whether it is an init container that runs together with the others.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// How a pod fares.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimPodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`.
    pub phase: Option<String>,
    /// One word on why, for example `Evicted`.
    pub reason: Option<String>,
    /// A sentence on why.
    pub message: Option<String>,
    /// When a kubelet took it.
    pub start_time: Option<Time>,
    /// For example `PodScheduled`, `DisruptionTarget`.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<SlimCondition>,
    /// Its containers.
    #[serde(deserialize_with = "null_is_default")]
    pub container_statuses: Vec<SlimContainerStatus>,
    /// Its init containers.
    #[serde(deserialize_with = "null_is_default")]
    pub init_container_statuses: Vec<SlimContainerStatus>,
    /// What the pod as a whole has.
    pub resources: Option<SlimResources>,
    /// What the pod as a whole was granted.
    #[serde(deserialize_with = "null_is_default")]
    pub allocated_resources: BTreeMap<String, String>,
}

/// One condition of a pod or node.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimCondition {
    /// The condition's name.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word on why.
    pub reason: Option<String>,
    /// A sentence on why.
    pub message: Option<String>,
    /// Since when.
    pub last_transition_time: Option<Time>,
}

/// How a container fares.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimContainerStatus {
    /// Its name.
    pub name: String,
    /// Whether it passes its readiness probe.
    pub ready: bool,
    /// How often it was restarted.
    pub restart_count: i32,
    /// Its state.
    #[serde(deserialize_with = "null_is_default")]
    pub state: SlimContainerState,
    /// Its state before it was restarted.
    #[serde(deserialize_with = "null_is_default")]
    pub last_state: SlimContainerState,
    /// What it has.
    pub resources: Option<SlimResources>,
    /// What it was granted.
    #[serde(deserialize_with = "null_is_default")]
    pub allocated_resources: BTreeMap<String, String>,
}

/// A container's state: at most one of these.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default)]
pub struct SlimContainerState {
    /// It has ended.
    pub terminated: Option<SlimTerminated>,
    /// It has not started.
    pub waiting: Option<SlimWaiting>,
    /// It runs.
    pub running: Option<SlimRunning>,
}

/// A container that runs.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimRunning {
    /// Since when.
    pub started_at: Option<Time>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimTerminated {
    /// Its exit code.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// One word on why, for example `OOMKilled`.
    pub reason: Option<String>,
    /// What it left in its termination message.
    pub message: Option<String>,
    /// When it started.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
}

/// Why a container has not started.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default)]
pub struct SlimWaiting {
    /// One word on why, for example `ImagePullBackOff`.
    pub reason: Option<String>,
    /// A sentence on why.
    pub message: Option<String>,
}

resource_like!(SlimPod, Pod);

/// A pod's place in its gang, if a Job gave it one.
pub fn member_index(pod: &SlimPod) -> Option<u32> {
    annotation(pod, COMPLETION_INDEX).or_else(|| label(pod, COMPLETION_INDEX))?.parse().ok()
}

/// When a pod got its node, as the API server recorded it.
pub fn bound_at(pod: &SlimPod) -> Option<Timestamp> {
    let mut conditions = pod.status.conditions.iter();
    let scheduled = conditions.find(|it| it.kind == "PodScheduled" && it.status == "True")?;
    scheduled.last_transition_time.as_ref().map(|time| time.0)
}

/// A label, if it is there and not empty.
pub fn label<'a>(pod: &'a SlimPod, key: &str) -> Option<&'a str> {
    pod.metadata.labels.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// An annotation, if it is there and not empty.
pub fn annotation<'a>(pod: &'a SlimPod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}
