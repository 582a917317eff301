//! The scheduler: one process leads, watches the cluster, plans, and binds behind the fence.
//!
//! ```text
//!   who am I ─► wait for the Lease ─► publish the epoch ─► probe the fence ─► settle, list, watch ───────┐
//!                      │ lost at any time ─► exit(1)                                                     ▼
//!   standby ◄──────────┘        ┌── changes, bind reports ── coalesce ≤ 10 ms ─► placement::plan ─► assume, bind
//!                               └───────────────────────────────◄────────────────────────────────────────┘
//! ```
//!
//! The loop has a thread of its own: planning is synchronous there and never delays the lease, the binds or the
//! health checks. Nothing is planned before every kind is listed. This crate makes no placement decision:
//! `placement` does. Only `cluster-apply` writes, and every write passes the fence: safety does not rest on the
//! lease.

pub mod args;
pub mod dashboard;
pub mod dispatcher;
mod ended;
pub mod explain;
mod judge;
pub mod lead;
mod leftovers;
pub mod machines;
pub mod metrics;
pub mod policy;
mod record;
pub mod shares;
mod spans;
pub mod tell;
