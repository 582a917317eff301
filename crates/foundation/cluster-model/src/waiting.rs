//! Gangs that wait, in classes of gangs that are alike: what holds for the first of a class holds for all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use crate::names::{GangKey, QueueName};
use crate::queues::QueueSlot;
use crate::shapes::ShapeId;
use crate::slots::Slots;
use crate::terms::Terms;

/// Waiting gangs of one queue, namespace and priority, with the same members and terms: they differ only in name and
/// age. A gang is alone in its class if some of its members have a node, or had one, or if its queue is not known.
#[derive(Clone, Debug)]
pub struct WaitingClass {
    id: Option<ClassOfGangs>,
    queue: Option<QueueName>,
    priority: i32,
    gangs: BTreeSet<(Timestamp, GangKey)>,
}

/// A class's number, to come back to it while a plan is made. It is valid until the next change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassOfGangs(LikenessId);

impl WaitingClass {
    /// Its number; a gang that is alone in its class needs none.
    pub fn id(&self) -> Option<ClassOfGangs> {
        self.id
    }

    /// Their queue, if it is known.
    pub fn queue(&self) -> Option<&QueueName> {
        self.queue.as_ref()
    }

    /// Their priority.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// Its gangs, the oldest first, then by name.
    pub fn gangs(&self) -> impl ExactSizeIterator<Item = &GangKey> {
        self.gangs.iter().map(|(_, gang)| gang)
    }

    /// The first of them, and since when it waits.
    pub fn first(&self) -> Option<&(Timestamp, GangKey)> {
        self.gangs.first()
    }
}

/// What gangs of one class have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Likeness {
    pub queue: QueueSlot,
    pub namespace: Arc<str>,
    pub priority: i32,
    pub preempts: bool,
    pub size: Option<u32>,
    pub members: Vec<(ShapeId, u32)>,
    pub terms: Arc<Terms>,
}

/// A class's number.
pub(crate) type LikenessId = u32;

/// Where a gang is listed at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Listed {
    /// It does not wait.
    #[default]
    No,
    WithItsLike(LikenessId),
    Alone,
}

#[derive(Clone, Debug)]
struct Entry {
    likeness: Arc<Likeness>,
    /// Gangs of this likeness, whether they wait or not.
    gangs: u32,
    waiting: WaitingClass,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingClasses {
    classes: Slots<Entry>,
    ids: HashMap<Arc<Likeness>, LikenessId>,
    alone: BTreeMap<GangKey, WaitingClass>,
}

impl WaitingClasses {
    /// The classes by queue, the highest priority first, then by their first gang.
    pub fn in_order(&self) -> Vec<&WaitingClass> {
        let mut classes: Vec<&WaitingClass> = self.iter().collect();
        classes.sort_by(|one, other| {
            let (first, second) = (one.gangs.first(), other.gangs.first());
            (&one.queue, Reverse(one.priority), first).cmp(&(&other.queue, Reverse(other.priority), second))
        });
        classes
    }

    /// How many classes there are.
    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// The classes in which a gang waits, in no meaningful order.
    fn iter(&self) -> impl Iterator<Item = &WaitingClass> {
        let alike = self.classes.iter().map(|(_, entry)| &entry.waiting);
        alike.chain(self.alone.values()).filter(|class| !class.gangs.is_empty())
    }

    /// The gang after this one, if there is one.
    pub fn after(&self, class: ClassOfGangs, gang: &(Timestamp, GangKey)) -> Option<&(Timestamp, GangKey)> {
        let class = &self.classes.get(class.0).waiting;
        class.gangs.range((Bound::Excluded(gang), Bound::Unbounded)).next()
    }

    /// Adds a gang of this likeness, whether it waits or not.
    pub fn enter(&mut self, likeness: Likeness, queue: &QueueName) -> LikenessId {
        if let Some(id) = self.ids.get(&likeness) {
            self.classes.get_mut(*id).gangs += 1;
            return *id;
        }
        let likeness = Arc::new(likeness);
        let priority = likeness.priority;
        let waiting = WaitingClass { id: None, queue: Some(queue.clone()), priority, gangs: BTreeSet::new() };
        let id = self.classes.insert(Entry { likeness: likeness.clone(), gangs: 1, waiting });
        self.classes.get_mut(id).waiting.id = Some(ClassOfGangs(id));
        self.ids.insert(likeness, id);
        id
    }

    pub fn leave(&mut self, id: LikenessId) {
        let entry = self.classes.get_mut(id);
        entry.gangs -= 1;
        if entry.gangs == 0 {
            let entry = self.classes.remove(id);
            self.ids.remove(&entry.likeness);
        }
    }

    pub fn list(&mut self, id: LikenessId, created: Timestamp, gang: &GangKey) {
        self.classes.get_mut(id).waiting.gangs.insert((created, gang.clone()));
    }

    pub fn unlist(&mut self, id: LikenessId, created: Timestamp, gang: &GangKey) {
        self.classes.get_mut(id).waiting.gangs.remove(&(created, gang.clone()));
    }

    pub fn list_alone(
        &mut self,
        queue: Option<&QueueName>,
        priority: i32,
        created: Timestamp,
        gang: &GangKey,
    ) {
        let gangs = BTreeSet::from([(created, gang.clone())]);
        self.alone.insert(gang.clone(), WaitingClass { id: None, queue: queue.cloned(), priority, gangs });
    }

    pub fn unlist_alone(&mut self, gang: &GangKey) {
        self.alone.remove(gang);
    }
}
