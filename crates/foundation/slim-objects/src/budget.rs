//! Disruption budgets with only the fields we read.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_core::ObjectMeta;

use crate::near::SlimLabelSelector;
use crate::parse::{null_is_default, resource_like, slim_metadata};

/// A `PodDisruptionBudget` as we read it.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default)]
pub struct SlimBudget {
    /// Name and generation.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    /// Which pods it covers.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: SlimBudgetSpec,
    /// How many pods may be evicted.
    #[serde(deserialize_with = "null_is_default")]
    pub status: SlimBudgetStatus,
}

/// Which pods a budget covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct SlimBudgetSpec {
    /// No pod if absent, every pod of the namespace if empty.
    pub selector: Option<SlimLabelSelector>,
}

/// What its controller counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlimBudgetStatus {
    /// How many pods may be evicted at present.
    pub disruptions_allowed: i32,
    /// Healthy pods.
    pub current_healthy: i32,
    /// How many must be healthy.
    pub desired_healthy: i32,
    /// All pods that it covers.
    pub expected_pods: i32,
    /// The generation that was counted.
    pub observed_generation: Option<i64>,
}

resource_like!(SlimBudget, PodDisruptionBudget);
