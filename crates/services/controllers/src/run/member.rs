//! What status reads of a member's pod.

use api_types::names::{CHECKPOINTED_AT_ANNOTATION, RUN_LABEL};
use cluster_convert::{SlimCondition, SlimContainerState, SlimPod, member_index, pod_requests};
use jiff::Timestamp;

use crate::members::RunKey;

/// One pod of a Run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The UID of the Job that made it.
    pub job_uid: String,
    /// Which member it is, from 0.
    pub index: u32,
    /// GPUs that it asks for.
    pub gpus: u32,
    /// When the pod was created.
    pub created: Option<Timestamp>,
    /// Where it is placed.
    pub node: Option<String>,
    /// Since when, by the control plane's clock.
    pub bound_at: Option<Timestamp>,
    /// How far it has come.
    pub phase: PodPhase,
    /// Somebody deleted the pod: after a failure, the Job controller does so with the others.
    pub deleted: bool,
    /// Why it is being taken away from outside (condition `DisruptionTarget`).
    pub disruption: Option<String>,
    /// The sentence that came with it.
    pub disruption_message: Option<String>,
    /// The pod's own word for its failure, such as `Evicted` or `DeadlineExceeded`.
    pub reason: Option<String>,
    /// Why the container does not start, such as `ImagePullBackOff`.
    pub stuck: Option<String>,
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
    /// The kubelet's word, such as `Error` or `OOMKilled`.
    pub reason: Option<String>,
    /// When.
    pub at: Option<Timestamp>,
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
    /// Ended otherwise.
    Failed,
}

impl Member {
    /// Whether it holds nothing any more, and never will: also if its pod stays, because somebody's finalizer is on
    /// it. A pod that is deleted before it has a node never gets one.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed) || (self.deleted && self.node.is_none())
    }

    /// Whether it failed by itself, and not because it was taken away.
    pub fn failed_itself(&self) -> bool {
        self.phase == PodPhase::Failed && self.disruption.is_none()
    }

    /// Word and sentence on why it does not start.
    pub fn trouble(&self) -> Option<(String, String)> {
        let stuck = self.stuck.as_ref()?;
        let place = self.node.as_deref().unwrap_or("no node");
        Some((stuck.clone(), format!("member {} on {place} does not start ({stuck})", self.index)))
    }

    /// What became of it, for people; `None` unless it failed by itself.
    pub fn failure(&self) -> Option<String> {
        if !self.failed_itself() {
            return None;
        }
        let place = self.node.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
        let word = |reason: &Option<String>| {
            reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default()
        };
        let after = if self.deleted { " after its pod was deleted" } else { "" };
        Some(match &self.exit {
            // A pod that was ended for a reason of its own says more by that reason than by the exit code.
            Some(exit) if self.reason.is_none() => {
                format!("member {}{place} exited with {}{}{after}", self.index, exit.code, word(&exit.reason))
            }
            _ => format!("member {}{place} failed{}{after}", self.index, word(&self.reason)),
        })
    }
}

/// The Run and the member that a pod is; `None` for a pod that no Run's Job made.
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

/// Every container waits to be created at first; that is no trouble yet.
fn stuck(pod: &SlimPod) -> Option<String> {
    let mut reasons = states(pod).filter_map(|state| state.waiting.as_ref()?.reason.clone());
    reasons.find(|reason| reason != "ContainerCreating" && reason != "PodInitializing")
}

/// The end of the container that failed, else of the first that ended.
fn exit(pod: &SlimPod) -> Option<Exit> {
    let ended = || states(pod).filter_map(|state| state.terminated.as_ref());
    let terminated = ended().find(|terminated| terminated.exit_code != 0).or_else(|| ended().next())?;
    Some(Exit {
        code: terminated.exit_code,
        reason: terminated.reason.clone().filter(|reason| !reason.is_empty()),
        at: terminated.finished_at.as_ref().map(|time| time.0),
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
            member(&json!({}), &status("ErrImagePull")).unwrap().stuck.as_deref(),
            Some("ErrImagePull")
        );
    }

    #[test]
    fn a_pod_that_no_job_made_is_no_member() {
        let pod = json!({ "metadata": { "name": "x", "namespace": "team", "labels": { "warpyard.dev/run": "train" } } });
        assert!(member_of(&serde_json::from_value::<SlimPod>(pod).unwrap()).is_none());
    }
}
