//! A Run's status, computed purely from the Run, its Job and its pods. `waiting` belongs to the scheduler and
//! is only read.
//!
//! | what is seen                                   | phase                      | reason                                |
//! |------------------------------------------------|----------------------------|---------------------------------------|
//! | some member has no node                        | Pending                    | the scheduler's first, or `PodsMissing` |
//! | … after all had one                            | Pending                    | `MemberLost`                          |
//! | … because the scheduler took it away           | as before, then Pending    | `Preempted`, `Unwound`                |
//! | all members have nodes, not all run            | Starting                   | the first trouble, as `ImagePullBackOff` |
//! | all run, or have ended well                    | Running                    |                                       |
//! | a member failed, the others are being ended    | Running, or as before      | `MemberFailed`, `OutOfMemory`, `TimeLimitExceeded` |
//! | `spec.stop`, pods still going                  | Running, or as before      | `Stopping`                            |
//! | the Job cannot be created (yet)                | Pending                    | `CannotCreate`                        |
//! | Job complete                                   | Succeeded                  |                                       |
//! | Job failed                                     | Failed                     | `MemberFailed`, `OutOfMemory`, `TimeLimitExceeded`, `JobFailed` |
//! | members did not start (see `starting.rs`)      | Failed, or as between attempts | `ImageNotFound`, …, `StartDeadlineExceeded` |
//! | Job deleted from outside                       | Failed                     | `JobDeleted`                          |
//! | cannot be built, or the API server refuses it  | Failed                     | `InvalidName`, …, `Refused`, `NameTaken` |
//! | `spec.stop`, pods gone                         | Stopped                    | `StoppedByUser`                       |
//! | members were told to save and leave            | Running, or as before      | why, as `SpotNotice`                  |
//! | … and are over, another attempt follows        | Pending                    | the same                              |
//! | `spec.pause`, pods gone                        | Paused                     | `Paused`                              |

use std::collections::BTreeMap;

