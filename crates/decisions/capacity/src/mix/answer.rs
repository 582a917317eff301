//! The result: what to buy, and for which demands.

use super::refusal::Refusal;
use crate::offering::MicrosPerHour;

/// What to buy, which demand gets what, and which gets nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// By offering, then by the demands that it serves.
    pub purchases: Vec<MixPurchase>,
    /// Every demand that is served, in order of service.
    pub assignments: Vec<Assignment>,
    /// Every other demand, in order of service.
    pub refused: Vec<RefusedDemand>,
    /// What all purchases cost together.
    pub cost_per_hour: MicrosPerHour,
    /// No mix for the served demands costs less than this.
    pub bound: MicrosPerHour,
    /// Nothing cheaper exists for the served demands: this was proven.
    pub is_best: bool,
}

/// Machines of one offering that hold the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixPurchase {
    /// The offering's id.
    pub offering: String,
    /// How many machines.
    pub count: u32,
    /// Their price together.
    pub cost_per_hour: MicrosPerHour,
    /// The demands on each of them, with the number of members.
    pub serves: Vec<(String, u32)>,
    /// How many offerings could hold the same, this one among them.
    pub possible_offerings: usize,
    /// The cheapest other one that could hold the same with everything else as it is, and what that would cost.
    pub next_best: Option<(String, MicrosPerHour)>,
}

/// Where the members of one demand are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The demand's id.
    pub demand: String,
    /// Each machine once, with how many members are on it.
    pub machines: Vec<(AssignedPlace, u32)>,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AssignedPlace {
    /// The existing room of this id.
    Room(String),
    /// A machine that is to be bought.
    Bought {
        /// The offering's id.
        offering: String,
        /// Which of those bought of this offering, from zero.
        number: u32,
    },
}

/// A demand that gets nothing, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedDemand {
    /// The demand's id.
    pub demand: String,
    /// With the numbers.
    pub reason: Refusal,
}
