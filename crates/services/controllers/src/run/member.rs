//! The facts about a member's pod that the status reads.

use api_types::names::{CHECKPOINTED_AT_ANNOTATION, RUN_LABEL};
use jiff::Timestamp;
use slim_objects::{SlimCondition, SlimContainerState, SlimPod, member_index, pod_requests};

use super::memory::Exhausted;
use super::stuck::Stuck;

/// A Run by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// One pod of a Run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The UID of the Job that made it.
    pub job_uid: String,
    /// The member's index, from 0.
    pub index: u32,
    /// GPUs that it asks for.
    pub gpus: u32,
    /// When the pod was created.
    pub created: Option<Timestamp>,
    /// Its node.
    pub node: Option<String>,
    /// When it was bound, by the control plane's clock.
    pub bound_at: Option<Timestamp>,
    /// Its phase.
    pub phase: PodPhase,
    /// The pod was deleted. After a failure, the Job controller deletes the other pods.
    pub deleted: bool,
    /// Why it is being evicted (condition `DisruptionTarget`).
    pub disruption: Option<String>,
    /// The message of that condition.
    pub disruption_message: Option<String>,
    /// The pod's own reason for its failure, such as `Evicted` or `DeadlineExceeded`.
    pub reason: Option<String>,
    /// Why the container does not start.
    pub stuck: Option<Stuck>,
    /// How the container ended.
    pub exit: Option<Exit>,
    /// When the container started.
    pub started_at: Option<Timestamp>,
    /// When the Run last saved its state, as the pod says.
    pub saved_at: Option<Timestamp>,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// The exit code.
    pub code: i32,
    /// The kubelet's reason, such as `Error` or `OOMKilled`.
    pub reason: Option<String>,
    /// When.
    pub at: Option<Timestamp>,
    /// The memory that it ran out of, if that is why.
    pub exhausted: Option<Exhausted>,
}

/// A pod's phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    /// Not running yet.
    Pending,
    /// Running.
    Running,
    /// Ended with 0.
    Succeeded,
    /// Failed.
    Failed,
}

impl Member {
    /// Whether it holds nothing any more, and never will. Its pod may stay because of a finalizer. A pod that
    /// is deleted before it has a node never gets one.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed) || (self.deleted && self.node.is_none())
    }

    /// Whether it failed by itself, and was not evicted.
    pub fn failed_itself(&self) -> bool {
        self.phase == PodPhase::Failed && self.disruption.is_none()
    }

    /// Whether it has a node, has not started there, and still may.
    pub fn is_starting(&self) -> bool {
        let is_taken = self.deleted || self.disruption.is_some();
        self.phase == PodPhase::Pending && self.node.is_some() && !is_taken
    }

    /// Its index and its node, for people.
    pub fn place(&self) -> String {
        let node = self.node.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
        format!("member {}{node}", self.index)
    }

    /// Its failure, for people; `None` unless it failed by itself.
    pub fn failure(&self) -> Option<String> {
        if !self.failed_itself() {
            return None;
        }
        let place = self.place();
        let word = |reason: &Option<String>| {
            reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default()
        };
        let after = if self.deleted { " after its pod was deleted" } else { "" };
        Some(match &self.exit {
            // If the pod has a reason of its own, it says more than the exit code.
            Some(exit) if self.reason.is_none() => {
                format!("{place} exited with {}{}{after}", exit.code, word(&exit.reason))
            }
            _ => format!("{place} failed{}{after}", word(&self.reason)),
        })
    }
}

