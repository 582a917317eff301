//! X4 `spot-deadline` and X5 `spot-multizone`: a 48 h job with a deadline in windows of recorded spot markets, bought by
//! `capacity::spot`, the code that buys in production.
//!
//! ```text
//!   windows ──► Series of each zone ──► what lies before the window ──► History ──► outlook ──┐ anew every so often, from
//!      └──► Region: looks at the same times, prices ──► world: tick by tick ◄── decide ◄──────┘ what was seen until then
//! ```
//!
//! **Rules of the world**, for all rows alike. At each tick the buyer sees which zones have spot, and at what price; what it
//! starts then lasts for the tick, as in the published simulators. A machine whose zone has no spot at a tick is gone. Each
//! launch, the first one and on-demand ones too, takes the changeover, paid for and without progress. Work is saved on
//! notice: only changeovers are lost. Spot hours are hours of progress; changeovers are in the cost and not in them.
//!
//! **What is learned from.** Windows overlap in time, so their order says nothing. All that a buyer knows are looks at times
//! before the present one: those of the zone before its window began, those of the window up to now, and, where little was
//! seen of the zone, those of the other zones before the window began.

mod baselines;
mod buyer;
mod omniscient;
mod region;
mod stitched;
#[cfg(test)]
mod tests;
mod world;

pub use baselines::Baseline;
pub use buyer::Buyer;
pub use omniscient::omniscient;
pub use region::{Past, Region, regions};
pub use stitched::{Stitched, stitch};
pub use world::{Contract, Outcome, live};
