//! Kubernetes objects, parsed once and only as far as they are read, become changes of the cluster model.
//!
//! ```text
//!   watch bytes ──serde──► SlimPod, SlimNode ──► pod_change, node_change ──┐
//!                          SlimNamespace     ──► namespace_change ─────────┤
//!                          Readable<Queue>   ──► queue_change ─────────────┴─► cluster_model::Change
//! ```
//!
//! An object that cannot be read in full is never an error: a pod says in `unsupported` what we cannot honour, and
//! then waits with that as its reason. This crate never talks to anything.

mod budget;
mod features;
mod hold;
mod near;
mod node;
mod node_affinity;
mod pod;
pub mod quantity;
mod queue;
mod readable;
mod requests;
mod slim;
mod slim_local;
mod slim_near;
mod terms;

pub use budget::{SlimBudget, budget_change, budget_gone};
pub use hold::{hold_record, hold_spec};
pub use near::{namespace_change, namespace_gone};
pub use node::{gpu_type, node, node_change, node_gone};
pub use pod::{bound_at, member_index, pod_change, pod_gone, pod_key, pod_requests};
pub use queue::{queue_change, queue_gone};
pub use readable::Readable;
pub use slim::{
    SlimCondition, SlimContainer, SlimContainerState, SlimContainerStatus, SlimNode, SlimNodeSpec,
    SlimNodeStatus, SlimPod, SlimPodSpec, SlimPodStatus, SlimRunning, SlimTaint, SlimTerminated,
    SlimToleration, SlimWaiting,
};
pub use slim_local::{
    SlimHostPort, SlimNodeAffinity, SlimNodeRule, SlimNodeSelector, SlimNodeTerm, SlimResources,
};
pub use slim_near::{
    SlimExpression, SlimLabelSelector, SlimNamespace, SlimPodAffinity, SlimPodTerm, SlimSpreadConstraint,
};
pub use terms::topology;
