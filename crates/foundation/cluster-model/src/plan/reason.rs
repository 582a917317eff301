//! Why a gang waits: every reason, with its numbers, and what follows from it. A new reason is a variant and a row of the
//! table below; `sentence.rs` asks for its sentence and its numbers.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::refusals::{NeighbourRefusal, Refusals};
use crate::devices::DeviceAsk;
use crate::names::{GangKey, GpuType, QueueName};
use crate::objects::ResourceName;
use crate::priority::Tier;
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
    /// Members differ in something that must be the same in a gang.
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
    /// Its priority is above the highest tier of its queue, or of one above it.
    PriorityTooHigh {
        /// The queue that sets the tier.
        queue: QueueName,
        /// The gang's tier.
        tier: Tier,
        /// The highest tier.
        highest: Tier,
    },
    /// The queue's ancestors lead back to one of them.
    QueueCycle {
        /// A queue whose parent is below it.
        queue: QueueName,
    },
    /// The queue is deeper in the tree than we follow.
    QueueTooDeep {
        /// The queue.
        queue: QueueName,
        /// How deep the tree may be.
        depth_max: usize,
    },
    /// The gang would take the queue, or one above it, beyond what it may hold.
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
        /// The type asked for; `None` if any is acceptable.
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
    /// The gang might delay the reservation of a gang that was blocked before.
    WouldDelay {
        /// That gang.
        gang: GangKey,
        /// When it is to start.
        start: Timestamp,
    },
    /// Members must be in one domain, and no domain has room for all of them.
    NoRoomTogether {
        /// The level of the domain.
        level: Level,
        /// The domain with most room, from the outermost level down; `None` if there is none of the level, or if
        /// running members are in none.
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
    /// There is room, but not spread as evenly as the gang asks for.
    CannotSpread {
        /// Members that need a node.
        members_asked: u32,
        /// The most that two domains may differ by.
        skew_max: u32,
    },
    /// There is room, but rules about other pods do not allow it.
    Neighbours {
        /// Members that need a node.
        members_asked: u32,
        /// Which rules, and on how many nodes; each node is counted once.
        refusals: Vec<NeighbourRefusal>,
    },
    /// All nodes together would draw more power than they may.
    PowerCapped {
        /// What they may draw.
        cap_watts: u64,
        /// What they draw.
        draws_watts: u64,
        /// What they would draw.
        would_draw_watts: u64,
    },
    /// Nodes are held for it, and the gangs that give way have not left them yet.
    AwaitsVictims {
        /// Gangs that give way and are still there.
        gangs: u32,
        /// Until when the nodes are held.
        expires: Timestamp,
    },
    /// The search for gangs that might give way reached its bound: there may be more.
    GaveUp {
        /// Running gangs that were looked at.
        candidates: u32,
    },
    /// The members that run give way for another gang, so the rest of it does not start.
    GivesWay {
        /// That gang.
        claimant: GangKey,
    },
    /// Its queue takes back its quota, once the grace has passed.
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
    /// Machines could be bought, but none are bought for it.
    NoMachines {
        /// Why not.
        why: Arc<str>,
    },
}

/// What would end a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Nature {
    /// Room on nodes.
    Room,
    /// Room in a queue.
    Quota,
    /// Its turn: other gangs come first.
    Order,
    /// Time alone: what it waits for has a date.
    Time,
    /// Something that people or their controllers do.
    People,
    /// Nothing: the pods must change.
    Never,
    /// Machines that are on their way.
    Coming,
}

/// By how much a queue would exceed what it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverQuota<'a> {
    /// The queue.
    pub queue: &'a QueueName,
    /// What is short.
    pub resource: &'a ResourceName,
    /// How much of it others below the queue would have to give back.
    pub missing: i64,
}

/// What else follows from a reason, if its nature does not say it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trait {
    /// No node could take the gang, even an empty one.
    NoSuchNode,
    /// New machines would end the wait.
    Machines,
    /// It does not speak against new machines, if another reason speaks for them.
    BesideMachines,
    /// Nothing that running gangs hold is in the way.
    NotHeld,
    /// The gang could start, but another one comes first.
    Precedence,
    /// It does not help if the gang gives back the nodes that some of its members have.
    KeepsNodes,
}

