//! The next step in a Run's life, from the objects alone.
//!
//! ```text
//!   no finalizer ─► AddFinalizer ─► RecordAttempt ─► CreateChildren ─► RecordJob ─► ResumeJob ─► Follow …
//!                                ┌► (in status)      (Job suspended)   (its UID)                   │
//!                                │                                                                 │
//!                                │   something interrupts it: RecordTold ─► SuspendJob ─► Follow ◄─┤
//!                                │                            (in status)   (members are told)  │  │
//!                                │                                 Job ended, deleted, or ◄─────┴──┘
//!                                │                                 spec.stop and pods over
//!                    ReleaseAttempt ◄─ Conclude, another attempt follows ◄─┤
//!   Rest ◄─ ReleaseJob (finalizer off, Service gone) ◄─ Conclude, over ◄───┘
//! ```
//!
//! **Attempts never overlap.** The next attempt is recorded only after the end of the last one. That end is
//! recorded only when none of its pods runs any more, or when the machines of those that may still run have
//! been silent for longer than the grace period.
//!
//! **The order to leave is final.** The status says that the members must go before they are told, and the Job
//! says so from then on: a leader with an old cache cannot let it start again.
//!
//! **Nothing runs twice.** A Job starts pods only after [`Step::ResumeJob`], which needs its UID in the Run's status,
//! and every write of status carries the resource version it was decided from. So of two leaders, or of a leader
//! with an old cache, at most one gets its Job's UID recorded; a second Job stays suspended and is discarded.
//! From then on a missing Job can only mean that it was deleted. A Job that is missing *before* its UID was
//! recorded never had a pod, so it is safe to create it again: the process crashed between two steps.
//!
//! **No end is missed.** Our finalizer keeps a deleted Job readable until its outcome is in the Run's status.

use api_types::names::RUN_FINALIZER;
use api_types::run::Attempt;
use api_types::{Run, RunPhase};
use jiff::Timestamp;

use super::interruption::{self, Interruption, interruption};
use super::job::{JobEnd, JobFacts};
use super::sight::{Sight, World};
use super::validate::Invalid;

/// The next step. Each is one write or a few idempotent ones; after it, everything is decided anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Put our finalizer on the Run.
    AddFinalizer,
    /// Write the next attempt into the Run's status.
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
    /// Write into the Run's status that the attempt has to end.
    RecordTold(Interruption),
    /// Suspend the Job, which tells all its members to save and leave.
    SuspendJob,
    /// Delete the Job, pods first, because the user stopped the Run.
    DeleteJob,
    /// Delete a Job that lost the race for the attempt; it never started anything.
    DiscardJob {
        /// The Job's UID.
        uid: String,
    },
    /// A Job that is being deleted has the name: look again later.
    AwaitName,
    /// Write the present state into the Run's status.
    Follow,
    /// Write the end into the Run's status.
    Conclude(Conclusion),
    /// The end is recorded: release the Job and delete the Service.
    ReleaseJob,
    /// The end is recorded and another attempt follows: release the Job and delete the Service. The Job of an
    /// interrupted attempt is deleted too, because its pods are not needed any more.
    ReleaseAttempt,
    /// Write that the Run is paused.
    Pause,
    /// The next attempt is not due yet.
    AwaitDue,
    /// Nothing to do, ever again.
    Rest,
}

/// How an attempt ended, before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// The Job completed.
    Succeeded {
        /// When.
        at: Option<Timestamp>,
    },
    /// The Job failed; the pods show which member did.
    Failed {
        /// When.
        at: Option<Timestamp>,
        /// The Job controller's reason, in case no pod is left.
        why: String,
    },
    /// The Job was deleted from outside.
    Deleted {
        /// When, if the Job still showed it.
        at: Option<Timestamp>,
    },
    /// The user stopped the Run.
    Stopped,
    /// It was ended from outside, and another attempt follows.
    Interrupted(Interruption),
    /// It could not even start.
    Refused {
        /// The reason for the status.
        reason: String,
        /// The sentence for the status.
        message: String,
    },
}

impl From<&Invalid> for Conclusion {
    fn from(invalid: &Invalid) -> Self {
        Self::Refused { reason: invalid.reason().to_owned(), message: invalid.to_string() }
    }
}

/// Decides for a Run that is not being deleted. The Job in `sight` is the one with the attempt's name; it is
/// `None` only if a live read found none, or if the attempt is over.
pub fn next(sight: Sight<'_>, validity: Result<(), &Invalid>, world: &World<'_>) -> Step {
    let (run, job) = (sight.run, sight.job);
    let status = run.status.as_ref();
    let over = status.is_some_and(|status| status.phase.is_final());
    match sight.attempt() {
        Some(attempt) if over => after(attempt, sight, world),
        None if over => Step::Rest,
        Some(attempt) if attempt.outcome.is_some() => between(attempt, sight, world),
        Some(attempt) if attempt.job_uid.is_some() => during(attempt, sight, world),
        _ if run.spec.stop && !job.is_some_and(|job| is_ours(run, job)) => {
            Step::Conclude(Conclusion::Stopped)
        }
        recorded => match validity {
            Err(invalid) => Step::Conclude(invalid.into()),
            Ok(()) if !has_finalizer(run) => Step::AddFinalizer,
            Ok(()) if recorded.is_none() && run.spec.pause => pause(run),
            Ok(()) if recorded.is_none() => Step::RecordAttempt,
            Ok(()) => before(sight),
        },
    }
}