/// The member that a pod is, and its Run; `None` for a pod that no Run's Job made.
pub fn member_of(pod: &SlimPod) -> Option<(RunKey, Member)> {
    let metadata = &pod.metadata;
    let run = metadata.labels.as_ref()?.get(RUN_LABEL)?.clone();
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let member = Member {
        pod: metadata.name.clone()?,
        uid: metadata.uid.clone().unwrap_or_default(),
        job_uid: owner.uid.clone(),
        index: member_index(pod)?,
        gpus: u32::try_from(pod_requests(pod).gpus).unwrap_or(0),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        node: pod.spec.node_name.clone().filter(|node| !node.is_empty()),
        bound_at: bound_at(pod),
        phase: match pod.status.phase.as_deref() {
            Some("Running") => PodPhase::Running,
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            _ => PodPhase::Pending,
        },
        deleted: metadata.deletion_timestamp.is_some(),
        disruption: disruption(pod).map(|it| it.reason.clone().unwrap_or_else(|| it.kind.clone())),
        disruption_message: disruption(pod).and_then(|it| it.message.clone()),
        reason: pod.status.reason.clone(),
        stuck: stuck(pod),
        exit: exit(pod),
        started_at: states(pod).filter_map(started_at).min(),
        saved_at: saved_at(pod),
    };
    Some((RunKey { namespace: metadata.namespace.clone()?, name: run }, member))
}

fn states(pod: &SlimPod) -> impl Iterator<Item = &SlimContainerState> {
    pod.status.container_statuses.iter().map(|status| &status.state)
}

fn saved_at(pod: &SlimPod) -> Option<Timestamp> {
    pod.metadata.annotations.as_ref()?.get(CHECKPOINTED_AT_ANNOTATION)?.parse().ok()
}

fn bound_at(pod: &SlimPod) -> Option<Timestamp> {
    let bound = pod.status.conditions.iter().find(|it| it.kind == "PodScheduled" && it.status == "True")?;
    bound.last_transition_time.as_ref().map(|time| time.0)
}

fn disruption(pod: &SlimPod) -> Option<&SlimCondition> {
    pod.status.conditions.iter().find(|it| it.kind == "DisruptionTarget" && it.status == "True")
}

/// The first trouble of any container, init containers first, as they start first.
fn stuck(pod: &SlimPod) -> Option<Stuck> {
    let all = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    let mut troubles = all.filter_map(|status| Stuck::of(status.state.waiting.as_ref()?));
    troubles.next()
}

/// The exit of the container that failed, else of the first that ended.
fn exit(pod: &SlimPod) -> Option<Exit> {
    let ended = || {
        let all = pod.status.container_statuses.iter();
        all.filter_map(|status| Some((status, status.state.terminated.as_ref()?)))
    };
    let (status, terminated) =
        ended().find(|(_, terminated)| terminated.exit_code != 0).or_else(|| ended().next())?;
    Some(Exit {
        code: terminated.exit_code,
        reason: terminated.reason.clone().filter(|reason| !reason.is_empty()),
        at: terminated.finished_at.as_ref().map(|time| time.0),
        exhausted: Exhausted::of(pod, status),
    })
}

fn started_at(state: &SlimContainerState) -> Option<Timestamp> {
    let running = state.running.as_ref().and_then(|running| running.started_at.as_ref());
    let terminated = state.terminated.as_ref().and_then(|terminated| terminated.started_at.as_ref());
    running.or(terminated).map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Member, PodPhase, SlimPod, member_of};

    fn member(spec: &Value, status: &Value) -> Option<Member> {
        let pod = json!({
            "metadata": {
                "name": "train-1-2-x", "namespace": "team", "uid": "u", "creationTimestamp": "2026-11-15T02:00:00Z",
                "labels": { "warpyard.dev/run": "train", "app": "x" },
                "annotations": { "batch.kubernetes.io/job-completion-index": "2", "other": "x" },
                "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "train-1", "uid": "job", "controller": true }],
            },
            "spec": spec,
            "status": status,
        });
        let pod: SlimPod = serde_json::from_value(pod).unwrap();
        member_of(&pod).map(|(_, member)| member)
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
            member(&json!({}), &status("ErrImagePull")).unwrap().stuck.map(|stuck| stuck.reason),
            Some("ErrImagePull".to_owned())
        );
    }

    #[test]
    fn a_pod_that_no_job_made_is_no_member() {
        let pod = json!({ "metadata": { "name": "x", "namespace": "team", "labels": { "warpyard.dev/run": "train" } } });
        assert!(member_of(&serde_json::from_value::<SlimPod>(pod).unwrap()).is_none());
    }
}
