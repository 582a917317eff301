//! Messages of the REST API: what the API server answers and its clients read. The CLI's `-o json` prints these.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::run::{Attempt, MemberCounts, PriorityTier, Reason, RunPhase};

/// One page of a list.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// At most as many as were asked for.
    pub items: Vec<T>,
    /// Pass this as `continue` to get the next page; absent on the last.
    #[serde(default, rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
}

/// A run as lists give it: small, because a page holds up to 500.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunSummary {
    /// The tenant.
    pub namespace: String,
    /// Unique within the namespace.
    pub name: String,
    /// The queue that is charged: the one the run names, else the one queue that lists its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The tier.
    pub priority: PriorityTier,
    /// Where the run is in its life.
    pub phase: RunPhase,
    /// One word on why it is there; while it waits, the most binding reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence on why it is there; while it waits, the most binding reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether somebody asked to stop it.
    pub stop: bool,
    /// How many members start together.
    pub members: u32,
    /// GPUs of each member.
    pub gpus_per_member: u32,
    /// The GPU type, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
    /// How the members fare.
    pub member_counts: MemberCounts,
    /// When it was submitted, RFC 3339.
    pub created_at: String,
    /// When its first member got going, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it was over, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
}

/// A run with all that is known of it.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// What lists give.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// How long each member may run, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_seconds: Option<i64>,
    /// The container image.
    pub image: String,
    /// What every member executes.
    pub command: Vec<String>,
    /// Every attempt, oldest first.
    pub attempts: Vec<Attempt>,
    /// Every reason to wait that holds, the most binding first. Empty when nothing is waited for.
    pub reasons: Vec<Reason>,
    /// Who submitted it through this API, as Kubernetes knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_by: Option<String>,
}

/// Why a run is where it is.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The tenant.
    pub namespace: String,
    /// The run.
    pub name: String,
    /// Where the run is in its life.
    pub phase: RunPhase,
    /// The queue that is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// When it was submitted, RFC 3339.
    pub created_at: String,
    /// When its first member got going, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it was over, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// A sentence on how it fares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How the members fare.
    pub member_counts: MemberCounts,
    /// Every reason to wait that holds, the most binding first. Empty when nothing is waited for.
    pub reasons: Vec<Reason>,
}

/// A queue as the API shows it.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    /// Unique in the cluster.
    pub name: String,
    /// The queue above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Share of what is left over.
    pub weight: u32,
    /// GPUs owned, by type; absent without a quota on GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_gpus: Option<BTreeMap<String, u32>>,
    /// The most GPUs it may hold, by type; absent when the quota is the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_gpus: Option<BTreeMap<String, u32>>,
    /// GPUs held, by type, children included.
    pub used_gpus: BTreeMap<String, u32>,
    /// Gangs of which at least one member has a node.
    pub gangs_running: u32,
    /// Gangs that wait.
    pub gangs_waiting: u32,
    /// Namespaces whose runs may use it.
    pub namespaces: Vec<String>,
}

/// Who the platform thinks you are.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
pub struct WhoAmI {
    /// The user's name, as Kubernetes knows it.
    pub username: String,
    /// The user's groups.
    pub groups: Vec<String>,
}

/// An error, in the form of RFC 9457.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// A CamelCase word for machines, for example `NotFound`.
    pub code: String,
    /// What happened, in a sentence.
    pub detail: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
