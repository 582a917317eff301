//! How a machine was bought, if we bought it. It keeps its price as long as it lives, whatever price sheets say.
//!
//! ```text
//!   launched ──────────── its Node appears ─────────── open to pods ──────────────── gone
//!      │  node starting: charged to its buyer                │  idle: charged to nobody │
//! ```

use crate::account::Attribution;
use crate::known::join_known;
use crate::money::{Amount, HourlyPrice};
use crate::time::Moment;

/// What is known about a purchase. For one machine it never differs; if it did, the greater would count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Purchase {
    /// The price for the whole machine.
    pub paid: HourlyPrice,
    /// What the same machine cost on demand when it was bought as spot; `None` if it was not, or if that is not known.
    pub on_demand: Option<HourlyPrice>,
    /// How it starts; `None` if no report says so, and then none of its time counts as starting.
    pub start: Option<MachineStart>,
}

/// A machine's time before it is open to pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineStart {
    /// What it was bought for; all empty for a spare.
    pub buyer: Attribution,
    /// When it was open to pods; `None` until it is.
    pub opened_at: Option<Moment>,
}

impl Purchase {
    /// Joins two reports on the same purchase. Commutative, associative, idempotent.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            paid: self.paid.max(other.paid),
            on_demand: self.on_demand.max(other.on_demand),
            start: join_known(self.start, other.start, MachineStart::join),
        }
    }

    /// How much less a second costs than on demand; below zero if spot costs more.
    pub fn saved_per_second(&self) -> Amount {
        self.on_demand.map_or(Amount::ZERO, |price| price.per_second() - self.paid.per_second())
    }
}

impl MachineStart {
    fn join(self, other: Self) -> Self {
        Self {
            buyer: self.buyer.join(other.buyer),
            opened_at: join_known(self.opened_at, other.opened_at, Moment::min),
        }
    }

    /// Until when idle time counts as starting.
    pub(crate) fn until(&self) -> Moment {
        self.opened_at.unwrap_or(Moment(i64::MAX))
    }
}
