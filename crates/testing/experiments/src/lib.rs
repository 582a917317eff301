//! Simulations that measure our claims, on public traces and made-up jobs, with the code that runs in
//! production.
//!
//! ```text
//!   traces, seeds ──► this crate: a workload, a baseline ──► simulator, or the planner alone ──► figures
//! ```
//!
//! `cargo xtask experiments` runs them, through the binary of this crate; the ids of published figures (X1 to X6) are its
//! arguments. The library takes texts and seeds, and returns figures. It never opens a file, and nothing that ships links it.

pub mod blended_cost;
mod days;
pub mod offered_changes;
pub mod openb_saturation;
pub mod pool_queue;
pub mod powered_nodes;
pub mod quota_vs_pool;
pub mod reclaim_week;
pub mod spot_deadline;
pub mod start_forecasts;
