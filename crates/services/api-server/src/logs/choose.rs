//! Chooses the members to read, and finds the one that failed first. Pure.

use std::sync::Arc;

use api_types::logs::FailedMember;
use api_types::names::REQUEUE_EXIT_CODE;
use api_types::rest::MemberState;
use api_types::run::{Attempt, AttemptOutcome};
use jiff::Timestamp;

use super::merge::{Source, TimedLine};
use crate::cache::pod_index::CachedPod;

/// The most members of one answer.
pub const MEMBERS_MAX: usize = 64;
/// The most bytes of logs in one answer.
pub const BYTES_MAX: usize = 4 * 1024 * 1024;
/// The most bytes of one member: with few members, more than anybody reads at a time.
const MEMBER_BYTES_MAX: usize = 1024 * 1024;

/// The members whose logs are read.
#[derive(Clone, Debug, Default)]
pub struct LogSelection {
    /// Members, each with its pod.
    pub members: Vec<(Source, Arc<CachedPod>)>,
    /// How many more members there are.
    pub left_out: u32,
    /// Bytes for each.
    pub bytes_each: usize,
}

/// An attempt, with the newest pod of each of its members.
pub type AttemptPods<'a> = (&'a Attempt, Vec<Arc<CachedPod>>);

/// Chooses members with logs: first those that failed, the earliest first, then the newest attempt, then by
/// rank.
pub fn choose(attempts: &[AttemptPods<'_>], member: Option<u32>) -> LogSelection {
    let pods = attempts.iter().flat_map(|(attempt, pods)| pods.iter().map(|pod| (attempt.number, pod)));
    let mut members: Vec<(Source, Arc<CachedPod>)> = pods
        .filter(|(_, pod)| member.is_none_or(|member| pod.index == member))
        // A member without a node has printed nothing.
        .filter(|(_, pod)| pod.node.is_some())
        .map(|(attempt, pod)| (Source { attempt, member: pod.index }, Arc::clone(pod)))
        .collect();
    members.sort_by_key(|(source, pod)| {
        let failed = failure(pod).map_or((true, i64::MAX), |second| (false, second));
        (failed, std::cmp::Reverse(source.attempt), source.member)
    });
    let left_out = members.len().saturating_sub(MEMBERS_MAX);
    members.truncate(MEMBERS_MAX);
    let bytes_each = BYTES_MAX.checked_div(members.len()).unwrap_or(0).min(MEMBER_BYTES_MAX);
    LogSelection { members, left_out: u32::try_from(left_out).unwrap_or(u32::MAX), bytes_each }
}

/// How many of the requested members of an ended attempt have no pod any more.
pub fn members_gone((attempt, pods): &AttemptPods<'_>, member: Option<u32>) -> u32 {
    if attempt.outcome.is_none() {
        return 0;
    }
    let has_pod = |index: u32| pods.iter().any(|pod| pod.index == index);
    match member {
        Some(member) => u32::from(member < attempt.members && !has_pod(member)),
        // One pod for each member, at most.
        None => attempt.members.saturating_sub(u32::try_from(pods.len()).unwrap_or(u32::MAX)),
    }
}

/// The member of an attempt that failed first. Ends are recorded in whole seconds, and others often end within
/// the same second: then it is the one that has been silent for longest. Ties are broken by rank.
pub fn first_failed<'a>(
    pods: &[Arc<CachedPod>],
    last_line: impl Fn(u32) -> Option<&'a TimedLine>,
) -> Option<FailedMember> {
    let failed = pods.iter().filter_map(|pod| Some((failure(pod)?, pod)));
    let first = failed.min_by_key(|(second, pod)| {
        // A member that was told to end did not fail first.
        let was_told = pod.exit_code == Some(SIGTERM_EXIT_CODE);
        (was_told, *second, last_line(pod.index).map(|line| line.at), pod.index)
    });
    first.map(|(_, pod)| FailedMember {
        member: pod.index,
        at: pod
            .finished_second
            .and_then(|second| Timestamp::from_second(second).ok())
            .map(|at| at.to_string()),
        exit_code: pod.exit_code,
        reason: pod.reason.as_deref().map(str::to_owned),
    })
}

const SIGTERM_EXIT_CODE: i32 = 143;

/// Whether members of an attempt end because they were told to: then none of them failed first.
pub fn was_told(attempt: &Attempt, is_stopping: bool) -> bool {
    let from_outside = matches!(attempt.outcome, Some(AttemptOutcome::Interrupted | AttemptOutcome::Stopped));
    attempt.told_at.is_some() || from_outside || (is_stopping && attempt.outcome.is_none())
}

