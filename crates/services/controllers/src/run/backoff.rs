//! How long a Run waits before its next attempt. After an end that machines or people caused, the next one
//! begins at once: the scheduler ensures that there is room. If attempts fail by themselves again and again
//! without progress, the waits grow. They also grow for reasons that cost no retry and may repeat at every
//! start.

use std::time::Duration;

use api_types::RunStatus;
use api_types::run::Attempt;

use super::failure;
use super::starting::START_DEADLINE;

/// The wait after the first failure; it doubles with each further one in a row.
const FIRST: Duration = Duration::from_secs(5);
/// The longest wait.
const LONGEST: Duration = Duration::from_mins(5);
/// An attempt that ran for this long counts as progress, even without reports.
const LONG_ENOUGH_SECONDS: i64 = 600;
/// Reasons of attempts that ended by themselves.
const BY_ITSELF: [&str; 3] = [failure::MEMBER_FAILED, failure::OUT_OF_MEMORY, "JobFailed"];
/// Reasons after which the first retry is at once, and repeated ones are later.
const FREE: [&str; 5] = ["Requeued", "NodeRefused", "NodeRestarted", "MemberLost", START_DEADLINE];

/// The wait after the last attempt, whose end is recorded in `status`.
pub fn delay(status: &RunStatus) -> Duration {
    let checkpointed_by = status.progress.as_ref().and_then(|it| it.checkpoint.as_ref()).map(|it| it.attempt);
    let got_further = |attempt: &Attempt| {
        // Members that only waited for another one did no work.
        let has_worked =
            run_seconds(attempt) >= LONG_ENOUGH_SECONDS && !has_reason(attempt, &[START_DEADLINE]);
        has_worked || checkpointed_by == Some(attempt.number)
    };
    let Some(last) = status.attempts.last().filter(|last| may_repeat(last)) else {
        return Duration::ZERO;
    };
    let row = || status.attempts.iter().rev().take_while(|it| may_repeat(it) && !got_further(it));
    // A requested attempt starts the count anew.
    let failures = usize::try_from(status.failures).unwrap_or(usize::MAX);
    let in_a_row = row().filter(|it| has_reason(it, &BY_ITSELF)).count().min(failures)
        + row().filter(|it| has_reason(it, &FREE)).count();
    let doublings = u32::try_from(in_a_row.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    if in_a_row <= 1 && has_reason(last, &FREE) {
        return Duration::ZERO;
    }
    FIRST.saturating_mul(1 << doublings).min(LONGEST)
}

fn may_repeat(attempt: &Attempt) -> bool {
    has_reason(attempt, &BY_ITSELF) || has_reason(attempt, &FREE)
}

fn has_reason(attempt: &Attempt, reasons: &[&str]) -> bool {
    attempt.reason.as_deref().is_some_and(|reason| reasons.contains(&reason))
}

/// How long an attempt has run.
pub fn run_seconds(attempt: &Attempt) -> i64 {
    match (&attempt.started_at, &attempt.ended_at) {
        (Some(started), Some(ended)) => (ended.0.as_second() - started.0.as_second()).max(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use api_types::RunStatus;
    use api_types::run::{Attempt, Checkpoint, Progress};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::delay;
    use crate::run::testing::at;

    fn status(ends: &[(&str, i64)]) -> RunStatus {
        let attempt = |(index, (reason, seconds)): (usize, &(&str, i64))| Attempt {
            number: u32::try_from(index).unwrap() + 1,
            reason: Some((*reason).to_owned()),
            started_at: Some(Time(at(0))),
            ended_at: Some(Time(at(*seconds))),
            ..Attempt::default()
        };
        let attempts = ends.iter().enumerate().map(attempt).collect();
        RunStatus { attempts, failures: u32::try_from(ends.len()).unwrap(), ..RunStatus::default() }
    }

    #[test]
    fn failures_in_a_row_wait_ever_longer_and_what_came_from_outside_does_not() {
        let wait = |ends: &[(&str, i64)]| delay(&status(ends)).as_secs();
        assert_eq!(wait(&[("MemberFailed", 9)]), 5);
        assert_eq!(wait(&[("MemberFailed", 9), ("MemberFailed", 9)]), 10);
        assert_eq!(wait(&[("MemberFailed", 9); 30]), 300);
        assert_eq!(wait(&[("MemberFailed", 9), ("SpotNotice", 9)]), 0);
        assert_eq!(wait(&[("MemberFailed", 9), ("SpotNotice", 9), ("MemberFailed", 9)]), 5);
        assert_eq!(wait(&[("MemberFailed", 9), ("MemberFailed", 700)]), 5, "it ran for long");
        assert_eq!(wait(&[("Requeued", 9)]), 0);
        assert_eq!(wait(&[("Requeued", 9), ("Requeued", 9)]), 10);
        assert_eq!(wait(&[("OutOfMemory", 9), ("OutOfMemory", 9)]), 10);
        assert_eq!(wait(&[("StartDeadlineExceeded", 0)]), 0);
        assert_eq!(wait(&[("StartDeadlineExceeded", 1800); 2]), 10, "those that started did no work");
        assert_eq!(wait(&[("NodeRefused", 0)]), 0);
        assert_eq!(wait(&[("NodeRefused", 0); 3]), 20, "it costs no retry, and might go on for ever");
    }

    #[test]
    fn whoever_asks_for_another_attempt_begins_to_count_anew() {
        let mut status = status(&[("MemberFailed", 9); 30]);
        status.failures = 2;
        assert_eq!(delay(&status), Duration::from_secs(10));
    }

    #[test]
    fn who_saved_a_checkpoint_got_further() {
        let mut status = status(&[("MemberFailed", 9), ("MemberFailed", 9)]);
        let checkpoint = Checkpoint {
            step: 5,
            attempt: 2,
            committed_at: Time(at(5)),
            bytes: 0,
            milliseconds: 0,
            stall_milliseconds: 0,
        };
        status.progress = Some(Progress {
            step: 5,
            reported_at: Time(at(5)),
            checkpoint: Some(checkpoint),
            ranges: Vec::new(),
            loads: Vec::new(),
        });
        assert_eq!(delay(&status), Duration::from_secs(5));
    }
}
