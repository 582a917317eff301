//! The next step in a Run's life, from the objects alone.
//!
//! ```text
//!   no finalizer ─► AddFinalizer ─► RecordAttempt ─► CreateChildren ─► RecordJob ─► ResumeJob ─► Follow …
//!                                   (in status)      (Job suspended)   (its UID)                   │
//!                                                                        Job ended, deleted, or ◄──┘
//!                                                                        spec.stop and pods over
//!   Rest ◄─ ReleaseJob (finalizer off, Service gone) ◄─ Conclude (outcome in status) ◄─┘
//! ```
//!
//! **Nothing runs twice.** A Job starts pods only after [`Step::ResumeJob`], which needs its UID in the Run's status,
//! and every write of status carries the resource version it was decided from. So of two leaders, or of a leader
//! with an old cache, at most one gets its Job's UID recorded; a second Job stays suspended and is discarded. From
//! then on a missing Job can only mean that it was deleted. A Job that is missing *before* its UID was recorded never
//! had a pod, so creating it (again) is safe: that is the crash between two steps.
//!
//! **No end is missed.** Our finalizer keeps a deleted Job readable until its outcome is in the Run's status.

use api_types::Run;
use api_types::names::RUN_FINALIZER;
use api_types::run::{Attempt, AttemptOutcome};
use jiff::Timestamp;

use super::job::{JobEnd, JobFacts};
use super::validate::Invalid;

/// What to do next. Each step is one write or a few idempotent ones; after it, everything is looked at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Put our finalizer on the Run.
    AddFinalizer,
    /// Write attempt 1 into the Run's status.
    RecordAttempt,
    /// Create the attempt's Service and its suspended Job.
    CreateChildren,
    /// Write the Job's UID into the Run's status.
    RecordJob {
        /// The Job's UID.
        uid: String,
    },
    /// Let the Job start its pods.
    ResumeJob,
    /// Delete the Job, pods first, because the user asked to stop.
    DeleteJob,
    /// Delete a Job that lost the race for the attempt; it never started anything.
    DiscardJob {
        /// The Job's UID.
        uid: String,
    },
    /// The name is held by a Job that is going away: look again later.
    AwaitName,
    /// Write what goes on into the Run's status.
    Follow,
    /// Write the end into the Run's status.
    Conclude(Conclusion),
    /// The end is recorded: let go of the Job and delete the Service.
    ReleaseJob,
    /// Nothing to do, ever again.
    Rest,
}

/// How a Run ended, before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// The Job completed.
    Succeeded {
        /// When.
        at: Option<Timestamp>,
    },
    /// The Job failed; which member did is read from the pods.
    Failed {
        /// When.
        at: Option<Timestamp>,
        /// The Job controller's word, for when no pod is left to tell.
        why: String,
    },
    /// The Job was deleted from outside.
    Deleted {
        /// When, if the Job was there to say so.
        at: Option<Timestamp>,
    },
    /// The user asked.
    Stopped,
    /// It could not even start.
    Refused {
        /// The status's word.
        reason: String,
        /// The status's sentence.
        message: String,
    },
}

impl Conclusion {
    /// How the attempt is recorded.
    pub fn outcome(&self) -> AttemptOutcome {
        match self {
            Self::Succeeded { .. } => AttemptOutcome::Succeeded,
            Self::Failed { .. } | Self::Refused { .. } => AttemptOutcome::Failed,
            Self::Deleted { .. } => AttemptOutcome::Deleted,
            Self::Stopped => AttemptOutcome::Stopped,
        }
    }
}

impl From<&Invalid> for Conclusion {
    fn from(invalid: &Invalid) -> Self {
        Self::Refused { reason: invalid.reason().to_owned(), message: invalid.to_string() }
    }
}

