//! Ends an attempt that does not start.
//!
//! | what is seen                                      | then                                        | reason                  |
//! |---------------------------------------------------|---------------------------------------------|-------------------------|
//! | an image that can never be had                    | the Run fails at once                       | `ImageNotFound`, `ImageDenied`, `InvalidImage` |
//! | any other trouble, such as a registry that is away| waits until the start deadline              | the kubelet's, as `ImagePullBackOff` |
//! | the start deadline has passed                     | another attempt, for free                   | `StartDeadlineExceeded` |
//! | … for the second time in a row                    | another attempt if a retry is left          | the same                |
//!
//! The deadline counts from the moment when the last member got its node: waiting in the queue is no failure.

use std::time::Duration;

use api_types::RunSpec;
use api_types::run::Attempt;
use jiff::Timestamp;

use super::cause::{Interruption, Verdict};
use super::member::Member;
use super::sight::Sight;
use super::stuck::ImageFault;

/// A member did not start in time.
pub const START_DEADLINE: &str = "StartDeadlineExceeded";
/// How long members may take to start, by default.
const START_DEADLINE_SECONDS_DEFAULT: u32 = 1800;

/// Why the attempt has to end although it has not started, if it has to.
pub fn failed_start(sight: Sight<'_>, now: Timestamp) -> Option<Interruption> {
    if !sight.own_pods().any(Member::is_starting) {
        return None;
    }
    // A Job that fails ends its other members by itself.
    let is_failing = sight.job.is_some_and(|job| job.failing_since.is_some() || job.end.is_some());
    if is_failing || sight.own_pods().any(Member::failed_itself) {
        return None;
    }
    without_image(sight).or_else(|| too_late(sight, now))
}

/// What an attempt costs that was told to end.
pub fn judge(sight: Sight<'_>, why: Interruption) -> Verdict {
    if ImageFault::of_reason(&why.reason).is_some() {
        return Verdict::Final(why);
    }
    if why.reason == START_DEADLINE && is_second_in_a_row(sight) {
        let message = format!("{}. The attempt before did not start either", why.message);
        return Verdict::Failed(Interruption { message, ..why });
    }
    Verdict::Interrupted(why)
}

/// The reason and sentence of an attempt with a member that does not start.
pub fn trouble(sight: Sight<'_>) -> Option<(String, String)> {
    let member = late_member(sight)?;
    let stuck = member.stuck.as_ref()?;
    let until = due(sight).map(|due| format!("; the attempt ends at {due} if it still does not"));
    let (place, said, until) = (member.place(), stuck.tell(), until.unwrap_or_default());
    Some((stuck.reason.clone(), format!("{place} does not start ({said}){until}")))
}

/// How long until the start deadline falls due.
pub fn next_look(sight: Sight<'_>, now: Timestamp) -> Option<Duration> {
    Duration::try_from(due(sight)?.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}

fn without_image(sight: Sight<'_>) -> Option<Interruption> {
    let mut members = sight.current_members().into_values().filter(|member| member.is_starting());
    members.find_map(|member| {
        let stuck = member.stuck.as_ref()?;
        let fault = stuck.image?;
        let (place, said, advice) = (member.place(), stuck.said(), fault.advice());
        Some(Interruption::new(fault.reason(), format!("{place} cannot get its image: {said}; {advice}")))
    })
}

fn too_late(sight: Sight<'_>, now: Timestamp) -> Option<Interruption> {
    if now < due(sight)? {
        return None;
    }
    let late = late_member(sight)?;
    let (place, limit) = (late.place(), period(deadline_seconds(&sight.run.spec)));
    let why = late.stuck.as_ref().map(|stuck| format!(" ({})", stuck.tell())).unwrap_or_default();
    let advice = advice(late);
    Some(Interruption::new(
        START_DEADLINE,
        format!("{place} did not start within {limit} after all members had nodes{why}; {advice}"),
    ))
}

fn advice(late: &Member) -> String {
    match &late.stuck {
        Some(stuck) if stuck.is_pulling() => {
            "check that its node reaches the registry, or set a longer `startDeadline`".to_owned()
        }
        Some(_) => "correct what its node names, and submit again".to_owned(),
        None => format!(
            "its image is large, or a volume is not mounted: `kubectl get events --field-selector \
             involvedObject.name={}` says more; set a longer `startDeadline` if it only needs more time",
            late.pod
        ),
    }
}

/// The member to name: the first that does not start, if possible one whose kubelet says why.
fn late_member(sight: Sight<'_>) -> Option<&Member> {
    let starting = sight.current_members().into_values().filter(|member| member.is_starting());
    starting.min_by_key(|member| (member.stuck.is_none(), member.index))
}

/// When the start deadline falls due; `None` unless every member has a node and some have not started.
fn due(sight: Sight<'_>) -> Option<Timestamp> {
    if !sight.own_pods().any(Member::is_starting) {
        return None;
    }
    let members = sight.current_members();
    let is_there =
        |index| members.contains_key(&index) || sight.job.is_some_and(|job| job.has_completed(index));
    if !(0..sight.members()).all(is_there) {
        return None;
    }
    let bound = members.values().map(|member| member.bound_at).collect::<Option<Vec<_>>>()?;
    let seconds = u64::from(deadline_seconds(&sight.run.spec));
    bound.into_iter().max()?.checked_add(Duration::from_secs(seconds)).ok()
}

fn deadline_seconds(spec: &RunSpec) -> u32 {
    spec.start_deadline_seconds.unwrap_or(START_DEADLINE_SECONDS_DEFAULT)
}

/// Whether the attempt before this one did not start either. Attempts in between of which no member started,
/// such as one that gave way, say nothing about it.
fn is_second_in_a_row(sight: Sight<'_>) -> bool {
    let attempts = sight.run.status.as_ref().map(|status| status.attempts.as_slice()).unwrap_or_default();
    let is_late = |attempt: &Attempt| attempt.reason.as_deref() == Some(START_DEADLINE);
    let mut earlier = attempts.iter().rev().skip(1);
    earlier.find(|attempt| attempt.started_at.is_some() || is_late(attempt)).is_some_and(is_late)
}

fn period(seconds: u32) -> String {
    if seconds.is_multiple_of(60) { format!("{} min", seconds / 60) } else { format!("{seconds} s") }
}

#[cfg(test)]
mod tests;
