//! The REST API of the platform.
//!
//! ```text
//!   request ─► bounds ─► login (TokenReview) ─► may they? (SubjectAccessReview) ─┬─► read:  cache ─► view
//!                             │ 401                  │ 403                       └─► write: Kubernetes, as the caller
//!                                                                                        (impersonation)
//!   Kubernetes ── watch ─► cluster_cache (runs, queues) ─► every reader
//! ```
//!
//! It has no permissions of its own to give: Kubernetes RBAC decides who sees and does what. It never writes as
//! itself, never keeps or logs a token, has no route without a login but health, and never tells whether
//! something exists to somebody who may not see it.

pub mod args;
pub mod authentication;
pub mod authorization;
pub mod cluster_cache;
pub mod expiring_cache;
pub mod identity;
pub mod metrics;
pub mod names;
pub mod openapi;
pub mod page_token;
pub mod problem;
pub mod queue_index;
pub mod routes;
pub mod run_index;
pub mod server;
pub mod views;
pub mod writes;

#[cfg(test)]
mod router_tests;

pub use openapi::{openapi, openapi_json};