/// The step while the attempt is recorded and its Job is not.
fn before(sight: Sight<'_>) -> Step {
    let Some(job) = sight.job else {
        let requested = interruption::requested(sight);
        return requested
            .map_or(Step::CreateChildren, |asked| Step::Conclude(Conclusion::Interrupted(asked)));
    };
    if is_ours(sight.run, job) {
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

/// The step while the attempt's Job is recorded and its outcome is not.
fn during(attempt: &Attempt, sight: Sight<'_>, world: &World<'_>) -> Step {
    let run = sight.run;
    let taken_away = |at| match told(attempt) {
        _ if run.spec.stop => Step::Conclude(Conclusion::Stopped),
        Some(told) if sight.is_over(world) => Step::Conclude(Conclusion::Interrupted(told)),
        Some(_) => Step::Follow,
        None => Step::Conclude(Conclusion::Deleted { at }),
    };
    let Some(job) = sight.job else { return taken_away(None) };
    if attempt.job_uid.as_deref() != Some(&job.uid) {
        // Another Job has the name, so ours is gone.
        let stray = is_ours(run, job) && job.deleting_since.is_none();
        return if stray { Step::DiscardJob { uid: job.uid.clone() } } else { taken_away(None) };
    }
    match (&job.end, job.deleting_since) {
        (Some(JobEnd::Complete { at }), _) => Step::Conclude(Conclusion::Succeeded { at: *at }),
        // Pods that are deleted with their Job make it fail; that is not the run's own end.
        (Some(JobEnd::Failed { noticed, .. }), Some(deleted))
            if noticed.is_some_and(|noticed| noticed > deleted) =>
        {
            taken_away(Some(deleted))
        }
        (Some(JobEnd::Failed { at, why, .. }), _) => Step::Conclude(match told(attempt) {
            _ if run.spec.stop => Conclusion::Stopped,
            Some(told) => Conclusion::Interrupted(told),
            None => Conclusion::Failed { at: *at, why: why.clone() },
        }),
        // Ended pods stay while they have a finalizer, such as the meter's; we do not wait for those.
        (None, Some(_)) if run.spec.stop && job.awaits_pods && !is_stopped(sight, world) => Step::Follow,
        (None, Some(deleted)) => taken_away(Some(deleted)),
        (None, None) if run.spec.stop => Step::DeleteJob,
        (None, None) => going_on(attempt, job, sight, world),
    }
}

/// The step while the Job exists and has not ended.
fn going_on(attempt: &Attempt, job: &JobFacts, sight: Sight<'_>, world: &World<'_>) -> Step {
    match told(attempt) {
        Some(_) if !job.told => Step::SuspendJob,
        Some(told) if sight.is_over(world) => Step::Conclude(Conclusion::Interrupted(told)),
        Some(_) => Step::Follow,
        None => match interruption(sight, world) {
            Some(interruption) => Step::RecordTold(interruption),
            // Another leader told it to end; its record will come.
            None if job.told => Step::Follow,
            None if job.suspended => Step::ResumeJob,
            None => Step::Follow,
        },
    }
}

/// The step while the attempt is over and the Run is not.
fn between(attempt: &Attempt, sight: Sight<'_>, world: &World<'_>) -> Step {
    let run = sight.run;
    if let Some(job) = sight.job
        && is_ours(run, job)
        && job.held
    {
        let is_the_attempts = attempt.job_uid.as_deref() == Some(&job.uid);
        return if is_the_attempts {
            Step::ReleaseAttempt
        } else {
            Step::DiscardJob { uid: job.uid.clone() }
        };
    }
    let due = run.status.as_ref().and_then(|status| status.next_attempt_at.as_ref());
    match due {
        _ if run.spec.stop => Step::Conclude(Conclusion::Stopped),
        _ if run.spec.pause => pause(run),
        // A requested attempt begins at once.
        Some(due) if due.0 > world.now && interruption::requested(sight).is_none() => Step::AwaitDue,
        _ => Step::RecordAttempt,
    }
}

fn pause(run: &Run) -> Step {
    let is_said = run.status.as_ref().is_some_and(|status| status.phase == RunPhase::Paused);
    if is_said { Step::Rest } else { Step::Pause }
}

/// The step after the outcome is recorded and the Run is over.
fn after(attempt: &Attempt, sight: Sight<'_>, world: &World<'_>) -> Step {
    let run = sight.run;
    match sight.job {
        Some(job) if attempt.job_uid.as_deref() == Some(&job.uid) && job.held => Step::ReleaseJob,
        Some(job) if attempt.job_uid.as_deref() != Some(&job.uid) && is_ours(run, job) && job.held => {
            Step::DiscardJob { uid: job.uid.clone() }
        }
        // Members of a Job that a user deleted have their grace period.
        _ if is_retried(run) && !sight.members_are_gone(world) => Step::AwaitDue,
        _ if is_retried(run) => Step::RecordAttempt,
        _ => Step::Rest,
    }
}

/// Whether a failed Run is to be tried again on request.
pub fn is_retried(run: &Run) -> bool {
    let Some(status) = &run.status else { return false };
    status.phase == RunPhase::Failed && run.spec.restarts > status.restarts && !run.spec.stop
}

/// Why the attempt was told to end, if it was.
fn told(attempt: &Attempt) -> Option<Interruption> {
    attempt.told_at.as_ref()?;
    Some(Interruption {
        reason: attempt.reason.clone().unwrap_or_default(),
        message: attempt.message.clone().unwrap_or_default(),
    })
}

/// Whether all seen pods of the Job are gone. If none was seen, they may still come.
fn is_stopped(sight: Sight<'_>, world: &World<'_>) -> bool {
    sight.own_pods().next().is_some() && sight.members_are_gone(world)
}

/// Whether this Run controls the Job.
pub fn is_ours(run: &Run, job: &JobFacts) -> bool {
    job.owner_uid.is_some() && job.owner_uid == run.metadata.uid
}

fn has_finalizer(run: &Run) -> bool {
    run.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == RUN_FINALIZER)
}

#[cfg(test)]
mod tests;
