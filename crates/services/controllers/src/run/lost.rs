//! The work that each attempt lost: work that is in no checkpoint that a later attempt loaded. Pure.
//!
//! ```text
//!   attempt 1   0 ────────► 50 ┄┄► 58                     loaded 0, reached 58:  8 steps lost
//!   attempt 2              50 ───────────► 90 ┄► 93       loaded 50, reached 93: 3 steps lost …
//!   attempt 3                             90 ──►          loaded 90
//!   attempt 4          30 ──────►                         … then 43, and attempt 1 28: sent back to 30
//! ```
//!
//! A load says two things: where the attempt began, and how far the last attempt before it had come. All work
//! that earlier attempts did after the loaded checkpoint was committed is lost. Each attempt loses its own
//! part, so the parts add up to the work that is repeated. Lost work only grows.

use api_types::run::{Attempt, Load, LostWork};

/// Writes into each attempt its lost work, as far as later attempts have reported their loads.
pub fn note(attempts: &mut [Attempt], loads: &[Load]) {
    let mut later: Option<Later> = None;
    let mut loads = loads.iter().rev().peekable();
    for attempt in attempts.iter_mut().rev() {
        while let Some(load) = loads.next_if(|load| load.attempt > attempt.number) {
            later = Some(Later::with(later.as_ref(), load));
        }
        let own = loads.peek().filter(|load| load.attempt == attempt.number);
        if let (Some(later), Some(ended_at)) = (&later, &attempt.ended_at) {
            let steps = later.steps_lost(own.copied());
            let since = attempt.started_at.as_ref().map(|time| time.0.as_second());
            // An attempt that never started used nothing.
            let seconds =
                since.map_or(0, |since| seconds(ended_at.0.as_second(), since.max(later.committed_second)));
            let known = attempt.lost.unwrap_or_default();
            attempt.lost =
                Some(LostWork { steps: steps.max(known.steps), seconds: seconds.max(known.seconds) });
        }
    }
}

/// The combined loads of the attempts after one.
struct Later {
    /// The furthest that any of them went back.
    step: u64,
    /// When the oldest checkpoint that any of them loaded was committed. The beginning is before everything; an
    /// unknown time is left out, not guessed.
    committed_second: i64,
    /// How far the last attempt before the first of them had come.
    reached: u64,
}

impl Later {
    fn with(later: Option<&Self>, load: &Load) -> Self {
        let unknown = if load.step == 0 { i64::MIN } else { i64::MAX };
        let committed_second = load.committed_at.as_ref().map_or(unknown, |time| time.0.as_second());
        Self {
            step: later.map_or(load.step, |later| later.step.min(load.step)),
            committed_second: later.map_or(committed_second, |it| it.committed_second.min(committed_second)),
            reached: load.reached,
        }
    }

    /// An attempt without a load did no step: another attempt reached the steps.
    fn steps_lost(&self, own: Option<&Load>) -> u64 {
        own.map_or(0, |own| self.reached.saturating_sub(self.step.max(own.step)))
    }
}

