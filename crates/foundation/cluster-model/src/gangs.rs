//! Gangs: pods that start together or not at all.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    sync::Arc,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::devices::DeviceAsk;
pub(crate) use crate::ids::GangSlot;
use crate::names::GangKey;
use crate::plan::Departure;
use crate::pods::{PodId, PodState, Role};
use crate::queues::QueueSlot;
use crate::shapes::{PodShape, ShapeId};
use crate::slots::Slots;
use crate::waiting::{LikenessId, Listed, WaitingClasses};

/// Members of a gang mostly ask for the same, or for a few things. A gang with more kinds of members than this is not
/// compared member by member: 16 × 16 comparisons for each change cost little, an unbounded number would not.
pub(crate) const KINDS_MAX: usize = 16;

/// The pods of one gang that have not ended, all of them ours.
#[derive(Clone, Debug)]
pub struct Gang {
    pub(crate) key: Arc<GangKey>,
    /// By age, then name: the first one speaks for the gang.
    pub(crate) members: BTreeSet<(Timestamp, Arc<str>, PodId)>,
    /// Members without a node that are not being deleted, by index, then name.
    pub(crate) pending: BTreeSet<(u32, Arc<str>, PodId)>,
    /// Members with a node that are not being deleted.
    pub(crate) bound: u32,
    /// Members with a node that are being deleted.
    pub(crate) leaving: u32,
    /// Members for which a node is held.
    pub(crate) held: u32,
    /// Members that had a node and ended while others still wait; see [`crate::ClusterState::note_ended`].
    pub(crate) ended: u32,
    /// Members by shape.
    pub(crate) kinds: BTreeMap<ShapeId, Kind>,
    /// GPUs of all members, and of those with a node.
    gpus: i64,
    pub(crate) gpus_placed: i64,
    /// When members with a node got it.
    starts: Counts<Timestamp>,
    /// Why it was told to leave.
    pub(crate) departure: Option<Departure>,
    /// What the history knows about it, while it runs.
    pub(crate) run: Option<RunRecord>,
    /// How the gang is counted at present.
    pub(crate) counted: Counted,
}

/// Members of one shape.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    shape: Arc<PodShape>,
    pub members: u32,
    pending: u32,
    placed: u32,
}

/// Where and as what a gang is counted, so that it can be taken out again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// In which queue, as running, as waiting.
    pub queue: Option<(QueueSlot, bool, bool)>,
    /// Its place among the gangs that wait.
    pub order: Option<Order>,
    /// Its place among the gangs that run: when it was created.
    pub running: Option<Timestamp>,
    /// Its likeness; `None` if it is like no other gang, or must be compared again.
    pub likeness: Option<LikenessId>,
    /// Whether its members changed since.
    pub likeness_is_stale: bool,
    pub listed: Listed,
    /// The age under which it is listed.
    pub listed_as: Timestamp,
}

/// What the history knows about a gang that runs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub started: Timestamp,
    pub gpus: i64,
    /// When its time limit ends it.
    pub ends_by: Option<Timestamp>,
}

impl Gang {
    /// Its name.
    pub fn key(&self) -> &GangKey {
        &self.key
    }

    /// The oldest member, then the first by name; it speaks for the gang where members must agree.
    pub fn lead(&self) -> PodId {
        self.members.first().expect("a gang without members is removed").2
    }

    /// All members, the oldest first, then by name.
    pub fn members(&self) -> impl Iterator<Item = PodId> {
        self.members.iter().map(|(_, _, pod)| *pod)
    }

