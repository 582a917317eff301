//! Why a gang waits, with the numbers, and the same as plain data.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::devices::DeviceAsk;
use crate::names::{GangKey, GpuType, QueueName};
use crate::near::NearRule;
use crate::objects::ResourceName;
use crate::terms::Level;

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
    /// The gang runs with as many members as it may have.
    AtMembersMax {
        /// The most it may have.
        members_max: u32,
    },
    /// The gang must start with more members than it may have.
    TermsContradict {
        /// Members that must start together.
        members_min: u32,
        /// The most it may have.
        members_max: u32,
    },
    /// The budget of the queue or of one above it is spent.
    OutOfBudget {
        /// The queue whose budget it is.
        queue: QueueName,
    },
    /// The gang would borrow what other queues keep for themselves.
    LendingReserve {
        /// The queue above those that keep it.
        queue: QueueName,
        /// What is short.
        resource: ResourceName,
        /// What it and its children hold.
        holds: i64,
        /// What its other children keep for themselves and do not hold.
        reserved: i64,
        /// What it may hold, or what the cluster has if it has no bound.
        bound: i64,
        /// What the gang still needs.
        asks: i64,
    },
    /// The policy starts nothing after the first gang that is blocked.
    BehindBlocked {
        /// That gang.
        gang: GangKey,
    },
    /// Another gang of the same or a higher priority would miss its deadline.
    KeepsDeadline {
        /// That gang.
        gang: GangKey,
        /// Its deadline.
        deadline: Timestamp,
    },
    /// A gang that was blocked before has a reservation, which it might not keep.
    WouldDelay {
        /// That gang.
        gang: GangKey,
        /// When it is to start.
        start: Timestamp,
    },
    /// Members must lie together, and no domain has room for all of them.
    NoRoomTogether {
        /// The level of the domain.
        level: Level,
        /// The domain with most room, from the outermost level down; `None` if there is none of the level, or members
        /// that run already lie in none.
        domain: Option<Arc<str>>,
        /// Members that need a node.
        members_asked: u32,
        /// How many of them find room there.
        members_that_fit: u32,
    },
    /// Too few devices have room for parts of them.
    NoDeviceWithRoom {
        /// The type.
        gpu_type: GpuType,
        /// Members that need a node.
        members_asked: u32,
        /// What each of them asks of a device.
        device: DeviceAsk,
        /// How many of them would fit.
        members_that_fit: u32,
    },
    /// There is room, but not spread as evenly as is asked for.
    CannotSpread {
        /// Members that need a node.
        members_asked: u32,
        /// The most that two domains may differ by.
        skew_max: u32,
    },
    /// There is room, but other pods stand against it.
    Neighbours {
        /// Members that need a node.
        members_asked: u32,
        /// What they stand against, and on how many nodes; each node is counted once.
        refusals: Vec<NeighbourRefusal>,
    },
    /// All nodes together would draw more than they may.
    PowerCapped {
        /// What they may draw.
        cap_watts: u64,
        /// What they draw.
        draws_watts: u64,
        /// What they would draw.
        would_draw_watts: u64,
    },
    /// Its place is kept, and those that give way have not left it yet.
    AwaitsVictims {
        /// Gangs that give way and are still there.
        gangs: u32,
        /// Until when the place is kept.
        expires: Timestamp,
    },
    /// The search for gangs that might give way ran out of its bound: there may be some.
    GaveUp {
        /// Running gangs that were looked at.
        candidates: u32,
    },
    /// The members that run give way for another gang, so the rest of it does not start.
    GivesWay {
        /// That gang.
        claimant: GangKey,
    },
    /// Its queue takes back what is its own, once the grace has passed.
    ReclaimsAt {
        /// When.
        at: Timestamp,
    },
    /// Machines were bought for it, and are not all ready yet.
    MachinesComing {
        /// How many.
        machines: u32,
        /// When they should be.
        ready_by: Timestamp,
    },
    /// Machines could be bought, but none are for it.
    NoMachines {
        /// Why not.
        why: Arc<str>,
    },
}

/// Nodes that a rule about other pods refuses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct NeighbourRefusal {
    /// The rule.
    pub rule: NearRule,
    /// How many nodes.
    pub nodes: u32,
    /// The pods that it is about, by their labels.
    pub pods: Arc<str>,
    /// The label by which nearness is told.
    pub topology_key: Arc<str>,
    /// For an uneven spread: the domains that would still take one more.
    pub open_domains: Vec<Arc<str>>,
}

/// How many nodes were refused for what; each node is counted once, under the first that holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Refusals {
    /// Somebody closed the node to new pods.
    pub cordoned: u32,
    /// A taint that is not tolerated.
    pub taint: u32,
    /// A label that the node selector asks for is missing.
    pub node_selector: u32,
    /// The node affinity does not match.
    pub node_affinity: u32,
    /// The node lacks an ability that the pod needs.
    pub features: u32,
    /// A port of the host is taken.
    pub ports: u32,
    /// Too little free CPU.
    pub cpu: u32,
    /// Too little free memory.
    pub memory: u32,
    /// As many pods as the node takes.
    pub pods: u32,
    /// The node can be taken away at short notice, and that was not agreed to.
    pub spot: u32,
    /// Devices are counted on it, so that no part of one can be given.
    pub counted: u32,
    /// Too little free of another resource, by its name.
    pub other: BTreeMap<Arc<str>, u32>,
}

