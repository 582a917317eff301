//! Messages of the REST API: what the API server answers and its clients read. The CLI's `-o json` prints these.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::outlook::{Outlook, QueueShare};
use crate::price_sheet::Spend;
use crate::run::{Attempt, CheckpointVolume, MemberCounts, PriorityTier, Progress, Reason, RunPhase};

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
    /// Whether somebody asked to pause it.
    #[serde(default)]
    pub pause: bool,
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
    /// When its first member started, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Who submitted it through this API, as Kubernetes knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_by: Option<String>,
    /// Whether it was removed from the cluster after it ended: its pods and logs are gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
}

/// A run in full.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// What lists give.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// How long it may run, in seconds, over all attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_seconds: Option<i64>,
    /// Where it keeps its checkpoints; without it every attempt starts from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointVolume>,
    /// Whether spot machines are bought for it. `false`: it is not placed on spot machines at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot: Option<bool>,
    /// The most that the machines bought for it may cost per hour, all together, in the currency of the price sheets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_price: Option<String>,
    /// When it must have ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// How long a member may take to save and leave after it was told to, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<u32>,
    /// How often it is tried again after failures of its own.
    #[serde(default)]
    pub retries: u32,
    /// Failures of its own since it was submitted, or last begun again on request: each costs a retry.
    #[serde(default)]
    pub failures: u32,
    /// How long ended attempts ran, in seconds. It counts against the time limit.
    #[serde(default)]
    pub used_seconds: i64,
    /// Exit codes that end the run at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail_on: Vec<i32>,
    /// It may start with this few members if that is sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_members: Option<u32>,
    /// How often somebody asked for another attempt.
    #[serde(default)]
    pub restarts: u32,
    /// The container image.
    pub image: String,
    /// What every member executes.
    pub command: Vec<String>,
    /// The last attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// When the next attempt begins, RFC 3339: failures are not retried at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<String>,
    /// What its members reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Every reason to wait that holds, the most binding first. Empty if it does not wait.
    pub reasons: Vec<Reason>,
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
    /// When its first member started, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// A sentence on how it fares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How the members fare.
    pub member_counts: MemberCounts,
    /// Every reason to wait that holds, the most binding first. Empty if it does not wait.
    pub reasons: Vec<Reason>,
    /// Its place in the line and when it is expected to start; absent if it does not wait, or if the scheduler does
    /// not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<Outlook>,
}

/// The queues with what they hold, and the runs that wait.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Board {
    /// When the order was true, RFC 3339; absent if the scheduler does not answer, and then runs are by age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_at: Option<String>,
    /// Queues that the caller may see, each below its parent.
    pub queues: Vec<BoardQueue>,
    /// Waiting runs that the caller may see, in the order in which they are considered.
    pub runs: Vec<BoardRun>,
    /// How many jobs wait in all, including those that the caller may not see.
    pub jobs_waiting: u32,
}

/// A queue of the board.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BoardQueue {
    /// The queue.
    #[serde(flatten)]
    pub queue: QueueView,
    /// How many of the queues shown are above it.
    pub depth: u32,
    /// What it has of the cluster, and what it is due; absent if the scheduler does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<QueueShare>,
}

/// A run of the board.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct BoardRun {
    /// The tenant.
    pub namespace: String,
    /// The run.
    pub name: String,
    /// The queue that is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// GPUs that it requests.
    pub gpus: u64,
    /// When it was submitted, RFC 3339.
    pub created_at: String,
    /// One word on why it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the reason is about, in a word or two for people, for example `quota`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Its place, and its start as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<Outlook>,
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
    /// The most GPUs it may hold, by type; absent if the quota is the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_gpus: Option<BTreeMap<String, u32>>,
    /// GPUs held, by type, children included.
    pub used_gpus: BTreeMap<String, u32>,
    /// GPUs held beyond the quota, by type.
    pub borrowed_gpus: BTreeMap<String, u32>,
    /// Gangs of which at least one member has a node.
    pub gangs_running: u32,
    /// Gangs that wait.
    pub gangs_waiting: u32,
    /// What it spent this month, children included; absent until the ledger says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spend: Option<Spend>,
    /// Namespaces whose runs may use it.
    pub namespaces: Vec<String>,
}

/// One member of a run's newest attempt, as its pod shows it.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MemberView {
    /// Its rank.
    pub index: u32,
    /// Its pod.
    pub pod: String,
    /// Its node, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How it fares.
    pub state: MemberState,
    /// GPUs it requests.
    pub gpus: u32,
    /// When it got its node, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_at: Option<String>,
    /// When its first container started, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When its last container ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// The exit code of its main container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// One word on why, for example `OOMKilled` or `ImagePullBackOff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a member, or a holder of GPUs, fares.
