//! Judges the bill: compares the ledger's rows with an independent record of all events and a naive computation
//! of their cost.
//!
//! ```text
//!   watch pods, nodes ─► Witness: raw JSON, every event ─► Use (own rules) ─┐
//!                                             prices ─► rationals ──────────┼─► compare ─► mistakes
//!   PostgreSQL ─► Bill: lines that are charged and not reversed, open use ──┤
//!   the cloud's own bill ─► lives of machines that were bought ─────────────┘
//! ```
//!
//! It shares no rule with the meter: it reads the objects itself, and links neither `costing` nor `store`.

mod bill;
mod compare;
mod machines;
mod price;
mod witness;

pub use bill::{Bill, BilledLine, OpenUse};
pub use compare::{compare_nodes, compare_pods};
pub use machines::machines_are_billed;
pub use price::{GpuPrice, cost};
pub use witness::{NodeLife, Use, Witness};
