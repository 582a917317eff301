//! Whole seconds and whole days, UTC: what Kubernetes' timestamps and the ledger have in common.

use jiff::Timestamp;

/// Seconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub i64);

/// Days since 1970-01-01, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i32);

const SECONDS_PER_DAY: i64 = 86_400;

impl Moment {
    /// The second a timestamp falls into.
    pub fn of(timestamp: Timestamp) -> Self {
        // `as_second` rounds towards zero, which is down for every time this platform will see.
        Self(timestamp.as_second())
    }

    /// The day it falls into.
    pub fn day(self) -> Day {
        Day(i32::try_from(self.0.div_euclid(SECONDS_PER_DAY)).unwrap_or(i32::MAX))
    }
}

impl Day {
    /// Its first second.
    pub fn start(self) -> Moment {
        Moment(i64::from(self.0) * SECONDS_PER_DAY)
    }

    /// The first second after it.
    pub fn end(self) -> Moment {
        self.next().start()
    }

    /// The day after.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
