//! Changes that are not published yet: names only, each once, in the order of their first change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexSet;
use tokio::sync::Notify;

/// Names that wait at most: a relist after a long break may change many. 20,000 × ~150 bytes = 3 MB, and 10 s
/// of events; a client that has missed more should reload.
const PENDING_MAX: usize = 20_000;

/// A run by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// The tenant.
    pub namespace: Arc<str>,
    /// The run.
    pub name: Arc<str>,
}

impl RunKey {
    /// The run of this name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// An object on pages that is new, different or gone; the cache says which.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChangedObject {
    /// A run.
    Run(RunKey),
    /// Members of a run, for streams of that one run.
    Members(RunKey),
    /// A queue.
    Queue(Arc<str>),
    /// A node, or the occupants of its GPUs.
    Node(Arc<str>),
    /// More than can be named.
    Everything,
}

/// Changes that wait to be published. Any task notes them; one task takes them.
#[derive(Debug, Default)]
pub struct Changes {
    pending: Mutex<Pending>,
    noted: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    changes: IndexSet<ChangedObject>,
    everything: bool,
}

/// The changes that were taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The oldest changes.
    pub changes: Vec<ChangedObject>,
    /// More changed than can be listed.
    pub everything: bool,
}

impl Changes {
    /// Adds changes; a change that already waits is not added again.
    pub fn note(&self, changes: impl IntoIterator<Item = ChangedObject>) {
        let mut pending = self.pending();
        for change in changes {
            if change == ChangedObject::Everything || pending.changes.len() >= PENDING_MAX {
                pending.everything = true;
                pending.changes.clear();
            }
            if change != ChangedObject::Everything {
                pending.changes.insert(change);
            }
        }
        let is_some = !pending.is_empty();
        drop(pending);
        if is_some {
            self.noted.notify_one();
        }
    }

    /// Waits until there is something to take.
    pub async fn some(&self) {
        // A note between the check and the wait leaves a permit, so none is missed.
        while self.pending().is_empty() {
            self.noted.notified().await;
        }
    }

    /// Takes the oldest changes, at most `most`.
    pub fn take(&self, most: usize) -> Taken {
        let mut pending = self.pending();
        let count = most.min(pending.changes.len());
        Taken {
            changes: pending.changes.drain(..count).collect(),
            everything: std::mem::take(&mut pending.everything),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // It is changed by total functions only; a poisoned lock holds a usable one.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.everything
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ChangedObject, Changes, PENDING_MAX, RunKey, Taken};

    fn run(name: &str) -> ChangedObject {
        ChangedObject::Run(RunKey::new("nlp", name))
    }

    #[test]
    fn what_changes_often_is_told_once_and_in_its_turn() {
        let changes = Changes::default();
        changes.note([run("a"), run("b"), run("a"), run("c"), run("a")]);
        assert_eq!(changes.take(2), Taken { changes: vec![run("a"), run("b")], everything: false });
        changes.note([run("a")]);
        assert_eq!(changes.take(9), Taken { changes: vec![run("c"), run("a")], everything: false });
        assert_eq!(changes.take(9), Taken::default());
    }

    #[test]
    fn too_much_becomes_everything_and_memory_stays_bounded() {
        let changes = Changes::default();
        changes.note((0..=PENDING_MAX).map(|number| run(&number.to_string())));
        let last = run(&PENDING_MAX.to_string());
        assert_eq!(changes.take(9), Taken { changes: vec![last], everything: true });
        changes.note([run("a"), ChangedObject::Everything, run("b")]);
        assert_eq!(changes.take(9), Taken { changes: vec![run("b")], everything: true });
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_by_a_change_and_by_one_from_before() {
        let changes = Changes::default();
        changes.note([]);
        let idle = tokio::time::timeout(Duration::from_millis(1), changes.some()).await;
        assert!(idle.is_err(), "nothing was noted");
        changes.note([run("a")]);
        changes.some().await;
        changes.some().await;
        tokio::join!(
            async {
                changes.take(9);
                changes.some().await;
            },
            async { changes.note([run("b")]) }
        );
    }
}
