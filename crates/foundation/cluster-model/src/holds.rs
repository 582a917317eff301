//! Nodes that are kept for a gang until the gangs in the way are gone.
//!
//! A waiting member is held where it will go. A member that still runs elsewhere, because its gang is moved, counts
//! where it runs. A stand-in keeps the node where it will go, and hands it to the next pod in its seat.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::names::GangKey;
use crate::objects::Pod;
use crate::pods::PodId;

/// What is held for each gang.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds {
    pub(crate) by_gang: BTreeMap<GangKey, BTreeMap<PodId, Timestamp>>,
    pub(crate) stand_ins: BTreeMap<GangSeat, PodId>,
    /// Seats of pods that come back under another name and without an index, by the controller that recreates them.
    pub(crate) by_controller: BTreeMap<Controller, BTreeSet<GangSeat>>,
}

/// A namespace, and a controller that recreates pods there. Pods name it themselves, so it counts within one
/// namespace only.
pub(crate) type Controller = (Arc<str>, Arc<str>);

/// The controller that recreates a pod, if that is how its successor is recognized.
pub(crate) fn controller(pod: &Pod) -> Option<Controller> {
    Some((pod.key.namespace.clone(), pod.controller.clone()?))
}

pub(crate) type GangSeat = (GangKey, Seat);

/// What a pod and its successor have in common. A Job gives each successor another name, but the same index. In a
/// `ReplicaSet`, one pod is as good as another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seat {
    Index(u32),
    Name(Arc<str>),
}

impl Seat {
    pub fn of(pod: &Pod) -> Self {
        pod.member_index.map_or_else(|| Self::Name(pod.key.name.clone()), Self::Index)
    }
}

impl Holds {
    pub fn add(&mut self, gang: &GangKey, member: PodId, until: Timestamp) {
        self.by_gang.entry(gang.clone()).or_default().insert(member, until);
    }

    pub fn remove(&mut self, gang: &GangKey, member: PodId) {
        if let Some(members) = self.by_gang.get_mut(gang) {
            members.remove(&member);
            if members.is_empty() {
                self.by_gang.remove(gang);
            }
        }
    }
}
