//! `Queue`: one tree governs quota, and later fair share, budget and bill.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buying_policy::BuyingBounds;
use crate::price;
use crate::price_sheet::Spend;
use crate::run::PriorityTier;

/// The queue of a pod that names none: the only one that lists its namespace. The scheduler's model has the same
/// rule, with a reason for every other case.
pub fn default_queue(listing: &BTreeSet<String>) -> Option<&str> {
    listing.first().filter(|_| listing.len() == 1).map(String::as_str)
}

/// What a queue owns and may hold, and who may use it.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "warpyard.dev",
    version = "v1alpha1",
    kind = "Queue",
    status = "QueueStatus",
    doc = "A place in the tree that governs who may hold how many GPUs.",
    shortname = "wq",
    category = "warpyard",
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parent"),
    printcolumn(name = "GPUs", type_ = "integer", json_path = ".status.gpusUsed", description = "GPUs held, children included"),
    printcolumn(name = "Quota", type_ = "integer", json_path = ".status.gpusQuota", description = "GPUs owned, of all types"),
    printcolumn(name = "Running", type_ = "integer", json_path = ".status.gangsRunning"),
    printcolumn(name = "Waiting", type_ = "integer", json_path = ".status.gangsWaiting"),
    printcolumn(name = "Spend", type_ = "string", json_path = ".status.spend.amount", description = "Spent this month, children included"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("!has(self.spec.parent) || self.spec.parent != self.metadata.name").message("a queue cannot be its own parent")
)]
#[x_kube(
    validation = Rule::new("has(self.parent) == has(oldSelf.parent)").message("parent is immutable: delete the queue and create it elsewhere in the tree"),
    validation = Rule::new("!has(self.limit) || has(self.quota)").message("a limit needs a quota: set quota, or leave limit out"),
    validation = Rule::new("!has(self.limit) || !has(self.quota) || !has(self.limit.gpus) || !has(self.quota.gpus) || self.quota.gpus.all(t, !(t in self.limit.gpus) || self.limit.gpus[t] >= self.quota.gpus[t])").message("limit.gpus must be at least quota.gpus for every GPU type"),
    validation = Rule::new("!has(self.limit) || !has(self.quota) || !has(self.limit.cpu) || !has(self.quota.cpu) || quantity(self.limit.cpu).compareTo(quantity(self.quota.cpu)) >= 0").message("limit.cpu must be at least quota.cpu"),
    validation = Rule::new("!has(self.limit) || !has(self.quota) || !has(self.limit.memory) || !has(self.quota.memory) || quantity(self.limit.memory).compareTo(quantity(self.quota.memory)) >= 0").message("limit.memory must be at least quota.memory"),
)]
#[serde(rename_all = "camelCase")]
pub struct QueueSpec {
    /// The queue above this one; a queue without a parent is a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("parent is immutable: delete the queue and create it elsewhere in the tree"))]
    pub parent: Option<String>,
    /// Share of what is left over, relative to the siblings.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
    /// What the queue owns, its children included. Without a quota, only the queues above bound it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<ResourceAmounts>,
    /// The most the queue may hold, its children included, if the queues above have room: quota plus what it may
    /// borrow. Resources that the limit leaves out are bounded by the quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<ResourceAmounts>,
    /// How much of the unused quota others may use; resources that it leaves out are lent in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lend: Option<ResourceAmounts>,
    /// How the queue takes back quota that it lent, and how long its own borrowing runs are left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<ReclaimSpec>,
    /// How past use counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fair_share: Option<FairShareSpec>,
    /// Credits for unused quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<BankSpec>,
    /// The most urgent tier of runs in it or in a queue below; without it, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_priority: Option<PriorityTier>,
    /// The most that the machines bought for one run of it, or of a queue below, may cost per hour, all together: a
    /// decimal with at most six decimals, in the currency of the price sheets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 14), regex(pattern = price::PATTERN))]
    pub max_price: Option<String>,
    /// The most machines that may be bought for runs of it and of the queues below. A machine counts until it is given
    /// back, whoever uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<BuyingBounds>,
    /// Namespaces whose runs may use this queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
}

