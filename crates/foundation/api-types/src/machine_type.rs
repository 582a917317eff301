//! `MachineType`: a kind of machine that can be bought, where, and for how much.

#![allow(clippy::duplicated_attributes, reason = "columns may have the same type")]

use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::price;

/// How long a machine that was bought may have no pods, if nothing else is said: half of what a large one takes to boot,
/// several times over.
pub const IDLE_SECONDS_DEFAULT: u32 = 300;
/// How long a machine is expected to take from the order until pods may run on it, if nothing else is said.
pub const BOOT_SECONDS_DEFAULT: u32 = 120;

/// Machines of one kind that Warpyard may buy for gangs. Without any, it buys nothing.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "warpyard.dev",
    version = "v1alpha1",
    kind = "MachineType",
    doc = "A kind of machine that can be bought, where, and for how much.",
    shortname = "wmt",
    category = "warpyard",
    printcolumn(name = "Instance", type_ = "string", json_path = ".spec.instanceType"),
    printcolumn(name = "GPUs", type_ = "integer", json_path = ".spec.gpus"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.gpuType"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineTypeSpec {
    /// What the cloud calls it (label `node.kubernetes.io/instance-type`).
    #[schemars(length(min = 1, max = 63))]
    pub instance_type: String,
    /// The type of its GPUs, for example `H100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub gpu_type: Option<String>,
    /// How many GPUs it has.
    #[serde(default)]
    #[schemars(range(max = 64))]
    pub gpus: u32,
    /// CPU that pods may use of it, as a quantity, for example `190` or `7900m`.
    #[schemars(length(min = 1, max = 32))]
    pub cpu: String,
    /// Memory that pods may use of it, as a quantity, for example `2000Gi`.
    #[schemars(length(min = 1, max = 32))]
    pub memory: String,
    /// How many pods may run on it.
    #[serde(default = "pods_default")]
    #[schemars(range(min = 1, max = 1000))]
    pub pods: u32,
    /// How long it takes from the order until pods may run on it, in seconds, as a rule. A launch that takes twice as long
    /// and a minute is given up.
    #[serde(default = "boot_seconds_default")]
    #[schemars(range(min = 1, max = 3600))]
    pub boot_seconds: u32,
    /// How long it may have no pods before it is given back, in seconds.
    #[serde(default = "idle_seconds_default")]
    #[schemars(range(min = 10, max = 604_800))]
    pub idle_seconds: u32,
    /// How many idle ones are kept for who comes next.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    pub spares: u32,
    /// Where it can be had, and for how much.
    #[schemars(length(min = 1, max = 128))]
    pub offerings: Vec<OfferingSpec>,
    /// The class of nodes that Karpenter makes of it.
    pub node_class: NodeClassReference,
    /// The Karpenter `NodePool` that its machines count for; its limits are not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub node_pool: Option<String>,
}

/// One way to have a machine.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OfferingSpec {
    /// The zone.
    #[schemars(length(min = 1, max = 63))]
    pub zone: String,
    /// The block of racks within the zone, if the cloud lets one choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub block: Option<String>,
    /// The rack within the block, if the cloud lets one choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub rack: Option<String>,
    /// How it is bought.
    pub capacity_type: CapacityType,
    /// For the whole machine and an hour, as a decimal with at most six decimals, in the currency of the price sheets.
    #[schemars(length(max = 14), regex(pattern = price::PATTERN))]
    pub per_hour: String,
    /// The most that may be had at a time; without it, any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100_000))]
    pub most: Option<u32>,
}

/// How a machine is bought.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// For as long as it is wanted.
    OnDemand,
    /// Until the cloud takes it back, at short notice.
    Spot,
    /// Paid for already.
    Reserved,
}

impl CapacityType {
    /// The value of the label `karpenter.sh/capacity-type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::Reserved => "reserved",
        }
    }
}

/// `spec.nodeClassRef` of Karpenter's `NodeClaim`s.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassReference {
    /// Its group, for example `karpenter.k8s.aws`.
    #[schemars(length(min = 1, max = 253))]
    pub group: String,
    /// Its kind, for example `EC2NodeClass`.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

fn pods_default() -> u32 {
    110
}

fn boot_seconds_default() -> u32 {
    BOOT_SECONDS_DEFAULT
}

fn idle_seconds_default() -> u32 {
    IDLE_SECONDS_DEFAULT
}