struct Facts {
    nature: Nature,
    topic: &'static str,
    traits: &'static [Trait],
}

/// One row for each reason: an example, its nature, its topic and its traits. The compiler holds the table complete.
macro_rules! facts {
    ($($name:ident { $($example:tt)* } => $nature:ident, $topic:literal, [$($trait:ident),*];)*) => {
        impl WaitReason {
            /// Every code there is.
            pub const CODES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// One CamelCase word for machines: the reason's name.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)*
                }
            }

            fn facts(&self) -> Facts {
                match self {
                    $(Self::$name { .. } => Facts {
                        nature: Nature::$nature,
                        topic: $topic,
                        traits: &[$(Trait::$trait),*],
                    },)*
                }
            }

            /// One of each, in the order of [`Self::CODES`].
            #[cfg(test)]
            pub(crate) fn examples() -> Vec<Self> {
                vec![$(Self::$name { $($example)* }),*]
            }
        }
    };
}

facts! {
    MembersMissing { have: 3, want: 4 } => People, "members", [];
    Gated { members: 1 } => People, "members", [];
    MembersDisagree { field: "queue" } => Never, "members", [];
    Unsupported { fields: vec!["spec.resourceClaims".to_owned()] } => Never, "request", [];
    QueueUnknown { queue: "org".into(), child: Some("nlp".into()) } => People, "queue", [];
    QueueNotOpen { queue: "nlp".into(), namespace: "team".into() } => Never, "queue", [];
    PriorityTooHigh { queue: "nlp".into(), tier: Tier::of(4000), highest: Tier::of(2000) } => Never, "priority", [];
    NoQueue { namespace: "team".into() } => People, "queue", [];
    SeveralQueues { namespace: "team".into(), queues: vec!["cv".into(), "nlp".into()] } => People, "queue", [];
    QueueCycle { queue: "nlp".into() } => People, "queue", [];
    QueueTooDeep { queue: "nlp".into(), depth_max: 16 } => People, "queue", [];
    QuotaExceeded { queue: "nlp".into(), resource: ResourceName::Gpu("H100".into()), holds: 40, bound: 48, asks: 32 }
        => Quota, "quota", [];
    NoSuchGpuType { gpu_type: Some("H100".into()) } => Room, "gpus", [NoSuchNode, Machines];
    TooLargeForAnyNode { gpu_type: "H100".into(), asks: 16, largest: 8 } => Room, "gpus", [NoSuchNode, Machines];
    NotEnoughGpus { gpu_type: "H100".into(), members_asked: 4, gpus_each: 8, members_that_fit: 3, gpus_free: 27 }
        => Room, "gpus", [Machines];
    NotEnoughCpu { members_asked: 4, cpu_millis_each: 500, members_that_fit: 3 } => Room, "cpu", [Machines];
    NodesRefused { gpu_type: None, members_asked: 4, members_that_fit: 1, refusals: Refusals::example() }
        => Room, "nodes", [Machines];
    NoRoomTogether { level: Level(1), domain: None, members_asked: 4, members_that_fit: 3 }
        => Room, "topology", [Machines];
    NoDeviceWithRoom { gpu_type: "H100".into(), members_asked: 4, device: DeviceAsk::Whole, members_that_fit: 3 }
        => Room, "gpus", [];
    CannotSpread { members_asked: 4, skew_max: 1 } => Room, "topology", [];
    Neighbours { members_asked: 4, refusals: vec![NeighbourRefusal::example()] } => Room, "pods", [];
    PowerCapped { cap_watts: 90_000, draws_watts: 80_000, would_draw_watts: 96_000 } => Room, "power", [NotHeld];
    AtMembersMax { members_max: 8 } => People, "members", [];
    TermsContradict { members_min: 8, members_max: 4 } => Never, "request", [];
    OutOfBudget { queue: "nlp".into() } => Quota, "budget", [NotHeld, KeepsNodes];
    LendingReserve { queue: "org".into(), resource: ResourceName::Cpu, holds: 40, reserved: 8, bound: 64, asks: 32 }
        => Quota, "quota", [];
    BehindBlocked { gang: GangKey::new("team", "first") } => Order, "order", [NotHeld];
    KeepsDeadline { gang: GangKey::new("team", "first"), deadline: Timestamp::UNIX_EPOCH }
        => Order, "order", [NotHeld, Precedence, Machines];
    WouldDelay { gang: GangKey::new("team", "first"), start: Timestamp::UNIX_EPOCH }
        => Order, "order", [NotHeld, Precedence];
    AwaitsVictims { gangs: 2, expires: Timestamp::UNIX_EPOCH } => Time, "room", [];
    GaveUp { candidates: 100 } => Room, "room", [BesideMachines];
    ReclaimsAt { at: Timestamp::UNIX_EPOCH } => Time, "reclaim", [BesideMachines];
    GivesWay { claimant: GangKey::new("team", "first") } => Order, "gave way", [KeepsNodes];
    MachinesComing { machines: 2, ready_by: Timestamp::UNIX_EPOCH } => Coming, "machines", [];
    NoMachines { why: "none suits".into() } => Room, "machines", [];
}

