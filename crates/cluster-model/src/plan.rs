//! What a plan says. The types live here, not with the planner, so that the judge can read plans without it.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use serde::Serialize;

use crate::names::{GangKey, GpuType, NodeName, PodKey, QueueName};
use crate::objects::ResourceName;

/// Every decision about the gangs that waited, in the order in which they were decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The generation of the state it was made from.
    pub generation: u64,
    /// The time it was made for.
    pub made_at: Timestamp,
    /// Gangs that start now.
    pub placements: Vec<GangPlacement>,
    /// Gangs that do not, and why.
    pub waiting: Vec<WaitingGang>,
}

/// One gang, whole: every member that had no node gets one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GangPlacement {
    /// The gang.
    pub gang: GangKey,
    /// The queue that is charged.
    pub queue: QueueName,
    /// The Run behind it.
    pub run: Option<Arc<str>>,
    /// Where its members go.
    pub members: Vec<MemberPlacement>,
}

/// One pod and its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberPlacement {
    /// The pod.
    pub pod: PodKey,
    /// Its node.
    pub node: NodeName,
}

/// A gang that stays where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitingGang {
    /// The gang.
    pub gang: GangKey,
    /// The Run behind it.
    pub run: Option<Arc<str>>,
    /// Its first member without a node.
    pub first_pod: PodKey,
    /// Every reason that holds, the most binding first; never empty.
    pub reasons: Vec<WaitReason>,
}

/// Why a gang waits. `Display` is a sentence for people, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum WaitReason {
    /// Fewer pods exist than must start together.
    MembersMissing {
        /// Pods that exist.
        have: u32,
        /// Pods that must start together.
        want: u32,
    },
    /// A scheduling gate of someone else holds members back.
    Gated {
        /// How many members have a gate.
        members: u32,
    },
    /// Members differ in something that a gang has only one of.
    MembersDisagree {
        /// What they differ in.
        field: &'static str,
    },
    /// Members ask for things that we cannot honour yet.
    Unsupported {
        /// The fields that ask for it.
        fields: Vec<String>,
    },
    /// The queue does not exist.
    QueueUnknown {
        /// The queue.
        queue: QueueName,
        /// The queue that names it as its parent, if it was not the pod that named it.
        child: Option<QueueName>,
    },
    /// The queue does not list the namespace.
    QueueNotOpen {
        /// The queue.
        queue: QueueName,
        /// The namespace.
        namespace: Arc<str>,
    },
    /// The pod names no queue, and no queue lists its namespace.
    NoQueue {
        /// The namespace.
        namespace: Arc<str>,
    },
    /// The pod names no queue, and several list its namespace.
    SeveralQueues {
        /// The namespace.
        namespace: Arc<str>,
        /// Those that list it.
        queues: Vec<QueueName>,
    },
    /// The queue's ancestors lead back to one of them.
    QueueCycle {
        /// A queue whose parent is below it.
        queue: QueueName,
    },
    /// The queue lies deeper in the tree than we follow.
    QueueTooDeep {
        /// The queue.
        queue: QueueName,
        /// How deep the tree may be.
        depth_max: usize,
    },
    /// The queue or one above it may not hold as much as it would then hold.
    QuotaExceeded {
        /// The queue that is full.
        queue: QueueName,
        /// What is short.
        resource: ResourceName,
        /// What it and its children hold.
        holds: i64,
        /// What it may hold.
        bound: i64,
        /// What the gang still needs.
        asks: i64,
    },
    /// No node that takes pods has such GPUs.
    NoSuchGpuType {
        /// The type asked for; `None` if any would do.
        gpu_type: Option<GpuType>,
    },
    /// A member asks for more GPUs than the largest node has.
    TooLargeForAnyNode {
        /// The type.
        gpu_type: GpuType,
        /// GPUs of one member.
        asks: i64,
        /// GPUs of the largest node.
        largest: i64,
    },
    /// Too few nodes have enough free GPUs.
    NotEnoughGpus {
        /// The type.
        gpu_type: GpuType,
        /// Members that need a node.
        members_asked: u32,
        /// GPUs of each of them.
        gpus_each: i64,
        /// How many of them would fit.
        members_that_fit: u32,
        /// Free GPUs of the type on all nodes that take pods.
        gpus_free: i64,
    },
    /// Too few nodes have enough free CPU for members without GPUs.
    NotEnoughCpu {
        /// Members that need a node.
        members_asked: u32,
        /// CPU of each of them, in thousandths of a core.
        cpu_millis_each: i64,
        /// How many of them would fit.
        members_that_fit: u32,
    },
    /// Nodes have enough free GPUs (or CPU, for members without GPUs), but something else is in the way.
    NodesRefused {
        /// The GPU type, if GPUs were asked for.
        gpu_type: Option<GpuType>,
        /// Members that need a node.
        members_asked: u32,
        /// How many of them would fit.
        members_that_fit: u32,
        /// How many nodes were refused, and for what.
        refusals: Refusals,
    },
}

