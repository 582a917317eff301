//! The input from which an attempt's children are built.

use api_types::RunSpec;
use api_types::run::Attempt;

use super::reporting::Reporting;
use super::validate::ValidatedRun;

/// How long a member may take to save and leave, by default.
const GRACE_SECONDS_DEFAULT: u32 = 30;

/// The decisions about an attempt before it is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptPlan {
    /// The attempt's number, from 1.
    pub number: u32,
    /// How many members it has.
    pub members: u32,
    /// The step to resume from; without it, the newest.
    pub resume_step: Option<i64>,
    /// How long it may run: the part of the Run's limit that earlier attempts left.
    pub time_limit_seconds: Option<i64>,
}

impl AttemptPlan {
    /// An attempt as the Run's status records it, with this much time.
    pub fn of(run: &ValidatedRun, attempt: &Attempt, time_limit_seconds: Option<i64>) -> Self {
        // Old records have no number of members: they had all of the Run's.
        let members = if attempt.members == 0 { run.spec.members } else { attempt.members };
        Self { number: attempt.number, members, resume_step: attempt.resume_step, time_limit_seconds }
    }
}

/// The platform's services around Runs.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// There is a ledger: no pod is deleted before its end is in it.
    pub metered: bool,
    /// Where members report to, if anywhere.
    pub reporting: Option<Reporting>,
    /// How long an ended Job and its pods, and so their logs, stay. Without it, as long as the Run.
    pub keep_pods_seconds: Option<i32>,
}

/// How long a member may take to save and leave.
pub fn grace_seconds(spec: &RunSpec) -> u32 {
    spec.grace_seconds.unwrap_or(GRACE_SECONDS_DEFAULT)
}

/// Deterministic names of an attempt's children: found again after any crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptNames {
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The Job. With a Run's name of at most 40 characters, `<job>-<index>` keeps within
    /// the 63 characters of a host name for any 32-bit attempt and 10,000 members: 40 + 11 + 5 = 56.
    pub job: String,
    /// The headless Service.
    pub service: String,
}

impl AttemptNames {
    /// The names of attempt `attempt` of the Run `run`.
    pub fn of(run: &str, attempt: u32) -> Self {
        let name = format!("{run}-{attempt}");
        Self { attempt, job: name.clone(), service: name }
    }
}

/// All input from which the parts of an attempt are built.
pub(super) struct Blueprint<'a> {
    pub(super) run: &'a ValidatedRun,
    pub(super) plan: &'a AttemptPlan,
    pub(super) around: &'a Surroundings,
    pub(super) names: AttemptNames,
}

impl Blueprint<'_> {
    /// How long a member may take to save and leave after it was told to.
    pub(super) fn grace_seconds(&self) -> u32 {
        grace_seconds(&self.run.spec)
    }

    /// Processes of all members: one for each GPU. 10,000 members × 64 GPUs is far below the range of u64.
    pub(super) fn processes(&self) -> u64 {
        u64::from(self.plan.members) * u64::from(self.run.spec.gpus_per_member.max(1))
    }
}
