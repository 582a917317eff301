//! The ledger in PostgreSQL: schema, migrations, the meter's writes and people's reads.
//!
//! ```text
//!   meter ── record ─► pod_usage, node_usage, usage_event ── marks ─► account (dirty)
//!                                                                        │ post: fold, compare, append
//!                                                                        ▼
//!   people ◄── Reader (row-level security) ◄── ledger_line (append-only, monthly), open_usage, daily_spend
//! ```
//!
//! Beside it is the archive: Runs that have ended, which the cluster need not keep.
//!
//! It decides nothing about money: [`costing`] does. It never updates or deletes a ledger line, and its
//! readers' role sees only rows of the tenants that the transaction names, with or without a WHERE.

mod connect;
pub mod error;
pub mod ledger;
pub mod migrate;
mod open;
pub mod reader;
mod rows;

pub use error::Error;
pub use ledger::{ArchivedRun, Batch, Ledger, LostUse, Posted, QueueSpend};
pub use migrate::migrate;
pub use reader::{ArchiveQuery, Grouping, Place, Reader, Report, ReportQuery, ReportRow, RunCost, Scope};
