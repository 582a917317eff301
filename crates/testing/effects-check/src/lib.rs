//! Judges effects: after `commit`, the cluster must become what the state already is.
//!
//! ```text
//!   seed ─► objects ──cluster-convert──► state ─► plan ─► commit ──────────────► state as committed ─┐
//!              │                                             └─► effects                             ├─ equal?
//!              ▼                                                    │ cluster-apply                  │
//!           the API server, real or in memory ◄─────────────────────┘                                │
//!              └──list──► cluster-convert ─► a new leader's state, holds taken up ───────────────────┘
//! ```
//!
//! The same cases run on a [`memory`] store and on a real API server: both are a [`kube::Client`]. To prove
//! that the check notices errors, effects can be dropped, sent twice, or sent again when they are stale: see
//! [`Tampering`].
//!
//! This crate never decides who is right, and nothing that ships links it.

mod case;
pub mod memory;
mod objects;
mod round;
mod server;
mod tampering;
mod view;

pub use case::{Case, Disagreement, Tally};
pub use server::Server;
pub use tampering::Tampering;
