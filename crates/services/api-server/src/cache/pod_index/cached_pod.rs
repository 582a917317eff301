//! The cached fields of a pod. Pure.

use std::num::NonZeroU128;
use std::sync::Arc;

use api_types::names;
use api_types::rest::MemberState;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slim_objects::{SlimContainerState, SlimPod, SlimTerminated};

use super::texts::Texts;

/// The longest reason that is kept, in characters; kubelets write about 20.
const REASON_LENGTH_MAX: usize = 64;

/// The fields of a pod that members and occupants show. Times are seconds since 1970, as in Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedPod {
    /// The tenant.
    pub namespace: Arc<str>,
    /// Unique within the namespace.
    pub name: Arc<str>,
    /// The run it belongs to.
    pub run: Option<Arc<str>>,
    /// The queue that it names.
    pub queue: Option<Arc<str>>,
    /// Its node.
    pub node: Option<Arc<str>>,
    /// The reason for its state, in one word.
    pub reason: Option<Arc<str>>,
    /// Its UID.
    pub uid: Option<NonZeroU128>,
    /// The UID of the Job that made it.
    pub job_uid: Option<NonZeroU128>,
    /// When it was created.
    pub created_second: i64,
    /// When it got its node.
    pub scheduled_second: Option<i64>,
    /// When its first container started.
    pub started_second: Option<i64>,
    /// When its last container ended, once all have.
    pub finished_second: Option<i64>,
    /// The exit code of the container that failed, else of the first.
    pub exit_code: Option<i32>,
    /// The attempt's number; 0 for pods of no run.
    pub attempt: u32,
    /// Its rank.
    pub index: u32,
    /// GPUs it asks for.
    pub gpus: u32,
    /// Its state.
    pub state: MemberState,
}

impl CachedPod {
    /// The cached fields of `pod`; `None` if nothing shows it: it belongs to no run and holds no GPUs.
    pub(super) fn read(pod: &SlimPod, texts: &mut Texts) -> Option<Self> {
        let label = |key: &str| pod.metadata.labels.as_ref()?.get(key).filter(|value| !value.is_empty());
        let gpus = u32::try_from(slim_objects::pod_requests(pod).gpus).unwrap_or(0);
        let node = pod.spec.node_name.as_deref().filter(|node| !node.is_empty());
        let state = state(pod);
        let run = label(names::RUN_LABEL);
        if run.is_none() && (gpus == 0 || node.is_none() || is_over(state)) {
            return None;
        }
        let mut owners = pod.metadata.owner_references.iter().flatten();
        let job = owners.find(|owner| owner.controller == Some(true) && owner.kind == "Job");
        let exit = exit(pod).filter(|_| is_over(state));
        let reason =
            reason(pod, state).map(|reason| reason.chars().take(REASON_LENGTH_MAX).collect::<String>());
        Some(Self {
            namespace: texts.share(pod.metadata.namespace.as_deref().unwrap_or_default()),
            name: pod.metadata.name.as_deref().unwrap_or_default().into(),
            run: run.map(|run| texts.share(run)),
            queue: label(names::QUEUE_LABEL).map(|queue| texts.share(queue)),
            node: node.map(|node| texts.share(node)),
            reason: reason.map(|reason| texts.share(&reason)),
            uid: pod.metadata.uid.as_deref().and_then(uid),
            job_uid: job.and_then(|job| uid(&job.uid)),
            created_second: pod.metadata.creation_timestamp.as_ref().map_or(0, second),
            scheduled_second: slim_objects::bound_at(pod).map(Timestamp::as_second),
            started_second: states(pod).filter_map(started_at).min(),
            finished_second: ended(pod)
                .filter_map(|end| end.finished_at.as_ref())
                .map(second)
                .max()
                .filter(|_| is_over(state)),
            exit_code: exit.map(|exit| exit.exit_code),
            attempt: label(names::ATTEMPT_LABEL).and_then(|number| number.parse().ok()).unwrap_or(0),
            index: slim_objects::member_index(pod).unwrap_or(0),
            gpus,
            state,
        })
    }

    /// The node whose GPUs it holds. A pod that has ended holds none; one that is being deleted does.
    pub fn holds_gpus_of(&self) -> Option<&Arc<str>> {
        self.node.as_ref().filter(|_| self.gpus > 0 && !is_over(self.state))
    }
}

/// A UID as a number; `None` if it is not one of Kubernetes' form.
pub fn uid(text: &str) -> Option<NonZeroU128> {
    let is_written_out = text.len() == 36 && text.bytes().filter(|byte| *byte == b'-').count() == 4;
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_written_out)?;
    NonZeroU128::new(number)
}

fn is_over(state: MemberState) -> bool {
    matches!(state, MemberState::Succeeded | MemberState::Failed)
}

fn state(pod: &SlimPod) -> MemberState {
    let has_node = pod.spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
    match pod.status.phase.as_deref() {
        Some("Succeeded") => MemberState::Succeeded,
        Some("Failed") => MemberState::Failed,
        _ if pod.metadata.deletion_timestamp.is_some() => MemberState::Ending,
        _ if !has_node => MemberState::Waiting,
        Some("Running") => MemberState::Running,
        _ => MemberState::Starting,
    }
}

/// The most telling reason: the pod's own, then that of its disruption, then its container's.
fn reason(pod: &SlimPod, state: MemberState) -> Option<&str> {
    let own = || pod.status.reason.as_deref();
    let disruption = || {
        let mut conditions = pod.status.conditions.iter();
        conditions.find(|it| it.kind == "DisruptionTarget" && it.status == "True")?.reason.as_deref()
    };
    let failure = || exit(pod).filter(|exit| exit.exit_code != 0)?.reason.as_deref();
    // Every container waits to be created at first; that is normal.
    let stuck = || {
        let mut reasons = states(pod).filter_map(|state| state.waiting.as_ref()?.reason.as_deref());
        reasons.find(|reason| *reason != "ContainerCreating" && *reason != "PodInitializing")
    };
    let reason = match state {
        MemberState::Succeeded => None,
        MemberState::Failed => own().or_else(disruption).or_else(failure),
        _ => own().or_else(disruption).or_else(stuck),
    };
    reason.filter(|reason| !reason.is_empty())
}

/// The termination of the container that failed, else of the first that ended.
fn exit(pod: &SlimPod) -> Option<&SlimTerminated> {
    ended(pod).find(|end| end.exit_code != 0).or_else(|| ended(pod).next())
}

fn states(pod: &SlimPod) -> impl Iterator<Item = &SlimContainerState> {
    pod.status.container_statuses.iter().map(|status| &status.state)
}

fn ended(pod: &SlimPod) -> impl Iterator<Item = &SlimTerminated> {
    states(pod).filter_map(|state| state.terminated.as_ref())
}

fn started_at(state: &SlimContainerState) -> Option<i64> {
    let running = state.running.as_ref().and_then(|running| running.started_at.as_ref());
    let ended = state.terminated.as_ref().and_then(|ended| ended.started_at.as_ref());
    running.or(ended).map(second)
}

fn second(time: &Time) -> i64 {
    time.0.as_second()
}
