//! Pods, as far as a run's members and a node's occupants show them: by name, by run and by node.
//!
//! ```text
//!   SlimPod ──► CachedPod ──┬─► pods      (namespace, name)        every pod of a run, or with GPUs
//!                           ├─► by_run    (namespace, run, name)   its members
//!                           └─► by_node   (node, namespace, name)  who holds GPUs of it
//! ```
//!
//! Memory of one pod, in bytes: `CachedPod` 208 and its counters 16; its name ~45 and 16; three trees, filled to half
//! at the worst, (32 + 8) / 0.5 + 2 × (48 + 8) / 0.5 = 304; the run's name, if no other pod has it, ~80 with its place
//! among the shared texts; the allocator's share ~10 of each of four. Together ~710, so 100,000 pods are 71 MB. Texts that many pods have (namespace, queue, node) are shared. A pod that is neither of a run nor holds
//! GPUs is not kept at all.

mod cached_pod;

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use cluster_convert::SlimPod;

pub use cached_pod::{CachedPod, uid};

use crate::events::changes::{Change, RunKey};

/// What a pod is found by, from the coarse to the fine.
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
    /// Adds a pod or replaces its former version; says what changed by that.
    pub fn apply(&mut self, pod: &SlimPod) -> Vec<Change> {
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

    /// Forgets a pod; says what changed by that.
    pub fn remove(&mut self, pod: &SlimPod) -> Vec<Change> {
        let text = |text: &Option<String>| Arc::<str>::from(text.as_deref().unwrap_or_default());
        let key = (text(&pod.metadata.namespace), text(&pod.metadata.name));
        self.take(&key).iter().flat_map(|pod| changes(pod)).collect()
    }

    /// What differs in another index, which a new list has brought.
    pub fn differences(&self, new: &Self) -> Vec<Change> {
        let differs = |mine: &Self, other: &Self| -> Vec<Change> {
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
            // A member that was lost with its node has a pod for each of its lives; ties are broken by name.
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

/// Texts of which there are few and which many pods have.
#[derive(Debug, Default)]
struct Texts {
    shared: HashSet<Arc<str>>,
    /// When there are so many, those that no pod has any more are let go.
    next_sweep: usize,
}

impl Texts {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.shared.get(text) {
            return Arc::clone(shared);
        }
        if self.shared.len() >= self.next_sweep {
            self.shared.retain(|text| Arc::strong_count(text) > 1);
            // A sweep costs its size, so each may be followed by as many additions: constant cost for each.
            self.next_sweep = (self.shared.len() * 2).max(1_024);
        }
        let shared: Arc<str> = text.into();
        self.shared.insert(Arc::clone(&shared));
        shared
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

/// What shows this pod.
fn changes(pod: &CachedPod) -> Vec<Change> {
    let run = pod.run.as_deref().map(|run| Change::Members(RunKey::new(&pod.namespace, run)));
    let node = pod.holds_gpus_of().map(|node| Change::Node(node.as_ref().into()));
    run.into_iter().chain(node).collect()
}

#[cfg(test)]
mod tests;
