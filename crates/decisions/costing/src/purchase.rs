//! How a machine was bought, if we bought it. It keeps its price for as long as it lives, whatever price sheets say.
//!
//! ```text
//!   launched ──────────── its Node appears ─────────── open to pods ──────────────── gone
//!      │  node starting: charged to who it was bought for  │  idle: charged to nobody  │
//! ```

use crate::account::Attribution;
use crate::money::{Amount, HourlyPrice};
use crate::record::join_known;
use crate::time::Moment;

/// What is known of a purchase. Of one machine it never differs; if it did, the greater would count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Purchase {
    /// The price for the whole machine.
    pub paid: HourlyPrice,
    /// What the same machine cost on demand when it was bought as spot; `None` if it was not, or if that is not known.
    pub on_demand: Option<HourlyPrice>,
    /// How it starts; `None` where nobody tells, and then nothing of it is taken for starting.
    pub start: Option<Start>,
}

/// A machine's time before it is open to pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Start {
    /// For whom it was bought; all empty for a spare.
    pub buyer: Attribution,
    /// When it was open to pods; `None` until it is.
    pub opened_at: Option<Moment>,
}

impl Purchase {
    /// Joins two words on the same purchase. Commutative, associative, idempotent.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            paid: self.paid.max(other.paid),
            on_demand: self.on_demand.max(other.on_demand),
            start: join_known(self.start, other.start, Start::join),
        }
    }

    /// What one second less costs than on demand; below zero where spot is the dearer one.
    pub fn saved_per_second(&self) -> Amount {
        self.on_demand.map_or(Amount::ZERO, |price| price.per_second() - self.paid.per_second())
    }
}

impl Start {
    fn join(self, other: Self) -> Self {
        Self {
            buyer: self.buyer.join(other.buyer),
            opened_at: join_known(self.opened_at, other.opened_at, Moment::min),
        }
    }

    /// Until when what nobody holds is taken for starting.
    pub(crate) fn until(&self) -> Moment {
        self.opened_at.unwrap_or(Moment(i64::MAX))
    }
}
