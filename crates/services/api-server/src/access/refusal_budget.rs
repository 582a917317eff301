//! How many tokens may be refused in a while before strangers are turned away without asking Kubernetes.
//!
//! Tokens cannot be guessed; what is protected is kube-apiserver, which would have to look at each guess.

use std::time::{Duration, Instant};

/// Refused tokens that cost a question each, at once: a team whose tokens expire in the same minute.
const REFUSALS_MAX: u32 = 200;
/// One more may be refused after this: 50 in a second, for as long as it takes.
const EARN_INTERVAL: Duration = Duration::from_millis(20);

/// A bucket of refusals. The clock is the caller's.
#[derive(Debug)]
pub struct RefusalBudget {
    /// The time at which the bucket was full, or would be if nobody else spent.
    full_at: Instant,
}

impl RefusalBudget {
    /// A full bucket.
    pub fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Whether another refusal can be paid for.
    pub fn is_left(&self, now: Instant) -> bool {
        self.full_at.saturating_duration_since(now) < EARN_INTERVAL * REFUSALS_MAX
    }

    /// Pays for one. Questions that were under way together may overdraw, by as many as there are at one time.
    pub fn spend(&mut self, now: Instant) {
        self.full_at = self.full_at.max(now) + EARN_INTERVAL;
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{REFUSALS_MAX, RefusalBudget};

    #[test]
    fn two_hundred_at_once_and_then_fifty_in_a_second() {
        let start = Instant::now();
        let mut budget = RefusalBudget::new(start);
        let mut spend_all = |now| {
            let mut spent = 0;
            while budget.is_left(now) {
                budget.spend(now);
                spent += 1;
            }
            spent
        };
        assert_eq!(spend_all(start), REFUSALS_MAX);
        assert_eq!(spend_all(start), 0);
        assert_eq!(spend_all(start + Duration::from_secs(1)), 50);
        assert_eq!(spend_all(start + Duration::from_hours(1)), REFUSALS_MAX, "no more than the bucket holds");
    }
}
