//! Typed client of the REST API, for the CLI and for tests.
//!
//! ```text
//!   Client::new(server, token) ──► one method per operation ──► Ok(message of api_types::rest)
//!                                                          └──► Err(Problem | Transport | …)
//! ```
//!
//! It never sends a token in plain text over a network, never follows a redirect with it, never
//! prints it, and never retries: only the caller knows whether that is safe.

mod client;
mod cost;

pub use crate::client::{Client, Error, LogFilter, RunFilter};
pub use crate::cost::{CostFilter, CsvPage};
