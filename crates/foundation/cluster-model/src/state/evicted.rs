//! Gangs of the state that leave, and which gangs gave way for which before.

use std::sync::Arc;

use crate::evicted::Pair;
use crate::names::GangKey;
use crate::plan::Departure;
use crate::state::ClusterState;

impl ClusterState {
    /// Gangs that were told to leave and still have a node, by name.
    pub fn leaving_gangs(&self) -> impl ExactSizeIterator<Item = &GangKey> {
        self.evicted.leaving.iter()
    }

    /// Whether a gang gave way for another one before, in this attempt or an earlier one. The oldest evictions are
    /// forgotten at some time.
    pub fn was_evicted_for(&self, victim: &GangKey, claimant: &GangKey) -> bool {
        !self.evicted.before.is_empty() && self.evicted.before.contains(&self.lineages(victim, claimant))
    }

    /// Whether any gang gave way for this one before.
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

    /// What outlives a gang: its run, if the gang is an attempt of one. A gang's name has no slash, since it is a
    /// label.
    fn lineage(&self, gang: &GangKey) -> GangKey {
        let lead = self.gangs.slot(gang).map(|slot| self.pod(self.gangs.get(slot).lead()));
        match lead.and_then(|lead| lead.pod.run.as_ref()) {
            Some(run) => GangKey::new(Arc::clone(&gang.namespace), format!("run/{run}")),
            None => gang.clone(),
        }
    }
}
