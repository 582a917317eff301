//! How long a Run waits before its next attempt. What machines and people do is followed at once: the scheduler sees to
//! it that there is room. What ends by itself again and again, without getting any further, comes back ever later; so does
//! what costs no retry and may happen at every start.

use std::time::Duration;

use api_types::RunStatus;
use api_types::run::Attempt;

/// The wait after the first failure; it doubles with each further one in a row.
const FIRST: Duration = Duration::from_secs(5);
/// The longest wait.
const LONGEST: Duration = Duration::from_mins(5);
/// An attempt that ran for so long got further, also if nobody said so.
const LONG_ENOUGH_SECONDS: i64 = 600;
/// Reasons of attempts that ended by themselves.
const BY_ITSELF: [&str; 2] = [super::failure::MEMBER_FAILED, "JobFailed"];
/// Reasons that are followed at once the first time, and later when they repeat.
const FREE: [&str; 4] = ["Requeued", "NodeRefused", "NodeRestarted", "MemberLost"];

/// The wait after the last attempt, whose end is recorded in `status`.
pub fn delay(status: &RunStatus) -> Duration {
    let checkpointed_by = status.progress.as_ref().and_then(|it| it.checkpoint.as_ref()).map(|it| it.attempt);
    let got_further = |attempt: &Attempt| {
        run_seconds(attempt) >= LONG_ENOUGH_SECONDS || checkpointed_by == Some(attempt.number)
    };
    let Some(last) = status.attempts.last().filter(|last| may_repeat(last)) else {
        return Duration::ZERO;
    };
    let row = || status.attempts.iter().rev().take_while(|it| may_repeat(it) && !got_further(it));
    // Who asks for another attempt begins to count anew.
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

/// For how long an attempt has run.
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
