//! Shared by the end-to-end tests: objects to create, conditions to wait for, the recorded history of a
//! cluster.
//!
//! The tests are in `tests/e2e`, one binary. They prove wiring on the real servers, never algorithms.

pub mod agents;
pub mod bounds;
pub mod claims;
pub mod cli;
pub mod collector;
pub mod effects;
pub mod faults;
pub mod history;
pub mod ledger;
pub mod machines;
pub mod metadata;
pub mod objects;
pub mod observe;
pub mod preemptions;
pub mod sse;
pub mod training;
pub mod usage;
pub mod users;
pub mod wait;