fn seconds(until: i64, since: i64) -> u64 {
    u64::try_from(until.saturating_sub(since)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use api_types::run::{Attempt, Load, LostWork};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::note;
    use crate::run::testing::at;

    /// Attempts from 1 on, each with its start and end.
    fn attempts(times: &[(Option<i64>, Option<i64>)]) -> Vec<Attempt> {
        let attempt = |(number, (started, ended)): (u32, &(Option<i64>, Option<i64>))| Attempt {
            number,
            started_at: started.map(|second| Time(at(second))),
            ended_at: ended.map(|second| Time(at(second))),
            ..Attempt::default()
        };
        (1..).zip(times).map(attempt).collect()
    }

    fn load(attempt: u32, step: u64, committed: Option<i64>, reached: u64) -> Load {
        Load { attempt, step, committed_at: committed.map(|second| Time(at(second))), reached }
    }

    fn lost(times: &[(Option<i64>, Option<i64>)], loads: &[Load]) -> Vec<Option<(u64, u64)>> {
        let mut attempts = attempts(times);
        note(&mut attempts, loads);
        attempts.into_iter().map(|attempt| attempt.lost.map(|lost| (lost.steps, lost.seconds))).collect()
    }

    #[test]
    fn what_comes_after_the_loaded_checkpoint_is_lost() {
        let times = [(Some(0), Some(100)), (Some(120), None)];
        let loads = [load(1, 0, None, 0), load(2, 50, Some(83), 58)];
        assert_eq!(lost(&times, &loads), [Some((8, 17)), None]);
    }

    #[test]
    fn nothing_is_known_before_the_next_attempt_has_said_what_it_loaded() {
        let times = [(Some(0), Some(100)), (Some(120), None)];
        assert_eq!(lost(&times, &[load(1, 0, None, 0)]), [None, None]);
        assert_eq!(lost(&times, &[]), [None, None]);
    }

    #[test]
    fn without_a_checkpoint_the_whole_attempt_is_lost() {
        let times = [(Some(10), Some(100)), (Some(120), None)];
        assert_eq!(lost(&times, &[load(1, 0, None, 0), load(2, 0, None, 7)]), [Some((7, 90)), None]);
    }

    #[test]
    fn a_checkpoint_that_does_not_say_when_it_was_made_loses_steps_and_no_time() {
        let times = [(Some(10), Some(100)), (Some(120), None)];
        assert_eq!(lost(&times, &[load(1, 0, None, 0), load(2, 5, None, 7)]), [Some((2, 0)), None]);
    }

    #[test]
    fn who_saves_on_notice_loses_no_step_but_the_time_it_takes_to_leave() {
        let times = [(Some(0), Some(100)), (Some(101), None)];
        let loads = [load(1, 0, None, 0), load(2, 60, Some(98), 60)];
        assert_eq!(lost(&times, &loads), [Some((0, 2)), None]);
    }

    #[test]
    fn fractions_of_a_second_are_left_out_on_both_sides() {
        let mut attempts = attempts(&[(Some(0), Some(100)), (Some(101), None)]);
        let mut second = load(2, 60, None, 60);
        second.committed_at = Some(Time(at(98) + jiff::SignedDuration::from_millis(999)));
        note(&mut attempts, &[load(1, 0, None, 0), second]);
        assert_eq!(attempts[0].lost, Some(LostWork { steps: 0, seconds: 2 }));
    }

    #[test]
    fn an_attempt_that_ended_before_its_first_step_lost_its_time_and_no_step() {
        // Attempt 2 died before it could report, attempt 3 after it had loaded.
        let times = [(Some(0), Some(100)), (Some(110), Some(115)), (Some(120), Some(130)), (Some(140), None)];
        let loads = [load(1, 0, None, 0), load(3, 50, Some(80), 58), load(4, 50, Some(80), 50)];
        assert_eq!(lost(&times, &loads), [Some((8, 20)), Some((0, 5)), Some((0, 10)), None]);
    }

    #[test]
    fn an_attempt_that_never_started_lost_nothing() {
        let times = [(Some(0), Some(100)), (None, Some(115)), (Some(120), None)];
        let loads = [load(1, 0, None, 0), load(3, 50, Some(80), 58)];
        assert_eq!(lost(&times, &loads), [Some((8, 20)), Some((0, 0)), None]);
    }

    #[test]
    fn going_back_over_several_attempts_each_loses_its_own_part() {
        let times = [(Some(0), Some(100)), (Some(110), Some(200)), (Some(210), Some(300)), (Some(310), None)];
        let told = [load(1, 0, None, 0), load(2, 50, Some(90), 58), load(3, 90, Some(190), 93)];
        assert_eq!(lost(&times, &told), [Some((8, 10)), Some((3, 10)), None, None]);
        // `resume --from 30`, which attempt 1 had saved.
        let back = [told.as_slice(), &[load(4, 30, Some(60), 120)]].concat();
        assert_eq!(lost(&times, &back), [Some((28, 40)), Some((43, 90)), Some((30, 90)), None]);
    }

    #[test]
    fn a_line_that_was_left_is_not_lost_again_with_the_next_one() {
        let times = [(Some(0), Some(100)), (Some(110), Some(200)), (Some(210), None)];
        let loads = [load(1, 0, None, 0), load(2, 10, Some(20), 58), load(3, 30, Some(150), 33)];
        assert_eq!(lost(&times, &loads), [Some((48, 80)), Some((3, 50)), None]);
    }

    #[test]
    fn what_was_lost_stays_lost_when_old_loads_are_dropped() {
        let mut attempts = attempts(&[(Some(0), Some(100)), (Some(110), Some(200)), (Some(210), None)]);
        note(&mut attempts, &[load(1, 0, None, 0), load(2, 50, Some(83), 58)]);
        note(&mut attempts, &[load(3, 90, Some(190), 93)]);
        assert_eq!(attempts[0].lost, Some(LostWork { steps: 8, seconds: 17 }));
        assert_eq!(attempts[1].lost, Some(LostWork { steps: 0, seconds: 10 }));
    }
}
