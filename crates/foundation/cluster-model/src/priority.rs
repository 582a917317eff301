//! Priorities and their tiers: those of `api_types::run::PriorityTier`, which this crate does not link. A test of
//! `cluster-convert` compares the two.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Priorities of one tier differ by less than this.
const WIDTH: i32 = 1000;

/// Priorities that count as alike between queues: within a tier no gang takes from another queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tier(pub(crate) i32);

impl Tier {
    /// The tiers of `spec.priority` of a Run, by name, the least urgent first.
    pub const NAMED: [(&'static str, Self); 4] =
        [("exploration", Self(1)), ("research", Self(2)), ("deadline", Self(3)), ("production", Self(4))];

    /// The tier of a priority.
    pub fn of(priority: i32) -> Self {
        Self(priority.div_euclid(WIDTH))
    }

    /// The tier with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, tier)| *tier)
    }

    /// Its name, if it has one.
    pub fn name(self) -> Option<&'static str> {
        Self::NAMED.iter().find(|(_, tier)| *tier == self).map(|(name, _)| *name)
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}
