//! Checks our verdict on every node: random clusters are judged by us and by kube-scheduler's own plugins, and
//! compared node by node.
//!
//! ```text
//!   seed ──generate──► Case ──JSON──► engine/filter-oracle ──► stored case, upstream's verdicts
//!                                                                   │                │
//!                          convert, model, placement::testing ◄─────┘                ▼
//!                                     └───────────── ours ────────────────────► compare ──► shrink ──► cases/*.json
//! ```
//!
//! Both sides read the case as the API server would have stored it. Cases on which we once disagreed are kept in `cases/`
//! with upstream's verdicts, and run in plain `cargo test`, without the oracle. This crate never decides who is right:
//! upstream is.

pub mod case;
pub mod generate;
pub mod named;
pub mod oracle;
pub mod ours;
pub mod random;
pub mod shrink;
pub mod tally;
