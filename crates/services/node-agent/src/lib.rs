//! The node agent: one process on each machine that detects trouble there and marks the machine's Node.
//!
//! ```text
//!   metadata of AWS, GCP, Azure ──► source/{aws,gcp,azure} ─► Notice ───┐
//!   kernel log ───────────────────► source/kmsg ─► xid ─────► GpuFault ─┼─► policy::decide ──► node::write
//!   DCGM exporter's metrics ──────► source/dcgm ─► xid ─────► GpuFault ─┘    PURE              taint, annotation,
//!          probe, http: effects         PURE: bytes in, findings out                           condition
//! ```
//!
//! Other components act on the taints (drain, requeue, record). The agent never evicts a pod, never resets a
//! GPU, and writes only to its own Node; an admission policy (`deploy/node-agent/policy.yaml`) enforces that.

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
