//! Texts that many pods have in common, each kept once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::label_set::LabelSet;
use super::neighbours::Neighbours;
use crate::objects::Pod;

/// Keys and values of labels, and what pods ask of their neighbours, with how many pods have them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    labels: HashMap<Arc<str>, u32>,
    neighbours: HashMap<Arc<Neighbours>, u32>,
}

impl Texts {
    /// Lets a new pod share what others have too.
    pub fn enter(&mut self, pod: &mut Pod) {
        let shared = |text: &Arc<str>, texts: &mut HashMap<_, _>| share(texts, text);
        pod.labels = pod
            .labels
            .iter()
            .map(|(key, value)| (shared(key, &mut self.labels), shared(value, &mut self.labels)))
            .collect::<LabelSet>();
        if let Some(neighbours) = &mut pod.neighbours {
            *neighbours = share(&mut self.neighbours, neighbours);
        }
    }

    /// A pod that came is gone.
    pub fn leave(&mut self, pod: &Pod) {
        for (key, value) in pod.labels.iter() {
            release(&mut self.labels, key);
            release(&mut self.labels, value);
        }
        if let Some(neighbours) = &pod.neighbours {
            release(&mut self.neighbours, neighbours);
        }
    }
}

fn share<T: Hash + Eq + ?Sized>(shared: &mut HashMap<Arc<T>, u32>, item: &Arc<T>) -> Arc<T> {
    if let Some((known, _)) = shared.get_key_value(item) {
        let known = known.clone();
        *shared.entry(known.clone()).or_default() += 1;
        return known;
    }
    shared.insert(item.clone(), 1);
    item.clone()
}

fn release<T: Hash + Eq + ?Sized>(shared: &mut HashMap<Arc<T>, u32>, item: &Arc<T>) {
    if let Some(users) = shared.get_mut(item) {
        *users -= 1;
        if *users == 0 {
            shared.remove(item);
        }
    }
}
