//! Pods by name, by run and by node, with the fields that members and occupants show.
//!
//! ```text
//!   SlimPod ──► CachedPod ──┬─► pods      (namespace, name)        every pod of a run, or with GPUs
//!                           ├─► by_run    (namespace, run, name)   its members
//!                           └─► by_node   (node, namespace, name)  occupants of its GPUs
//! ```
//!
//! Memory of one pod, in bytes: `CachedPod` 208 and its counters 16; its name ~45 and 16; three trees, at least
//! half full, (32 + 8) / 0.5 + 2 × (48 + 8) / 0.5 = 304; the run's name, if no other pod has it, ~80 with its
//! entry among the shared texts; ~10 for the allocator for each of the four. Together ~710, so 100,000 pods are
//! 71 MB. Texts that many pods have (namespace, queue, node) are shared. A pod of no run and without GPUs is
//! not kept.

mod cached_pod;
mod texts;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use slim_objects::SlimPod;

pub use cached_pod::{CachedPod, uid};
use texts::Texts;

use crate::events::changes::{ChangedObject, RunKey};

/// The key of a pod in an index, from coarse to fine.
type Place = (Arc<str>, Arc<str>, Arc<str>);

/// All pods of the cluster that are shown anywhere.
#[derive(Debug, Default)]
pub struct PodIndex {
    pods: BTreeMap<(Arc<str>, Arc<str>), Arc<CachedPod>>,
    by_run: BTreeMap<Place, Arc<CachedPod>>,
    by_node: BTreeMap<Place, Arc<CachedPod>>,
    texts: Texts,
}

impl PodIndex {
    /// Adds a pod or replaces its former version; returns the changes.
    pub fn apply(&mut self, pod: &SlimPod) -> Vec<ChangedObject> {
        let Some(pod) = CachedPod::read(pod, &mut self.texts) else { return self.remove(pod) };
        let key = (Arc::clone(&pod.namespace), Arc::clone(&pod.name));
        if self.pods.get(&key).is_some_and(|old| **old == pod) {
            return Vec::new();
        }
        let old = self.take(&key);
        let pod = Arc::new(pod);
        if let Some(run) = &pod.run {
            self.by_run.insert((key.0.clone(), Arc::clone(run), key.1.clone()), Arc::clone(&pod));
        }
        if let Some(node) = pod.holds_gpus_of() {
            self.by_node.insert((Arc::clone(node), key.0.clone(), key.1.clone()), Arc::clone(&pod));
        }
        let changes = old.iter().chain([&pod]).flat_map(|pod| changes(pod)).collect();
        self.pods.insert(key, pod);
        changes
    }

    /// Removes a pod; returns the changes.
    pub fn remove(&mut self, pod: &SlimPod) -> Vec<ChangedObject> {
        let text = |text: &Option<String>| Arc::<str>::from(text.as_deref().unwrap_or_default());
        let key = (text(&pod.metadata.namespace), text(&pod.metadata.name));
        self.take(&key).iter().flat_map(|pod| changes(pod)).collect()
    }

    /// The differences to a new index, from a new list.
    pub fn differences(&self, new: &Self) -> Vec<ChangedObject> {
        let differs = |mine: &Self, other: &Self| -> Vec<ChangedObject> {
            let pods = mine.pods.iter().filter(|(key, pod)| other.pods.get(*key) != Some(*pod));
            pods.flat_map(|(_, pod)| changes(pod)).collect()
        };
        let mut changes = differs(self, new);
        changes.extend(differs(new, self));
        changes
    }

    /// The pod of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<CachedPod>> {
        self.pods.get(&(namespace.into(), name.into())).cloned()
    }

    /// The newest pod of each member of one attempt of a run, by the member's index.
    pub fn members(&self, namespace: &str, run: &str, attempt: u32) -> Vec<Arc<CachedPod>> {
        let mut members: BTreeMap<u32, &Arc<CachedPod>> = BTreeMap::new();
        for pod in range(&self.by_run, namespace, run).filter(|pod| pod.attempt == attempt) {
            let newest = members.entry(pod.index).or_insert(pod);
            // A member that was lost with its node has several pods; ties are broken by name.
            if (newest.created_second, &newest.name) < (pod.created_second, &pod.name) {
                *newest = pod;
            }
        }
        members.into_values().cloned().collect()
    }

    /// The pods that hold GPUs of a node, by namespace and name.
    pub fn holding(&self, node: &str) -> impl Iterator<Item = &Arc<CachedPod>> {
        let from = (Bound::Included((node.into(), "".into(), "".into())), Bound::Unbounded);
        self.by_node
            .range::<Place, _>(from)
            .take_while(move |((of, _, _), _)| **of == *node)
            .map(|(_, pod)| pod)
    }

    fn take(&mut self, key: &(Arc<str>, Arc<str>)) -> Option<Arc<CachedPod>> {
        let pod = self.pods.remove(key)?;
        if let Some(run) = &pod.run {
            self.by_run.remove(&(key.0.clone(), Arc::clone(run), key.1.clone()));
        }
        if let Some(node) = pod.holds_gpus_of() {
            self.by_node.remove(&(Arc::clone(node), key.0.clone(), key.1.clone()));
        }
        Some(pod)
    }
}

fn range<'a>(
    by: &'a BTreeMap<Place, Arc<CachedPod>>,
    first: &'a str,
    second: &'a str,
) -> impl Iterator<Item = &'a Arc<CachedPod>> {
    let from = (Bound::Included((first.into(), second.into(), "".into())), Bound::Unbounded);
    by.range::<Place, _>(from)
        .take_while(move |((a, b, _), _)| **a == *first && **b == *second)
        .map(|(_, pod)| pod)
}

/// The objects that show this pod.
fn changes(pod: &CachedPod) -> Vec<ChangedObject> {
    let run = pod.run.as_deref().map(|run| ChangedObject::Members(RunKey::new(&pod.namespace, run)));
    let node = pod.holds_gpus_of().map(|node| ChangedObject::Node(node.as_ref().into()));
    run.into_iter().chain(node).collect()
}

#[cfg(test)]
mod tests;
