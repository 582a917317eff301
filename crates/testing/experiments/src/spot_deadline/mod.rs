//! X4 `spot-deadline` and X5 `spot-multizone`: a 48 h job with a deadline in windows of recorded spot markets, bought by
//! `capacity::spot`, the code that buys in production.
//!
//! ```text
//!   windows ──► Series of each zone ──► what lies before the window ──► History ──► outlook ──┐ anew every so often, from
//!      └──► Region: looks at the same times, prices ──► world: tick by tick ◄── decide ◄──────┘ what was seen until then
//! ```
//!
//! **Rules of the world**, for all rows alike. At each tick the buyer sees which zones have spot, and at what
//! price; its action holds for the tick, as in the published simulators. A machine whose zone has no spot at a
//! tick is gone. Each launch, including the first one and on-demand ones, takes the changeover, which is paid
//! for and has no progress. Work is saved on notice: only changeovers are lost. Spot hours are hours of
//! progress; changeovers count only in the cost.
//!
//! **What the buyer learns from.** Windows overlap in time, so their order has no meaning. A buyer knows only
//! looks at earlier times: those of the zone before its window began, those of the window up to now, and, if it
//! has seen little of the zone, those of the other zones before the window began.

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
pub use world::{BuyingOutcome, Contract, live};
