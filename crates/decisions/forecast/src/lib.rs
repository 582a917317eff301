//! When a waiting gang starts, what is ahead of it, and what would start it now. The simulator and the scheduler ask
//! these functions.
//!
//! ```text
//!   state ─► plan ───────────────────────────────────► position   gangs and GPUs ahead in the order of planning
//!
//!   state ─► clone ─► ends drawn by `laws` ─┐
//!   Coming ─► machines that were ordered ───┤
//!   Arrivals ─► the last days once more ────┴─► `forward`: plan, commit, next step … until the gang starts
//!                                                  └─► 16 futures ─► quantiles ─► Calibration ─► eta: p50, p90
//!                                                                                      ▲
//!                                              outcomes of earlier forecasts ──────────┘
//!
//!   state ─► clone ─► one thing changed ─► plan ─► does it start? ─► changes   the smallest of each kind that does
//! ```
//!
//! There is no scheduling rule here: every answer comes from [`placement::plan`], so it is as good as what is known
//! about run times and arrivals. The caller keeps two bounded values between calls: [`Arrivals`], the gangs of the
//! last days, and [`Calibration`], how far off earlier forecasts were.
//!
//! The cost is bounded in plans: one for a position, 128 for changes, and for an ETA 16 futures of at most 4,000,
//! mostly of some dozens.
//!
//! This crate never acts, never reads a clock and draws randomness only from the seed it is given. The state is left
//! as it was found.

mod arrivals;
mod calibration;
mod changes;
mod coming;
mod eta;
mod forward;
mod laws;
mod needed;
mod position;
mod random;

pub use arrivals::Arrivals;
pub use calibration::{Calibration, Forecast, Range};
pub use changes::{RequestChange, Topology, changes};
pub use coming::Coming;
pub use eta::{Draws, Known, eta};
pub use position::{Position, position, position_in};
