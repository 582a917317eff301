//! The lines as they are written.

use std::collections::BTreeMap;

use cluster_model::{
    Amounts, BankTerms, DeviceAsk, EvictionTerms, GpuType, HALF_LIFE_SECONDS_DEFAULT, Level, MigProfile,
    Node, NodeName, Power, Queue, QueueName, Reclaim, Resources, Segment, Spread, Terms, Tier, TopologyTerms,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Shared;
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
    /// How many nodes are like it, with numbers after the name.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_tier: Option<Tier>,
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
        let Self {
            name,
            queue,
            user,
            submitted,
            run_seconds,
            gpus,
            members,
            members_min,
            gpu_types,
            gpu_millis,
            mig,
            cpu_millis,
            memory_gib,
            priority,
            checkpoint_seconds,
            // See `terms`.
            time_limit_seconds: _,
            deadline: _,
            never_evict: _,
            takes_spot: _,
            topology_required: _,
            topology_preferred: _,
            segment: _,
            spread: _,
        } = self;
        let members = *members;
        if !(1..=MEMBERS_MAX).contains(&members) {
            return Err(format!("members is {members}, and must be from 1 to {MEMBERS_MAX}"));
        }
        let members_min = members_min.unwrap_or(members);
        if !(1..=members).contains(&members_min) {
            return Err(format!("membersMin is {members_min}, and must be from 1 to {members}"));
        }
        let device = match (*gpu_millis, *mig) {
            (None, None) => DeviceAsk::Whole,
            (Some(millis @ 1..=999), None) if *gpus == 0 => DeviceAsk::Share { millis },
            (None, Some(profile)) if *gpus == 0 => DeviceAsk::Mig { profile },
            _ => return Err("give only one of gpus, gpuMillis (1 to 999) and mig".to_owned()),
        };
        Ok(Job {
            user: user.as_deref().map(|user| shared.text(user)),
            run_seconds: *run_seconds,
            members,
            members_min,
            requests: Resources {
                gpus: i64::from(*gpus),
                cpu_millis: (*cpu_millis).max(0),
                memory_bytes: (*memory_gib).max(0).saturating_mul(GIB),
                pods: 1,
            },
            device,
            gpu_types: shared.gpu_types(gpu_types.iter().cloned()),
            priority: *priority,
            checkpoint_seconds: *checkpoint_seconds,
            terms: shared.terms(self.terms()),
            ..Job::new(name.as_str(), QueueName::from(shared.text(queue.as_str())), *submitted)
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
        let Job {
            name,
            queue,
            // In the format, the team is the queue.
            team: _,
            user,
            submitted,
            run_seconds,
            members,
            members_min,
            requests: Resources { gpus, cpu_millis, memory_bytes, pods: _ },
            device,
            gpu_types,
            priority,
            checkpoint_seconds,
            terms,
        } = job;
        let (gpu_millis, mig) = match *device {
            DeviceAsk::Whole => (None, None),
            DeviceAsk::Share { millis } => (Some(millis), None),
            DeviceAsk::Mig { profile } => (None, Some(profile)),
        };
        let Terms {
            topology: TopologyTerms { required, preferred, segment },
            time_limit_seconds,
            deadline,
            // The format says only how often a job saves.
            eviction: EvictionTerms { never, checkpoints: _ },
            spread,
            takes_spot,
            // Not in the format.
            members_max: _,
            groups: _,
            buys_spot: _,
            max_price_micros: _,
        } = &**terms;
        Self {
            name: name.to_string(),
            queue: queue.clone(),
            user: user.as_ref().map(ToString::to_string),
            submitted: *submitted,
            run_seconds: *run_seconds,
            gpus: u32::try_from(*gpus).unwrap_or(0),
            members: *members,
            members_min: (members_min != members).then_some(*members_min),
            gpu_types: gpu_types.to_vec(),
            gpu_millis,
            mig,
            cpu_millis: *cpu_millis,
            memory_gib: memory_bytes / GIB,
            priority: *priority,
            time_limit_seconds: *time_limit_seconds,
            deadline: *deadline,
            checkpoint_seconds: *checkpoint_seconds,
            never_evict: *never,
            takes_spot: *takes_spot,
            topology_required: required.map(|level| level.0),
            topology_preferred: preferred.map(|level| level.0),
            segment: segment.map(|Segment { members, level }| SegmentLine { members, level: level.0 }),
            spread: spread
                .map(|Spread { level, skew_max }| SpreadLine { level: level.map(|level| level.0), skew_max }),
        }
    }
}

impl From<&Node> for NodeLine {
    fn from(node: &Node) -> Self {
        let Node {
            name,
            gpu_type,
            allocatable: Resources { gpus, cpu_millis, memory_bytes, pods },
            topology,
            exact,
            power,
            spot,
            // Not in the format: jobs of a trace have no rules on them.
            other_allocatable: _,
            features: _,
            labels: _,
            taints: _,
            // Nor these: a node that takes no pods counts as one that does.
            schedulable: _,
            cordoned: _,
        } = node;
        Self {
            name: name.to_string(),
            count: None,
            gpus: u32::try_from(*gpus).unwrap_or(0),
            gpu_type: gpu_type.clone(),
            cpu_millis: *cpu_millis,
            memory_gib: memory_bytes / GIB,
            pods: *pods,
            topology: topology.iter().map(ToString::to_string).collect(),
            exact: *exact,
            spot: *spot,
            power: power.map(|Power { idle_watts, gpu_watts }| PowerLine { idle_watts, gpu_watts }),
        }
    }
}

impl From<&Queue> for QueueLine {
    fn from(queue: &Queue) -> Self {
        let Queue {
            name,
            parent,
            weight,
            quota,
            limit,
            lend,
            reclaim: Reclaim { grace_seconds, min_run_seconds },
            half_life_seconds,
            bank,
            highest_tier,
            out_of_budget,
            // Not in the format: it has no prices, and a job names its queue.
            max_price_micros: _,
            machines_max: _,
            machines_per_hour_micros_max: _,
            namespaces: _,
        } = queue;
        Self {
            name: name.clone(),
            parent: parent.clone(),
            weight: *weight,
            quota: gpus_of(quota.as_ref()),
            limit: gpus_of(limit.as_ref()),
            lend: gpus_of(lend.as_ref()),
            reclaim_grace_seconds: *grace_seconds,
            min_run_seconds: *min_run_seconds,
            half_life_seconds: *half_life_seconds,
            bank: bank
                .map(|BankTerms { earn_millis, cap_gpu_seconds }| BankLine { earn_millis, cap_gpu_seconds }),
            highest_tier: *highest_tier,
            out_of_budget: *out_of_budget,
        }
    }
}

/// The format bounds GPUs only.
fn gpus_of(amounts: Option<&Amounts>) -> Option<Gpus> {
    amounts.map(|Amounts { gpus, cpu_millis: _, memory_bytes: _ }| gpus.clone())
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// More than any job asks for, so that a trace need not mention CPU and memory.
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
