//! What a plan says. The types live here, not with the planner, so that the judge can read plans without it.

mod effect;
mod reason;
mod sentence;

pub use effect::{Committed, Departure, Effect, EvictCause, EvictRequest, HoldEnd, HoldRecord, VictimRecord};

pub use reason::{NeighbourRefusal, ReasonData, Refusals, WaitReason};

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

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
    /// Gangs that give way, each for the sake of a claimant that has a hold in this plan.
    pub evictions: Vec<Eviction>,
    /// Capacity that is kept for a gang until it can start there: written before the first eviction.
    pub holds: Vec<Hold>,
    /// Gangs whose hold is given up before it runs out, because others have the room.
    pub released: Vec<GangKey>,
    /// When blocked gangs are expected to start; nobody who starts now delays them.
    pub reservations: Vec<Reservation>,
    /// When to plan again though nothing happened: a grace, a hold or a protection runs out.
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
    /// For whom.
    pub claimant: GangKey,
    /// By which rule.
    pub why: EvictionRule,
    /// What is lost: GPUs × time since the last checkpoint, or since the start without one.
    pub lost_gpu_seconds: u64,
    /// Where it goes at once, if it is only moved: its hold is in the same plan.
    pub moves: bool,
}

/// By which rule a gang is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum EvictionRule {
    /// The claimant is of a higher priority, in the same or another queue.
    Priority,
    /// The claimant's queue takes back what is its own.
    Reclaim,
    /// The claimant is expected to be through long before it, and it runs on what its queue borrows.
    ExpectedWork,
    /// It is moved, so that the claimant finds room in one piece.
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
    /// The nodes counted on, sorted; none of them is taken past the start by a gang that is started before it.
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
