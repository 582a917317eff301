//! A cluster on a virtual clock, planned by the code that runs in production.
//!
//! ```text
//!   trace (JSON lines, Philly, openb) ─┐
//!   seed ──► synthetic ────────────────┴─► Workload ──► Simulation ──► Outcome ──► report (HTML), table
//!                                                         │    ▲
//!                         arrivals, ends, failures ──► ClusterState ──► placement::plan ──► starts, evictions
//! ```
//!
//! The simulator has no scheduling rule of its own: at each moment it tells the model what happened, asks the
//! planner, and does what the plan says. It adds the world: how long jobs run, when they save their state, which node
//! fails.
//!
//! It never reads a clock, a file or a random number of the machine: traces are text in, reports are text out, and the
//! same seed gives the same outcome everywhere.
//!
//! **Memory.** A job costs about 250 bytes (itself, its name, its record, its place in the order) from beginning to
//! end. Its pods cost memory only while it waits or runs. A million jobs on 10,000 nodes take 350 MB for a trace of
//! any length; series have at most [`Options::points_max`] points.

mod outcome;
mod random;
pub mod report;
mod series;
mod simulation;
pub mod stories;
pub mod synthetic;
pub mod traces;

pub use placement::policies;

pub use outcome::{JobRecord, Outcome, Percentiles, QueueSummary, Summary, ratio};
pub use random::Random;
pub use series::{Series, SeriesLine};
pub use simulation::{Happening, Options, Simulation, Tidying, Watch, simulate};
pub use trace_format::{Event, Job, Workload};
