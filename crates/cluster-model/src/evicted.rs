//! Who gives way at present, and who gave way for whom before.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::names::GangKey;
use crate::state::ClusterState;

/// So many evictions are remembered. At a thousand a day that is three months, and some 10 MB.
const REMEMBERED_MAX: usize = 100_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Evicted {
    leaving: BTreeSet<GangKey>,
    /// Victim and claimant.
    before: BTreeSet<(GangKey, GangKey)>,
    /// The same, the oldest first.
    by_age: VecDeque<(GangKey, GangKey)>,
    /// How often each claimant is among them.
    claimants: HashMap<GangKey, u32>,
}

impl ClusterState {
    /// Gangs that were told to give way and still have a node, by name.
    pub fn evicting_gangs(&self) -> impl ExactSizeIterator<Item = &GangKey> {
        self.evicted.leaving.iter()
    }

    /// Whether a gang gave way for another one before, in this life or an earlier one. The oldest evictions are
    /// forgotten at some time.
    pub fn was_evicted_for(&self, victim: &GangKey, claimant: &GangKey) -> bool {
        !self.evicted.before.is_empty() && self.evicted.before.contains(&(victim.clone(), claimant.clone()))
    }

    /// Whether anybody gave way for a gang before.
    pub fn has_displaced(&self, claimant: &GangKey) -> bool {
        self.evicted.claimants.contains_key(claimant)
    }
}

impl Evicted {
    /// Victims and claimants, the oldest first.
    pub fn by_age(&self) -> impl Iterator<Item = &(GangKey, GangKey)> {
        self.by_age.iter()
    }

    pub fn mark(&mut self, victim: &GangKey, claimant: &GangKey) {
        self.leaving.insert(victim.clone());
        let pair = (victim.clone(), claimant.clone());
        if self.before.insert(pair.clone()) {
            self.by_age.push_back(pair);
            *self.claimants.entry(claimant.clone()).or_default() += 1;
        }
        if self.by_age.len() > REMEMBERED_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.before.remove(&oldest);
            self.uncount(oldest.1);
        }
    }

    /// Forgets that a gang was marked for a claimant.
    pub fn take_back(&mut self, victim: &GangKey, claimant: &GangKey) {
        self.leaving.remove(victim);
        let pair = (victim.clone(), claimant.clone());
        if self.before.remove(&pair) {
            // It is among the last ones.
            if let Some(at) = self.by_age.iter().rposition(|other| *other == pair) {
                self.by_age.remove(at);
            }
            self.uncount(pair.1);
        }
    }

    fn uncount(&mut self, claimant: GangKey) {
        if let Entry::Occupied(mut times) = self.claimants.entry(claimant) {
            *times.get_mut() -= 1;
            if *times.get() == 0 {
                times.remove();
            }
        }
    }

    pub fn unmark(&mut self, victim: &GangKey) {
        self.leaving.remove(victim);
    }
}
