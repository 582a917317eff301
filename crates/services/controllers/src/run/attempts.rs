//! The attempts in a Run's status: begins one, tells it to end, closes it, and decides what its end means for
//! the Run.

use api_types::run::{Attempt, AttemptOutcome};
use api_types::{Run, RunPhase, RunStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::backoff;
use super::build::AttemptNames;
use super::cause::{Interruption, Verdict};
use super::decide::Conclusion;
use super::failure::{self, TIME_LIMIT};
use super::sight::Sight;
use super::starting;
use crate::nodes::NodesByName;

/// Attempts that are kept in the status, about 400 bytes each; older ones are dropped, and numbers go on.
const KEPT_MAX: usize = 64;

/// What the end of an attempt means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The outcome to record; `None` if the end was recorded before.
    pub outcome: Option<AttemptOutcome>,
    /// The reason and its sentence; `None` if all went well.
    pub why: Option<Interruption>,
    /// When it ended, if that is known.
    pub at: Option<Timestamp>,
    /// The Run's last phase; `None` if another attempt follows.
    pub over: Option<RunPhase>,
}

/// The status with the next attempt, of `members` members: written before any child is created.
pub fn begin(run: &Run, members: u32) -> RunStatus {
    let mut status = run.status.clone().unwrap_or_default();
    let is_asked = run.spec.restarts > status.restarts || status.attempts.is_empty();
    let number = status.attempts.last().map_or(0, |attempt| attempt.number) + 1;
    let names = AttemptNames::of(run.metadata.name.as_deref().unwrap_or_default(), number);
    status.attempts.push(Attempt {
        number,
        job_name: names.job,
        members,
        resume_step: if is_asked { run.spec.resume_step } else { not_followed(&status) },
        ..Attempt::default()
    });
    let extra = status.attempts.len().saturating_sub(KEPT_MAX);
    status.attempts.drain(..extra);
    if is_asked {
        status.failures = 0;
    }
    status.restarts = run.spec.restarts;
    (status.next_attempt_at, status.finished_at) = (None, None);
    status
}

/// An attempt that ended sooner may not have loaded anything yet: importing a large framework alone takes a
/// minute.
const MAY_NOT_HAVE_LOADED_SECONDS: i64 = 120;

/// The step that the last attempt was asked to begin from, if it ended before it did so. An attempt that
/// reports nothing but ran long enough counts as having loaded it, so that its later work is not thrown away.
fn not_followed(status: &RunStatus) -> Option<i64> {
    let last = status.attempts.last()?;
    let mut loads = status.progress.iter().flat_map(|progress| &progress.loads);
    let has_loaded = loads.any(|load| load.attempt == last.number);
    let is_short = backoff::run_seconds(last) < MAY_NOT_HAVE_LOADED_SECONDS;
    last.resume_step.filter(|_| is_short && !has_loaded)
}

/// The status that says why the attempt has to end: written before its members are told.
pub fn tell(run: &Run, interruption: &Interruption, now: Timestamp) -> RunStatus {
    let mut status = run.status.clone().unwrap_or_default();
    if let Some(attempt) = status.attempts.last_mut() {
        attempt.told_at = Some(Time(now));
        attempt.reason = Some(interruption.reason.clone());
        attempt.message = Some(interruption.message.clone());
    }
    status.reason = Some(interruption.reason.clone());
    status.message = Some(interruption.message.clone());
    status
}

/// What the end of the last attempt means for the Run, without its time limit.
pub fn ending(sight: Sight<'_>, conclusion: &Conclusion, nodes: &NodesByName) -> Ending {
    let over = |outcome, why, at, phase| Ending { outcome: Some(outcome), why, at, over: Some(phase) };
    match conclusion {
        Conclusion::Succeeded { at } => over(AttemptOutcome::Succeeded, None, *at, RunPhase::Succeeded),
        Conclusion::Deleted { at } => {
            over(AttemptOutcome::Deleted, Some(deleted(sight)), *at, RunPhase::Failed)
        }
        Conclusion::Stopped => {
            let why = Interruption::new("StoppedByUser", "stopped on request");
            let is_open = sight.attempt().is_some_and(|attempt| attempt.outcome.is_none());
            Ending {
                outcome: is_open.then_some(AttemptOutcome::Stopped),
                why: Some(why),
                at: None,
                over: Some(RunPhase::Stopped),
            }
        }
        Conclusion::Refused { reason, message } => {
            let why = Interruption::new(reason, message.clone());
            over(AttemptOutcome::Failed, Some(why), None, RunPhase::Failed)
        }
        Conclusion::Interrupted(why) => judged(sight, starting::judge(sight, why.clone()), None),
        Conclusion::Failed { at, why } => judged(sight, failure::judge(sight, nodes, why), *at),
    }
}

