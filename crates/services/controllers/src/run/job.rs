//! The facts about a Job that decisions read, parsed once from its conditions.

use api_types::names::{RUN_FINALIZER, TOLD_ANNOTATION};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition};

/// A Job of an attempt, as last seen.
#[expect(clippy::struct_excessive_bools, reason = "facts of one object, each read by itself")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFacts {
    /// Its UID.
    pub uid: String,
    /// The version that was read; writes that depend on it name it.
    pub resource_version: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The UID of the object that controls it.
    pub owner_uid: Option<String>,
    /// It starts no pods, because it has not begun or was told to end.
    pub suspended: bool,
    /// Its members were told to save and leave.
    pub told: bool,
    /// The Job controller has seen that the Job starts no more pods, because it is suspended or has failed, and
    /// knows only pods that are ending.
    pub is_idle: bool,
    /// Pods that are being ended.
    pub terminating: u32,
    /// Since when it is being deleted.
    pub deleting_since: Option<Timestamp>,
    /// A foreground deletion still waits for its pods to go.
    pub awaits_pods: bool,
    /// Our finalizer is on it.
    pub held: bool,
    /// How it ended.
    pub end: Option<JobEnd>,
    /// When a failure was noticed; the remaining pods are being ended since then.
    pub failing_since: Option<Timestamp>,
    /// Members that ended well.
    pub succeeded: u32,
    /// Pods that failed.
    pub failed: u32,
    /// Indexes of the members that ended well, as inclusive ranges.
    pub completed: Vec<(u32, u32)>,
}

/// How a Job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEnd {
    /// All indexes succeeded.
    Complete {
        /// When.
        at: Option<Timestamp>,
    },
    /// It failed, and starts no more pods.
    Failed {
        /// When it was over.
        at: Option<Timestamp>,
        /// When the failure was noticed, before the other pods were ended.
        noticed: Option<Timestamp>,
        /// The Job controller's reason and sentence.
        why: String,
    },
}

impl JobFacts {
    /// Reads a Job.
    pub fn of(job: &Job) -> Self {
        let metadata = &job.metadata;
        let status = job.status.as_ref();
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let count = |value: Option<i32>| value.and_then(|value| u32::try_from(value).ok()).unwrap_or(0);
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            owner_uid: owner.map(|owner| owner.uid.clone()),
            resource_version: metadata.resource_version.clone(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            suspended: job.spec.as_ref().and_then(|spec| spec.suspend).unwrap_or(false),
            told: metadata.annotations.as_ref().is_some_and(|all| all.contains_key(TOLD_ANNOTATION)),
            // A failed Job never gets the condition `Suspended`, and gets `Failed` only after its last pod is
            // gone.
            is_idle: ["Suspended", "FailureTarget"].iter().any(|type_| condition(job, type_).is_some())
                && count(status.and_then(|status| status.active)) == 0,
            terminating: count(status.and_then(|status| status.terminating)),
            deleting_since: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            awaits_pods: finalizers.iter().any(|finalizer| finalizer == "foregroundDeletion"),
            held: finalizers.iter().any(|finalizer| finalizer == RUN_FINALIZER),
            end: end(job),
            failing_since: condition(job, "FailureTarget").and_then(since),
            succeeded: count(status.and_then(|status| status.succeeded)),
            failed: count(status.and_then(|status| status.failed)),
            completed: status
                .and_then(|status| status.completed_indexes.as_deref())
                .map(ranges)
                .unwrap_or_default(),
        }
    }

    /// Whether the member with this index ended well.
    pub fn has_completed(&self, index: u32) -> bool {
        self.completed.iter().any(|(first, last)| (*first..=*last).contains(&index))
    }
}

fn end(job: &Job) -> Option<JobEnd> {
    let status = job.status.as_ref()?;
    if let Some(complete) = condition(job, "Complete") {
        let at = status.completion_time.as_ref().map(|time| time.0).or_else(|| since(complete));
        return Some(JobEnd::Complete { at });
    }
    let failed = condition(job, "Failed")?;
    let noticed = condition(job, "FailureTarget").and_then(since).or_else(|| since(failed));
    let reason = failed.reason.as_deref().unwrap_or("Failed");
    let why = match failed.message.as_deref() {
        Some(message) if !message.is_empty() => format!("{reason}: {message}"),
        _ => reason.to_owned(),
    };
    Some(JobEnd::Failed { at: since(failed), noticed, why })
}

fn condition<'job>(job: &'job Job, type_: &str) -> Option<&'job JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

fn since(condition: &JobCondition) -> Option<Timestamp> {
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// Reads `1,3-5,7`; anything else is left out. At most 10,000 members, so at most 5,000 ranges.
fn ranges(text: &str) -> Vec<(u32, u32)> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    text.split(',').filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{JobFacts, ranges};

    #[test]
    fn a_job_is_idle_when_it_starts_nothing_more_also_if_it_has_failed_first() {
        let idle = |type_: &str, active: u32| {
            let condition = json!({ "type": type_, "status": "True" });
            let status = json!({ "active": active, "terminating": 1, "conditions": [condition] });
            let job = json!({ "metadata": { "name": "j" }, "status": status });
            JobFacts::of(&serde_json::from_value(job).unwrap()).is_idle
        };
        assert!(idle("Suspended", 0) && idle("FailureTarget", 0));
        assert!(!idle("Suspended", 1) && !idle("FailureTarget", 1) && !idle("Other", 0));
    }

    #[test]
    fn completed_indexes_are_read_as_ranges() {
        assert_eq!(ranges("1,3-5,7"), [(1, 1), (3, 5), (7, 7)]);
        assert_eq!(ranges(""), []);
        assert_eq!(ranges("x,2"), [(2, 2)]);
    }
}
