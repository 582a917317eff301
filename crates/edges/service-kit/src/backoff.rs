//! How long to wait before something that failed is tried again.

use std::time::Duration;

/// More doublings than any wait here has until its maximum.
const DOUBLINGS_MAX: u32 = 16;

/// `first` after one failure, twice as long after each further one in a row, and at most `most`.
pub fn wait(first: Duration, most: Duration, failures: u32) -> Duration {
    first.saturating_mul(1 << failures.saturating_sub(1).min(DOUBLINGS_MAX)).min(most)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::wait;

    #[test]
    fn a_wait_doubles_up_to_its_maximum() {
        let seconds = |failures| wait(Duration::from_secs(1), Duration::from_mins(1), failures).as_secs();
        assert_eq!([0, 1, 2, 3, 6, 7, u32::MAX].map(seconds), [1, 1, 2, 4, 32, 60, 60]);
    }
}