    /// Members that need a node, by their index in the gang, then by name. One for which a node is held is not among them.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = PodId> {
        self.pending.iter().map(|(_, _, pod)| *pod)
    }

    /// How many members are bound or assumed and not being deleted.
    pub fn bound(&self) -> u32 {
        self.bound
    }

    /// How many members have a node that is held for them.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// How many members are known to have had a node and to have ended.
    pub fn ended(&self) -> u32 {
        self.ended
    }

    /// Since when it waits, if it does: its oldest member's creation.
    pub fn waiting_since(&self) -> Timestamp {
        self.members.first().expect("a gang without members is removed").0
    }

    /// When the first of its members that have a node got it, as far as is known.
    pub fn started(&self) -> Option<Timestamp> {
        self.starts.first()
    }

    /// Whole GPUs of all its members, with and without a node.
    pub fn gpus(&self) -> i64 {
        self.gpus
    }

    /// Whole GPUs of its members that have a node, those that are being deleted included.
    pub fn gpus_placed(&self) -> i64 {
        self.gpus_placed
    }

    /// Why it was told to leave; until it leaves, it keeps what it has.
    pub fn departure(&self) -> Option<&Departure> {
        self.departure.as_ref()
    }

    /// Whether it was told to leave.
    pub fn is_leaving(&self) -> bool {
        self.departure.is_some()
    }

    /// The gang that it gives way for.
    pub fn claimant(&self) -> Option<&GangKey> {
        match self.departure()? {
            Departure::For(claimant) => Some(claimant),
            Departure::Move => None,
        }
    }

    /// Whether the members without a node are the rest of what was granted: some of the `size` members that must
    /// start together have a node, the rest are not more than are missing, and none of the rest asks for more than a
    /// member that has a node. Either its start was interrupted, or it lost a member, which is replaced by one like
    /// it.
    ///
    /// What was granted shows only in members that still have a node. So a gang whose started members have all ended
    /// never finishes its start in this sense. Neither does a gang that never said its size.
    pub fn finishes_its_start(&self, size: Option<u32>) -> bool {
        let have = self.bound as usize + self.held as usize + self.ended as usize + self.pending.len();
        // A pod on its own is never the rest of a gang, and most pods may be such pods.
        self.bound > 0
            && !self.pending.is_empty()
            && size.is_some_and(|size| size > 1 && have <= size as usize)
            && self.kinds.len() <= 2 * KINDS_MAX
            && self.rest_is_granted()
    }

    fn rest_is_granted(&self) -> bool {
        // Members that ask for the same: the rest asks for what members with a node got.
        if self.kinds.len() == 1 {
            return true;
        }
        let mut granted: Vec<&PodShape> = Vec::new();
        for kind in self.kinds.values().filter(|kind| kind.placed > 0) {
            if !granted.iter().any(|other| asks_the_same(other, &kind.shape)) {
                granted.push(&kind.shape);
            }
        }
        let mut pending = self.kinds.values().filter(|kind| kind.pending > 0).map(|kind| &kind.shape);
        granted.len() <= KINDS_MAX
            && pending.clone().count() <= KINDS_MAX
            && pending.all(|asks| granted.iter().any(|granted| asks_within(asks, granted)))
    }

    pub(crate) fn new(key: Arc<GangKey>) -> Self {
        Self {
            key,
            members: BTreeSet::new(),
            pending: BTreeSet::new(),
            bound: 0,
            leaving: 0,
            held: 0,
            ended: 0,
            kinds: BTreeMap::new(),
            gpus: 0,
            gpus_placed: 0,
            starts: Counts::default(),
            departure: None,
            run: None,
            counted: Counted::default(),
        }
    }

    /// Whether some members have a node, or have had one.
    pub(crate) fn has_begun(&self) -> bool {
        self.bound + self.leaving + self.held + self.ended > 0
    }

    pub(crate) fn add(&mut self, id: PodId, member: &PodState, shape: &Arc<PodShape>) {
        let pod = member.pod();
        self.members.insert((pod.created, pod.key.name.clone(), id));
        self.gpus += pod.requests.gpus;
        let new = || Kind { shape: shape.clone(), members: 0, pending: 0, placed: 0 };
        self.kinds.entry(member.shape()).or_insert_with(new).members += 1;
        self.counted.likeness_is_stale = true;
    }

    pub(crate) fn remove(&mut self, id: PodId, member: &PodState) {
        let pod = member.pod();
        self.members.remove(&(pod.created, pod.key.name.clone(), id));
        self.gpus -= pod.requests.gpus;
        if let Entry::Occupied(mut kind) = self.kinds.entry(member.shape()) {
            kind.get_mut().members -= 1;
            if kind.get().members == 0 {
                kind.remove();
            }
        }
        self.counted.likeness_is_stale = true;
    }

    /// Counts a member as what it is at present, or stops counting it.
    pub(crate) fn count(&mut self, id: PodId, member: &PodState, add: bool) {
        let (pod, role) = (member.pod(), member.role());
        if matches!(role, Role::Placed | Role::Leaving) {
            self.gpus_placed += if add { pod.requests.gpus } else { -pod.requests.gpus };
            if let Some(started) = member.started() {
                if add {
                    self.starts.add(started);
                } else {
                    self.starts.remove(started);
                }
            }
        }
        let step = |counter: &mut u32| *counter = if add { *counter + 1 } else { *counter - 1 };
        let kind = self.kinds.get_mut(&member.shape()).expect("a member's shape is counted");
        match role {
            Role::Placed => {
                step(&mut self.bound);
                step(&mut kind.placed);
            }
            Role::Leaving => step(&mut self.leaving),
            Role::Held => step(&mut self.held),
            Role::Nothing => {}
            Role::Pending => {
                step(&mut kind.pending);
                let place = (pod.member_index.unwrap_or(u32::MAX), pod.key.name.clone(), id);
                if add {
                    self.pending.insert(place);
                } else {
                    self.pending.remove(&place);
                }
            }
        }
    }
}

