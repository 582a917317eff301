//! Queues by name, and by the namespaces they list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::Queue;

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

    /// The queue of this name.
    pub fn get(&self, name: &str) -> Option<Arc<Queue>> {
        self.by_name.get(name).cloned()
    }

    /// Every queue behind `after`, by name.
    pub fn after(&self, after: Option<&str>) -> Vec<Arc<Queue>> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.by_name
            .range::<str, _>((from, std::ops::Bound::Unbounded))
            .map(|(_, queue)| Arc::clone(queue))
            .collect()
    }

    /// The one queue that lists the namespace; `None` if there is none, or several.
    pub fn of_namespace(&self, namespace: &str) -> Option<&str> {
        let mut queues = self.by_namespace.get(namespace)?.iter();
        match (queues.next(), queues.next()) {
            (Some(queue), None) => Some(queue),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api_types::{Queue, QueueSpec};

    use super::QueueIndex;

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
