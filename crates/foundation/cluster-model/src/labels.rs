//! Which labels of nodes matter: those that pods select by. A label that no pod selects by does not set nodes apart.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A label with more values than this does not split kinds: with host names, each node would be a kind of its own.
/// Few pods select by such a label; for them, nodes are examined one by one.
const VALUES_MAX: usize = 64;

/// How many pods select by each label, and how many nodes have it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels {
    /// Pods that select by a key.
    selected: HashMap<Arc<str>, u32>,
    /// Nodes by key and value.
    values: HashMap<Arc<str>, HashMap<Arc<str>, u32>>,
}

impl Labels {
    /// Whether nodes that differ in this label are of different kinds.
    pub fn splits(&self, key: &str) -> bool {
        self.selected.contains_key(key)
            && self.values.get(key).is_none_or(|values| values.len() <= VALUES_MAX)
    }

    /// Counts what a pod selects by. Returns the keys that begin or cease to split kinds.
    pub fn count_keys<'a>(&mut self, keys: impl Iterator<Item = &'a Arc<str>>, add: bool) -> Vec<Arc<str>> {
        let mut changed = Vec::new();
        for key in keys {
            let before = self.splits(key);
            count(&mut self.selected, key, add);
            if self.splits(key) != before && self.values.contains_key(key) {
                changed.push(key.clone());
            }
        }
        changed
    }

    /// Counts the labels of a node, likewise.
    pub fn count_labels(&mut self, labels: &BTreeMap<Arc<str>, Arc<str>>, add: bool) -> Vec<Arc<str>> {
        let mut changed = Vec::new();
        for (key, value) in labels {
            let before = self.splits(key);
            let values = self.values.entry(key.clone()).or_default();
            count(values, value, add);
            if values.is_empty() {
                self.values.remove(key);
            }
            if self.splits(key) != before {
                changed.push(key.clone());
            }
        }
        changed
    }
}

fn count(counts: &mut HashMap<Arc<str>, u32>, key: &Arc<str>, add: bool) {
    if add {
        *counts.entry(key.clone()).or_default() += 1;
    } else if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