/// When it failed, if it did: a member that saved and asks to be requeued did not.
fn failure(pod: &CachedPod) -> Option<i64> {
    let failed = pod.state == MemberState::Failed && pod.exit_code != Some(REQUEUE_EXIT_CODE);
    failed.then(|| pod.finished_second.unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api_types::rest::MemberState;
    use api_types::run::{Attempt, AttemptOutcome};

    use super::{BYTES_MAX, MEMBERS_MAX, choose, first_failed, members_gone, was_told};
    use crate::cache::pod_index::CachedPod;
    use crate::logs::merge::{TimedLine, parse};

    fn pod(
        index: u32,
        state: MemberState,
        finished_second: Option<i64>,
        exit_code: Option<i32>,
    ) -> Arc<CachedPod> {
        Arc::new(CachedPod {
            namespace: "nlp".into(),
            name: format!("a-{index}").into(),
            run: Some("a".into()),
            queue: None,
            node: Some("n".into()),
            reason: None,
            uid: None,
            job_uid: None,
            created_second: 0,
            scheduled_second: None,
            started_second: None,
            finished_second,
            exit_code,
            attempt: 1,
            index,
            gpus: 8,
            state,
        })
    }

    fn failed(index: u32, second: i64, code: i32) -> Arc<CachedPod> {
        pod(index, MemberState::Failed, Some(second), Some(code))
    }

    fn running(index: u32) -> Arc<CachedPod> {
        pod(index, MemberState::Running, None, None)
    }

    fn attempt(number: u32) -> Attempt {
        Attempt { number, ..Attempt::default() }
    }

    fn first(pods: &[Arc<CachedPod>], last: &[TimedLine]) -> Option<u32> {
        first_failed(pods, |member| last.get(member as usize)).map(|first| first.member)
    }

    #[test]
    fn the_first_to_fail_is_the_one_that_ended_first_and_was_not_told_to() {
        assert_eq!(first(&[running(0), running(1)], &[]), None);
        assert_eq!(first(&[failed(0, 12, 1), failed(1, 11, 1), running(2)], &[]), Some(1));
        assert_eq!(first(&[failed(0, 11, 143), failed(1, 12, 1)], &[]), Some(1));
        assert_eq!(first(&[failed(1, 11, 1), failed(0, 11, 1)], &[]), Some(0));
        assert_eq!(first(&[failed(0, 11, 75), failed(1, 12, 1)], &[]), Some(1));
        assert_eq!(first(&[failed(0, 11, 75)], &[]), None, "it saved, and asks to be queued again");
    }

    #[test]
    fn of_an_attempt_that_was_told_to_end_none_failed_first() {
        let over = |outcome| Attempt { outcome: Some(outcome), ..attempt(1) };
        for (attempt, is_stopping, expect) in [
            (attempt(1), false, false),
            (attempt(1), true, true),
            (over(AttemptOutcome::Failed), true, false),
            (over(AttemptOutcome::Stopped), true, true),
            (over(AttemptOutcome::Interrupted), false, true),
        ] {
            assert_eq!(was_told(&attempt, is_stopping), expect, "{attempt:?}");
        }
    }

    #[test]
    fn within_a_second_the_one_that_fell_silent_failed_first() {
        let last = parse("1970-01-01T00:00:11.7Z connection reset\n1970-01-01T00:00:11.2Z illegal access\n");
        assert_eq!(first(&[failed(0, 11, 1), failed(1, 11, 1)], &last), Some(1));
    }

    #[test]
    fn of_very_many_members_those_that_failed_and_the_newest_are_read() {
        let (old, new) = (attempt(1), attempt(2));
        let many: Vec<_> = (0..100).map(running).collect();
        let attempts = [(&old, vec![running(0), failed(7, 5, 1)]), (&new, many)];
        let choice = choose(&attempts, None);
        assert_eq!((choice.members.len(), choice.left_out), (MEMBERS_MAX, 38));
        let sources: Vec<_> =
            choice.members.iter().map(|(source, _)| (source.attempt, source.member)).collect();
        assert_eq!(sources[..3], [(1, 7), (2, 0), (2, 1)]);
        assert!(choice.bytes_each * MEMBERS_MAX <= BYTES_MAX);
    }

    #[test]
    fn members_of_an_attempt_that_is_over_are_missed() {
        let over = Attempt { members: 3, outcome: Some(AttemptOutcome::Failed), ..attempt(1) };
        let goes_on = Attempt { outcome: None, ..over.clone() };
        let pods = vec![failed(1, 5, 1)];
        for (attempt, member, expect) in [
            (&over, None, 2),
            (&over, Some(0), 1),
            (&over, Some(1), 0),
            (&over, Some(9), 0),
            (&goes_on, None, 0),
        ] {
            assert_eq!(members_gone(&(attempt, pods.clone()), member), expect, "{member:?}");
        }
    }

    #[test]
    fn one_member_may_be_asked_for_and_those_without_a_node_have_nothing() {
        let waiting = Arc::new(CachedPod { node: None, ..(*running(1)).clone() });
        let (old, new) = (attempt(1), attempt(2));
        let attempts = [(&old, vec![running(0), running(1)]), (&new, vec![running(0), waiting])];
        let sources = |member| {
            let members = choose(&attempts, member).members;
            members.iter().map(|(source, _)| (source.attempt, source.member)).collect::<Vec<_>>()
        };
        assert_eq!(sources(Some(1)), [(1, 1)]);
        assert_eq!(sources(Some(5)), []);
        assert_eq!(sources(None), [(2, 0), (1, 0), (1, 1)]);
    }
}
