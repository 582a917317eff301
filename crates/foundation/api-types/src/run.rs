//! `Run`: a batch job of N identical members that start together.
//!
//! ```text
//!      ┌─ the attempt was interrupted, or failed and may be tried again ─┐
//!      ▼                                                                 │
//!   Pending ──► Starting ──► Running ────────────────────────────────────┤
//!      ▲ │          │           │  └───► Succeeded                       │
//!      │ │          │           └──────► Failed ─── spec.restarts ───► Pending
//!      │ └──────────┴───────────┴──────► Stopped     (spec.stop)
//!      │            └───────────┴──────► Paused      (spec.pause)
//!      └────────────────────────────────────┘
//! ```

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::{Resource, Rule};
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::names::SUBMITTED_BY_ANNOTATION;
use crate::price;

pub use crate::attempt::{Attempt, AttemptOutcome, LostWork};
pub use crate::progress::{Checkpoint, Load, Progress, StepRange};

/// What to run, with how many GPUs, charged to which queue. Everything but `stop`, `pause`, `restarts` and `resumeStep` is
/// fixed at creation: a run is a record, and a changed run is another run.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "warpyard.dev",
    version = "v1alpha1",
    kind = "Run",
    namespaced,
    status = "RunStatus",
    doc = "A batch job of identical members that start together or not at all.",
    shortname = "wr",
    category = "warpyard",
    selectable = ".spec.queue",
    printcolumn(name = "Queue", type_ = "string", json_path = ".spec.queue"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Members", type_ = "integer", json_path = ".spec.members"),
    printcolumn(name = "GPUs", type_ = "integer", json_path = ".spec.gpusPerMember", description = "GPUs of each member"),
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.gpuType"),
    printcolumn(name = "Why", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 40").message("a run's name has at most 40 characters, because its pods' host names are built from it"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message("a run's name has lower-case letters, digits and '-', starts with a letter and ends with a letter or digit, because its pods' host names are built from it")
)]
#[x_kube(
    validation = Rule::new("!(has(oldSelf.stop) && oldSelf.stop) || (has(self.stop) && self.stop)").message("a stopped run stays stopped: submit it again instead"),
    validation = Rule::new("has(self.queue) == has(oldSelf.queue) && has(self.gpuType) == has(oldSelf.gpuType) && has(self.timeLimitSeconds) == has(oldSelf.timeLimitSeconds) && has(self.cpu) == has(oldSelf.cpu) && has(self.memory) == has(oldSelf.memory) && has(self.env) == has(oldSelf.env) && has(self.annotations) == has(oldSelf.annotations) && has(self.checkpoint) == has(oldSelf.checkpoint) && has(self.graceSeconds) == has(oldSelf.graceSeconds) && has(self.startDeadlineSeconds) == has(oldSelf.startDeadlineSeconds) && has(self.minMembers) == has(oldSelf.minMembers) && has(self.failOn) == has(oldSelf.failOn) && has(self.spot) == has(oldSelf.spot) && has(self.maxPrice) == has(oldSelf.maxPrice) && has(self.deadline) == has(oldSelf.deadline)").message("a run's spec is immutable except for stop, pause, restarts and resumeStep: submit another run"),
    validation = Rule::new("self.restarts >= oldSelf.restarts").message("restarts only grows: each step of it begins another attempt"),
    validation = Rule::new("!has(self.minMembers) || self.minMembers <= self.members").message("minMembers must be at most members"),
    validation = Rule::new("!has(self.resumeStep) || has(self.checkpoint) || (has(oldSelf.resumeStep) && oldSelf.resumeStep == self.resumeStep)").message("resumeStep needs a checkpoint: this run keeps none"),
    validation = Rule::new("self.gpusPerMember > 0 || !has(self.gpuType)").message("gpuType without GPUs: set gpusPerMember, or leave gpuType out"),
)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    /// The queue that is charged. Without it, the one queue that lists the run's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = immutable())]
    pub queue: Option<String>,
    /// How many members start together.
    #[schemars(range(min = 1, max = 10_000))]
    #[x_kube(validation = immutable())]
    pub members: u32,
    /// GPUs of each member.
    #[serde(default)]
    #[schemars(range(max = 64))]
    #[x_kube(validation = immutable())]
    pub gpus_per_member: u32,
    /// The GPU type, for example `H100`. Without it, any type, but the same for all members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = immutable())]
    pub gpu_type: Option<String>,
    /// The tier; a higher tier is placed first.
    #[serde(default)]
    #[x_kube(validation = immutable())]
    pub priority: PriorityTier,
    /// How long it may run, in seconds, over all attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = immutable())]
    pub time_limit_seconds: Option<i64>,
    /// Where it keeps its checkpoints. Without it every attempt starts from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = immutable())]
    pub checkpoint: Option<CheckpointVolume>,
    /// Whether spot machines, which the cloud may take back, are bought for it. `false`: it is not placed on spot
    /// machines at all. Without it, none are bought, and existing ones are as good as others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = immutable())]
    pub spot: Option<bool>,
    /// The most that the machines bought for it may cost per hour, all together: a decimal with at most six decimals,
    /// in the currency of the price sheets. The lower of this and the queue's own bound counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 14), regex(pattern = price::PATTERN))]
    #[x_kube(validation = immutable())]
    pub max_price: Option<String>,
    /// When it must have ended, RFC 3339. The run is not stopped then, and the time is not promised. Machines are
    /// bought, and runs are ordered, so that it can be kept.
    // A string, because one time that our type cannot hold would make the whole list of runs unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 40),
        regex(
            pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$"
        )
    )]
    #[x_kube(validation = immutable())]
    #[x_kube(validation = Rule::new("timestamp(self) > timestamp('2000-01-01T00:00:00Z')").message("deadline must be a time of this century, for example 2026-12-01T08:00:00Z"))]
    pub deadline: Option<String>,
    /// How long a member may take to save and leave after it was told to, in seconds. Without it, 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    #[x_kube(validation = immutable())]
    pub grace_seconds: Option<u32>,
    /// How long a member may take to start after all members have nodes, in seconds. Then the attempt ends. Without
    /// it, 1800.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 86_400))]
    #[x_kube(validation = immutable())]
    pub start_deadline_seconds: Option<u32>,
    /// How often it is tried again after failures of its own. Failures of machines cost no retry.
    #[serde(default)]
    #[schemars(range(max = 100))]
    #[x_kube(validation = immutable())]
    pub retries: u32,
    /// Exit codes that end the run at once, even if retries are left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(range(min = 1, max = 255)))]
    #[x_kube(validation = immutable())]
    pub fail_on: Vec<i32>,
    /// It may start with fewer members than `members`, down to this many, if that is sooner. It grows again when
    /// there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000))]
    #[x_kube(validation = immutable())]
    pub min_members: Option<u32>,
    /// The container image.
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = immutable())]
    pub image: String,
    /// What every member executes.
    #[schemars(length(min = 1, max = 256), inner(length(max = 65_536)))]
    #[x_kube(validation = immutable())]
    pub command: Vec<String>,
    /// Environment variables, in addition to the rendezvous variables that every member gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(validation = immutable())]
    pub env: Vec<EnvironmentVariable>,
    /// CPU of each member, as a Kubernetes quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = immutable())]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))").message("cpu must be a quantity above 0, for example 4 or 500m"))]
    pub cpu: Option<String>,
    /// Memory of each member, as a Kubernetes quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = immutable())]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))").message("memory must be a quantity above 0, for example 64Gi"))]
    pub memory: Option<String>,
    /// Annotations copied to every pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = immutable())]
    pub annotations: Vec<PodAnnotation>,
    /// Set to true to stop the run; its record stays.
    #[serde(default)]
    pub stop: bool,
    /// Set to true to save and give the GPUs back, and to false to go on.
    #[serde(default)]
    pub pause: bool,
    /// Each increment begins another attempt: of a run that failed, or of one that still runs, which is told to save
    /// first.
    #[serde(default)]
    pub restarts: u32,
    /// The step that the attempt begun by the last change of `restarts` resumes from; 0 is the beginning. Without it,
    /// the newest checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9_007_199_254_740_991_i64))]
    pub resume_step: Option<i64>,
}