impl WaitReason {
    /// What would end the wait.
    pub fn nature(&self) -> Nature {
        self.facts().nature
    }

    /// What it is about, in a word or two for people.
    pub fn topic(&self) -> &'static str {
        self.facts().topic
    }

    /// Whether waiting will not help: the pods must change.
    pub fn is_never(&self) -> bool {
        self.nature() == Nature::Never
    }

    /// Whether no node could take the gang, even an empty one.
    pub fn has_no_such_node(&self) -> bool {
        self.has(Trait::NoSuchNode)
    }

    /// Whether new machines would end the wait: nodes are missing, or only nodes kept for another gang's deadline are
    /// left.
    pub fn is_cured_by_machines(&self) -> bool {
        self.has(Trait::Machines)
    }

    /// Whether it does not speak against new machines, which come sooner than what it waits for.
    pub fn stands_beside_machines(&self) -> bool {
        self.has(Trait::BesideMachines)
    }

    /// Whether nothing that running gangs hold is in the way, so that evicting them would not help.
    pub fn outlasts_evictions(&self) -> bool {
        self.has(Trait::NotHeld)
    }

    /// Whether the gang could start, but would be in the way of another gang that comes first.
    pub fn gives_precedence(&self) -> bool {
        self.has(Trait::Precedence)
    }

    /// Whether it may help the gang, or the gangs that it blocks, if it gives back the nodes that some of its members
    /// have. Other reasons are for people to resolve, and until then the members that run lose nothing.
    pub fn is_helped_by_giving_back(&self) -> bool {
        let is_about_room = match self.nature() {
            Nature::Room | Nature::Quota | Nature::Order | Nature::Time | Nature::Coming => true,
            Nature::People | Nature::Never => false,
        };
        is_about_room && !self.has(Trait::KeepsNodes)
    }

    /// Whether something other than time must change: no running gang's end makes room for it.
    pub fn is_stuck(&self) -> bool {
        match self.nature() {
            // When one of its own members ends, the next one starts.
            Nature::People => !matches!(self, Self::AtMembersMax { .. }),
            Nature::Never => true,
            Nature::Quota => self.asks_more_than_the_bound(),
            Nature::Room => self.has_no_such_node(),
            Nature::Order | Nature::Time | Nature::Coming => false,
        }
    }

    /// By how much a queue would exceed what it may hold, if that is the reason.
    pub fn over_quota(&self) -> Option<OverQuota<'_>> {
        match self {
            Self::QuotaExceeded { queue, resource, holds, bound, asks } => Some(OverQuota {
                queue,
                resource,
                missing: holds.saturating_add(*asks).saturating_sub(*bound),
            }),
            Self::LendingReserve { queue, resource, holds, reserved, bound, asks } => {
                let used = holds.saturating_add(*reserved).saturating_add(*asks);
                Some(OverQuota { queue, resource, missing: used.saturating_sub(*bound) })
            }
            _ => None,
        }
    }

    /// Whether the gang asks for more than the queue may ever hold.
    fn asks_more_than_the_bound(&self) -> bool {
        matches!(self, Self::QuotaExceeded { bound, asks, .. } if asks > bound)
    }

    fn has(&self, wanted: Trait) -> bool {
        self.facts().traits.contains(&wanted)
    }
}

#[cfg(test)]
mod tests;
