//! Draws the fault of each request from a seed, by the share of each fault.

use std::time::Duration;

use seeded_random::Random;

/// How a proxy treats requests. Shares are per mille of requests; together at most 1,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Writes answered 409 and not forwarded. A read cannot conflict, so it passes.
    pub conflict_permille: u32,
    /// Requests answered 429 with Retry-After, and not forwarded.
    pub throttle_permille: u32,
    /// What Retry-After says.
    pub retry_after_seconds: u32,
    /// Requests answered 500 and not forwarded.
    pub error_permille: u32,
    /// Requests whose connection is cut before they are forwarded: they were not executed, and the sender
    /// cannot know.
    pub cut_before_permille: u32,
    /// Requests that are executed, with the connection cut instead of an answer.
    pub cut_after_permille: u32,
    /// Requests that are executed and never answered; the sender's own timeout ends them.
    pub swallow_permille: u32,
    /// Every request waits this long before it is forwarded.
    pub delay: Duration,
    /// Watches are cut off, and new ones are refused.
    pub no_watches: bool,
}

impl Faults {
    /// 30 % of requests: a third conflicts, a third is throttled for a second, and a third has an unknown
    /// outcome, half of which are executed. A tenth of the unknown ones get silence instead of a cut.
    pub const STORM: Self = Self {
        conflict_permille: 100,
        throttle_permille: 100,
        retry_after_seconds: 1,
        error_permille: 0,
        cut_before_permille: 50,
        cut_after_permille: 40,
        swallow_permille: 10,
        delay: Duration::ZERO,
        no_watches: false,
    };

    /// What happens to the next request.
    pub(super) fn draw(&self, random: &mut Random, is_write: bool) -> Fault {
        let drawn = random.below(1_000);
        let mut bound = 0;
        for (share, fault) in [
            (self.conflict_permille, if is_write { Fault::Conflict } else { Fault::None }),
            (self.throttle_permille, Fault::Throttle),
            (self.error_permille, Fault::Error),
            (self.cut_before_permille, Fault::CutBefore),
            (self.cut_after_permille, Fault::CutAfter),
            (self.swallow_permille, Fault::Swallow),
        ] {
            bound += u64::from(share);
            if drawn < bound {
                return fault;
            }
        }
        Fault::None
    }
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    Conflict,
    Throttle,
    Error,
    CutBefore,
    CutAfter,
    Swallow,
}

/// How many requests passed, and how many got which fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All that came.
    pub requests: u64,
    /// Answered 409.
    pub conflicts: u64,
    /// Answered 429.
    pub throttled: u64,
    /// Answered 500.
    pub errors: u64,
    /// Cut before they were forwarded.
    pub cut_before: u64,
    /// Executed, and cut.
    pub cut_after: u64,
    /// Executed, and never answered.
    pub swallowed: u64,
    /// Watches that were ended or refused.
    pub watches_cut: u64,
}

impl Counts {
    pub(super) fn note(&mut self, fault: Fault) {
        self.requests += 1;
        match fault {
            Fault::None => {}
            Fault::Conflict => self.conflicts += 1,
            Fault::Throttle => self.throttled += 1,
            Fault::Error => self.errors += 1,
            Fault::CutBefore => self.cut_before += 1,
            Fault::CutAfter => self.cut_after += 1,
            Fault::Swallow => self.swallowed += 1,
        }
    }

    /// Requests that got a fault.
    pub fn faults(&self) -> u64 {
        self.conflicts + self.throttled + self.errors + self.cut_before + self.cut_after + self.swallowed
    }
}

#[cfg(test)]
mod tests {
    use seeded_random::Random;

    use super::{Counts, Faults};

    #[test]
    fn a_storm_hits_three_writes_in_ten_and_the_same_seed_hits_the_same() {
        let storm = |seed| {
            let (mut random, mut counts) = (Random::new(seed), Counts::default());
            for _ in 0..10_000 {
                counts.note(Faults::STORM.draw(&mut random, true));
            }
            counts
        };
        let counts = storm(7);
        assert!((2_800..3_200).contains(&counts.faults()), "{counts:?}");
        assert!([counts.conflicts, counts.throttled].iter().all(|count| (800..1_200).contains(count)));
        assert!(counts.cut_before > 0 && counts.cut_after > 0 && counts.swallowed > 0, "{counts:?}");
        assert_eq!(storm(7), counts);
        assert_ne!(storm(8), counts);
    }

    #[test]
    fn a_read_never_conflicts() {
        let mut random = Random::new(1);
        let only_conflicts = Faults { conflict_permille: 1_000, ..Faults::default() };
        let mut counts = Counts::default();
        (0..100).for_each(|_| counts.note(only_conflicts.draw(&mut random, false)));
        assert_eq!((counts.requests, counts.faults()), (100, 0));
    }
}
