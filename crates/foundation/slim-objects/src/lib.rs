//! Kubernetes objects, parsed once and only as far as they are read.
//!
//! ```text
//!   watch bytes ──serde──► SlimPod, SlimNode, SlimNamespace, SlimBudget   only the fields we read
//!                          Readable<K>                                    all but what may keep a list from being read
//!                              └──► pod_requests, gpu_type, topology …    what is read off one object
//! ```
//!
//! An object that cannot be read in full is never an error. This crate knows no cluster and no planner: the crate
//! `cluster-convert` says what objects mean to those. It never talks to anything.

mod budget;
mod local;
mod near;
mod node;
mod parse;
mod pod;
pub mod quantity;
mod readable;
pub mod requests;

pub use budget::{SlimBudget, SlimBudgetSpec, SlimBudgetStatus};
pub use local::{
    SlimHostPort, SlimNodeAffinity, SlimNodeRule, SlimNodeSelector, SlimNodeTerm, SlimResources,
};
pub use near::{
    SlimExpression, SlimLabelSelector, SlimNamespace, SlimPodAffinity, SlimPodTerm, SlimSpreadConstraint,
};
pub use node::{LEVELS, SlimNode, SlimNodeSpec, SlimNodeStatus, SlimTaint, gpu_type, topology};
pub use pod::{
    SlimAffinity, SlimCondition, SlimContainer, SlimContainerState, SlimContainerStatus, SlimPod,
    SlimPodSpec, SlimPodStatus, SlimRunning, SlimTerminated, SlimToleration, SlimWaiting, annotation,
    bound_at, label, member_index,
};
pub use readable::Readable;
pub use requests::pod_requests;
