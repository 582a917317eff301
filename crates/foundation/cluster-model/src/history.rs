//! How long gangs run: what the model learns from gangs that ended and from gangs that still run.
//!
//! Three levels, each the fall-back of the one before: gangs of one namespace and size; of one size; all. Each level
//! keeps four numbers, and the run times of ended gangs, in steps (`run_times.rs`):
//!
//! ```text
//!   expected = (time of those that ended + time so far of those that run + 2 × expected of the level above)
//!              ───────────────────────────────────────────────────────────────────────────────────────────
//!                                   number of those that ended + 2
//! ```
//!
//! Time so far counts above the line and not below, so that a class whose first gangs still run does not look short.
//! With each end, earlier ends fade by a five-hundredth, and at most five hundred running gangs count. A run counts
//! for at most three days, because a few runs of weeks would drown the others. All integers: the same history gives
//! the same numbers everywhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::run_times::RunTimes;

/// The most that a run counts for.
const RUN_SECONDS_MAX: i64 = 3 * 24 * 3600;
/// How long a gang is expected to run when nothing has been seen at all.
const PRIOR_SECONDS: i64 = 4 * 3600;
/// How many ends of its own a class needs to count as much as the level above it.
const PRIOR_WEIGHT: i64 = 2;
/// Ends are counted in units of this, so that fading loses nothing that matters.
const ONE: i64 = 1 << 20;
/// With each end, earlier ones fade to 499/500.
const FADE: i64 = 500;
/// The most classes that are remembered: 2,000 namespaces with a handful of sizes each.
const CLASSES_MAX: usize = 16_384;

/// Run times that were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    #[serde(with = "crate::pairs")]
    classes: BTreeMap<(Arc<str>, i64), Runs>,
    sizes: BTreeMap<i64, Runs>,
    all: Runs,
}

/// Runs of one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Runs {
    /// Faded number of runs that ended, in [`ONE`]ths.
    ended: i64,
    /// Their faded run time in seconds, in [`ONE`]ths.
    ended_seconds: i128,
    /// Those that still run.
    running: i64,
    /// The sum of their starts, in seconds since 1970.
    started_sum: i64,
    /// How the run times of ended gangs are distributed.
    times: RunTimes,
}

impl History {
    /// How long a gang of this namespace and size is expected to run, from its start.
    pub fn expected_seconds(&self, namespace: &Arc<str>, gpus: i64, now: Timestamp) -> i64 {
        let now = now.as_second();
        let all = self.all.expected(PRIOR_SECONDS, now);
        let size = self.sizes.get(&gpus).map_or(all, |runs| runs.expected(all, now));
        self.classes.get(&(namespace.clone(), gpus)).map_or(size, |runs| runs.expected(size, now))
    }

    /// How long ended gangs ran: of this namespace and size; of this size; all of them.
    pub fn run_times(&self, namespace: &Arc<str>, gpus: i64) -> [Option<&RunTimes>; 3] {
        let class = self.classes.get(&(namespace.clone(), gpus));
        let size = self.sizes.get(&gpus);
        [class.map(|runs| &runs.times), size.map(|runs| &runs.times), Some(&self.all.times)]
    }

    pub(crate) fn gang_started(&mut self, namespace: &Arc<str>, gpus: i64, started: Timestamp) {
        if self.classes.len() >= CLASSES_MAX {
            self.forget_some();
        }
        self.each(namespace, gpus, |runs| {
            runs.running += 1;
            runs.started_sum += started.as_second();
        });
    }

    /// A gang does not run any more. If it was evicted or its node went away, its time says nothing about how long it
    /// would have run: then `ended_by_itself` is false.
    pub(crate) fn gang_ended(
        &mut self,
        namespace: &Arc<str>,
        gpus: i64,
        started: Timestamp,
        now: Timestamp,
        ended_by_itself: bool,
    ) {
        let all_seconds = (now.as_second() - started.as_second()).max(0);
        let seconds = all_seconds.min(RUN_SECONDS_MAX);
        self.each(namespace, gpus, |runs| {
            runs.running -= 1;
            runs.started_sum -= started.as_second();
            if ended_by_itself {
                runs.times.add(all_seconds);
                runs.ended += ONE - runs.ended / FADE;
                runs.ended_seconds +=
                    i128::from(seconds) * i128::from(ONE) - runs.ended_seconds / i128::from(FADE);
            }
        });
    }

