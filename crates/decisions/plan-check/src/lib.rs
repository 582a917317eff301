//! An independent judge: of a plan before it is carried out, of the state it was made from, and of a history after it
//! happened.
//!
//! ```text
//!   ClusterState + Plan + Policy ─► check_plan ─────────────────► violations
//!                                     facts     objects, where pods are, which gangs are held and evicted
//!                                     pictures  which pods are where now, and once evicted gangs are gone
//!                                     one module for each rule, over facts, pictures and the plan
//!   ClusterState ─────────────────► check_state ────────────────► what it counts wrongly
//!   plans and ends, in order ─────► Course ─────────────────────► what went wrong over time
//!   watch events ─────────────────► History::apply ─────────────► violations
//!   sightings of pods, with times ► GangTimes ──────────────────► gangs in part for too long, pods never placed
//! ```
//!
//! It is written to be obviously right, not to be fast: it counts everything again from the objects, and uses none of
//! the state's orders and sums. It never imports placement; a tidy test holds that line.

mod budgets;
mod capacity;
mod check;
mod counts;
mod course;
mod evictions;
mod facts;
mod gang_times;
mod gangs;
mod history;
mod local;
mod mig;
mod neighbours;
mod outruns;
mod picture;
mod quota;
mod reservations;
mod tidying;
mod topology;
mod turns;
mod violation;

pub use check::check_plan;
pub use counts::check_state;
pub use course::Course;
pub use gang_times::{GangTimes, InPart, PodLife, Sighting};
pub use history::{HistoryJudge, HistoryViolation};
pub use neighbours::neighbours_admit;
pub use violation::Violation;
