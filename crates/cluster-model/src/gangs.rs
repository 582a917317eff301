//! Gangs: pods that start together or not at all.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::names::GangKey;
use crate::objects::Pod;
use crate::queues::QueueSlot;
use crate::state::PodId;

/// The pods of one gang that have not ended, all of them ours.
#[derive(Clone, Debug, Default)]
pub struct Gang {
    /// By age, then name: the first one speaks for the gang.
    pub(crate) members: BTreeSet<(Timestamp, Arc<str>, PodId)>,
    /// Members without a node that are not being deleted, by index, then name.
    pub(crate) pending: BTreeSet<(u32, Arc<str>, PodId)>,
    /// Members with a node that are not being deleted.
    pub(crate) bound: u32,
    /// Members with a node that are being deleted.
    pub(crate) leaving: u32,
    /// Members that had a node and ended while others still wait; see [`crate::ClusterState::note_ended`].
    pub(crate) ended: u32,
    /// How the gang is counted at present: in which queue, as running, as waiting.
    pub(crate) counted: Option<(QueueSlot, bool, bool)>,
    /// Its place among the gangs that wait.
    pub(crate) order: Option<GangOrder>,
}

impl Gang {
    /// The oldest member, then the first by name; it speaks for the gang where members must agree.
    pub fn lead(&self) -> PodId {
        self.members.first().expect("a gang without members is removed").2
    }

    /// All members, the oldest first, then by name.
    pub fn members(&self) -> impl Iterator<Item = PodId> {
        self.members.iter().map(|(_, _, pod)| *pod)
    }

    /// Members that need a node, by their index in the gang, then by name.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = PodId> {
        self.pending.iter().map(|(_, _, pod)| *pod)
    }

    /// How many members are bound or assumed and not being deleted.
    pub fn bound(&self) -> u32 {
        self.bound
    }

    /// How many members are known to have had a node and to have ended.
    pub fn ended(&self) -> u32 {
        self.ended
    }

    /// Whether some members have or had a node and others of the `size` that must start together have none: its start
    /// was interrupted, or it lost a member. A gang that never said its size has no such moment.
    pub fn is_bound_in_part(&self, size: Option<u32>) -> bool {
        let started = self.bound + self.ended;
        started > 0 && size.is_some_and(|size| started < size) && !self.pending.is_empty()
    }

    pub(crate) fn add(&mut self, id: PodId, pod: &Pod, placed: bool) {
        self.members.insert((pod.created, pod.key.name.clone(), id));
        self.count(id, pod, placed, true);
    }

    pub(crate) fn remove(&mut self, id: PodId, pod: &Pod, placed: bool) {
        self.members.remove(&(pod.created, pod.key.name.clone(), id));
        self.count(id, pod, placed, false);
    }

    /// Counts a member under what it is at present, or no more.
    pub(crate) fn count(&mut self, id: PodId, pod: &Pod, placed: bool, add: bool) {
        let counter = match (placed, pod.terminating) {
            (true, false) => &mut self.bound,
            (true, true) => &mut self.leaving,
            (false, true) => return,
            (false, false) => {
                let place = (pod.member_index.unwrap_or(u32::MAX), pod.key.name.clone(), id);
                if add {
                    self.pending.insert(place);
                } else {
                    self.pending.remove(&place);
                }
                return;
            }
        };
        if add {
            *counter += 1;
        } else {
            *counter -= 1;
        }
    }
}

/// The order of planning: gangs that are bound in part, then by priority, then by age; ties are broken by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GangOrder {
    pub in_part: Reverse<bool>,
    pub priority: Reverse<i32>,
    pub created: Timestamp,
    pub key: GangKey,
}

/// All gangs, and those that wait in the order of planning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gangs {
    pub by_key: BTreeMap<GangKey, Gang>,
    pub waiting: BTreeSet<GangOrder>,
    /// What is known of members that ended. Beside the gangs, because a gang of one vanishes and comes back whenever
    /// its only pod changes.
    pub ended: BTreeMap<GangKey, u32>,
}

impl Gangs {
    /// The gang, new if it is not there yet.
    pub fn get_or_new(&mut self, key: &GangKey) -> &mut Gang {
        let ended = self.ended.get(key).copied().unwrap_or(0);
        self.by_key.entry(key.clone()).or_insert_with(|| Gang { ended, ..Gang::default() })
    }
}
