//! Messages of the REST API on what the members of a run print.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::run::RunPhase;

/// What the members of a run printed, on one clock.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunLogs {
    /// Where the run is in its life: whether there is more to come.
    pub phase: RunPhase,
    /// By time, then attempt, then member.
    pub lines: Vec<LogLine>,
    /// What is left of the logs of each requested attempt, oldest first.
    pub attempts: Vec<AttemptLogs>,
    /// Members that were not read, because one answer has room for fewer.
    pub members_left_out: u32,
}

/// One line of one member.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When, by the clock of the member's machine, RFC 3339. A line without a time has that of the line before it.
    pub at: String,
    /// The attempt.
    pub attempt: u32,
    /// The member.
    pub member: u32,
    /// What it printed, without the end of the line.
    pub text: String,
}

/// What is left of an attempt's logs.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AttemptLogs {
    /// The attempt.
    pub number: u32,
    /// Whether all of its pods are gone, and their logs with them.
    pub gone: bool,
    /// How many of the requested members have no pod any more, if the attempt still has some: when a member fails,
    /// the pods of the others are deleted.
    #[serde(default)]
    pub members_gone: u32,
    /// The member that failed first: others mostly fail because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failed: Option<FailedMember>,
    /// Members whose logs are incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingLog>,
}

/// A member that failed.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FailedMember {
    /// The member.
    pub member: u32,
    /// When it ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Its exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// One word on why, such as `OOMKilled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A member whose log is incomplete.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
pub struct MissingLog {
    /// The member.
    pub member: u32,
    /// What is missing, in a sentence.
    pub why: String,
}
