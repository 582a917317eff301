//! The ledger in PostgreSQL: schema, migrations, what the meter writes and what people read.
//!
//! ```text
//!   meter ── record ─► pod_usage, node_usage, usage_event ── marks ─► account (dirty)
//!                                                                        │ post: fold, compare, append
//!                                                                        ▼
//!   people ◄── Reader (row-level security) ◄── ledger_line (append-only, monthly), open_usage, daily_spend
//! ```
//!
//! It decides nothing about money: [`costing`] does. It never updates or deletes a ledger line, and its readers'
//! role sees rows of the tenants it was given for this transaction and no others, with or without a WHERE.

mod connect;
pub mod error;
pub mod ledger;
pub mod migrate;
mod open;
pub mod reader;
mod rows;

pub use error::Error;
pub use ledger::{Batch, Ledger, LostUse, Posted, QueueSpend};
pub use migrate::migrate;
pub use reader::{Grouping, Reader, Report, ReportQuery, ReportRow, RunCost, Scope};