/// How many nodes were refused for what; each node is counted once, under the first that holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Refusals {
    /// A taint that is not tolerated.
    pub taint: u32,
    /// A label that the node selector asks for is missing.
    pub node_selector: u32,
    /// Too little free CPU.
    pub cpu: u32,
    /// Too little free memory.
    pub memory: u32,
    /// As many pods as the node takes.
    pub pods: u32,
}

impl WaitReason {
    /// One CamelCase word for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::MembersMissing { .. } => "MembersMissing",
            Self::Gated { .. } => "Gated",
            Self::MembersDisagree { .. } => "MembersDisagree",
            Self::Unsupported { .. } => "Unsupported",
            Self::QueueUnknown { .. } => "QueueUnknown",
            Self::QueueNotOpen { .. } => "QueueNotOpen",
            Self::NoQueue { .. } => "NoQueue",
            Self::SeveralQueues { .. } => "SeveralQueues",
            Self::QueueCycle { .. } => "QueueCycle",
            Self::QueueTooDeep { .. } => "QueueTooDeep",
            Self::QuotaExceeded { .. } => "QuotaExceeded",
            Self::NoSuchGpuType { .. } => "NoSuchGpuType",
            Self::TooLargeForAnyNode { .. } => "TooLargeForAnyNode",
            Self::NotEnoughGpus { .. } => "NotEnoughGpus",
            Self::NotEnoughCpu { .. } => "NotEnoughCpu",
            Self::NodesRefused { .. } => "NodesRefused",
        }
    }

    /// Whether waiting will not help: the pods must change.
    pub fn is_never(&self) -> bool {
        matches!(self, Self::MembersDisagree { .. } | Self::Unsupported { .. } | Self::QueueNotOpen { .. })
    }

    /// The same as plain data, for whoever passes it on.
    pub fn to_reason(&self) -> ReasonData {
        let mut data = ReasonData {
            code: self.code(),
            message: self.to_string(),
            never: self.is_never(),
            ..ReasonData::default()
        };
        match self {
            Self::MembersMissing { have, want } => {
                data.holds = Some(i64::from(*have));
                data.asks = Some(i64::from(*want));
            }
            Self::Gated { .. }
            | Self::MembersDisagree { .. }
            | Self::Unsupported { .. }
            | Self::NoQueue { .. }
            | Self::SeveralQueues { .. } => {}
            Self::QueueUnknown { queue, .. }
            | Self::QueueNotOpen { queue, .. }
            | Self::QueueCycle { queue }
            | Self::QueueTooDeep { queue, .. } => data.queue = Some(queue.to_string()),
            Self::QuotaExceeded { queue, resource, holds, bound, asks } => {
                data.queue = Some(queue.to_string());
                data.resource = Some(resource.to_string());
                (data.holds, data.bound, data.asks) = (Some(*holds), Some(*bound), Some(*asks));
            }
            Self::NoSuchGpuType { gpu_type } | Self::NodesRefused { gpu_type, .. } => {
                data.resource = gpu_type.as_ref().map(ToString::to_string);
            }
            Self::TooLargeForAnyNode { gpu_type, asks, largest } => {
                data.resource = Some(gpu_type.to_string());
                (data.bound, data.asks) = (Some(*largest), Some(*asks));
            }
            Self::NotEnoughGpus { gpu_type, members_asked, gpus_each, gpus_free, .. } => {
                data.resource = Some(gpu_type.to_string());
                data.asks = Some(gpus_each.saturating_mul(i64::from(*members_asked)));
                data.free = Some(*gpus_free);
            }
            Self::NotEnoughCpu { members_asked, cpu_millis_each, .. } => {
                data.resource = Some(ResourceName::Cpu.to_string());
                data.asks = Some(cpu_millis_each.saturating_mul(i64::from(*members_asked)));
            }
        }
        data
    }
}

