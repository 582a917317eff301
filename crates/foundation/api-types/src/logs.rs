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
    /// What there is of each attempt that was asked for, oldest first.
    pub attempts: Vec<AttemptLogs>,
    /// Members that were not read, because there are more than one answer has.
    pub members_left_out: u32,
}

/// One line of one member.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When, by the clock of the member's machine, RFC 3339. A line that has none is as old as the one before it.
    pub at: String,
    /// The attempt.
    pub attempt: u32,
    /// The member.
    pub member: u32,
    /// What it printed, without the end of the line.
    pub text: String,
}

/// What there is of an attempt's logs.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AttemptLogs {
    /// The attempt.
    pub number: u32,
    /// Whether all of its pods are gone, and their logs with them.
    pub gone: bool,
    /// How many of the members that were asked for have no pod any more, of an attempt that has some: when a member
    /// fails, those of the others are deleted.
    #[serde(default)]
    pub members_gone: u32,
    /// The member that failed first: others mostly fail because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failed: Option<FailedMember>,
    /// Members of which something is missing.
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
    /// What it exited with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// One word on why, such as `OOMKilled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A member whose log is not all there.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, PartialEq, Eq)]
pub struct MissingLog {
    /// The member.
    pub member: u32,
    /// What is missing, in a sentence.
    pub why: String,
}
