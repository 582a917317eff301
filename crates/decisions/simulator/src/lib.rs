//! A cluster on a virtual clock, planned by the code that runs in production.
//!
//! ```text
//!   trace (JSON lines, Philly, openb) ─┐
//!   seed ──► synthetic ────────────────┴─► Workload ──► Simulation ──► Outcome ──► report (HTML), table
//!                                                         │    ▲
//!                         arrivals, ends, failures ──► ClusterState ──► placement::plan ──► starts, evictions
//! ```
//!
//! The simulator has no scheduling rule of its own: each moment it tells the model what happened, asks the
//! planner, and does what the plan says. What it adds is the world: how long jobs run, when they save their state,
//! which node fails.
//!
//! It never reads a clock, a file or a random number of the machine: traces are text in, reports are text out, and the
//! same seed gives the same outcome everywhere.
//!
//! **Memory.** A job costs about 250 bytes (itself, its name, its record, its place in the order) from beginning to end,
//! and its pods only while it waits or runs. A million jobs on 10,000 nodes take 350 MB, whatever the length of the trace; series
//! have at most [`Options::points_max`] points.

pub mod experiments;
mod outcome;
mod random;
mod recorder;
pub mod report;
pub mod scenario;
mod series;
mod simulation;
pub mod synthetic;
pub mod traces;
mod workload;

pub use placement::policies;

pub use outcome::{JobRecord, Outcome, QueueSummary, Spread, Summary, ratio};
pub use random::Random;
pub use recorder::Recorder;
pub use series::{Line, Series};
pub use simulation::{Happening, Options, Simulation, Watch, simulate};
pub use workload::{Event, Job, Workload};
