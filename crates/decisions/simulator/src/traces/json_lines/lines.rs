//! The lines as they are written.

use std::collections::BTreeMap;

use cluster_model::{
    DeviceAsk, EvictionTerms, GpuType, HALF_LIFE_SECONDS_DEFAULT, Level, MigProfile, Node, NodeName, Queue,
    QueueName, Reclaim, Resources, Segment, Spread, Terms, TopologyTerms,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::Shared;
use crate::workload::Job;

/// GPUs by type.
pub(super) type Gpus = BTreeMap<GpuType, i64>;

/// The most members of a job; as many pods as the largest cluster holds.
const MEMBERS_MAX: u32 = 1_000_000;
const GIB: i64 = 1 << 30;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Line {
    Node(NodeLine),
    Queue(QueueLine),
    Job(Box<JobLine>),
    Event(EventLine),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NodeLine {
    pub name: String,
    /// As many nodes like it, with numbers after the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    #[serde(default)]
    pub gpus: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<GpuType>,
    #[serde(default = "cpu_millis_default")]
    pub cpu_millis: i64,
    #[serde(default = "memory_gib_default")]
    pub memory_gib: i64,
    #[serde(default = "pods_default")]
    pub pods: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub exact: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub spot: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerLine>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PowerLine {
    pub idle_watts: u32,
    pub gpu_watts: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct QueueLine {
    pub name: QueueName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<QueueName>,
    #[serde(default = "weight_default")]
    pub weight: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Gpus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Gpus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lend: Option<Gpus>,
    #[serde(default = "reclaim_grace_seconds_default")]
    pub reclaim_grace_seconds: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_run_seconds: u32,
    #[serde(default = "half_life_seconds_default")]
    pub half_life_seconds: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<BankLine>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub out_of_budget: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BankLine {
    pub earn_millis: u32,
    pub cap_gpu_seconds: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct JobLine {
    name: String,
    queue: QueueName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    submitted: Timestamp,
    run_seconds: u32,
    /// GPUs of each member.
    #[serde(default)]
    gpus: u32,
    #[serde(default = "members_default")]
    members: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    members_min: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gpu_types: Vec<GpuType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gpu_millis: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mig: Option<MigProfile>,
    #[serde(default, skip_serializing_if = "is_default")]
    cpu_millis: i64,
    #[serde(default, skip_serializing_if = "is_default")]
    memory_gib: i64,
    #[serde(default, skip_serializing_if = "is_default")]
    priority: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_limit_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checkpoint_seconds: Option<u32>,
    #[serde(default, skip_serializing_if = "is_default")]
    never_evict: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    takes_spot: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topology_required: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topology_preferred: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    segment: Option<SegmentLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spread: Option<SpreadLine>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SegmentLine {
    members: u32,
    level: u8,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SpreadLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<u8>,
    skew_max: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventLine {
    pub at: Timestamp,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum What {
    NodeUp(NodeLine),
    NodeDown(NodeName),
    NodeLeaves { node: NodeName, notice_seconds: u32 },
    Queue(QueueLine),
}

impl JobLine {
    /// The job, or what is wrong with the line.
    pub(super) fn job(&self, shared: &mut Shared) -> Result<Job, String> {
        if !(1..=MEMBERS_MAX).contains(&self.members) {
            return Err(format!("members is {}, from 1 to {MEMBERS_MAX} are possible", self.members));
        }
        let members_min = self.members_min.unwrap_or(self.members);
        if !(1..=self.members).contains(&members_min) {
            return Err(format!("membersMin is {members_min}, from 1 to {} are possible", self.members));
        }
        let device = match (self.gpu_millis, self.mig) {
            (None, None) => DeviceAsk::Whole,
            (Some(millis @ 1..=999), None) if self.gpus == 0 => DeviceAsk::Share { millis },
            (None, Some(profile)) if self.gpus == 0 => DeviceAsk::Mig { profile },
            _ => return Err("one of gpus, gpuMillis (1 to 999) and mig is possible".to_owned()),
        };
        Ok(Job {
            user: self.user.as_deref().map(|user| shared.text(user)),
            run_seconds: self.run_seconds,
            members: self.members,
            members_min,
            requests: Resources {
                gpus: i64::from(self.gpus),
                cpu_millis: self.cpu_millis.max(0),
                memory_bytes: self.memory_gib.max(0).saturating_mul(GIB),
                pods: 1,
            },
            device,
            gpu_types: shared.gpu_types(self.gpu_types.iter().cloned()),
            priority: self.priority,
            checkpoint_seconds: self.checkpoint_seconds,
            terms: shared.terms(self.terms()),
            ..Job::new(self.name.as_str(), QueueName::from(shared.text(self.queue.as_str())), self.submitted)
        })
    }

    fn terms(&self) -> Terms {
        let segment = |it: SegmentLine| Segment { members: it.members.max(1), level: Level(it.level) };
        let spread = |it: SpreadLine| Spread { level: it.level.map(Level), skew_max: it.skew_max.max(1) };
        Terms {
            topology: TopologyTerms {
                required: self.topology_required.map(Level),
                preferred: self.topology_preferred.map(Level),
                segment: self.segment.map(segment),
            },
            time_limit_seconds: self.time_limit_seconds,
            deadline: self.deadline,
            eviction: EvictionTerms {
                never: self.never_evict,
                checkpoints: self.checkpoint_seconds.is_some(),
            },
            spread: self.spread.map(spread),
            takes_spot: self.takes_spot,
            ..Terms::default()
        }
    }
}

impl From<&Job> for JobLine {
    fn from(job: &Job) -> Self {
        let (gpu_millis, mig) = match job.device {
            DeviceAsk::Whole => (None, None),
            DeviceAsk::Share { millis } => (Some(millis), None),
            DeviceAsk::Mig { profile } => (None, Some(profile)),
        };
        let Terms { topology, spread, .. } = &*job.terms;
        Self {
            name: job.name.to_string(),
            queue: job.queue.clone(),
            user: job.user.as_ref().map(ToString::to_string),
            submitted: job.submitted,
            run_seconds: job.run_seconds,
            gpus: u32::try_from(job.requests.gpus).unwrap_or(0),
            members: job.members,
            members_min: (job.members_min != job.members).then_some(job.members_min),
            gpu_types: job.gpu_types.to_vec(),
            gpu_millis,
            mig,
            cpu_millis: job.requests.cpu_millis,
            memory_gib: job.requests.memory_bytes / GIB,
            priority: job.priority,
            time_limit_seconds: job.terms.time_limit_seconds,
            deadline: job.terms.deadline,
            checkpoint_seconds: job.checkpoint_seconds,
            never_evict: job.terms.eviction.never,
            takes_spot: job.terms.takes_spot,
            topology_required: topology.required.map(|level| level.0),
            topology_preferred: topology.preferred.map(|level| level.0),
            segment: topology.segment.map(|it| SegmentLine { members: it.members, level: it.level.0 }),
            spread: spread
                .map(|it| SpreadLine { level: it.level.map(|level| level.0), skew_max: it.skew_max }),
        }
    }
}

impl From<&Node> for NodeLine {
    fn from(node: &Node) -> Self {
        Self {
            name: node.name.to_string(),
            count: None,
            gpus: u32::try_from(node.allocatable.gpus).unwrap_or(0),
            gpu_type: node.gpu_type.clone(),
            cpu_millis: node.allocatable.cpu_millis,
            memory_gib: node.allocatable.memory_bytes / GIB,
            pods: node.allocatable.pods,
            topology: node.topology.iter().map(ToString::to_string).collect(),
            exact: node.exact,
            spot: node.spot,
            power: node.power.map(|it| PowerLine { idle_watts: it.idle_watts, gpu_watts: it.gpu_watts }),
        }
    }
}

impl From<&Queue> for QueueLine {
    fn from(queue: &Queue) -> Self {
        Self {
            name: queue.name.clone(),
            parent: queue.parent.clone(),
            weight: queue.weight,
            quota: queue.quota.as_ref().map(|amounts| amounts.gpus.clone()),
            limit: queue.limit.as_ref().map(|amounts| amounts.gpus.clone()),
            lend: queue.lend.as_ref().map(|amounts| amounts.gpus.clone()),
            reclaim_grace_seconds: queue.reclaim.grace_seconds,
            min_run_seconds: queue.reclaim.min_run_seconds,
            half_life_seconds: queue.half_life_seconds,
            bank: queue
                .bank
                .map(|it| BankLine { earn_millis: it.earn_millis, cap_gpu_seconds: it.cap_gpu_seconds }),
            out_of_budget: queue.out_of_budget,
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// More than anybody asks for, so that who does not speak of CPU and memory need not think of them.
fn cpu_millis_default() -> i64 {
    1_000_000
}

fn memory_gib_default() -> i64 {
    1 << 16
}

fn pods_default() -> i64 {
    250
}

fn weight_default() -> u32 {
    1
}

fn members_default() -> u32 {
    1
}

fn reclaim_grace_seconds_default() -> u32 {
    Reclaim::default().grace_seconds
}

fn half_life_seconds_default() -> u32 {
    HALF_LIFE_SECONDS_DEFAULT
}
