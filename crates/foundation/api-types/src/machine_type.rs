//! `MachineType`: a kind of machine that can be bought, where, and for how much.

#![allow(clippy::duplicated_attributes, reason = "columns may have the same type")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buying_policy::BuyingBounds;
use crate::price;

/// How long a bought machine may have no pods, unless its type says otherwise. A large machine takes twice as long to
/// boot.
pub const IDLE_SECONDS_DEFAULT: u32 = 300;
/// How long a machine is expected to take from the order until pods may run on it, unless its type says otherwise.
pub const BOOT_SECONDS_DEFAULT: u32 = 120;

/// Machines of one kind that Warpyard may buy for gangs. Without any, it buys nothing.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "warpyard.dev",
    version = "v1alpha1",
    kind = "MachineType",
    status = "MachineTypeStatus",
    doc = "A kind of machine that can be bought, where, and for how much.",
    shortname = "wmt",
    category = "warpyard",
    printcolumn(name = "Instance", type_ = "string", json_path = ".spec.instanceType"),
    printcolumn(name = "GPUs", type_ = "integer", json_path = ".spec.gpus"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.gpuType"),
    printcolumn(
        name = "As promised",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"AsPromised\")].status",
        description = "False if its machines have less than it says"
    ),
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
    /// The time expected from the order until pods may run on it, in seconds. A launch is given up after twice this
    /// time and a minute.
    #[serde(default = "boot_seconds_default")]
    #[schemars(range(min = 1, max = 3600))]
    pub boot_seconds: u32,
    /// How long it may have no pods before it is given back, in seconds.
    #[serde(default = "idle_seconds_default")]
    #[schemars(range(min = 10, max = 604_800))]
    pub idle_seconds: u32,
    /// How many idle machines are kept as spares.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    pub spares: u32,
    /// The most that may be bought of it, at all offerings together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<BuyingBounds>,
    /// Where it can be bought, and for how much.
    #[schemars(length(min = 1, max = 128))]
    pub offerings: Vec<OfferingSpec>,
    /// Karpenter's node class for its machines.
    pub node_class: NodeClassReference,
    /// The Karpenter `NodePool` that its machines count for. Warpyard does not check the pool's limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub node_pool: Option<String>,
}

/// What was seen of its machines.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MachineTypeStatus {
    /// The generation of the spec that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What its machines have for pods, if that is less than the spec says. Warpyard counts with this until the spec
    /// changes, for four hours at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_room: Option<RealRoomStatus>,
    /// `AsPromised`: whether its machines have what the spec says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub conditions: Vec<Condition>,
}

/// What a machine had for pods, after what the node keeps for itself and what `DaemonSet`s take.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RealRoomStatus {
    /// GPUs.
    pub gpus: i64,
    /// CPU, as a quantity.
    #[schemars(length(max = 32))]
    pub cpu: String,
    /// Memory, as a quantity.
    #[schemars(length(max = 32))]
    pub memory: String,
    /// Pods.
    pub pods: i64,
    /// The node that had this.
    #[schemars(length(max = 253))]
    pub node: String,
    /// When.
    #[schemars(length(max = 40))]
    pub seen_at: String,
}

/// One way to buy the machine.
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
    /// The price of the whole machine for an hour, as a decimal with at most six decimals, in the currency of the
    /// price sheets.
    #[schemars(length(max = 14), regex(pattern = price::PATTERN))]
    pub per_hour: String,
    /// The most machines at a time; without it, any number.
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
