//! Who gives way at present, and who gave way for whom before.
//!
//! What was before is remembered by lineage: a run that gave way comes back in another attempt, which is another gang, and
//! must not be asked by the same claimant again.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::names::GangKey;
use crate::plan::Departure;
use crate::state::ClusterState;

/// So many evictions are remembered. At a thousand a day that is three months, and some 10 MB.
const REMEMBERED_MAX: usize = 100_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Evicted {
    leaving: BTreeSet<GangKey>,
    before: BTreeSet<Pair>,
    /// The same, the oldest first.
    by_age: VecDeque<Pair>,
    /// How often each claimant is among them.
    claimants: HashMap<GangKey, u32>,
}

/// The lineages of a victim and its claimant.
pub(crate) type Pair = (GangKey, GangKey);

impl ClusterState {
    /// Gangs that were told to leave and still have a node, by name.
    pub fn leaving_gangs(&self) -> impl ExactSizeIterator<Item = &GangKey> {
        self.evicted.leaving.iter()
    }

    /// Whether a gang gave way for another one before, in this life or an earlier one. The oldest evictions are
    /// forgotten at some time.
    pub fn was_evicted_for(&self, victim: &GangKey, claimant: &GangKey) -> bool {
        !self.evicted.before.is_empty() && self.evicted.before.contains(&self.lineages(victim, claimant))
    }

    /// Whether anybody gave way for a gang before.
    pub fn has_displaced(&self, claimant: &GangKey) -> bool {
        !self.evicted.claimants.is_empty() && self.evicted.claimants.contains_key(&self.lineage(claimant))
    }

    /// The lineages of a gang that leaves and of the gang that it gives way for.
    pub(crate) fn lineages_of(&self, gang: &GangKey, departure: &Departure) -> Option<Pair> {
        match departure {
            Departure::For(claimant) => Some(self.lineages(gang, claimant)),
            Departure::Move => None,
        }
    }

    fn lineages(&self, victim: &GangKey, claimant: &GangKey) -> Pair {
        (self.lineage(victim), self.lineage(claimant))
    }

    /// What outlives a gang: its run, if it is an attempt of one. No gang's name has a slash, since it is a label.
    fn lineage(&self, gang: &GangKey) -> GangKey {
        let lead = self.gangs.slot(gang).map(|slot| self.pod(self.gangs.get(slot).lead()));
        match lead.and_then(|lead| lead.pod.run.as_ref()) {
            Some(run) => GangKey::new(Arc::clone(&gang.namespace), format!("run/{run}")),
            None => gang.clone(),
        }
    }
}

impl Evicted {
    /// Victims and claimants, the oldest first.
    pub fn by_age(&self) -> impl Iterator<Item = &Pair> {
        self.by_age.iter()
    }

    /// A gang leaves; it is of the lineage that is first in the pair, if it gives way for the second.
    pub fn mark(&mut self, victim: &GangKey, pair: Option<Pair>) {
        self.leaving.insert(victim.clone());
        if let Some(pair) = pair {
            self.remember(pair);
        }
    }

    /// Somebody gave way for somebody.
    pub fn remember(&mut self, pair: Pair) {
        if self.before.insert(pair.clone()) {
            let claimant = pair.1.clone();
            self.by_age.push_back(pair);
            *self.claimants.entry(claimant).or_default() += 1;
        }
        if self.by_age.len() > REMEMBERED_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.before.remove(&oldest);
            self.uncount(oldest.1);
        }
    }

    /// Forgets that a gang was marked for a claimant.
    pub fn take_back(&mut self, victim: &GangKey, pair: Option<Pair>) {
        self.leaving.remove(victim);
        if let Some(pair) = pair.filter(|pair| self.before.remove(pair)) {
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
