//! What the scheduler's leader knows about waiting runs. It answers the API server with these messages, and the API
//! server shows them to anyone who may see the run.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::run::Reason;

/// Where a run stands in the line, and when it is expected to start.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// Waiting jobs that are considered before it; 0 means that it is next.
    pub jobs_ahead: u32,
    /// GPUs that those jobs request.
    pub gpus_ahead: u64,
    /// Jobs that wait in all, itself included.
    pub jobs_waiting: u32,
    /// When this was true, RFC 3339.
    pub planned_at: String,
    /// When it is expected to start; absent while that is being worked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<StartForecast>,
}

/// When a run is expected to start, and what would start it now. If all times are absent, it cannot start as it is:
/// something other than time must change.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct StartForecast {
    /// A start before this time is as likely as one after it, in seconds from `madeAt`; absent if no start is
    /// foreseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_seconds: Option<u32>,
    /// One in ten starts later than this, in seconds from `madeAt`; absent if no start is foreseen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_seconds: Option<u32>,
    /// In most futures it does not start within this time, in seconds from `madeAt`. The forecast looks no further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_within_seconds: Option<u32>,
    /// When this was worked out, RFC 3339.
    pub made_at: String,
    /// Single changes that would start it at once. Each was tried on the cluster as it is.
    pub would_start_now: Vec<Offer>,
}

/// One change to a run.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// A CamelCase word, for example `FewerGpus`.
    pub code: String,
    /// For example `with 4 GPUs per member`.
    pub message: String,
}

/// The leader's answer about one run.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunOutlook {
    /// Every reason to wait that holds, the most binding first.
    pub reasons: Vec<Reason>,
    /// Its place, and its start.
    pub outlook: Outlook,
}

/// Which part of the line is wanted.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LineQuery {
    /// Only runs of these namespaces; absent for those of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<BTreeSet<String>>,
    /// The most runs in the answer.
    pub limit: usize,
}

/// The leader's answer about all waiting runs.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// When this was true, RFC 3339.
    pub planned_at: String,
    /// Every queue, by name.
    pub queues: Vec<QueueShare>,
    /// The first waiting runs of those asked about, in the order in which they are considered.
    pub waiting: Vec<WaitingJob>,
    /// How many wait in all, asked about or not.
    pub jobs_waiting: u32,
}

/// What a queue has of the cluster, and what it is due.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct QueueShare {
    /// The queue.
    pub name: String,
    /// GPUs that it and the queues below it hold.
    pub gpus_used: u64,
    /// The same as a percentage of all GPUs.
    pub used_percent: f64,
    /// What it is due by its weight, its siblings' weights and those of the queues above, as a percentage of all
    /// GPUs.
    pub fair_percent: f64,
    /// What it used lately, in GPU hours: use of one half-life ago counts half.
    pub decayed_gpu_hours: f64,
}

/// One job that waits.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WaitingJob {
    /// The tenant.
    pub namespace: String,
    /// The run; absent for pods without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The gang: the run's attempt, or the pod.
    pub gang: String,
    /// The queue that is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// GPUs that it requests.
    pub gpus: u64,
    /// Since when it waits, RFC 3339.
    pub waiting_since: String,
    /// Its most binding reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Its place, and its start as far as it is known.
    pub outlook: Outlook,
}