fn asks_the_same(one: &PodShape, other: &PodShape) -> bool {
    one.requests == other.requests && one.device == other.device && one.gpu_types == other.gpu_types
}

/// Whether it asks for no more of anything, and for the same GPUs.
fn asks_within(asks: &PodShape, granted: &PodShape) -> bool {
    let asks_no_part = asks.device == DeviceAsk::Whole;
    let same_gpus = asks_no_part && asks.requests.gpus == 0 || asks.gpu_types == granted.gpu_types;
    same_gpus && (asks_no_part || asks.device == granted.device) && asks.requests.fits(&granted.requests)
}

/// The order of planning: gangs that finish their start, then by priority, then by age; ties are broken by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    pub finishes: Reverse<bool>,
    pub priority: Reverse<i32>,
    pub created: Timestamp,
}

/// All gangs, and those that wait in the order of planning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gangs {
    slots: Slots<Gang>,
    by_key: HashMap<Arc<GangKey>, GangSlot>,
    pub waiting: BTreeSet<(Order, Arc<GangKey>)>,
    pub classes: WaitingClasses,
    /// Those of which a member has a node, by age, then name.
    pub running: BTreeSet<(Timestamp, Arc<GangKey>)>,
    /// Those that run and have a time limit, by the end that it sets, then name.
    pub ends: BTreeSet<(Timestamp, Arc<GangKey>)>,
}

impl Gangs {
    pub fn slot(&self, key: &GangKey) -> Option<GangSlot> {
        self.by_key.get(key).copied()
    }

    pub fn get(&self, slot: GangSlot) -> &Gang {
        self.slots.get(slot)
    }

    pub fn get_mut(&mut self, slot: GangSlot) -> &mut Gang {
        self.slots.get_mut(slot)
    }

    /// All gangs, by name. They are sorted on each call, because no plan needs this.
    pub fn iter(&self) -> impl Iterator<Item = &Gang> {
        let mut gangs: Vec<&Gang> = self.slots.iter().map(|(_, gang)| gang).collect();
        gangs.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        gangs.into_iter()
    }

    /// The gang, new if it is not there yet.
    pub fn slot_or_new(&mut self, key: &GangKey) -> GangSlot {
        if let Some(slot) = self.slot(key) {
            return slot;
        }
        let key = Arc::new(key.clone());
        let slot = self.slots.insert(Gang::new(key.clone()));
        self.by_key.insert(key, slot);
        slot
    }

    /// Forgets a gang without members. It counts nowhere any more.
    pub fn remove(&mut self, slot: GangSlot) {
        let gang = self.slots.remove(slot);
        self.by_key.remove(&gang.key);
    }

    /// Forgets what the history knows.
    pub fn forget_runs(&mut self) {
        self.ends.clear();
        let slots: Vec<GangSlot> = self.slots.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.slots.get_mut(slot).run = None;
        }
    }
}