/// A [`WaitReason`] as plain data; amounts are in the resource's unit (GPUs, thousandths of a core, bytes).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReasonData {
    /// See [`WaitReason::code`].
    pub code: &'static str,
    /// The sentence.
    pub message: String,
    /// See [`WaitReason::is_never`].
    pub never: bool,
    /// The queue it is about.
    pub queue: Option<String>,
    /// The resource that is short.
    pub resource: Option<String>,
    /// How much the queue holds.
    pub holds: Option<i64>,
    /// How much it may hold.
    pub bound: Option<i64>,
    /// How much was asked for.
    pub asks: Option<i64>,
    /// How much is free.
    pub free: Option<i64>,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MembersMissing { have, want } => write!(f, "{have} of {want} pods exist"),
            Self::Gated { members } => {
                write!(f, "{} held back by a scheduling gate", count(*members, "pod is", "pods are"))
            }
            Self::MembersDisagree { field } => write!(f, "the members of the gang differ in their {field}"),
            Self::Unsupported { fields } => {
                write!(f, "asks for what is not supported yet: {}", fields.join(", "))
            }
            Self::QueueUnknown { queue, child: None } => write!(f, "queue {queue} does not exist"),
            Self::QueueUnknown { queue, child: Some(child) } => {
                write!(f, "queue {queue}, the parent of queue {child}, does not exist")
            }
            Self::QueueNotOpen { queue, namespace } => {
                write!(f, "queue {queue} is not open to namespace {namespace}")
            }
            Self::NoQueue { namespace } => {
                write!(f, "names no queue, and none is open to namespace {namespace}")
            }
            Self::SeveralQueues { namespace, queues } => {
                write!(f, "names no queue, and several are open to namespace {namespace}: {}", join(queues))
            }
            Self::QueueCycle { queue } => write!(f, "queue {queue} is its own ancestor"),
            Self::QueueTooDeep { queue, depth_max } => {
                write!(f, "queue {queue} lies more than {depth_max} levels below its root")
            }
            Self::QuotaExceeded { queue, resource, holds, bound, asks } => {
                let amount = |value: i64| amount(resource, value);
                write!(
                    f,
                    "queue {queue} holds {} of {} {resource}; asks {}",
                    amount(*holds),
                    amount(*bound),
                    amount(*asks)
                )
            }
            Self::NoSuchGpuType { gpu_type: Some(gpu_type) } => {
                write!(f, "no node that takes pods has {gpu_type}")
            }
            Self::NoSuchGpuType { gpu_type: None } => write!(f, "no node that takes pods has GPUs"),
            Self::TooLargeForAnyNode { gpu_type, asks, largest } => {
                write!(f, "asks {asks} {gpu_type} on one node; the largest has {largest}")
            }
            Self::NotEnoughGpus { gpu_type, members_asked, gpus_each, members_that_fit, gpus_free } => {
                let room = room_for(*members_asked, &format!("{gpus_each} free {gpu_type}"));
                write!(f, "{room}; {} ({gpus_free} {gpu_type} free in all)", fit(*members_that_fit))
            }
            Self::NotEnoughCpu { members_asked, cpu_millis_each, members_that_fit } => {
                let what = match cpu_millis_each {
                    0 => "room".to_owned(),
                    cpu => format!("{} free cpu", amount(&ResourceName::Cpu, *cpu)),
                };
                write!(f, "{}; {}", room_for(*members_asked, &what), fit(*members_that_fit))
            }
            Self::NodesRefused { gpu_type, members_asked, members_that_fit, refusals } => {
                let what = gpu_type.as_ref().map_or("cpu", GpuType::as_str);
                write!(
                    f,
                    "nodes with enough free {what} are refused: {refusals}; needs {members_asked}, {}",
                    fit(*members_that_fit)
                )
            }
        }
    }
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.taint, "by a taint"),
            (self.node_selector, "by the node selector"),
            (self.cpu, "for cpu"),
            (self.memory, "for memory"),
            (self.pods, "for their number of pods"),
        ];
        let parts: Vec<_> = parts
            .iter()
            .filter(|(nodes, _)| *nodes > 0)
            .map(|(nodes, why)| format!("{nodes} {why}"))
            .collect();
        f.write_str(&parts.join(", "))
    }
}

impl Refusals {
    /// All of them.
    pub fn total(&self) -> u32 {
        self.taint + self.node_selector + self.cpu + self.memory + self.pods
    }
}

fn fit(members: u32) -> String {
    match members {
        0 => "none fits".to_owned(),
        members => count(members, "fits", "fit"),
    }
}

fn count(number: u32, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn join(queues: &[QueueName]) -> String {
    queues.iter().map(QueueName::as_str).collect::<Vec<_>>().join(", ")
}

/// An amount in the unit people use: cores, GiB or MiB, or just the number.
fn amount(resource: &ResourceName, value: i64) -> String {
    const MIB: i64 = 1 << 20;
    const GIB: i64 = 1 << 30;
    match resource {
        ResourceName::Cpu if value % 1000 == 0 => (value / 1000).to_string(),
        ResourceName::Cpu => format!("{value}m"),
        ResourceName::Memory if value == 0 => "0".to_owned(),
        ResourceName::Memory if value % GIB == 0 => format!("{}Gi", value / GIB),
        ResourceName::Memory if value % MIB == 0 => format!("{}Mi", value / MIB),
        ResourceName::Gpu(_) | ResourceName::Memory => value.to_string(),
    }
}

/// `a node with … ` or `… on a node for each of 4 members`.
fn room_for(members: u32, what: &str) -> String {
    if members == 1 {
        format!("needs a node with {what}")
    } else {
        format!("needs {what} on a node for each of {members} members")
    }
}
