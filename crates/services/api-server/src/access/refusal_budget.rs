//! How many tokens may be refused in a time before unknown tokens are refused without asking Kubernetes.
//!
//! Tokens cannot be guessed. The budget protects kube-apiserver, which would have to check each guess.

use std::time::{Duration, Instant};

/// Refusals at once, each of which costs a question: a team whose tokens expire in the same minute.
const REFUSALS_MAX: u32 = 200;
/// The budget grows by one refusal in this time: 50 in a second.
const EARN_INTERVAL: Duration = Duration::from_millis(20);

/// A bucket of refusals. The clock is the caller's.
#[derive(Debug)]
pub struct RefusalBudget {
    /// The time at which the bucket was full, or will be without more spending.
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

    /// Pays for one refusal. Concurrent questions may overdraw the budget, by at most their number.
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