/// Where a run keeps its checkpoints: a folder of its own on a volume that all members share and that outlives them.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointVolume {
    /// The `PersistentVolumeClaim`, in the run's namespace.
    #[schemars(length(min = 1, max = 63))]
    pub claim: String,
}

/// One environment variable.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentVariable {
    /// The variable's name.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Its value.
    #[schemars(length(max = 65_536))]
    pub value: String,
}

/// One annotation for the run's pods.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, Default, PartialEq, Eq)]
pub struct PodAnnotation {
    /// The annotation's key.
    #[schemars(length(min = 1, max = 317))]
    pub name: String,
    /// Its value.
    #[schemars(length(max = 65_536))]
    pub value: String,
}

/// Tiers from the least to the most urgent; each is a PriorityClass of the cluster.
#[derive(
    Serialize,
    Deserialize,
    JsonSchema,
    ToSchema,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
)]
#[serde(rename_all = "lowercase")]
pub enum PriorityTier {
    /// Whatever is left over.
    Exploration,
    /// Day-to-day work.
    #[default]
    Research,
    /// Training that must be done by a date.
    Deadline,
    /// Serving users.
    Production,
}

impl PriorityTier {
    /// Every tier, from the least to the most urgent.
    pub const ALL: [Self; 4] = [Self::Exploration, Self::Research, Self::Deadline, Self::Production];

