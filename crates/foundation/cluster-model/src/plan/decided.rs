//! What a plan decides about gangs.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use super::reason::WaitReason;
use crate::devices::DeviceUse;
use crate::names::{GangKey, NodeName, PodKey, QueueName};

/// Every decision about the gangs that waited, in the order in which they were decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The generation of the state it was made from.
    pub generation: u64,
    /// The time it was made for.
    pub made_at: Timestamp,
    /// Gangs that start now.
    pub placements: Vec<GangPlacement>,
    /// Gangs that do not, and why. Complete if the plan was asked to explain.
    pub waiting: Vec<WaitingGang>,
    /// Gangs that give way, each for a claimant that has a hold in this plan.
    pub evictions: Vec<Eviction>,
    /// Nodes that are kept for a gang until it can start there: written before the first eviction.
    pub holds: Vec<Hold>,
    /// Gangs whose hold is given up before it expires, because others get the nodes.
    pub released: Vec<GangKey>,
    /// When blocked gangs are expected to start; nothing that starts now delays them.
    pub reservations: Vec<Reservation>,
    /// When to plan again even if nothing happens: a grace, a hold or a protection ends then.
    pub look_again_at: Option<Timestamp>,
}

impl Plan {
    /// A plan that does nothing.
    pub fn empty(generation: u64, made_at: Timestamp) -> Self {
        Self {
            generation,
            made_at,
            placements: Vec::new(),
            waiting: Vec::new(),
            evictions: Vec::new(),
            holds: Vec::new(),
            released: Vec::new(),
            reservations: Vec::new(),
            look_again_at: None,
        }
    }
}

/// A whole gang that runs and must end its attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Eviction {
    /// The gang that gives way; all members that have a node.
    pub gang: GangKey,
    /// The claimant.
    pub claimant: GangKey,
    /// The rule.
    pub why: EvictionRule,
    /// What is lost: GPUs × time since the last checkpoint, or since the start without one.
    pub lost_gpu_seconds: u64,
    /// Whether it is only moved: its own hold is in the same plan.
    pub moves: bool,
}

/// By which rule a gang is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum EvictionRule {
    /// The claimant is of a higher priority, in the same or another queue.
    Priority,
    /// The claimant's queue takes back its quota.
    Reclaim,
    /// The claimant is expected to end long before it, and it runs on what its queue borrows.
    ExpectedWork,
    /// It is moved, so that the claimant finds nodes in one piece.
    Consolidation,
}

/// Nodes kept for a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hold {
    /// The gang.
    pub gang: GangKey,
    /// Where its members will go.
    pub members: Vec<MemberPlacement>,
    /// Until when, if it has not started by then.
    pub expires: Timestamp,
}

/// When and where a blocked gang is expected to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reservation {
    /// The gang.
    pub gang: GangKey,
    /// The expected start.
    pub start: Timestamp,
    /// The nodes counted on, sorted; a gang that starts earlier keeps none of them past this start.
    pub nodes: Vec<NodeName>,
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
    /// Which devices, if the node is Exact.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
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