#[derive(Serialize, Deserialize, ToSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberState {
    /// Waits for a node.
    Waiting,
    /// Has its node; images and volumes are being fetched.
    Starting,
    /// Runs.
    Running,
    /// Was asked to end and has not ended.
    Ending,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
}

/// A node as the map shows it.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// Unique in the cluster.
    pub name: String,
    /// Its rack, if a label names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// Its GPU type, for example `H100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<String>,
    /// GPUs it offers. Only its kubelet knows which of them a pod holds, so occupants are counts.
    pub gpus: u32,
    /// Whether its kubelet says that it is ready.
    pub ready: bool,
    /// Whether it takes new pods.
    pub schedulable: bool,
    /// What holds its GPUs, by namespace, then run. Occupants that the caller may not see have no names.
    pub occupants: Vec<Occupant>,
}

/// A run, or pods without one, that holds GPUs of a node.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct Occupant {
    /// The tenant; absent if the caller may not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The run; absent for pods without one, or if the caller may not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The queue that is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// How many GPUs.
    pub gpus: u32,
    /// How it fares.
    pub state: MemberState,
}

/// Names a run, for example one that is gone.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
pub struct RunName {
    /// The tenant.
    pub namespace: String,
    /// The run.
    pub name: String,
}

/// Names a queue or a node that is gone.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// Its name.
    pub name: String,
}

/// A sum of money and GPU time. Money is a decimal of the report's currency, rounded to six places only here.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Money so far.
    pub amount: String,
    /// What it grows by in an hour now; `0` when nothing runs any more.
    pub per_hour: String,
    /// GPUs times seconds so far.
    pub gpu_seconds: i64,
    /// Those of them that have no price on any price sheet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_gpu_seconds: i64,
    /// How much more it would have cost if spot machines had been bought on demand; absent if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot_saved: Option<String>,
    /// The part of the amount that interruptions cost: lost work and repeated starts; absent if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptions: Option<String>,
}

/// What GPU time was used for.
#[derive(Serialize, Deserialize, ToSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsageClass {
    /// The containers ran.
    Productive,
    /// GPUs were held, and nothing ran yet: images and volumes were being fetched.
    Starting,
    /// The containers ran, and a later attempt repeated the work because it began from an earlier checkpoint.
    Lost,
    /// The machine was bought for a run, and did not take pods yet.
    NodeStarting,
    /// No pod held them.
    NodeIdle,
}

/// What one run has cost so far.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunCostView {
    /// The tenant.
    pub namespace: String,
    /// The run.
    pub name: String,
    /// The currency's three letters; absent while there are no prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The time up to which costs are included, RFC 3339.
    pub as_of: String,
    /// Everything.
    pub total: Cost,
    /// By what it was used for.
    pub classes: Vec<ClassCost>,
    /// By attempt, oldest first.
    pub attempts: Vec<AttemptCost>,
}

/// The cost of one class.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
pub struct ClassCost {
    /// The class.
    pub class: UsageClass,
    /// Its cost.
    #[serde(flatten)]
    pub cost: Cost,
}

/// The cost of one attempt.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
pub struct AttemptCost {
    /// The attempt's number.
    pub attempt: u32,
    /// Its cost.
    #[serde(flatten)]
    pub cost: Cost,
}

/// What rows of a report are summed by.
#[derive(Serialize, Deserialize, ToSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum CostGrouping {
    /// By run.
    #[default]
    Run,
    /// By the user who submitted it.
    User,
    /// By queue.
    Queue,
    /// By namespace.
    Namespace,
    /// By day, UTC.
    Day,
    /// By what it was used for.
    Class,
}

/// One row of a report.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
pub struct CostRow {
    /// The run as `namespace/name`, the user, the queue, the namespace, the day or the class. Absent where there is
    /// none: for pods without a run and for idle nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its cost.
    #[serde(flatten)]
    pub cost: Cost,
}

/// A page of a report, and the sum of all its pages.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct CostReport {
    /// What rows are summed by.
    pub by: CostGrouping,
    /// The first day, for example `2026-11-01`.
    pub since: String,
    /// The last day.
    pub until: String,
    /// The currency's three letters; absent while there are no prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The time up to which costs are included, RFC 3339.
    pub as_of: String,
    /// The sum of all rows, on this page and others.
    pub total: Cost,
    /// In the order of keys.
    pub items: Vec<CostRow>,
    /// Pass this as `continue` to get the next page; absent on the last.
    #[serde(default, rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
}

/// A request for a session of the portal.
#[derive(Serialize, Deserialize, ToSchema, Clone)]
pub struct SessionRequest {
    /// A token that Kubernetes accepts. At most 16 KiB.
    pub token: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(number: &i64) -> bool {
    *number == 0
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

impl Problem {
    /// The code of a run that Kubernetes refuses because of a `ResourceQuota`; it is not a wait reason.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
}
