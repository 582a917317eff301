//! Queues by name, and by the namespaces they list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::Queue;
use api_types::queue::default_queue;

use crate::events::changes::ChangedObject;

/// All queues of the cluster.
#[derive(Debug, Default)]
pub struct QueueIndex {
    by_name: BTreeMap<String, Arc<Queue>>,
    by_namespace: BTreeMap<String, BTreeSet<String>>,
}

impl QueueIndex {
    /// Adds a queue or replaces its former version.
    pub fn apply(&mut self, queue: Arc<Queue>) {
        self.remove(&queue);
        let name = queue.metadata.name.clone().unwrap_or_default();
        for namespace in &queue.spec.namespaces {
            self.by_namespace.entry(namespace.clone()).or_default().insert(name.clone());
        }
        self.by_name.insert(name, queue);
    }

    /// Forgets a queue.
    pub fn remove(&mut self, queue: &Queue) {
        let name = queue.metadata.name.clone().unwrap_or_default();
        let Some(old) = self.by_name.remove(&name) else { return };
        for namespace in &old.spec.namespaces {
            if let Some(queues) = self.by_namespace.get_mut(namespace) {
                queues.remove(&name);
                if queues.is_empty() {
                    self.by_namespace.remove(namespace);
                }
            }
        }
    }

    /// The changes when a queue gets this version. The namespaces that queues list decide which queue a run is
    /// charged to. If they change, everything may have changed.
    pub fn changes_with(&self, queue: &Queue) -> Vec<ChangedObject> {
        let name = queue.metadata.name.as_deref().unwrap_or_default();
        let before = self.by_name.get(name).map(|old| old.spec.namespaces.as_slice()).unwrap_or_default();
        let moved = before != queue.spec.namespaces;
        [ChangedObject::Queue(name.into())]
            .into_iter()
            .chain(moved.then_some(ChangedObject::Everything))
            .collect()
    }

    /// The changes when a queue is deleted.
    pub fn changes_without(&self, queue: &Queue) -> Vec<ChangedObject> {
        let name = queue.metadata.name.as_deref().unwrap_or_default();
        let had_namespaces = self.by_name.get(name).is_some_and(|old| !old.spec.namespaces.is_empty());
        [ChangedObject::Queue(name.into())]
            .into_iter()
            .chain(had_namespaces.then_some(ChangedObject::Everything))
            .collect()
    }

    /// The differences to a new index, from a new list.
    pub fn differences(&self, new: &Self) -> Vec<ChangedObject> {
        let gone = self.by_name.iter().filter(|(name, _)| !new.by_name.contains_key(*name));
        let newer = new.by_name.iter().filter(|(name, queue)| {
            let version = |queue: &Queue| queue.metadata.resource_version.clone();
            self.by_name.get(*name).is_none_or(|old| version(old) != version(queue))
        });
        let gone = gone.flat_map(|(_, queue)| self.changes_without(queue));
        gone.chain(newer.flat_map(|(_, queue)| self.changes_with(queue))).collect()
    }

    /// The queue of this name.
    pub fn get(&self, name: &str) -> Option<Arc<Queue>> {
        self.by_name.get(name).cloned()
    }

    /// The queues after `after`, by name.
    pub fn after(&self, after: Option<&str>) -> Vec<Arc<Queue>> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.by_name
            .range::<str, _>((from, std::ops::Bound::Unbounded))
            .map(|(_, queue)| Arc::clone(queue))
            .collect()
    }

    /// The one queue that lists the namespace; `None` if there is none, or several.
    pub fn of_namespace(&self, namespace: &str) -> Option<&str> {
        default_queue(self.by_namespace.get(namespace)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api_types::{Queue, QueueSpec};

    use super::QueueIndex;
    use crate::events::changes::ChangedObject;

    fn queue(name: &str, namespaces: &[&str]) -> Arc<Queue> {
        let namespaces = namespaces.iter().map(|&name| name.to_owned()).collect();
        Arc::new(Queue::new(name, QueueSpec { namespaces, ..QueueSpec::default() }))
    }

    #[test]
    fn a_namespace_has_a_queue_only_if_exactly_one_lists_it() {
        let mut index = QueueIndex::default();
        index.apply(queue("nlp", &["nlp", "shared"]));
        index.apply(queue("vision", &["vision", "shared"]));
        assert_eq!(index.of_namespace("nlp"), Some("nlp"));
        assert_eq!(index.of_namespace("shared"), None);
        assert_eq!(index.of_namespace("other"), None);
        index.apply(queue("vision", &["vision"]));
        assert_eq!(index.of_namespace("shared"), Some("nlp"));
        index.remove(&queue("nlp", &[]));
        assert_eq!(index.of_namespace("shared"), None);
    }

    #[test]
    fn a_queue_that_serves_other_namespaces_changes_more_than_itself() {
        let mut index = QueueIndex::default();
        index.apply(queue("nlp", &["nlp"]));
        let itself = ChangedObject::Queue("nlp".into());
        assert_eq!(index.changes_with(&queue("nlp", &["nlp"])), std::slice::from_ref(&itself));
        let both = [itself, ChangedObject::Everything];
        assert_eq!(index.changes_with(&queue("nlp", &["nlp", "speech"])), both);
        assert_eq!(index.changes_without(&queue("nlp", &[])), both);
        assert_eq!(index.differences(&QueueIndex::default()), both);
        assert_eq!(QueueIndex::default().differences(&index), both);
        assert_eq!(index.differences(&index), []);
    }

    #[test]
    fn queues_are_given_by_name_from_where_the_last_page_ended() {
        let mut index = QueueIndex::default();
        for name in ["c", "a", "b"] {
            index.apply(queue(name, &[]));
        }
        let names = |after| -> Vec<_> {
            index.after(after).iter().map(|queue| queue.metadata.name.clone().expect("named")).collect()
        };
        assert_eq!(names(None), ["a", "b", "c"]);
        assert_eq!(names(Some("a")), ["b", "c"]);
        assert_eq!(names(Some("c")), Vec::<String>::new());
    }
}
