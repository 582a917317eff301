//! What the members of a run report about their work. `show`, the choice of victims and the bill read this record.
//! `docs/reference/run-contract.md` describes the form of a report.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How far the run is. Bounded: adjoining ranges become one, and the oldest are dropped first.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Steps done, as counted by the newest attempt that reported.
    pub step: u64,
    /// When the last report came.
    #[schema(value_type = String, format = DateTime)]
    pub reported_at: Time,
    /// The newest checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Which attempt did which steps, oldest first. Within an attempt no step is in two ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub ranges: Vec<StepRange>,
    /// What each attempt began from, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub loads: Vec<Load>,
}

/// A checkpoint that is complete.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Steps that it makes safe.
    pub step: u64,
    /// The attempt that saved it.
    pub attempt: u32,
    /// When it was committed, by the clock of the member that did.
    #[schema(value_type = String, format = DateTime)]
    pub committed_at: Time,
    /// Its size.
    pub bytes: u64,
    /// How long the save took, in milliseconds.
    pub milliseconds: u64,
    /// How long training stood still for it, in milliseconds.
    pub stall_milliseconds: u64,
}

/// Steps, and the number of processes that did them.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StepRange {
    /// The attempt that did them.
    pub attempt: u32,
    /// The steps after this one …
    pub from: u64,
    /// … up to this one.
    pub to: u64,
    /// Processes.
    pub world_size: u32,
    /// How long they took, in milliseconds.
    pub milliseconds: u64,
}

/// What an attempt began from.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// The attempt that began.
    pub attempt: u32,
    /// The step of the checkpoint; 0 is the beginning.
    pub step: u64,
    /// When that checkpoint was committed; absent for the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub committed_at: Option<Time>,
    /// The last step that the attempts before had done.
    pub reached: u64,
}
