//! Kubernetes objects become changes of the cluster model.
//!
//! ```text
//!   slim-objects: SlimPod, SlimNode ──► pod_change, node_change ──┐
//!                 SlimNamespace     ──► namespace_change ─────────┤
//!                 SlimBudget        ──► budget_change ────────────┤
//!                 Readable<Queue>   ──► queue_change ─────────────┴─► cluster_model::ClusterChange
//! ```
//!
//! An object that cannot be honoured in full is never an error: a pod says in `unsupported` what we cannot honour, and
//! then waits with that as its reason. This crate never talks to anything.

mod budget;
mod features;
mod hold;
mod near;
mod node;
mod node_affinity;
mod pod;
mod queue;
mod terms;

pub use budget::{budget_change, budget_gone};
pub use hold::{hold_record, hold_spec};
pub use near::{namespace_change, namespace_gone};
pub use node::{node_change, node_gone};
pub use pod::{pod_change, pod_gone, pod_key};
pub use queue::{queue_change, queue_gone};
