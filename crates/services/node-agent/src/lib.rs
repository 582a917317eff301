//! The node agent: one process on each machine that learns of trouble there and says so on the machine's Node.
//!
//! ```text
//!   metadata of AWS, GCP, Azure ──► source/{aws,gcp,azure} ──► Notice ─┐
//!   kernel log ───────────────────► source/kmsg ─► xid ─────► Fault ───┼─► policy::decide ──► node::write
//!   DCGM exporter's metrics ──────► source/dcgm ─► xid ─────► Fault ───┘    PURE              taint, annotation, condition
//!          probe, http: effects         PURE: bytes in, findings out
//! ```
//!
//! What others do about it (drain, requeue, record) is decided from the taints. The agent never evicts a pod, never
//! resets a GPU, and writes to no Node but its own; an admission policy (`deploy/node-agent/policy.yaml`) holds it to that.

pub mod agent;
pub mod args;
pub mod finding;
pub mod http;
pub mod metrics;
pub mod node;
pub mod policy;
pub mod probe;
pub mod source;
pub mod xid;
