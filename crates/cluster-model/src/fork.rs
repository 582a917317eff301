//! What if: a fork is the state with some pods assumed, and takes all of it back when it is dropped.

use std::ops::Deref;

use crate::nodes::NodeId;
use crate::state::{ClusterState, PodId};

/// The state, changed for as long as the fork lives. Forks nest; they end in the opposite order of their start,
/// because each borrows the one before.
#[derive(Debug)]
pub struct Fork<'a> {
    state: &'a mut ClusterState,
    /// How much of the undo log is older than this fork.
    mark: usize,
    kept: bool,
}

impl ClusterState {
    /// Starts a fork.
    pub fn fork(&mut self) -> Fork<'_> {
        self.forks_open += 1;
        let mark = self.undo.len();
        Fork { state: self, mark, kept: false }
    }
}

impl Fork<'_> {
    /// Counts a pod that needs a node as being on this one.
    ///
    /// # Panics
    /// If the pod does not wait for a node: a planner that places a pod twice has lost count.
    pub fn assume(&mut self, pod: PodId, node: NodeId) {
        assert!(self.state.is_pending(pod), "only a pod that waits for a node is placed");
        self.state.assume_at(pod, node);
        self.state.undo.push(pod);
    }

    /// Starts a fork of the fork.
    pub fn fork(&mut self) -> Fork<'_> {
        self.state.fork()
    }

    /// Ends the fork, and leaves what it assumed to the fork it was started from. The outermost fork leaves it to
    /// the state itself, for good.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Deref for Fork<'_> {
    type Target = ClusterState;

    fn deref(&self) -> &ClusterState {
        self.state
    }
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        if !self.kept {
            while self.state.undo.len() > self.mark {
                let pod = self.state.undo.pop().expect("it is longer than the mark");
                self.state.forget_at(pod);
            }
        }
        self.state.forks_open -= 1;
        if self.state.forks_open == 0 && !self.state.undo.is_empty() {
            self.state.generation += 1;
            self.state.undo.clear();
        }
    }
}