    /// The name of the tier's PriorityClass.
    pub fn priority_class(self) -> &'static str {
        match self {
            Self::Exploration => "warpyard-exploration",
            Self::Research => "warpyard-research",
            Self::Deadline => "warpyard-deadline",
            Self::Production => "warpyard-production",
        }
    }

    /// The value of the tier's PriorityClass. The values are far apart, so that an admin can put other classes
    /// between them.
    pub fn priority_value(self) -> i32 {
        match self {
            Self::Exploration => 1_000,
            Self::Research => 2_000,
            Self::Deadline => 3_000,
            Self::Production => 4_000,
        }
    }
}

/// The state of the run. `waiting` belongs to the scheduler, `progress` to the API server, everything else to the
/// controllers.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the run is in its life.
    #[serde(default)]
    pub phase: RunPhase,
    /// One CamelCase word on why it is there; empty while all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence on why it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The index of the member that `message` tells of, if `reason` is `MemberLost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_member: Option<u32>,
    /// The last attempts, oldest first. An attempt is written here before its Job is created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// How the members of the last attempt fare.
    #[serde(default)]
    pub members: MemberCounts,
    /// When the first member started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// See [`crate::conditions::run`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The value of `spec.restarts` that was last acted on.
    #[serde(default)]
    pub restarts: u32,
    /// Failures of its own since it was submitted, or last begun again on request: each costs a retry.
    #[serde(default)]
    pub failures: u32,
    /// How long ended attempts ran, in seconds. It counts against the time limit.
    #[serde(default)]
    pub used_seconds: i64,
    /// When the next attempt begins: failures are not retried at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Time>,
    /// What its members reported. Written by the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Why the run has no GPUs yet. Written by the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// A run's place in its life.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RunPhase {
    /// Waits for its GPUs.
    #[default]
    Pending,
    /// Every member has a node; not all of them run yet.
    Starting,
    /// Every member runs.
    Running,
    /// Every member ended well.
    Succeeded,
    /// A member failed, or something else deleted the run's Job.
    Failed,
    /// Somebody stopped it.
    Stopped,
    /// Somebody paused it: it holds nothing, and goes on when asked.
    Paused,
}

impl Run {
    /// The user who submitted it through our API.
    pub fn submitted_by(&self) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(SUBMITTED_BY_ANNOTATION).map(String::as_str)
    }

    /// A patch of the status of this run as it was read. It is refused on a newer version, and on another object of
    /// the same name.
    pub fn status_patch(&self, status: &impl Serialize) -> serde_json::Value {
        serde_json::json!({
            "apiVersion": Self::api_version(&()),
            "kind": Self::kind(&()),
            "metadata": {
                "name": self.metadata.name,
                "namespace": self.metadata.namespace,
                "uid": self.metadata.uid,
                "resourceVersion": self.metadata.resource_version,
            },
            "status": status,
        })
    }
}

