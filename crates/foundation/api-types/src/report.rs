//! What a member of a run reports, as it comes over the network. `docs/reference/run-contract.md` says what it means.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One report of one attempt.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
pub struct Report {
    /// The run, if the member knows it.
    #[serde(default)]
    pub run: Option<String>,
    /// The attempt that this is about; it may be an earlier one than the sender's.
    #[schema(minimum = 1)]
    pub attempt: u32,
    /// Processes of that attempt.
    #[schema(minimum = 1)]
    pub world_size: u32,
    /// Steps done, over all attempts.
    pub step: u64,
    /// Steps that were done, at most 64 ranges.
    #[serde(default)]
    pub ranges: Vec<ReportedRange>,
    /// The checkpoint that was just committed.
    #[serde(default)]
    pub checkpoint: Option<ReportedCheckpoint>,
    /// What the attempt began from; only in its first report.
    #[serde(default)]
    pub loaded: Option<ReportedLoad>,
}

/// Steps, and the number of processes that did them.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
pub struct ReportedRange {
    /// The steps after this one …
    pub from: u64,
    /// … up to this one.
    pub to: u64,
    /// Processes.
    #[schema(minimum = 1)]
    pub world_size: u32,
    /// How long they took.
    pub seconds: f64,
}

/// A checkpoint that is complete.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
pub struct ReportedCheckpoint {
    /// Steps that it makes safe.
    pub step: u64,
    /// When it was committed; without it, when the report came.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub committed_at: Option<Time>,
    /// Its size.
    #[serde(default)]
    pub bytes: u64,
    /// How long the save took.
    #[serde(default)]
    pub seconds: f64,
    /// How long training stood still for it.
    #[serde(default)]
    pub stall_seconds: f64,
}

/// What an attempt began from.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
pub struct ReportedLoad {
    /// The step of the checkpoint; 0 is the beginning.
    pub step: u64,
    /// When that checkpoint was committed; absent for the beginning.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub committed_at: Option<Time>,
    /// The last step that the attempts before had done; without it, the loaded one.
    #[serde(default)]
    pub reached: Option<u64>,
}
