//! The objects people see: custom resources of `warpyard.dev/v1alpha1`, the job file that compiles to one of
//! them, the messages of the REST API, and the names (labels, annotations, conditions) all binaries agree on.
//!
//! ```text
//!   job.yaml ──► JobFile ──► RunSpec ──► Run      (researcher)
//!                            QueueSpec ─► Queue    (team lead, admin)
//!                            PriceSheet            (admin)
//!                            MachineType           (admin)
//!                            BuyingPolicy          (admin)
//!                            SchedulerEpoch        (the scheduler's fence)
//!                            Hold                  (the scheduler's log of preemptions)
//! ```
//!
//! This crate never talks to anything: no client, no clock, no file. It is data and the rules on data.

pub mod attempt;
pub mod buying_policy;
pub mod capacity;
pub mod conditions;
pub mod duration;
pub mod gpu_request;
pub mod hold;
pub mod job_file;
pub mod launch;
pub mod logs;
pub mod machine_type;
pub mod names;
pub mod outlook;
pub mod price;
pub mod price_sheet;
pub mod progress;
pub mod queue;
pub mod report;
pub mod rest;
pub mod run;
pub mod scheduler_epoch;
pub mod text;

pub use buying_policy::{BuyingBounds, BuyingPolicy, BuyingPolicySpec};
pub use hold::{Hold, HoldSpec};
pub use job_file::JobFile;
pub use machine_type::{MachineType, MachineTypeSpec};
pub use price_sheet::{PriceEntry, PriceSheet, PriceSheetSpec, Spend};
pub use queue::{
    BankSpec, FairShareSpec, Queue, QueueAccounts, QueueSpec, QueueStatus, ReclaimSpec, ResourceAmounts,
};
pub use run::{PriorityTier, Run, RunPhase, RunSpec, RunStatus};
pub use scheduler_epoch::{SchedulerEpoch, SchedulerEpochSpec};

// The derives of custom resources spell their paths `::kube::core::…`, but the `kube` crate brings a client, and
// pure crates depend on this one. So the name `kube` means this crate here, and `core` its sans-IO half.
extern crate self as kube;
#[doc(hidden)]
pub use kube_core as core;
#[doc(hidden)]
pub use kube_derive::KubeSchema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;

/// The API group of every custom resource of ours.
pub const GROUP: &str = "warpyard.dev";

/// Every custom resource definition, in the order in which they are installed.
pub fn custom_resource_definitions() -> Vec<CustomResourceDefinition> {
    vec![
        Queue::crd(),
        Run::crd(),
        PriceSheet::crd(),
        MachineType::crd(),
        BuyingPolicy::crd(),
        SchedulerEpoch::crd(),
        Hold::crd(),
    ]
}
