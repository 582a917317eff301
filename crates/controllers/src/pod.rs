//! A pod as far as a Run's status needs it. The rest of the JSON is skipped while it is parsed, so that 100,000 pods
//! cost neither their managed fields nor their specifications.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api_types::names::RUN_LABEL;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Deserializer};

use crate::members::RunKey;
use crate::run::member::{Exit, Member, PodPhase};

const INDEX_ANNOTATION: &str = "batch.kubernetes.io/job-completion-index";

/// The parts of a pod that are read.
#[derive(Debug, Clone, Deserialize)]
pub struct SlimPod {
    #[serde(default, deserialize_with = "slim_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    conditions: Vec<Condition>,
    #[serde(default)]
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct ContainerStatus {
    #[serde(default)]
    state: ContainerState,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct ContainerState {
    waiting: Option<Waiting>,
    running: Option<Running>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Deserialize)]
struct Waiting {
    reason: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Running {
    started_at: Option<Time>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    exit_code: i32,
    reason: Option<String>,
    started_at: Option<Time>,
    finished_at: Option<Time>,
}

impl SlimPod {
    /// The Run and the member this pod is; `None` for a pod that no Run's Job made.
    pub fn member(&self) -> Option<(RunKey, Member)> {
        let metadata = &self.metadata;
        let run = metadata.labels.as_ref()?.get(RUN_LABEL)?.clone();
        let owner =
            metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
        let index = metadata.annotations.as_ref()?.get(INDEX_ANNOTATION)?.parse().ok()?;
        let member = Member {
            pod: metadata.name.clone()?,
            job_uid: owner.uid.clone(),
            index,
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            node: self.spec.node_name.clone().filter(|node| !node.is_empty()),
            phase: match self.status.phase.as_deref() {
                Some("Running") => PodPhase::Running,
                Some("Succeeded") => PodPhase::Succeeded,
                Some("Failed") => PodPhase::Failed,
                _ => PodPhase::Pending,
            },
            deleted: metadata.deletion_timestamp.is_some(),
            disruption: self.disruption(),
            reason: self.status.reason.clone(),
            stuck: self.stuck(),
            exit: self.exit(),
            started_at: self.states().filter_map(started_at).min(),
        };
        Some((RunKey { namespace: metadata.namespace.clone()?, name: run }, member))
    }

    fn states(&self) -> impl Iterator<Item = &ContainerState> {
        self.status.container_statuses.iter().map(|status| &status.state)
    }

    fn disruption(&self) -> Option<String> {
        let mut conditions = self.status.conditions.iter();
        let condition = conditions.find(|c| c.type_ == "DisruptionTarget" && c.status == "True")?;
        Some(condition.reason.clone().unwrap_or_else(|| "DisruptionTarget".to_owned()))
    }

    /// Every container waits to be created at first; that is no trouble yet.
    fn stuck(&self) -> Option<String> {
        let reasons = self.states().filter_map(|state| state.waiting.as_ref()?.reason.clone());
        reasons.into_iter().find(|reason| reason != "ContainerCreating" && reason != "PodInitializing")
    }

    /// The end of the container that failed, else of the first that ended.
    fn exit(&self) -> Option<Exit> {
        let ended = || self.states().filter_map(|state| state.terminated.as_ref());
        let terminated = ended().find(|terminated| terminated.exit_code != 0).or_else(|| ended().next())?;
        Some(Exit {
            code: terminated.exit_code,
            reason: terminated.reason.clone().filter(|reason| !reason.is_empty()),
            at: terminated.finished_at.as_ref().map(|time| time.0),
        })
    }
}

fn started_at(state: &ContainerState) -> Option<Timestamp> {
    let running = state.running.as_ref().and_then(|running| running.started_at.as_ref());
    let terminated = state.terminated.as_ref().and_then(|terminated| terminated.started_at.as_ref());
    running.or(terminated).map(|time| time.0)
}

/// What is kept of a pod's metadata.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    owner_references: Option<Vec<OwnerReference>>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

fn slim_metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let mut slim = SlimMetadata::deserialize(deserializer)?;
    if let Some(labels) = &mut slim.labels {
        labels.retain(|name, _| name == RUN_LABEL);
    }
    if let Some(annotations) = &mut slim.annotations {
        annotations.retain(|name, _| name == INDEX_ANNOTATION);
    }
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        creation_timestamp: slim.creation_timestamp,
        deletion_timestamp: slim.deletion_timestamp,
        owner_references: slim.owner_references,
        labels: slim.labels,
        annotations: slim.annotations,
        ..ObjectMeta::default()
    })
}

impl Resource for SlimPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::SlimPod;
    use crate::run::member::{Member, PodPhase};

    fn member(spec: &Value, status: &Value) -> Option<Member> {
        let pod = json!({
            "metadata": {
                "name": "train-1-2-x", "namespace": "team", "uid": "u", "creationTimestamp": "2026-11-15T02:00:00Z",
                "labels": { "warpyard.dev/run": "train", "app": "x" },
                "annotations": { "batch.kubernetes.io/job-completion-index": "2", "other": "x" },
                "managedFields": [{ "manager": "m" }],
                "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "train-1", "uid": "job", "controller": true }],
            },
            "spec": spec,
            "status": status,
        });
        let pod: SlimPod = serde_json::from_value(pod).unwrap();
        assert!(pod.metadata.managed_fields.is_none());
        assert_eq!(pod.metadata.labels.as_ref().unwrap().len(), 1);
        pod.member().map(|(_, member)| member)
    }

    #[test]
    fn a_failed_pod_tells_node_code_and_times() {
        let terminated = json!({
            "exitCode": 1, "reason": "Error", "startedAt": "2026-11-15T02:00:05Z", "finishedAt": "2026-11-15T02:00:09Z",
        });
        let status = json!({ "phase": "Failed", "containerStatuses": [{ "name": "main", "state": { "terminated": terminated } }] });
        let member = member(&json!({ "nodeName": "node-7", "containers": [] }), &status).unwrap();
        assert_eq!((member.index, member.job_uid.as_str(), member.phase), (2, "job", PodPhase::Failed));
        assert_eq!(member.failure().as_deref(), Some("member 2 on node-7 exited with 1 (Error)"));
        assert_eq!(member.started_at, Some("2026-11-15T02:00:05Z".parse().unwrap()));
    }

    #[test]
    fn a_pod_taken_away_did_not_fail_itself() {
        let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC" });
        let member = member(&json!({}), &json!({ "phase": "Failed", "conditions": [condition] })).unwrap();
        assert!(!member.failed_itself());
        assert_eq!(member.disruption.as_deref(), Some("DeletionByPodGC"));
    }

    #[test]
    fn being_created_is_no_trouble_but_a_missing_image_is() {
        let status = |reason: &str| json!({ "phase": "Pending", "containerStatuses": [{ "state": { "waiting": { "reason": reason } } }] });
        assert_eq!(member(&json!({}), &status("ContainerCreating")).unwrap().stuck, None);
        assert_eq!(
            member(&json!({}), &status("ErrImagePull")).unwrap().stuck.as_deref(),
            Some("ErrImagePull")
        );
    }

    #[test]
    fn a_pod_that_no_job_made_is_no_member() {
        let pod = json!({ "metadata": { "name": "x", "namespace": "team", "labels": { "warpyard.dev/run": "train" } } });
        assert!(serde_json::from_value::<SlimPod>(pod).unwrap().member().is_none());
    }
}
