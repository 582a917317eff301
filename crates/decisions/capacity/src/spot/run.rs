//! One run, as far as it matters for buying machines.

use std::sync::Arc;

use super::market::HourlyPrice;

/// What is left to do, by when, and where it runs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpotRun {
    /// Work that is not done yet, in seconds on one of the market's machines.
    pub work_left_seconds: u32,
    /// How long it may take.
    pub time_left: TimeLeft,
    /// The time from a launch until work continues: boot, pull, restore. Paid for, without progress.
    pub changeover_seconds: u32,
    /// The most work that is lost with a machine: zero if state is saved on notice, otherwise the interval between
    /// saves.
    pub lost_work_seconds_max: u32,
    /// What an hour may cost at most.
    pub ceiling: Option<HourlyPrice>,
    /// Where it is.
    pub machine: RunMachine,
}

/// How long a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLeft {
    /// It must have ended in this many seconds.
    Deadline(u32),
    /// It has no deadline, but may still lose this many seconds to waiting and changeovers; the caller counts them
    /// down.
    Patience(u32),
}

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunMachine {
    /// Nowhere.
    Nothing,
    /// On a spot machine.
    Spot {
        /// Of which offering.
        offering: Arc<str>,
        /// The time until its work continues.
        changeover_left_seconds: u32,
    },
    /// On an on-demand machine.
    OnDemand {
        /// Of which offering.
        offering: Arc<str>,
        /// The time until its work continues.
        changeover_left_seconds: u32,
    },
}

impl SpotRun {
    /// Time that can be lost without being late: negative if it is late already.
    pub fn laxity_seconds(&self) -> i64 {
        match self.time_left {
            TimeLeft::Deadline(left) => i64::from(left) - i64::from(self.work_left_seconds),
            TimeLeft::Patience(left) => i64::from(left),
        }
    }

    /// With less laxity than this only on-demand is safe: see [the guard](super).
    pub fn guard_seconds(&self, tick_seconds: u32) -> i64 {
        i64::from(self.changeover_seconds) + i64::from(self.lost_work_seconds_max) + i64::from(tick_seconds)
    }
}
