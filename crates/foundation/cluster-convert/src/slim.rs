//! Pods and nodes with only the fields we read. Everything else (managed fields, probes, environments, images) is
//! skipped while parsing and never stored: at 100,000 pods that is most of the memory.

use std::collections::BTreeMap;

use api_types::names;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube_core::ObjectMeta;
use serde::de::{Deserialize, Deserializer, IgnoredAny};

use crate::slim_local::{SlimHostPort, SlimNodeAffinity, SlimResources, host_ports, restarts_all};
use crate::slim_near::{SlimPodAffinity, SlimSpreadConstraint};

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

/// What a pod asks for, as far as it bears on where it can run.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlimPodSpec {
    /// The node it is bound to.
    #[serde(default)]
    pub node_name: Option<String>,
    /// Who places it.
    #[serde(default)]
    pub scheduler_name: Option<String>,
    /// Resolved from its priority class by the API server.
    #[serde(default)]
    pub priority: Option<i32>,
    /// `Never`: its priority makes nobody give way.
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
    /// Containers that run before the others, or beside them if they restart always.
    #[serde(default, deserialize_with = "null_is_default")]
    pub init_containers: Vec<SlimContainer>,
    /// Resources of the pod as a whole; they win over the sum of its containers.
    #[serde(default, deserialize_with = "null_is_default")]
    pub resources: SlimResources,
    /// What the runtime itself uses.
    #[serde(default, deserialize_with = "null_is_default")]
    pub overhead: BTreeMap<String, String>,
    /// Whether it uses the node's network.
    #[serde(default, deserialize_with = "null_is_default")]
    pub host_network: bool,
    /// Whether it uses the node's users; it does if nothing is said.
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
#[expect(clippy::struct_field_names, reason = "they are Kubernetes' names")]
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
    /// Whether it is an init container that runs beside the others.
    pub(crate) fn is_sidecar(&self) -> bool {
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
    /// What it does.
    #[serde(deserialize_with = "null_is_default")]
    pub state: SlimContainerState,
    /// What it did before it was restarted.
    #[serde(deserialize_with = "null_is_default")]
    pub last_state: SlimContainerState,
    /// What it has.
    pub resources: Option<SlimResources>,
    /// What it was granted.
    #[serde(deserialize_with = "null_is_default")]
    pub allocated_resources: BTreeMap<String, String>,
}

/// What a container does: at most one of these.
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

/// A node as we read it.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub struct SlimNode {
    /// Name, uid, resource version, labels, times, and the annotations that are ours.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    /// What pods must know of it.
    #[serde(default)]
    pub spec: SlimNodeSpec,
    /// What it has.
    #[serde(default)]
    pub status: SlimNodeStatus,
}

/// What keeps pods off a node, and which machine it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct SlimNodeSpec {
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The cloud's address of its machine.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// Its taints.
    #[serde(deserialize_with = "null_is_default")]
    pub taints: Vec<SlimTaint>,
}

/// One taint, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct SlimTaint {
    /// The taint's key.
    pub key: String,
    /// The taint's value.
    pub value: Option<String>,
    /// What it does.
    pub effect: String,
}

/// What a node has.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default)]
pub struct SlimNodeStatus {
    /// What it has.
    #[serde(deserialize_with = "null_is_default")]
    pub capacity: BTreeMap<String, String>,
    /// What pods may use.
    #[serde(deserialize_with = "null_is_default")]
    pub allocatable: BTreeMap<String, String>,
    /// What its kubelet is able to, beyond what all are.
    #[serde(rename = "declaredFeatures", deserialize_with = "null_is_default")]
    pub declared_features: Vec<String>,
    /// For example `Ready`.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<SlimCondition>,
}

/// The kind is the cluster's own; only the Rust type is slim.
macro_rules! resource_like {
    ($slim:ty, $full:ty) => {
        impl kube_core::Resource for $slim {
            type DynamicType = ();
            type Scope = <$full as kube_core::Resource>::Scope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube_core::Resource>::kind(&())
            }
            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube_core::Resource>::group(&())
            }
            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube_core::Resource>::version(&())
            }
            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                <$full as kube_core::Resource>::plural(&())
            }
            fn meta(&self) -> &kube_core::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut kube_core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use resource_like;

resource_like!(SlimPod, Pod);
resource_like!(SlimNode, Node);

/// Annotations we keep: ours, and the index that the Job controller gives.
fn is_kept(annotation: &str) -> bool {
    let domain = annotation.split('/').next().unwrap_or_default();
    domain == api_types::GROUP
        || domain.strip_suffix(api_types::GROUP).is_some_and(|prefix| prefix.ends_with('.'))
        || annotation == crate::pod::COMPLETION_INDEX
}

/// Metadata without what nobody here reads. Managed fields above all: whoever may write an object may write times into
/// them, also some that our types cannot hold, and then no list with the object in it could be read.
pub(crate) fn slim_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Metadata {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        generation: Option<i64>,
        labels: Option<BTreeMap<String, String>>,
        #[serde(deserialize_with = "our_annotations")]
        annotations: Option<BTreeMap<String, String>>,
        owner_references: Option<Vec<OwnerReference>>,
        finalizers: Option<Vec<String>>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
    }
    let metadata = Metadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        generation: metadata.generation,
        labels: metadata.labels,
        annotations: metadata.annotations,
        owner_references: metadata.owner_references,
        finalizers: metadata.finalizers,
        creation_timestamp: metadata.creation_timestamp,
        deletion_timestamp: metadata.deletion_timestamp,
        ..ObjectMeta::default()
    })
}

fn our_annotations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    let mut annotations: Option<BTreeMap<String, String>> = Option::deserialize(deserializer)?;
    if let Some(annotations) = &mut annotations {
        annotations.retain(|key, _| is_kept(key));
    }
    Ok(annotations.filter(|annotations| !annotations.is_empty()))
}

pub(crate) fn null_is_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn how_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    Ok(Option::<Vec<IgnoredAny>>::deserialize(deserializer)?.map_or(0, |items| items.len()))
}

fn is_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(deserializer)?.is_some())
}

/// Volumes that are the same on every node: no scheduler looks at them.
const VOLUMES_ANYWHERE: [&str; 8] =
    ["configMap", "downwardAPI", "emptyDir", "hostPath", "image", "nfs", "projected", "secret"];

#[derive(serde::Deserialize)]
struct SlimVolume {
    #[serde(default)]
    name: String,
    #[serde(flatten)]
    #[expect(clippy::zero_sized_map_values, reason = "the keys of a JSON object, without its values")]
    sources: BTreeMap<String, IgnoredAny>,
}

fn volume_kinds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let mut volumes = Option::<Vec<SlimVolume>>::deserialize(deserializer)?.unwrap_or_default();
    // The checkpoints of a Run: a volume that all members share, hence one that every node reaches.
    volumes.retain(|volume| volume.name != names::CHECKPOINT_VOLUME);
    let mut kinds: Vec<String> = volumes.into_iter().flat_map(|volume| volume.sources.into_keys()).collect();
    kinds.retain(|kind| !VOLUMES_ANYWHERE.contains(&kind.as_str()));
    kinds.sort();
    kinds.dedup();
    Ok(kinds)
}
