//! What decisions read of a Job: parsed once, so that the rest is about runs and not about conditions.

use api_types::names::RUN_FINALIZER;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition};

/// A Job of an attempt, as last seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobFacts {
    /// Its UID.
    pub uid: String,
    /// The UID of the object that controls it.
    pub owner_uid: Option<String>,
    /// It starts no pods yet.
    pub suspended: bool,
    /// Somebody asked to delete it, then.
    pub deleting_since: Option<Timestamp>,
    /// A foreground deletion still waits for its pods to go.
    pub awaits_pods: bool,
    /// Our finalizer is on it.
    pub held: bool,
    /// How it ended.
    pub end: Option<JobEnd>,
    /// When a failure was noticed; the pods left are being ended since.
    pub failing_since: Option<Timestamp>,
    /// Members that ended well.
    pub succeeded: u32,
    /// Pods that ended otherwise.
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
    /// It failed, and will start nothing more.
    Failed {
        /// When it was over.
        at: Option<Timestamp>,
        /// When the failure was noticed, before the other pods were ended.
        noticed: Option<Timestamp>,
        /// The Job controller's word and sentence.
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
            suspended: job.spec.as_ref().and_then(|spec| spec.suspend).unwrap_or(false),
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

/// Reads `1,3-5,7`; what is not a range is left out. At most 10,000 members, so at most 5,000 ranges.
fn ranges(text: &str) -> Vec<(u32, u32)> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    text.split(',').filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn completed_indexes_are_read_as_ranges() {
        assert_eq!(ranges("1,3-5,7"), [(1, 1), (3, 5), (7, 7)]);
        assert_eq!(ranges(""), []);
        assert_eq!(ranges("x,2"), [(2, 2)]);
    }
}
