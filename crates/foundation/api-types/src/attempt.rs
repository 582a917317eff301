//! One attempt of a run, as its status records it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One attempt: one Indexed Job.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// The Job's name, which is also the headless Service's.
    pub job_name: String,
    /// The Job's UID, once it was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_uid: Option<String>,
    /// How many members it has. 0 in old records: those attempts had all of the run's members.
    #[serde(default)]
    pub members: u32,
    /// The step that it was asked to resume from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_step: Option<i64>,
    /// When its first member started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Time>,
    /// When its members were told to save and leave. Written before they are told. From then on the attempt can only
    /// end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub told_at: Option<Time>,
    /// When its last member ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Time>,
    /// How it ended; absent while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<AttemptOutcome>,
    /// One CamelCase word on why it ends or ended, such as `SpotNotice`, `Preempted` or `MemberFailed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Work that the next attempt had to do again; absent until that attempt reports where it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostWork>,
}

/// How an attempt ended.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// Every member exited with 0.
    Succeeded,
    /// A member failed, or did not start again and again.
    Failed,
    /// Its Job was deleted from outside.
    Deleted,
    /// The user stopped it.
    Stopped,
    /// Machines, the scheduler or the user interrupted it, and another attempt follows. It costs no retry.
    Interrupted,
}

/// Work that was done and is not in the checkpoint that the next attempt loaded.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LostWork {
    /// Steps that are done again.
    pub steps: u64,
    /// From the commit of the loaded checkpoint, or the attempt's start if that was later, to the attempt's end.
    pub seconds: u64,
}
