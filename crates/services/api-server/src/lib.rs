//! The REST API of the platform.
//!
//! ```text
//!   request ─► bounds ─► login (TokenReview) ─► may they? (SubjectAccessReview) ─┬─► read:  cache ─► view
//!                             │ 401                  │ 403                       └─► write: Kubernetes, as the caller
//!                                                                                        (impersonation)
//!   Kubernetes ── watch ─► cluster_cache (runs, queues, nodes, pods) ─┬─► every reader
//!                                                                     └─► events ─► every open page
//!   a member of a run ── report ─► Run.status.progress, as itself
//!   the scheduler's leader ── why, and when ─► outlook, board, capacity
//!   PostgreSQL ── ledger, in the caller's scope ─► cost
//! ```
//!
//! It grants no rights of its own: Kubernetes RBAC decides what each caller sees and does. As itself it writes
//! only the reports of members. It never logs a token or keeps one readable. Every route needs a login, except
//! health, the portal's files and the login itself. It never reveals whether something exists to a caller who
//! may not see it.

pub mod access;
pub mod archive;
pub mod args;
pub mod cache;
pub mod cost;
pub mod events;
pub mod http;
pub mod intent;
pub mod leader;
pub mod logs;
pub mod metrics;
pub mod names;
pub mod openapi;
pub mod portal;
pub mod reports;
mod route_table;
pub mod router;
pub mod routes;
pub mod server;
pub mod session;
pub mod views;
pub mod writes;

#[cfg(test)]
mod router_tests;

pub use openapi::{openapi, openapi_json};