/// Decides for a Run that is not being deleted. `job` is the Job of that name; `None` only if a live read said so,
/// or if the attempt is over.
/// `members_are_over` says whether nothing of the Job runs any more, also while its pods are still there.
pub fn next(
    run: &Run,
    validity: Result<(), &Invalid>,
    job: Option<&JobFacts>,
    members_are_over: impl FnOnce() -> bool,
) -> Step {
    let status = run.status.as_ref();
    let over = status.is_some_and(|status| status.phase.is_final());
    match status.and_then(|status| status.attempts.last()) {
        Some(attempt) if over => after(attempt, run, job),
        None if over => Step::Rest,
        Some(attempt) if attempt.job_uid.is_some() => during(attempt, run, job, members_are_over),
        _ if run.spec.stop && !job.is_some_and(|job| is_ours(run, job)) => {
            Step::Conclude(Conclusion::Stopped)
        }
        recorded => match validity {
            Err(invalid) => Step::Conclude(invalid.into()),
            Ok(()) if !has_finalizer(run) => Step::AddFinalizer,
            Ok(()) if recorded.is_none() => Step::RecordAttempt,
            Ok(()) => before(run, job),
        },
    }
}

/// The attempt is recorded, its Job is not.
fn before(run: &Run, job: Option<&JobFacts>) -> Step {
    let Some(job) = job else { return Step::CreateChildren };
    if is_ours(run, job) {
        return Step::RecordJob { uid: job.uid.clone() };
    }
    if job.deleting_since.is_some() {
        return Step::AwaitName;
    }
    Step::Conclude(Conclusion::Refused {
        reason: "NameTaken".to_owned(),
        message: "a Job of the name this run needs exists and is not this run's: delete it, or submit the run under another name".to_owned(),
    })
}

/// The attempt's Job is recorded, its outcome is not.
fn during(
    attempt: &Attempt,
    run: &Run,
    job: Option<&JobFacts>,
    members_are_over: impl FnOnce() -> bool,
) -> Step {
    let taken_away = |at| if run.spec.stop { Conclusion::Stopped } else { Conclusion::Deleted { at } };
    let Some(job) = job else { return Step::Conclude(taken_away(None)) };
    if attempt.job_uid.as_deref() != Some(&job.uid) {
        // Another Job has the name, so ours is gone.
        let stray = is_ours(run, job) && job.deleting_since.is_none();
        return if stray {
            Step::DiscardJob { uid: job.uid.clone() }
        } else {
            Step::Conclude(taken_away(None))
        };
    }
    match (&job.end, job.deleting_since) {
        (Some(JobEnd::Complete { at }), _) => Step::Conclude(Conclusion::Succeeded { at: *at }),
        // Pods that die because their Job is deleted make it fail; that is not how the run ended.
        (Some(JobEnd::Failed { noticed, .. }), Some(deleted))
            if noticed.is_some_and(|noticed| noticed > deleted) =>
        {
            Step::Conclude(taken_away(Some(deleted)))
        }
        (Some(JobEnd::Failed { at, why, .. }), _) => {
            Step::Conclude(Conclusion::Failed { at: *at, why: why.clone() })
        }
        // Pods that are over stay while somebody's finalizer is on them, such as the meter's: nobody waits for those.
        (None, Some(_)) if run.spec.stop && job.awaits_pods && !members_are_over() => Step::Follow,
        (None, Some(deleted)) => Step::Conclude(taken_away(Some(deleted))),
        (None, None) if run.spec.stop => Step::DeleteJob,
        (None, None) if job.suspended => Step::ResumeJob,
        (None, None) => Step::Follow,
    }
}

/// The outcome is recorded.
fn after(attempt: &Attempt, run: &Run, job: Option<&JobFacts>) -> Step {
    match job {
        Some(job) if attempt.job_uid.as_deref() == Some(&job.uid) && job.held => Step::ReleaseJob,
        Some(job) if attempt.job_uid.as_deref() != Some(&job.uid) && is_ours(run, job) && job.held => {
            Step::DiscardJob { uid: job.uid.clone() }
        }
        _ => Step::Rest,
    }
}

/// Whether this very Run controls the Job.
pub fn is_ours(run: &Run, job: &JobFacts) -> bool {
    job.owner_uid.is_some() && job.owner_uid == run.metadata.uid
}

fn has_finalizer(run: &Run) -> bool {
    run.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == RUN_FINALIZER)
}

#[cfg(test)]
mod tests;
