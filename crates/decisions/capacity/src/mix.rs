//! The cheapest feasible mix of machines for the waiting gangs.
//!
//! ```text
//!   demands, in order ─► problem ─► bound ─► search ─► Mix: purchases, assignments, refusals with reasons
//!   offerings, rooms      alike is    what      whole machines,        the cost, and what it cannot be below
//!   limits                counted     members   cheapest first
//!                                     are worth
//! ```
//!
//! First it is decided which demands are served: one after the other, each if it can be served together with all
//! before it. Then those are served at the lowest cost that is found. The result does not depend on the order of the
//! arguments.

mod admit;
mod answer;
mod bound;
mod dive;
mod explain;
mod fill;
mod fits;
mod keys;
mod least;
mod market;
mod master;
mod prices;
mod problem;
mod refusal;
mod search;
mod starts;
mod state;

pub use answer::{AssignedPlace, Assignment, Mix, MixPurchase, RefusedDemand};
pub use refusal::{Misfits, Refusal};

use self::fits::Fits;
use self::market::Market;
use crate::demand::{Demand, Limits};
use crate::offering::{FreeRoom, Offering};

/// Decides what to buy. Ids must be unique; demands without members are served with nothing.
pub fn decide(demands: &[Demand], offerings: &[Offering], rooms: &[FreeRoom], limits: &Limits) -> Mix {
    let mut demands: Vec<&Demand> = demands.iter().collect();
    demands.sort_by(|a, b| a.order.cmp(&b.order).then_with(|| a.id.cmp(&b.id)));
    let mut offerings: Vec<&Offering> = offerings.iter().collect();
    offerings.sort_by(|a, b| a.id.cmp(&b.id));
    let mut rooms: Vec<&FreeRoom> = rooms.iter().collect();
    rooms.sort_by(|a, b| a.id.cmp(&b.id));
    let fits = Fits::new(&demands, &offerings, &rooms);
    let market = Market { demands, offerings, rooms, limits, fits };
    let admitted = admit::admit(&market);
    explain::explain(&market, admitted)
}
