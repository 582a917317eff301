//! `PriceSheet`: what nodes and GPUs cost, and since when.

use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::price;

/// Prices with effective dates. All sheets of a cluster together are its prices, in one currency.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "warpyard.dev",
    version = "v1alpha1",
    kind = "PriceSheet",
    doc = "What nodes and GPUs cost per hour, and since when.",
    shortname = "wps",
    category = "warpyard",
    printcolumn(name = "Currency", type_ = "string", json_path = ".spec.currency"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PriceSheetSpec {
    /// The currency, by its three letters of ISO 4217; the same on all sheets.
    #[schemars(regex(pattern = "^[A-Z]{3}$"))]
    pub currency: String,
    /// The prices. Of those that match a node and are in force, the most specific counts: instance type before GPU
    /// type before capacity type. Of those, the one that came into force last counts.
    #[schemars(length(max = 512))]
    pub prices: Vec<PriceEntry>,
}

/// One price. Exactly one of `perNodeHour` and `perGpuHour` is given.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[x_kube(
    validation = Rule::new("has(self.perNodeHour) != has(self.perGpuHour)").message("give exactly one of perNodeHour and perGpuHour"),
)]
#[serde(rename_all = "camelCase")]
pub struct PriceEntry {
    /// Only nodes of this instance type (label `node.kubernetes.io/instance-type`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub instance_type: Option<String>,
    /// Only nodes with this GPU type, for example `H100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub gpu_type: Option<String>,
    /// Only nodes bought this way: `on-demand`, `spot`, `reserved` (label `karpenter.sh/capacity-type`), or
    /// `on-premises`, which is what nodes without the label are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub capacity_type: Option<String>,
    /// The price of the whole node for an hour, as a decimal with at most six decimals: at most 1000000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 14), regex(pattern = price::PATTERN))]
    pub per_node_hour: Option<String>,
    /// The price of each GPU of the node for an hour, as a decimal with at most six decimals: at most 1000000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 14), regex(pattern = price::PATTERN))]
    pub per_gpu_hour: Option<String>,
    /// When it comes into force, RFC 3339, for example `2026-11-01T00:00:00Z`.
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub from: String,
}

/// What a queue and the queues below it have spent.
#[derive(Serialize, Deserialize, JsonSchema, utoipa::ToSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Spend {
    /// The month, UTC, for example `2026-11`.
    pub month: String,
    /// Money, as a decimal.
    pub amount: String,
    /// The currency's three letters.
    pub currency: String,
    /// GPU hours, as a decimal.
    pub gpu_hours: String,
}