impl RunPhase {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Stopped => "Stopped",
            Self::Paused => "Paused",
        }
    }

    /// Whether nothing more will happen.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Stopped)
    }
}

/// Members by state; they add up to the run's members once the Job has created all pods.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// Without a node.
    #[serde(default)]
    pub waiting: u32,
    /// With a node, not running yet.
    #[serde(default)]
    pub starting: u32,
    /// Running.
    #[serde(default)]
    pub running: u32,
    /// Ended with 0.
    #[serde(default)]
    pub succeeded: u32,
    /// Ended otherwise.
    #[serde(default)]
    pub failed: u32,
}

/// Why a gang waits, as the scheduler last decided.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Every reason that holds, the most binding first.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub reasons: Vec<Reason>,
}

/// One reason, for machines (`code` and the numbers) and for people (`message`).
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// A CamelCase word, for example `QuotaExceeded`.
    pub code: String,
    /// For example `queue nlp holds 40 of 48 H100; requests 32`.
    pub message: String,
    /// True when waiting will not help: the run must change. The same as the nature `Never`.
    #[serde(default)]
    pub never: bool,
    /// What would end the wait.
    // A word of a later version must not keep anybody from reading the Run.
    #[serde(default, deserialize_with = "if_known", skip_serializing_if = "Option::is_none")]
    pub nature: Option<WaitNature>,
    /// What it is about, in a word or two for people, for example `quota`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The queue that is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The gang that is in the way, as `namespace/name`, for those who may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<String>,
    /// The resource that is short, for example `H100`, `cpu` or `memory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Its numbers, the most telling first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub numbers: Vec<ReasonNumber>,
}

/// What would end a wait.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitNature {
    /// Room on nodes.
    Room,
    /// Room in a queue.
    Quota,
    /// Its turn: others come first.
    Order,
    /// Time alone.
    Time,
    /// Something that people do.
    People,
    /// Nothing: the run must change.
    Never,
    /// Machines that are on their way.
    Coming,
}

/// Reads a nature; a word of another version is none.
fn if_known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<WaitNature>, D::Error> {
    let word = Option::<String>::deserialize(deserializer)?;
    let known =
        |word: String| WaitNature::deserialize(IntoDeserializer::<ValueError>::into_deserializer(word));
    Ok(word.and_then(|word| known(word).ok()))
}

/// One number of a reason, for example `queue holds` 40 `H100`.
#[derive(Serialize, Deserialize, JsonSchema, ToSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReasonNumber {
    /// What it counts, in words that stand before it.
    pub label: String,
    /// The number.
    pub value: i64,
    /// What it is counted in.
    pub unit: String,
    /// Whether it reveals a queue's use: only for people who may read the queue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_queue: bool,
}

impl Reason {
    /// The namespace of the gang that is in the way.
    pub fn gang_namespace(&self) -> Option<&str> {
        self.gang.as_deref().map(|gang| gang.split_once('/').map_or(gang, |(namespace, _)| namespace))
    }

    /// For people who may not see the gang that is in the way: that there is one, and not which.
    #[must_use]
    pub fn without_gang(self) -> Self {
        let Some(gang) = &self.gang else { return self };
        let message = self.message.replace(&format!("gang {gang}"), "another gang");
        Self { message, gang: None, ..self }
    }
}

fn immutable() -> Rule {
    Rule::new("self == oldSelf").message(
        "a run's spec is immutable except for stop, pause, restarts and resumeStep: submit another run",
    )
}

#[cfg(test)]
mod tests {
    use super::{Reason, WaitNature};

    #[test]
    fn a_nature_of_a_later_version_is_read_as_none() {
        let read = |nature: &str| {
            let json = format!(r#"{{ "code": "X", "message": "x", "nature": {nature} }}"#);
            serde_json::from_str::<Reason>(&json).expect("a reason").nature
        };
        assert_eq!(read(r#""Quota""#), Some(WaitNature::Quota));
        assert_eq!(read(r#""Weather""#), None);
        assert_eq!(read("null"), None);
    }
}
