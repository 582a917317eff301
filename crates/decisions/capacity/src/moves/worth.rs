//! Whether a move pays.
//!
//! ```text
//!   gain = (old price − new price) × time for which that is expected to hold
//!   cost = changeover × its price  +  (saving + work since the last save) × old price
//!   it pays if gain > 2 × cost
//! ```
//!
//! The factor is the hysteresis. Prices that swing to and fro are followed only if a swing pays for the way there and
//! the way back. Work since the last save is counted although a run that is told to leave saves first: if it cannot,
//! this is what is lost.

use std::fmt;

use crate::catalogue::MICROS;
use crate::money::money;

/// How many times its cost a move must gain.
pub const GAIN_TIMES: i64 = 2;

/// Amounts are given in hundredths.
const TOLD_MICROS: i64 = MICROS / 100;

/// What is at stake. Prices are in millionths per hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveStakes {
    /// Of the machines that go.
    pub old_micros: i64,
    /// Of those that come.
    pub new_micros: i64,
    /// For how long the difference is expected to last.
    pub seconds: i64,
    /// The time from machines, or none, until work continues.
    pub changeover_seconds: i64,
    /// At what price that time is counted.
    pub changeover_micros: i64,
    /// Saving, and work since the last save.
    pub lost_seconds: i64,
    /// At what price that time is counted.
    pub lost_micros: i64,
}

/// What a move is expected to bring, in millionths of the currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worth {
    /// What is saved, before the cost.
    pub gain_micros: i64,
    /// What moving costs.
    pub cost_micros: i64,
    /// In this time.
    pub seconds: i64,
}

impl Worth {
    /// Computes it.
    pub fn of(stakes: &MoveStakes) -> Self {
        let gain_micros = for_time(stakes.old_micros.saturating_sub(stakes.new_micros), stakes.seconds);
        let changeover = for_time(stakes.changeover_micros, stakes.changeover_seconds);
        let lost = for_time(stakes.lost_micros, stakes.lost_seconds);
        Self { gain_micros, cost_micros: changeover.saturating_add(lost), seconds: stakes.seconds }
    }

    /// Whether it is worth it.
    pub fn pays(self) -> bool {
        self.gain_micros > self.cost_micros.saturating_mul(GAIN_TIMES)
    }
}

impl fmt::Display for Worth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = |micros: i64| money(micros / TOLD_MICROS * TOLD_MICROS);
        let (gain, cost, minutes) = (about(self.gain_micros), about(self.cost_micros), self.seconds / 60);
        write!(f, "saves {gain} in {minutes} minutes, and moving costs {cost}")
    }
}

fn for_time(micros_per_hour: i64, seconds: i64) -> i64 {
    let cost = i128::from(micros_per_hour) * i128::from(seconds) / 3600;
    i64::try_from(cost).unwrap_or(if cost > 0 { i64::MAX } else { i64::MIN })
}

#[cfg(test)]
mod tests {
    use super::{MoveStakes, Worth};
    use crate::catalogue::MICROS;

    fn worth(new: i64, seconds: i64, lost_seconds: i64) -> Worth {
        let old_micros = 20 * MICROS;
        Worth::of(&MoveStakes {
            old_micros,
            new_micros: new * MICROS,
            seconds,
            changeover_seconds: 180,
            changeover_micros: new * MICROS,
            lost_seconds,
            lost_micros: old_micros,
        })
    }

    #[test]
    fn a_move_pays_twice_what_it_costs_or_is_not_made() {
        // 14 an hour are saved; the changeover costs 6 × 180 s / 3600 s = 0.30, a lost minute 0.33.
        let moved = worth(6, 3600, 60);
        assert_eq!((moved.gain_micros, moved.cost_micros), (14_000_000, 633_333));
        assert_eq!(moved.to_string(), "saves 14.00 in 60 minutes, and moving costs 0.63");
        let table = [(6, 325, 60, false), (6, 326, 60, true), (6, 3600, 1206, false), (6, 3600, 1205, true)];
        for (new, seconds, lost, pays) in table {
            assert_eq!(worth(new, seconds, lost).pays(), pays, "{new} {seconds} {lost}");
        }
        assert!(!worth(20, 86_400, 0).pays() && !worth(25, 86_400, 0).pays(), "dearer is never better");
    }
}
