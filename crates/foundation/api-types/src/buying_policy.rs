//! `BuyingPolicy`: whether machines are bought, and how many at most.

use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::price;

/// The only name that a `BuyingPolicy` may have.
pub const BUYING_POLICY_NAME: &str = "cluster";

/// Whether machines are bought, and how many at most. Without one, none are.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "warpyard.dev",
    version = "v1alpha1",
    kind = "BuyingPolicy",
    plural = "buyingpolicies",
    doc = "Whether machines are bought, and how many at most.",
    shortname = "wbp",
    category = "warpyard",
    printcolumn(name = "Paused", type_ = "boolean", json_path = ".spec.paused"),
    printcolumn(name = "Machines", type_ = "integer", json_path = ".spec.mostMachines", description = "The most at a time"),
    printcolumn(name = "Per hour", type_ = "string", json_path = ".spec.mostPerHour", description = "The most that they may cost"),
    validation = Rule::new("self.metadata.name == 'cluster'").message("there is one BuyingPolicy: name it cluster")
)]
#[serde(rename_all = "camelCase")]
pub struct BuyingPolicySpec {
    /// Nothing is bought. Machines that nothing uses are still given back.
    #[serde(default)]
    pub paused: bool,
    /// The most machines at a time, those that are being given back among them.
    #[schemars(range(max = 100_000))]
    pub most_machines: u32,
    /// The most that all of them may cost per hour, as a decimal with at most six decimals, in the currency of the price
    /// sheets.
    #[schemars(length(max = 14), regex(pattern = price::PATTERN))]
    pub most_per_hour: String,
}

/// The most that may be bought for a part of the cluster. What is left out is not bounded.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BuyingBounds {
    /// The most machines at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub most_machines: Option<u32>,
    /// The most that they may cost per hour, as a decimal, in the currency of the price sheets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 14), regex(pattern = price::PATTERN))]
    pub most_per_hour: Option<String>,
}

impl BuyingBounds {
    /// The most per hour, in millionths. The API server refuses a text that is not a price. If one gets through, nothing
    /// is bought.
    pub fn per_hour_micros(&self) -> Option<i64> {
        self.most_per_hour.as_deref().map(|text| price::micros(text).unwrap_or(0))
    }
}

impl BuyingPolicySpec {
    /// The most per hour, in millionths.
    pub fn per_hour_micros(&self) -> i64 {
        price::micros(&self.most_per_hour).unwrap_or(0)
    }
}