    fn each(&mut self, namespace: &Arc<str>, gpus: i64, change: impl Fn(&mut Runs)) {
        change(self.classes.entry((namespace.clone(), gpus)).or_default());
        change(self.sizes.entry(gpus).or_default());
        change(&mut self.all);
    }

    /// Forgets the classes in which nothing runs and of which least is known. This is rare, and then half of them go
    /// at once.
    fn forget_some(&mut self) {
        let mut known: Vec<i64> =
            self.classes.values().filter(|it| it.running == 0).map(|it| it.ended).collect();
        known.sort_unstable();
        let little = known.get(known.len() / 2).copied().unwrap_or(0);
        self.classes.retain(|_, runs| runs.running > 0 || runs.ended > little);
    }
}

impl Runs {
    fn expected(&self, above_seconds: i64, now: i64) -> i64 {
        let so_far = (self.running * now - self.started_sum).clamp(0, self.running * RUN_SECONDS_MAX);
        // Ends beyond the last few hundred have faded, so no more running gangs than that count.
        let so_far = so_far * FADE / self.running.max(FADE);
        let above = i128::from(PRIOR_WEIGHT * above_seconds);
        let seconds = self.ended_seconds + (i128::from(so_far) + above) * i128::from(ONE);
        let expected = seconds / i128::from(self.ended + PRIOR_WEIGHT * ONE);
        i64::try_from(expected).unwrap_or(RUN_SECONDS_MAX).clamp(1, RUN_SECONDS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn many_that_run_do_not_make_all_runs_seem_long() {
        let (mut history, team) = (History::default(), Arc::from("team"));
        // Ten come and ten end every second, each after 600 seconds.
        for second in 0..3_000 {
            for _ in 0..10 {
                history.gang_started(&team, 1, at(second));
                if second >= 600 {
                    history.gang_ended(&team, 1, at(second - 600), at(second), true);
                }
            }
        }
        let expected = history.expected_seconds(&team, 1, at(3_000));
        assert!((600..1_200).contains(&expected), "{expected}");
    }

    #[test]
    fn nothing_seen_is_the_prior_and_what_is_seen_moves_it() {
        let (mut history, team) = (History::default(), Arc::from("team"));
        assert_eq!(history.expected_seconds(&team, 8, at(0)), PRIOR_SECONDS);
        for number in 0..100 {
            history.gang_started(&team, 8, at(number * 1000));
            history.gang_ended(&team, 8, at(number * 1000), at(number * 1000 + 600), true);
        }
        let expected = history.expected_seconds(&team, 8, at(1_000_000));
        assert!((600..650).contains(&expected), "{expected}");
        // Another team of the same size is expected to do as others do.
        let other = history.expected_seconds(&Arc::from("other"), 8, at(1_000_000));
        assert!((600..900).contains(&other), "{other}");
    }

    #[test]
    fn a_class_whose_first_gangs_still_run_is_not_taken_for_short() {
        let (mut history, team) = (History::default(), Arc::from("team"));
        history.gang_started(&team, 1, at(0));
        history.gang_started(&team, 1, at(0));
        history.gang_ended(&team, 1, at(0), at(10), true);
        let early = history.expected_seconds(&team, 1, at(10));
        let late = history.expected_seconds(&team, 1, at(200_000));
        assert!(late > early + 50_000, "{early} {late}");
    }

    #[test]
    fn an_eviction_is_no_end() {
        let (mut history, team) = (History::default(), Arc::from("team"));
        history.gang_started(&team, 1, at(0));
        history.gang_ended(&team, 1, at(0), at(10), false);
        assert_eq!(history.expected_seconds(&team, 1, at(10)), PRIOR_SECONDS);
    }
}
