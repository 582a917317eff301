//! Whether enough is known to plan: every kind is listed, and all writes of the former leader have been seen.

use std::collections::BTreeSet;

use cluster_apply::Target;
use cluster_model::plan::HoldRecord;
use cluster_model::{QueueName, SavedAccounts};
use cluster_watch::Kind;

/// The state that the former leader left, listed when it could not write any more.
#[derive(Debug, Default)]
pub struct TakenOver {
    /// A version of pods after all its writes: nothing is planned before pods are known up to this version.
    pub pods_as_of: u64,
    /// Runs that it marked as waiting; the mark is removed unless the first plan agrees.
    pub runs: Vec<Target>,
    /// The holds that it kept.
    pub holds: Vec<HoldRecord>,
    /// What queues had used and banked.
    pub accounts: Vec<(QueueName, SavedAccounts)>,
}

/// How much is known.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    synced: BTreeSet<Kind>,
    /// Up to which version pods are known.
    pods_as_of: u64,
    /// The state that the former leader left, until it is taken up.
    left: Option<TakenOver>,
    /// Up to which version pods must be known.
    pods_needed: Option<u64>,
}

impl Knowledge {
    /// Every object of a kind was listed.
    pub fn synced(&mut self, kind: Kind) {
        self.synced.insert(kind);
    }

    /// Pods are known up to a version.
    pub fn pods_as_of(&mut self, version: u64) {
        self.pods_as_of = self.pods_as_of.max(version);
    }

    /// No other process writes any more.
    pub fn taken_over(&mut self, left: TakenOver) {
        self.pods_needed = Some(left.pods_as_of);
        self.left = Some(left);
    }

    /// Whether everything is known.
    pub fn is_complete(&self) -> bool {
        self.synced.len() == Kind::ALL.len()
            && self.pods_needed.is_some_and(|version| version <= self.pods_as_of)
    }

    /// Takes the state that the former leader left; once.
    pub fn take_left(&mut self) -> TakenOver {
        self.left.take().unwrap_or_default()
    }
}