impl Refusals {
    /// All of them.
    pub fn total(&self) -> u32 {
        let Self { cordoned, taint, node_selector, node_affinity, features, .. } = self;
        let Self { ports, cpu, memory, pods, spot, counted, other, .. } = self;
        let by_kind = [cordoned, taint, node_selector, node_affinity, features, spot, counted];
        let counts = by_kind.into_iter().chain([ports, cpu, memory, pods]).chain(other.values());
        counts.fold(0, |sum, nodes| sum.saturating_add(*nodes))
    }
}

/// Each reason's code is its name; one list, which the compiler holds complete.
macro_rules! codes {
    ($($name:ident),* $(,)?) => {
        /// Every code there is.
        pub const CODES: &'static [&'static str] = &[$(stringify!($name)),*];

        /// One CamelCase word for machines.
        pub fn code(&self) -> &'static str {
            match self {
                $(Self::$name { .. } => stringify!($name),)*
            }
        }
    };
}

impl WaitReason {
    codes! {
        MembersMissing,
        Gated,
        MembersDisagree,
        Unsupported,
        QueueUnknown,
        QueueNotOpen,
        NoQueue,
        SeveralQueues,
        QueueCycle,
        QueueTooDeep,
        QuotaExceeded,
        NoSuchGpuType,
        TooLargeForAnyNode,
        NotEnoughGpus,
        NotEnoughCpu,
        NodesRefused,
        NoRoomTogether,
        NoDeviceWithRoom,
        CannotSpread,
        Neighbours,
        PowerCapped,
        AtMembersMax,
        TermsContradict,
        OutOfBudget,
        LendingReserve,
        BehindBlocked,
        KeepsDeadline,
        WouldDelay,
        AwaitsVictims,
        GaveUp,
        ReclaimsAt,
        GivesWay,
        MachinesComing,
        NoMachines,
    }

    /// Whether waiting will not help: the pods must change.
    pub fn is_never(&self) -> bool {
        matches!(
            self,
            Self::MembersDisagree { .. }
                | Self::Unsupported { .. }
                | Self::QueueNotOpen { .. }
                | Self::TermsContradict { .. }
        )
    }

    /// The gang that is in the way, if it is one; the sentence says `gang NAMESPACE/NAME`.
    pub fn gang(&self) -> Option<&GangKey> {
        match self {
            Self::BehindBlocked { gang }
            | Self::KeepsDeadline { gang, .. }
            | Self::WouldDelay { gang, .. }
            | Self::GivesWay { claimant: gang } => Some(gang),
            _ => None,
        }
    }

    /// The same as plain data, for whoever passes it on.
    pub fn to_reason(&self) -> ReasonData {
        let mut data = ReasonData {
            code: self.code(),
            message: self.to_string(),
            never: self.is_never(),
            gang: self.gang().map(ToString::to_string),
            ..ReasonData::default()
        };
        match self {
            Self::MembersMissing { have, want } => {
                data.holds = Some(i64::from(*have));
                data.asks = Some(i64::from(*want));
            }
            Self::Gated { .. }
            | Self::AwaitsVictims { .. }
            | Self::GaveUp { .. }
            | Self::ReclaimsAt { .. }
            | Self::GivesWay { .. }
            | Self::MachinesComing { .. }
            | Self::NoMachines { .. }
            | Self::MembersDisagree { .. }
            | Self::Unsupported { .. }
            | Self::NoQueue { .. }
            | Self::SeveralQueues { .. }
            | Self::BehindBlocked { .. }
            | Self::KeepsDeadline { .. }
            | Self::WouldDelay { .. } => {}
            Self::QueueUnknown { queue, .. }
            | Self::QueueNotOpen { queue, .. }
            | Self::QueueCycle { queue }
            | Self::QueueTooDeep { queue, .. }
            | Self::OutOfBudget { queue } => data.queue = Some(queue.to_string()),
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
            Self::AtMembersMax { members_max } => data.bound = Some(i64::from(*members_max)),
            Self::TermsContradict { members_min, members_max } => {
                data.asks = Some(i64::from(*members_min));
                data.bound = Some(i64::from(*members_max));
            }
            Self::NotEnoughCpu { members_asked, cpu_millis_each, .. } => {
                data.resource = Some(ResourceName::Cpu.to_string());
                data.asks = Some(cpu_millis_each.saturating_mul(i64::from(*members_asked)));
            }
            Self::LendingReserve { queue, resource, holds, reserved, bound, asks } => {
                data.queue = Some(queue.to_string());
                data.resource = Some(resource.to_string());
                (data.holds, data.asks) = (Some(*holds), Some(*asks));
                data.bound = Some(bound.saturating_sub(*reserved));
            }
            Self::NoRoomTogether { members_asked, members_that_fit, .. } => {
                data.asks = Some(i64::from(*members_asked));
                data.free = Some(i64::from(*members_that_fit));
            }
            Self::NoDeviceWithRoom { gpu_type, members_asked, members_that_fit, .. } => {
                data.resource = Some(gpu_type.to_string());
                data.asks = Some(i64::from(*members_asked));
                data.free = Some(i64::from(*members_that_fit));
            }
            Self::CannotSpread { members_asked, .. } | Self::Neighbours { members_asked, .. } => {
                data.asks = Some(i64::from(*members_asked));
            }
            Self::PowerCapped { cap_watts, draws_watts, would_draw_watts } => {
                let watts = |watts: u64| Some(i64::try_from(watts).unwrap_or(i64::MAX));
                data.resource = Some("watts".to_owned());
                (data.holds, data.bound) = (watts(*draws_watts), watts(*cap_watts));
                data.asks = watts(would_draw_watts.saturating_sub(*draws_watts));
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
    /// See [`WaitReason::gang`].
    pub gang: Option<String>,
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