/// Amounts per resource. GPUs are per type: in a given map, a missing type counts as zero. Missing CPU or memory is
/// not bounded.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[x_kube(
    validation = Rule::new("!has(self.cpu) || (isQuantity(self.cpu) && !quantity(self.cpu).isLessThan(quantity('0')))").message("cpu must be a quantity of at least 0, for example 64 or 500m"),
    validation = Rule::new("!has(self.memory) || (isQuantity(self.memory) && !quantity(self.memory).isLessThan(quantity('0')))").message("memory must be a quantity of at least 0, for example 512Gi"),
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceAmounts {
    /// GPUs by type, for example `{H100: 48}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "gpus_schema")]
    pub gpus: BTreeMap<String, u32>,
    /// CPU cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity_schema")]
    pub cpu: Option<Quantity>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity_schema")]
    pub memory: Option<Quantity>,
}

/// How quota is taken back from borrowers.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReclaimSpec {
    /// Time from the creation of a gang's oldest pod to the first eviction for it, if the gang is within quota. 300
    /// if absent.
    #[serde(default = "five_minutes")]
    #[schemars(range(max = 604_800))]
    pub grace_seconds: u32,
    /// How long a run of this queue that borrows must have run before it may be reclaimed.
    #[serde(default)]
    #[schemars(range(max = 604_800))]
    pub min_run_seconds: u32,
}

/// How past use counts in the fair share.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FairShareSpec {
    /// The time after which use counts half.
    #[schemars(range(min = 60, max = 31_536_000))]
    pub half_life_seconds: u32,
}

/// Unused quota earns credits. While there are any, use beyond the quota counts as within it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BankSpec {
    /// Credits per unused GPU second, in thousandths.
    #[schemars(range(max = 1000))]
    pub earn_millis: u32,
    /// The most credits, in GPU seconds.
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub cap_gpu_seconds: u64,
}

/// What the queue holds and how many gangs wait, its children included.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// GPUs held, by type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used_gpus: BTreeMap<String, u32>,
    /// GPUs held, of all types.
    #[serde(default)]
    pub gpus_used: u32,
    /// GPUs owned, of all types; absent without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_quota: Option<u32>,
    /// CPU held, in thousandths of a core.
    #[serde(default)]
    pub cpu_used_millis: i64,
    /// Memory held, in bytes.
    #[serde(default)]
    pub memory_used_bytes: i64,
    /// Gangs of which at least one member has a node.
    #[serde(default)]
    pub gangs_running: u32,
    /// Gangs that wait.
    #[serde(default)]
    pub gangs_waiting: u32,
    /// Past use and savings, from which the next leader continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounts: Option<QueueAccounts>,
    /// What it spent this month. The controllers' field; the scheduler leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<Spend>,
}

/// Past use and savings at the last change of what the queue holds. With what it holds since, they are known at any
/// time, so they are written on a change and not as time passes.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct QueueAccounts {
    /// When that was, in milliseconds since 1970.
    pub since_unix_millis: i64,
    /// Use, in thousandths of a GPU second; what was used a half-life ago counts half.
    pub decayed_gpu_millis: i64,
    /// The same for use beyond the quota.
    pub beyond_quota_gpu_millis: i64,
    /// What the bank holds, in thousandths of a GPU second.
    pub bank_gpu_millis: i64,
}

/// The API server does not check the format `uint32`. Without a maximum it would accept numbers that we cannot read,
/// and then no list of queues could be read.
fn gpus_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let gpus =
        schemars::json_schema!({ "type": "integer", "format": "uint32", "minimum": 0, "maximum": u32::MAX });
    schemars::json_schema!({ "type": "object", "additionalProperties": gpus, "maxProperties": 32 })
}

/// A quantity is a string with a bounded length, so that the cost of the rules on it is bounded too.
fn quantity_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "maxLength": 32, "nullable": true })
}

fn one() -> u32 {
    1
}

fn five_minutes() -> u32 {
    300
}
