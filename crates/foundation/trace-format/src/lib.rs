//! Our trace format: JSON lines that say which nodes, queues and jobs a cluster had. See `docs/reference/trace.md`.
//!
//! ```text
//!   scheduler: state, cluster changes ──► Recorder ──┐
//!                                                    ├──► JSON lines ──► Reader ──► Workload ──► simulator
//!                     Workload ──► json_lines::write ┘
//! ```
//!
//! It never opens a file and never reads a clock: lines and times come in and go out as arguments. It knows neither the
//! planner nor the simulator, so the scheduler can record without linking either.

pub mod json_lines;
mod recorder;
mod shared;
mod workload;

pub use recorder::Recorder;
pub use shared::Shared;
pub use workload::{Event, Job, Workload};

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct Error {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}
