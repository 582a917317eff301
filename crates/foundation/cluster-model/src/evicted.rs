//! Which gangs give way at present, and which gave way for which before.
//!
//! Earlier evictions are remembered by lineage: a run that gave way comes back as another attempt, which is another
//! gang. The same claimant must not ask it again.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::names::GangKey;

/// How many evictions are remembered. At a thousand a day that is three months, and some 10 MB.
const REMEMBERED_MAX: usize = 100_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Evicted {
    pub(crate) leaving: BTreeSet<GangKey>,
    pub(crate) before: BTreeSet<Pair>,
    /// The same, the oldest first.
    by_age: VecDeque<Pair>,
    /// How often each claimant is among them.
    pub(crate) claimants: HashMap<GangKey, u32>,
}

/// The lineages of a victim and its claimant.
pub(crate) type Pair = (GangKey, GangKey);

impl Evicted {
    /// Victims and claimants, the oldest first.
    pub fn by_age(&self) -> impl Iterator<Item = &Pair> {
        self.by_age.iter()
    }

    /// Marks a gang that leaves. If it gives way for another gang, the pair has the lineages of both.
    pub fn mark(&mut self, victim: &GangKey, pair: Option<Pair>) {
        self.leaving.insert(victim.clone());
        if let Some(pair) = pair {
            self.remember(pair);
        }
    }

    /// Remembers that one lineage gave way for another.
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
            // It is among the last pairs.
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
