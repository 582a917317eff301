//! Gangs: pods that start together or not at all.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use jiff::Timestamp;

use crate::names::{GangKey, GpuType};
use crate::objects::{Pod, Resources};
use crate::queues::QueueSlot;
use crate::state::PodId;

/// Members of a gang mostly ask for the same, or for a few things. A gang whose members ask for more different
/// things than this is not compared member by member: 16 × 16 comparisons for each change are nothing, any number is not.
const KINDS_MAX: usize = 16;

/// The pods of one gang that have not ended, all of them ours.
#[derive(Clone, Debug, Default)]
pub struct Gang {
    /// By age, then name: the first one speaks for the gang.
    pub(crate) members: BTreeSet<(Timestamp, Arc<str>, PodId)>,
    /// Members without a node that are not being deleted, by index, then name.
    pub(crate) pending: BTreeSet<(u32, Arc<str>, PodId)>,
    /// Members with a node that are not being deleted.
    pub(crate) bound: u32,
    /// What members that need a node ask for, and how many ask for it.
    pending_asks: BTreeMap<Asks, u32>,
    /// The same of members with a node that are not being deleted.
    bound_asks: BTreeMap<Asks, u32>,
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

    /// Whether the members without a node are the rest of what was granted: some of the `size` members that must start
    /// together have a node, the rest is not more than is missing, and none of the rest asks for more than a member
    /// that has a node. Its start was interrupted, or it lost a member, which is replaced by one like it.
    ///
    /// What was granted is only seen in members that still have a node, so a gang whose started members have all ended
    /// never finishes its start in this sense, and neither does one that never said its size.
    pub fn finishes_its_start(&self, size: Option<u32>) -> bool {
        let have = self.bound as usize + self.ended as usize + self.pending.len();
        self.bound > 0
            && !self.pending.is_empty()
            && size.is_some_and(|size| have <= size as usize)
            && self.pending_asks.len() <= KINDS_MAX
            && self.bound_asks.len() <= KINDS_MAX
            && self.pending_asks.keys().all(|asks| self.bound_asks.keys().any(|granted| asks.within(granted)))
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
        // A pod on its own is never the rest of a gang, and most pods may be such. (In a gang whose members name
        // different sizes nothing is placed, so that one is left out there does not matter.)
        if !pod.terminating && pod.gang_size.is_some_and(|size| size > 1) {
            let asks = if placed { &mut self.bound_asks } else { &mut self.pending_asks };
            tally(asks, Asks::of(pod), add);
        }
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

/// What a member asks for, as far as quotas count it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asks {
    /// The GPU type it names, if it asks for GPUs.
    gpu_type: Option<GpuType>,
    requests: Resources,
}

impl Asks {
    fn of(pod: &Pod) -> Self {
        let gpu_type = pod.gpu_type.clone().filter(|_| pod.requests.gpus > 0);
        Self { gpu_type, requests: pod.requests }
    }

    /// Whether it is not more of anything, and of the same GPUs.
    fn within(&self, granted: &Self) -> bool {
        let same_gpus = self.requests.gpus == 0 || self.gpu_type == granted.gpu_type;
        same_gpus && self.requests.fits(&granted.requests)
    }
}

fn tally(counts: &mut BTreeMap<Asks, u32>, asks: Asks, add: bool) {
    if add {
        *counts.entry(asks).or_default() += 1;
    } else if let Entry::Occupied(mut count) = counts.entry(asks) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// The order of planning: gangs that finish their start, then by priority, then by age; ties are broken by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GangOrder {
    pub finishes: Reverse<bool>,
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
