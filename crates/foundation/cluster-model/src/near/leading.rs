//! Which tallies a pod may be counted in, and which pods a tally may count, found by a label that decides.
//!
//! A tally is listed under each value of one label that all its pods have. Pods are listed by the labels that lead
//! some tally, and by no others. So a new pod looks at a few tallies, and a new tally at a few pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::label_set::Requirement;
use super::tally::TallyId;
use crate::pods::{PodId, PodState};
use crate::slots::Slots;

#[derive(Clone, Debug, Default)]
pub(crate) struct Leading {
    /// By the label's key.
    keys: BTreeMap<Arc<str>, Key>,
    /// Tallies that no label leads to.
    everywhere: BTreeSet<TallyId>,
}

#[derive(Clone, Debug, Default)]
struct Key {
    /// Tallies that it leads to.
    tallies: u32,
    values: HashMap<Arc<str>, Listed>,
}

#[derive(Clone, Debug, Default)]
struct Listed {
    tallies: BTreeSet<TallyId>,
    pods: BTreeSet<PodId>,
}

impl Leading {
    /// How many tallies no label leads to.
    pub fn leaderless(&self) -> usize {
        self.everywhere.len()
    }

    /// Tallies that may count a pod with these labels.
    pub fn tallies_of(&self, pod: &PodState) -> BTreeSet<TallyId> {
        let mut found = self.everywhere.clone();
        for (key, listed) in &self.keys {
            let value = pod.pod.labels.get(key);
            found.extend(
                value.and_then(|value| listed.values.get(value)).into_iter().flat_map(|it| &it.tallies),
            );
        }
        found
    }

    pub fn add_pod(&mut self, id: PodId, pod: &PodState) {
        for (key, listed) in &mut self.keys {
            if let Some(value) = pod.pod.labels.get(key) {
                listed.values.entry(value.clone()).or_default().pods.insert(id);
            }
        }
    }

    pub fn remove_pod(&mut self, id: PodId, pod: &PodState) {
        for (key, listed) in &mut self.keys {
            if let Some(value) = pod.pod.labels.get(key) {
                change(&mut listed.values, value, |listed| listed.pods.remove(&id));
            }
        }
    }

    /// Lists a tally, and returns the pods that it may count.
    pub fn add_tally(
        &mut self,
        id: TallyId,
        leading: Option<&Requirement>,
        pods: &Slots<PodState>,
    ) -> Vec<PodId> {
        let Some(leading) = leading else {
            self.everywhere.insert(id);
            return pods.iter().map(|(slot, _)| PodId(slot)).collect();
        };
        let key = self.keys.entry(leading.key.clone()).or_default();
        if key.tallies == 0 {
            for (slot, pod) in pods.iter() {
                if let Some(value) = pod.pod.labels.get(&leading.key) {
                    key.values.entry(value.clone()).or_default().pods.insert(PodId(slot));
                }
            }
        }
        key.tallies += 1;
        let mut found = Vec::new();
        for value in &leading.values {
            let listed = key.values.entry(value.clone()).or_default();
            listed.tallies.insert(id);
            found.extend(&listed.pods);
        }
        found
    }

    pub fn remove_tally(&mut self, id: TallyId, leading: Option<&Requirement>) {
        let Some(leading) = leading else {
            self.everywhere.remove(&id);
            return;
        };
        let Some(key) = self.keys.get_mut(&leading.key) else { return };
        key.tallies -= 1;
        if key.tallies == 0 {
            self.keys.remove(&leading.key);
            return;
        }
        for value in &leading.values {
            change(&mut key.values, value, |listed| listed.tallies.remove(&id));
        }
    }
}

/// Changes what is listed under a value, and forgets it if nothing is left.
fn change(
    values: &mut HashMap<Arc<str>, Listed>,
    value: &Arc<str>,
    change: impl FnOnce(&mut Listed) -> bool,
) {
    if let Some(listed) = values.get_mut(value) {
        change(listed);
        if listed.pods.is_empty() && listed.tallies.is_empty() {
            values.remove(value);
        }
    }
}
