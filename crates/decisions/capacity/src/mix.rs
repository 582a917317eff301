//! The cheapest feasible mix of machines for the gangs that wait.
//!
//! ```text
//!   demands, in order ─► problem ─► bound ─► search ─► Mix: purchases, who is where, who is refused and why
//!   offerings, rooms      alike is    what      whole machines,        the cost, and what it cannot be below
//!   limits                counted     members   cheapest first
//!                                     are worth
//! ```
//!
//! Who is served is decided first: one demand after the other, each if it can be served together with all before it. Then
//! those are served at the lowest cost that is found. The result does not depend on the order of the arguments.

mod admit;
mod bound;
mod dive;
mod explain;
mod fill;
mod fits;
mod keys;
mod least;
mod master;
mod prices;
mod problem;
mod search;
mod starts;
mod state;

pub use explain::{Misfits, Refusal};

use self::fits::Fits;
use crate::demand::{Demand, Limits};
use crate::offering::{MicrosPerHour, Offering, Room};

/// What to buy, who gets what, and who gets nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// By offering, then by whom it is for.
    pub purchases: Vec<Purchase>,
    /// Everybody who is served, in order of service.
    pub assignments: Vec<Assignment>,
    /// Everybody else, in order of service.
    pub refused: Vec<Refused>,
    /// What all purchases cost together.
    pub cost_per_hour: MicrosPerHour,
    /// No mix for those who are served costs less than this.
    pub bound: MicrosPerHour,
    /// Nothing cheaper exists for those who are served: it was proven, not only not found.
    pub is_best: bool,
}

/// Machines of one offering that hold the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purchase {
    /// The offering's id.
    pub offering: String,
    /// How many machines.
    pub count: u32,
    /// Their price together.
    pub cost_per_hour: MicrosPerHour,
    /// Who is on each of them, with how many members.
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
    pub machines: Vec<(Place, u32)>,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The room of this id.
    Room(String),
    /// A machine that is to be bought.
    Bought {
        /// The offering's id.
        offering: String,
        /// Which of those bought of this offering, from zero.
        number: u32,
    },
}

/// Who gets nothing, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The demand's id.
    pub demand: String,
    /// With the numbers.
    pub reason: Refusal,
}

/// Decides what to buy. Ids must be unique; demands without members are served with nothing.
pub fn decide(demands: &[Demand], offerings: &[Offering], rooms: &[Room], limits: &Limits) -> Mix {
    let mut demands: Vec<&Demand> = demands.iter().collect();
    demands.sort_by(|a, b| a.order.cmp(&b.order).then_with(|| a.id.cmp(&b.id)));
    let mut offerings: Vec<&Offering> = offerings.iter().collect();
    offerings.sort_by(|a, b| a.id.cmp(&b.id));
    let mut rooms: Vec<&Room> = rooms.iter().collect();
    rooms.sort_by(|a, b| a.id.cmp(&b.id));
    let fits = Fits::new(&demands, &offerings, &rooms);
    let market = Market { demands, offerings, rooms, limits, fits };
    let admitted = admit::admit(&market);
    explain::explain(&market, admitted)
}

/// All that is known, sorted.
struct Market<'a> {
    demands: Vec<&'a Demand>,
    offerings: Vec<&'a Offering>,
    rooms: Vec<&'a Room>,
    limits: &'a Limits,
    fits: Fits,
}
