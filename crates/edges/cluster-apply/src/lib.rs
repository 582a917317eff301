//! Effects out: writes the scheduler's decisions to the API server.
//!
//! ```text
//!   effects ─► EffectWriter
//!      binds ─► Binder ──≤ N in flight──► POST pods/binding ──► BindOutcome ─► back to the loop (keep or forget)
//!                 │ waits for a pod's own condition write, so that a late "waits" never overwrites "has a node"
//!      holds ─► HoldWriter ──► POST, PATCH, DELETE holds
//!                 │ written
//!      evictions ─► Evictor ──≤ N in flight──► condition DisruptionTarget, DELETE pod ──► EvictOutcome ─► back to the loop
//!      what happened ─► EventWriter ──≤ 10/s, never waited for──► events
//!   machines ─► ClaimWriter ──► POST, DELETE nodeclaims; PATCH nodes
//!   take-over ─► fence::take ──► SchedulerEpoch, the fence of binds; dry-run binds
//!                 Writes::mark ──► condition on the leader's own pod
//!   reasons ─► StatusWriter ──latest wins, paced──► Run.status.waiting, Pod condition, Queue.status
//!                                                           │
//!              any write refused by the fence ──────────────┴──► Fenced ─► the process exits
//! ```
//!
//! Every write carries `?timeout=`, is made with the identity that the fence checks, and is safe to repeat. This
//! crate never decides where a pod goes or why it waits. It reads only what its own writes depend
//! on: how they ended, and which epoch they follow.

mod failpoint;

mod apart;
mod binder;
pub mod claims;
pub mod effects;
mod events;
mod evictor;
pub mod fence;
mod holds;
pub mod mark;
pub mod outcome;
pub mod pending;
mod pod_status;
mod sight;
pub mod status;
mod writer;
pub mod writes;

#[cfg(test)]
mod testing;

pub use binder::BindReport;
pub use claims::ClaimWriter;
pub use effects::{EffectWriter, Reports, WriterSettings};
pub use evictor::{EvictOutcome, EvictReport};
pub use outcome::BindOutcome;
pub use status::{StatusWriter, Target, Value};
pub use writes::{Fenced, Writes};
