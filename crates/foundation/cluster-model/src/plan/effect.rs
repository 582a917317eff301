//! What is to be done to the cluster, as data: what committing a plan returns.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::{EvictionRule, GangPlacement, Hold};
use crate::names::{GangKey, NodeName, PodKey};

/// One thing to do. Each is safe to repeat, and names by UID what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write the object that says what is held for a gang. It replaces an earlier one of the same gang.
    WriteHold(HoldRecord),
    /// Delete that object.
    DeleteHold {
        /// The gang that it was for.
        gang: GangKey,
        /// Why.
        end: HoldEnd,
    },
    /// Tell a gang to save and leave.
    Evict(EvictRequest),
    /// An unwinding is not needed any more: the gang stays if none of its pods was told yet.
    CallOff(GangKey),
    /// Give the pods of a gang their nodes.
    Bind(GangPlacement),
}

/// What a committed plan asks for, and what of the plan did not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "nobody does what is not sent"]
pub struct Committed {
    /// What is to be done, in this order.
    pub effects: Vec<Effect>,
    /// Parts of the plan that did not fit the state, and were left out. A plan fits the state that it was made from.
    pub misfits: Vec<crate::AssumeError>,
}

impl Committed {
    /// The effects of a plan that fits; else the first misfit.
    pub fn whole(self) -> Result<Vec<Effect>, crate::AssumeError> {
        match self.misfits.into_iter().next() {
            None => Ok(self.effects),
            Some(misfit) => Err(misfit),
        }
    }
}

/// A gang that is told to leave, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictRequest {
    /// The gang.
    pub gang: GangKey,
    /// Its pods that have a node and do not leave yet.
    pub pods: Vec<PodKey>,
    /// What it leaves for.
    pub cause: EvictCause,
}

/// What a gang leaves for. `Display` is a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictCause {
    /// Another gang gets its room.
    Claim {
        /// That gang.
        claimant: GangKey,
        /// By which rule.
        rule: EvictionRule,
        /// Gangs whose Holds, each with its expiry, must be written before. If one of them is deleted first, the gang stays.
        after: Vec<(GangKey, Timestamp)>,
    },
    /// It cannot go on as it is. No room depends on it, so there is no Hold.
    Unwind {
        /// Why, in a sentence.
        why: String,
        /// Whether it stays if one of its pods has started.
        unless_started: bool,
    },
    /// It goes on elsewhere, where it costs less. No room depends on it, so there is no Hold.
    Move {
        /// Why that pays, in a sentence.
        why: String,
    },
}

impl fmt::Display for EvictCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim { claimant, rule: EvictionRule::Priority, .. } => {
                write!(f, "gives way for gang {claimant}, which has a higher priority")
            }
            Self::Claim { claimant, rule: EvictionRule::Reclaim, .. } => {
                write!(f, "gives way for gang {claimant}, whose queue takes back its quota")
            }
            Self::Claim { claimant, rule: EvictionRule::ExpectedWork, .. } => {
                write!(f, "gives way for gang {claimant}, which is expected to end long before it")
            }
            Self::Claim { claimant, rule: EvictionRule::Consolidation, .. } => {
                write!(f, "moves, so that gang {claimant} finds room in one piece")
            }
            Self::Unwind { why, .. } => f.write_str(why),
            Self::Move { why } => write!(f, "moves: {why}"),
        }
    }
}

/// What a gang that was told to leave leaves for, as the state remembers it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Departure {
    /// For this gang.
    For(GangKey),
    /// To run elsewhere itself.
    Move,
}

/// What the object of a hold says: a hold and the gangs that leave for it. Pods are named by UID, because a later pod of
/// the same name is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRecord {
    /// The gang that the nodes are held for.
    pub gang: GangKey,
    /// By which rule others leave for it; `None` if none does, or if the rule is not known here.
    pub rule: Option<EvictionRule>,
    /// The UID of each member, and its node.
    pub members: Vec<(Arc<str>, NodeName)>,
    /// The gangs that leave for it.
    pub victims: Vec<VictimRecord>,
    /// Until when, if the gang has not started by then.
    pub expires: Timestamp,
}

impl HoldRecord {
    /// The record of a hold.
    pub fn new(hold: &Hold, rule: Option<EvictionRule>, victims: Vec<VictimRecord>) -> Self {
        let Hold { gang, members, expires } = hold;
        let members = members.iter().map(|it| (Arc::clone(&it.pod.uid), it.node.clone())).collect();
        Self { gang: gang.clone(), rule, members, victims, expires: *expires }
    }
}

/// A gang that leaves for a claimant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VictimRecord {
    /// The gang.
    pub gang: GangKey,
    /// UIDs of its pods that are told to leave.
    pub pods: Vec<Arc<str>>,
}

/// Why a hold ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// Its gang has started, or is gone.
    Served,
    /// The gangs in the way did not leave in time. `member` is a pod that it was for.
    Expired {
        /// The pod.
        member: PodKey,
    },
    /// Others have the room.
    GivenUp,
    /// An earlier leader left it, and its victims may not be evicted any more, or it does not fit any more.
    Dropped,
}
