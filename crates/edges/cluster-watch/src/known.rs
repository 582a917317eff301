//! The keys that a watch has reported. After a new list they show which objects vanished meanwhile.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use cluster_model::{BudgetKey, ClusterChange, NodeName, PodKey, QueueName};

/// The keys of reported objects, and of those seen in the list that is under way.
///
/// ```text
///   begin_list ── track* ── end_list ──► gone: known before, not listed now
///        ▲                     │
///        └── (list failed) ────┘   keys that a failed list reported stay known until the next list ends
/// ```
#[derive(Debug, Default)]
pub struct Known {
    reported: BTreeSet<Subject>,
    listed: Option<BTreeSet<Subject>>,
}

/// The subject of a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Node(NodeName),
    Pod(PodKey),
    Queue(QueueName),
    Namespace(Arc<str>),
    Budget(BudgetKey),
}

impl Known {
    /// A list begins. An unfinished list before it is forgotten, but the keys that it reported are
    /// not.
    pub fn begin_list(&mut self) {
        self.listed = Some(BTreeSet::new());
    }

    /// Whether a list is under way, or failed and has not begun anew.
    pub fn is_listing(&self) -> bool {
        self.listed.is_some()
    }

    /// Notes a change that is being reported.
    pub fn track(&mut self, change: &ClusterChange) {
        match change {
            ClusterChange::Node(node) => self.insert(Subject::Node(node.name.clone())),
            ClusterChange::Pod(pod) => self.insert(Subject::Pod(pod.key.clone())),
            ClusterChange::Queue(queue) => self.insert(Subject::Queue(queue.name.clone())),
            ClusterChange::NodeGone(name) => self.remove(&Subject::Node(name.clone())),
            ClusterChange::PodGone(key) => self.remove(&Subject::Pod(key.clone())),
            ClusterChange::QueueGone(name) => self.remove(&Subject::Queue(name.clone())),
            ClusterChange::Namespace { name, .. } => self.insert(Subject::Namespace(name.clone())),
            ClusterChange::NamespaceGone(name) => self.remove(&Subject::Namespace(name.clone())),
            ClusterChange::Budget(budget) => self.insert(Subject::Budget(budget.key.clone())),
            ClusterChange::BudgetGone(key) => self.remove(&Subject::Budget(key.clone())),
        }
    }

    /// The list is complete. Returns what to report as gone.
    pub fn end_list(&mut self) -> Vec<ClusterChange> {
        let Some(listed) = self.listed.take() else { return Vec::new() };
        let before = mem::take(&mut self.reported);
        let vanished = before.difference(&listed).cloned().map(Subject::gone).collect();
        self.reported = listed;
        vanished
    }

    /// How many objects are known.
    pub fn len(&self) -> usize {
        self.reported.len()
    }

    /// Whether no object is known.
    pub fn is_empty(&self) -> bool {
        self.reported.is_empty()
    }

    fn insert(&mut self, subject: Subject) {
        if let Some(listed) = &mut self.listed {
            listed.insert(subject.clone());
        }
        self.reported.insert(subject);
    }

    fn remove(&mut self, subject: &Subject) {
        if let Some(listed) = &mut self.listed {
            listed.remove(subject);
        }
        self.reported.remove(subject);
    }
}

impl Subject {
    fn gone(self) -> ClusterChange {
        match self {
            Self::Node(name) => ClusterChange::NodeGone(name),
            Self::Pod(key) => ClusterChange::PodGone(key),
            Self::Queue(name) => ClusterChange::QueueGone(name),
            Self::Namespace(name) => ClusterChange::NamespaceGone(name),
            Self::Budget(key) => ClusterChange::BudgetGone(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use cluster_model::{ClusterChange, PodKey, Queue, QueueName};

    use super::Known;

    fn queue(name: &str) -> ClusterChange {
        ClusterChange::Queue(Queue::new(name))
    }

    fn gone(name: &str) -> ClusterChange {
        ClusterChange::QueueGone(QueueName::from(name))
    }

    /// Lists the names; returns what vanished.
    fn list(known: &mut Known, names: &[&str]) -> Vec<ClusterChange> {
        known.begin_list();
        for name in names {
            known.track(&queue(name));
        }
        known.end_list()
    }

    #[test]
    fn what_a_new_list_lacks_is_gone() {
        let mut known = Known::default();
        assert_eq!(list(&mut known, &["a", "b", "c"]), []);
        assert_eq!(list(&mut known, &["b", "d"]), [gone("a"), gone("c")]);
        assert_eq!(list(&mut known, &["b", "d"]), []);
    }

    #[test]
    fn what_came_and_went_by_watch_counts_too() {
        let mut known = Known::default();
        list(&mut known, &["a"]);
        known.track(&queue("b"));
        known.track(&gone("a"));
        assert_eq!(list(&mut known, &[]), [gone("b")]);
        assert!(known.is_empty());
    }

    #[test]
    fn what_only_a_failed_list_reported_is_gone_if_the_next_one_lacks_it() {
        let mut known = Known::default();
        list(&mut known, &["a"]);
        known.begin_list();
        known.track(&queue("b"));
        // The list failed here and starts over.
        assert_eq!(list(&mut known, &["a"]), [gone("b")]);
    }

    #[test]
    fn a_pod_that_came_back_with_the_same_name_is_another_pod() {
        let key = |uid: &str| PodKey::new("ns", "pod", uid);
        let mut known = Known::default();
        known.begin_list();
        known.insert(super::Subject::Pod(key("1")));
        known.end_list();
        known.begin_list();
        known.insert(super::Subject::Pod(key("2")));
        assert_eq!(known.end_list(), [ClusterChange::PodGone(key("1"))]);
    }

    #[test]
    fn an_object_that_a_list_shows_as_ended_is_not_reported_gone_twice() {
        let mut known = Known::default();
        list(&mut known, &["a"]);
        known.begin_list();
        known.track(&gone("a"));
        assert_eq!(known.end_list(), []);
    }
}