fn judged(sight: Sight<'_>, verdict: Verdict, at: Option<Timestamp>) -> Ending {
    let (outcome, why, over) = match verdict {
        Verdict::Interrupted(why) => (AttemptOutcome::Interrupted, why, None),
        Verdict::Final(why) => (AttemptOutcome::Failed, why, Some(RunPhase::Failed)),
        Verdict::Failed(why) => {
            let failures = sight.run.status.as_ref().map_or(0, |status| status.failures);
            let phase = (failures >= sight.run.spec.retries).then_some(RunPhase::Failed);
            (AttemptOutcome::Failed, why, phase)
        }
    };
    Ending { outcome: Some(outcome), why: Some(why), at, over }
}

/// Closes the last attempt, and adds its run time. Returns what its end means, with the time limit.
pub fn close(sight: Sight<'_>, ending: Ending, now: Timestamp) -> (RunStatus, Ending) {
    let mut status = sight.run.status.clone().unwrap_or_default();
    let Some(outcome) = ending.outcome else { return (status, ending) };
    let (started, ended) = (started_at(sight), ended_at(sight));
    if let Some(attempt) = status.attempts.last_mut() {
        attempt.outcome = Some(outcome);
        attempt.reason = ending.why.as_ref().map(|why| why.reason.clone());
        attempt.message = ending.why.as_ref().map(|why| why.message.clone());
        attempt.started_at = started.map(Time);
        attempt.ended_at = Some(Time(ended.or(ending.at).unwrap_or(now)));
        status.used_seconds = status.used_seconds.saturating_add(backoff::run_seconds(attempt));
    }
    if outcome == AttemptOutcome::Failed {
        status.failures = status.failures.saturating_add(1);
    }
    if ending.over.is_some() {
        return (status, ending);
    }
    let ending = within_time(sight, &status, ending);
    if ending.over.is_none() {
        let delay = backoff::delay(&status);
        status.next_attempt_at = (!delay.is_zero()).then(|| Time(now + delay));
    }
    (status, ending)
}

/// Applies the time limit, which covers all attempts together.
fn within_time(sight: Sight<'_>, status: &RunStatus, ending: Ending) -> Ending {
    let Some(limit) = sight.run.spec.time_limit_seconds.filter(|limit| *limit <= status.used_seconds) else {
        return ending;
    };
    let attempts = status.attempts.last().map_or(0, |attempt| attempt.number);
    let sentence = format!("its time limit of {limit} s is used up, in {attempts} attempts");
    let why = Some(Interruption::new(TIME_LIMIT, sentence));
    Ending { why, over: Some(RunPhase::Failed), ..ending }
}

/// The rest of the Run's time limit, for an attempt that begins.
pub fn time_left(run: &Run) -> Option<i64> {
    let used = run.status.as_ref().map_or(0, |status| status.used_seconds);
    run.spec.time_limit_seconds.map(|limit| (limit - used).max(1))
}

/// The earliest start of a member of the last attempt that was ever seen.
pub fn started_at(sight: Sight<'_>) -> Option<Timestamp> {
    let known = sight.attempt().and_then(|attempt| attempt.started_at.as_ref()).map(|time| time.0);
    sight.own_pods().filter_map(|pod| pod.started_at).chain(known).min()
}

/// The latest end of a member of the last attempt that was ever seen.
pub fn ended_at(sight: Sight<'_>) -> Option<Timestamp> {
    let known = sight.attempt().and_then(|attempt| attempt.ended_at.as_ref()).map(|time| time.0);
    sight.own_pods().filter_map(|pod| pod.exit.as_ref()?.at).chain(known).max()
}

fn deleted(sight: Sight<'_>) -> Interruption {
    let job = sight.attempt().map_or("", |attempt| attempt.job_name.as_str());
    let sentence = format!("Job {job} was deleted from outside before it ended; it is not started again");
    Interruption::new("JobDeleted", sentence)
}

#[cfg(test)]
mod tests;
