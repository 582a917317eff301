//! An independent judge: of a plan before it is carried out, and of a history after it happened.
//!
//! ```text
//!   ClusterState + Plan ──► check_plan ──────► violations
//!   watch events ─────────► History::apply ──► violations
//! ```
//!
//! It is written to be obviously right, not to be fast: it counts everything anew from the objects, and uses none of
//! the state's orders and sums. It never imports placement; a tidy test holds that line.

mod history;
mod judge;

pub use history::{History, HistoryViolation};
pub use judge::{Violation, check_plan};