use api_types::conditions::{self, Observed};
use api_types::run::{MemberCounts, Reason};
use api_types::{Run, RunPhase, RunStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::attempts::{self, Ending};
use super::decide::Conclusion;
use super::failure::first_failure;
use super::interruption::Interruption;
use super::member::{Member, PodPhase};
use super::sight::Sight;
use super::starting;
use crate::nodes::NodesByName;

const MEMBER_LOST: &str = "MemberLost";
const PREEMPTED: &str = "Preempted";
const UNWOUND: &str = "Unwound";
const MOVED: &str = "Moved";

/// The status with the next attempt, of `members` members: written before any child is created.
pub fn with_attempt(run: &Run, members: u32, now: Timestamp) -> RunStatus {
    let mut run = run.clone();
    let mut status = attempts::begin(&run, members);
    // The last attempt had its nodes; this one has none yet.
    status.conditions.retain(|condition| condition.type_ != conditions::run::SCHEDULED);
    run.status = Some(status);
    follow(Sight { run: &run, job: None, pods: &[] }, now)
}

/// The status of a paused Run, which holds nothing.
pub fn paused(run: &Run, now: Timestamp) -> RunStatus {
    let old = run.status.clone().unwrap_or_default();
    let why = Interruption::new("Paused", "paused on request: `warpyard resume` continues it");
    waits_for_next(run, old, &why, RunPhase::Paused, now)
}

/// The status with the last attempt's Job recorded: written before the Job may start anything.
pub fn with_job(run: &Run, uid: &str) -> RunStatus {
    let mut status = run.status.clone().unwrap_or_default();
    if let Some(attempt) = status.attempts.last_mut() {
        attempt.job_uid = Some(uid.to_owned());
    }
    status
}

/// The same status, for a newer generation of a Run that is over.
pub fn acknowledged(run: &Run) -> RunStatus {
    let mut status = run.status.clone().unwrap_or_default();
    status.observed_generation = run.metadata.generation;
    status
}

/// The status while the API server refuses to create the children, for a reason that may pass.
pub fn cannot_create(run: &Run, message: String) -> RunStatus {
    RunStatus {
        reason: Some("CannotCreate".to_owned()),
        message: Some(message),
        ..run.status.clone().unwrap_or_default()
    }
}

/// The status of a running attempt.
pub fn follow(sight: Sight<'_>, now: Timestamp) -> RunStatus {
    let old = sight.run.status.clone().unwrap_or_default();
    let members = sight.current_members();
    let counts = count(sight, &members);
    let phase = match counts {
        MemberCounts { waiting: 1.., .. } => RunPhase::Pending,
        MemberCounts { starting: 1.., .. } => RunPhase::Starting,
        _ => RunPhase::Running,
    };
    let why = why(sight, &members, phase);
    let scheduled = if phase == RunPhase::Pending && is_ending(sight) {
        as_before(&old)
    } else if phase == RunPhase::Pending {
        let (reason, message) =
            why.clone().unwrap_or(("Waiting".to_owned(), "not all members have a node".to_owned()));
        Observed { type_: conditions::run::SCHEDULED, holds: false, reason, message }
    } else {
        placed(sight)
    };
    let observed = vec![scheduled, unfinished()];
    let (reason, message) = why.unzip();
    let is_lost = reason.as_deref() == Some(MEMBER_LOST);
    let mut attempts = old.attempts.clone();
    if let Some(attempt) = attempts.last_mut() {
        attempt.started_at = attempts::started_at(sight).map(Time);
        attempt.ended_at = attempts::ended_at(sight).map(Time);
    }
    RunStatus {
        observed_generation: sight.run.metadata.generation,
        phase,
        reason,
        message,
        attempts,
        members: counts,
        lost_member: is_lost.then(|| lost_member(sight, &members)).flatten(),
        started_at: started_at(sight, &old),
        finished_at: None,
        conditions: merge(sight.run, &old, observed, now),
        ..old
    }
}

/// The status after an attempt has ended: of a Run that is over, or that waits for its next attempt.
pub fn conclude(sight: Sight<'_>, conclusion: &Conclusion, nodes: &NodesByName, now: Timestamp) -> RunStatus {
    let ending = attempts::ending(sight, conclusion, nodes);
    let (status, ending) = attempts::close(sight, ending, now);
    match (ending.over, &ending.why) {
        (Some(phase), _) => over(sight, status, &ending, phase, now),
        (None, Some(why)) => {
            let status = RunStatus { started_at: started_at(sight, &status), ..status };
            let phase = if sight.run.spec.pause { RunPhase::Paused } else { RunPhase::Pending };
            waits_for_next(sight.run, status, why, phase, now)
        }
        (None, None) => status,
    }
}

fn over(sight: Sight<'_>, status: RunStatus, ending: &Ending, phase: RunPhase, now: Timestamp) -> RunStatus {
    let why = ending.why.as_ref();
    let finished = Observed {
        type_: conditions::run::FINISHED,
        holds: true,
        reason: why.map_or("Succeeded", |why| &why.reason).to_owned(),
        message: why.map_or("all members ended with 0", |why| &why.message).to_owned(),
    };
    let scheduled = if phase == RunPhase::Succeeded { placed(sight) } else { as_before(&status) };
    RunStatus {
        observed_generation: sight.run.metadata.generation,
        phase,
        reason: why.map(|why| why.reason.clone()),
        message: why.map(|why| why.message.clone()),
        members: final_counts(sight, &status),
        started_at: started_at(sight, &status),
        finished_at: Some(Time(ending.at.unwrap_or(now))),
        next_attempt_at: None,
        conditions: merge(sight.run, &status, vec![scheduled, finished], now),
        ..status
    }
}

/// The status between two attempts, when the Run holds nothing.
fn waits_for_next(
    run: &Run,
    status: RunStatus,
    why: &Interruption,
    phase: RunPhase,
    now: Timestamp,
) -> RunStatus {
    let (reason, message) = (why.reason.clone(), why.message.clone());
    let scheduled = Observed { type_: conditions::run::SCHEDULED, holds: false, reason, message };
    RunStatus {
        observed_generation: run.metadata.generation,
        phase,
        reason: Some(why.reason.clone()),
        message: Some(why.message.clone()),
        members: MemberCounts::default(),
        finished_at: None,
        conditions: merge(run, &status, vec![scheduled, unfinished()], now),
        ..status
    }
}

/// Whether pods are needed to explain a failed Run, and none of the seen ones can.
pub fn lacks_evidence(sight: Sight<'_>, conclusion: &Conclusion) -> bool {
    matches!(conclusion, Conclusion::Failed { .. }) && first_failure(sight).is_none()
}

fn count(sight: Sight<'_>, members: &BTreeMap<u32, &Member>) -> MemberCounts {
    let mut counts = MemberCounts::default();
    for index in 0..sight.members() {
        let slot = match members.get(&index) {
            _ if sight.job.is_some_and(|job| job.has_completed(index)) => &mut counts.succeeded,
            Some(pod) if pod.phase == PodPhase::Succeeded => &mut counts.succeeded,
            Some(pod) if pod.failed_itself() => &mut counts.failed,
            Some(pod) if pod.phase == PodPhase::Running => &mut counts.running,
            Some(pod) if pod.phase == PodPhase::Pending && pod.node.is_some() => &mut counts.starting,
            // Once the others are being ended, a member without a pod is one of those.
            None if is_ending(sight) && was_placed(sight.run) => &mut counts.failed,
            // It has no pod yet, or no node yet, or it was lost and is about to be replaced.
            _ => &mut counts.waiting,
        };
        *slot += 1;
    }
    counts
}

/// Members of a Run that is over: each succeeded, failed, or never started.
fn final_counts(sight: Sight<'_>, old: &RunStatus) -> MemberCounts {
    let members = sight.members();
    match sight.job {
        Some(job) if job.end.is_some() => {
            let succeeded = job.succeeded.min(members);
            MemberCounts { succeeded, failed: job.failed.min(members - succeeded), ..MemberCounts::default() }
        }
        job => {
            let last = if job.is_some() { count(sight, &sight.current_members()) } else { old.members };
            MemberCounts {
                succeeded: last.succeeded,
                failed: last.failed + last.running,
                ..MemberCounts::default()
            }
        }
    }
}

/// The reason and sentence of a running attempt; `None` while all is well.
fn why(sight: Sight<'_>, members: &BTreeMap<u32, &Member>, phase: RunPhase) -> Option<(String, String)> {
    if sight.run.spec.stop {
        return Some(("Stopping".to_owned(), "waits for its pods to end".to_owned()));
    }
    if let Some(attempt) = sight.attempt().filter(|attempt| attempt.told_at.is_some()) {
        return attempt.reason.clone().zip(attempt.message.clone());
    }
    if is_ending(sight) {
        return first_failure(sight);
    }
    if let Some(taken) = taken_away(sight.run, members, phase) {
        return Some(taken);
    }
    match phase {
        RunPhase::Pending if was_placed(sight.run) => Some((MEMBER_LOST.to_owned(), lost(sight, members))),
        RunPhase::Pending => waiting(sight, members),
        RunPhase::Starting => starting::trouble(sight),
        _ => None,
    }
}

/// The scheduler's reason for evicting the run's pods, from the first of them until all have a node again.
fn taken_away(run: &Run, members: &BTreeMap<u32, &Member>, phase: RunPhase) -> Option<(String, String)> {
    let told = members.values().find_map(|member| {
        let word = match member.disruption.as_deref()? {
            conditions::pod::PREEMPTED => PREEMPTED,
            conditions::pod::START_FAILED => UNWOUND,
            conditions::pod::MOVED => MOVED,
            _ => return None,
        };
        Some((word.to_owned(), member.disruption_message.clone().unwrap_or_default()))
    });
    let known = || {
        let old = run.status.as_ref().filter(|_| phase == RunPhase::Pending)?;
        let reason =
            old.reason.as_ref().filter(|reason| [PREEMPTED, UNWOUND, MOVED].contains(&reason.as_str()))?;
        Some((reason.clone(), old.message.clone().unwrap_or_default()))
    };
    told.or_else(known)
}

fn waiting(sight: Sight<'_>, members: &BTreeMap<u32, &Member>) -> Option<(String, String)> {
    let pods_missing = (0..sight.members())
        .any(|index| !members.contains_key(&index) && !sight.job.is_some_and(|job| job.has_completed(index)));
    if pods_missing {
        return Some(("PodsMissing".to_owned(), "not all of its pods are created yet".to_owned()));
    }
    let reason = sight.run.status.as_ref()?.waiting.as_ref()?.reasons.first()?;
    Some((reason.code.clone(), without_numbers(reason)))
}

/// The sentence without its numbers, which change with nearly every placement: each change would cost another
/// write. They stay in `status.waiting`.
fn without_numbers(reason: &Reason) -> String {
    if reason.never {
        // This reason has no numbers, and only the user can change it.
        return reason.message.clone();
    }
    let queue = reason.queue.as_ref().map(|queue| format!("queue {queue}"));
    let about: Vec<_> = queue.into_iter().chain(reason.resource.clone()).collect();
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    format!("waits: {}{about}; `warpyard why` has the numbers", reason.code)
}

/// The first member that waits for a node, though it had one.
fn lost_member(sight: Sight<'_>, members: &BTreeMap<u32, &Member>) -> Option<u32> {
    let is_waiting = |index: &u32| match members.get(index) {
        None => !sight.job.is_some_and(|job| job.has_completed(*index)),
        Some(pod) => pod.disruption.is_some() || (pod.phase == PodPhase::Pending && pod.node.is_none()),
    };
    (0..sight.members()).find(is_waiting)
}

fn lost(sight: Sight<'_>, members: &BTreeMap<u32, &Member>) -> String {
    let Some(index) = lost_member(sight, members) else {
        return "a member was lost and is being replaced".to_owned();
    };
    let evidence = sight.own_pods().filter(|pod| pod.index == index).find_map(|pod| {
        let reason = pod.disruption.as_deref()?;
        Some(format!(" on {} ({reason})", pod.node.as_deref().unwrap_or("no node")))
    });
    if evidence.is_none()
        && let Some(known) = known_loss(sight.run, index)
    {
        return known;
    }
    format!("member {index}{} was lost: its replacement waits for a node", evidence.unwrap_or_default())
}

/// The sentence that was written while the lost pod could still be seen.
fn known_loss(run: &Run, index: u32) -> Option<String> {
    let status = run.status.as_ref().filter(|status| status.reason.as_deref() == Some(MEMBER_LOST))?;
    status.message.clone().filter(|_| status.lost_member == Some(index))
}

/// Whether members are being ended: one failed, they were told to leave, or the user stopped the Run.
fn is_ending(sight: Sight<'_>) -> bool {
    let failing = sight.job.is_some_and(|job| job.failing_since.is_some());
    sight.run.spec.stop || sight.is_told() || failing || sight.own_pods().any(Member::failed_itself)
}

/// The earliest start ever seen: a replaced member does not change it.
fn started_at(sight: Sight<'_>, old: &RunStatus) -> Option<Time> {
    let seen = sight.own_pods().filter_map(|pod| pod.started_at).min();
    let known = old.started_at.as_ref().map(|time| time.0);
    seen.into_iter().chain(known).min().map(Time)
}

fn was_placed(run: &Run) -> bool {
    let conditions = run.status.iter().flat_map(|status| &status.conditions);
    conditions.filter(|condition| condition.type_ == conditions::run::SCHEDULED).any(|condition| {
        condition.status == "True"
            || [MEMBER_LOST, PREEMPTED, UNWOUND, MOVED].contains(&condition.reason.as_str())
    })
}

fn placed(sight: Sight<'_>) -> Observed {
    Observed {
        type_: conditions::run::SCHEDULED,
        holds: true,
        reason: "Placed".to_owned(),
        message: format!("all {} members have a node", sight.members()),
    }
}

fn unfinished() -> Observed {
    Observed {
        type_: conditions::run::FINISHED,
        holds: false,
        reason: "NotFinished".to_owned(),
        message: "the run goes on".to_owned(),
    }
}

fn as_before(old: &RunStatus) -> Observed {
    let known = old.conditions.iter().find(|condition| condition.type_ == conditions::run::SCHEDULED);
    Observed {
        type_: conditions::run::SCHEDULED,
        holds: known.is_some_and(|condition| condition.status == "True"),
        reason: known.map_or("NeverPlaced", |condition| &condition.reason).to_owned(),
        message: known
            .map_or("ended before its members had nodes", |condition| &condition.message)
            .to_owned(),
    }
}

fn merge(
    run: &Run,
    old: &RunStatus,
    observed: Vec<Observed>,
    now: Timestamp,
) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    conditions::merge(&old.conditions, observed, run.metadata.generation.unwrap_or_default(), now)
}

#[cfg(test)]
mod tests;
