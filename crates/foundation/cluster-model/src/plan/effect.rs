//! What is to be done to the cluster, as data: what committing a plan returns.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::decided::{EvictionRule, GangPlacement, Hold};
use crate::names::{GangKey, NodeName, PodKey};

/// One thing to do. Each is safe to repeat, and names its objects by UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write the Hold of a gang. It replaces an earlier one of the same gang.
    WriteHold(HoldRecord),
    /// Delete the Hold of a gang.
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

/// What a committed plan asks for, and which parts of it did not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "effects that are not sent are never carried out"]
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

/// A whole gang that is told to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictRequest {
    /// The gang.
    pub gang: GangKey,
    /// Its pods that have a node and do not leave yet.
    pub pods: Vec<PodKey>,
    /// Why it leaves.
    pub cause: EvictCause,
}

impl EvictRequest {
    /// Why, as the gang's owner may read it: a claimant of another namespace has no name there.
    pub fn told(&self) -> String {
        match &self.cause {
            EvictCause::Claim { claimant, rule, .. } if claimant.namespace != self.gang.namespace => {
                makes_room(*rule, "a gang of another namespace")
            }
            cause => cause.to_string(),
        }
    }
}

fn makes_room(rule: EvictionRule, claimant: &str) -> String {
    match rule {
        EvictionRule::Priority => format!("gives way for {claimant}, which has a higher priority"),
        EvictionRule::Reclaim => format!("gives way for {claimant}, whose queue takes back its quota"),
        EvictionRule::ExpectedWork => {
            format!("gives way for {claimant}, which is expected to end long before it")
        }
        EvictionRule::Consolidation => format!("moves, so that {claimant} finds nodes in one piece"),
    }
}

/// Why a gang leaves. `Display` is a sentence for the operator's log; [`EvictRequest::told`] is the one for the gang's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictCause {
    /// Another gang gets its nodes.
    Claim {
        /// That gang.
        claimant: GangKey,
        /// By which rule.
        rule: EvictionRule,
        /// Gangs whose Holds, each with its expiry, must be written first. If one of them is deleted before that, the
        /// gang stays.
        after: Vec<(GangKey, Timestamp)>,
    },
    /// It cannot go on as it is. No gang waits for its nodes, so there is no Hold.
    Unwind {
        /// Why, in a sentence.
        why: String,
        /// Whether it stays if one of its pods has started.
        unless_started: bool,
    },
    /// It goes on elsewhere, where it costs less. No gang waits for its nodes, so there is no Hold.
    Move {
        /// Why that pays, in a sentence.
        why: String,
    },
}

impl fmt::Display for EvictCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim { claimant, rule, .. } => {
                f.write_str(&makes_room(*rule, &format!("gang {claimant}")))
            }
            Self::Unwind { why, .. } => f.write_str(why),
            Self::Move { why } => write!(f, "moves: {why}"),
        }
    }
}

/// Why a gang was told to leave, as the state remembers it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Departure {
    /// For this gang.
    For(GangKey),
    /// To run elsewhere itself.
    Move,
}

/// What a Hold says: a hold and the gangs that leave for it. Pods are named by UID, because a later pod of the same
/// name is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRecord {
    /// The gang that the nodes are held for.
    pub gang: GangKey,
    /// The rule by which others leave for it; `None` if none leaves, or if the rule is not known here.
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
    /// The gangs in the way did not leave in time. `member` is one of the pods that it was for.
    Expired {
        /// The pod.
        member: PodKey,
    },
    /// Others get the nodes.
    GivenUp,
    /// An earlier leader left it, and its victims may not be evicted any more, or it does not fit any more.
    Dropped,
}

#[cfg(test)]
mod tests {
    use super::{EvictCause, EvictRequest};
    use crate::GangKey;
    use crate::plan::EvictionRule;

    #[test]
    fn a_gang_is_told_the_claimants_name_only_within_its_namespace() {
        let told = |namespace: &str, rule| {
            let cause =
                EvictCause::Claim { claimant: GangKey::new(namespace, "own-1"), rule, after: Vec::new() };
            EvictRequest { gang: GangKey::new("nlp", "big-1"), pods: Vec::new(), cause }.told()
        };
        assert_eq!(
            told("nlp", EvictionRule::Priority),
            "gives way for gang nlp/own-1, which has a higher priority"
        );
        for rule in [
            EvictionRule::Priority,
            EvictionRule::Reclaim,
            EvictionRule::ExpectedWork,
            EvictionRule::Consolidation,
        ] {
            let told = told("speech", rule);
            assert!(told.contains("a gang of another namespace"), "{told}");
            assert!(!told.contains("speech") && !told.contains("own-1"), "{told}");
        }
    }
}
