//! Forks: a fork is the state with some pods placed, held or gone. It undoes all of that when it is dropped.

use std::ops::Deref;

use jiff::Timestamp;

use crate::devices::DeviceUse;
use crate::nodes::NodeId;
use crate::pods::{Decision, Place, PodId, PodStanding};
use crate::state::ClusterState;

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
        self.nodes.in_fork = true;
        let mark = self.undo.len();
        Fork { state: self, mark, kept: false }
    }
}

impl Fork<'_> {
    /// Counts a pod as being on a node, with these devices if the node is Exact.
    ///
    /// # Panics
    /// If the pod counts on a node, other than one that is held for it: a planner that places a pod twice has lost count.
    pub fn assume(&mut self, pod: PodId, node: NodeId, devices: &[DeviceUse]) {
        self.decide(pod, node, devices, None);
    }

    /// Counts a pod on a node that is held for it until others have left. If the pod was evicted in this fork, this
    /// moves it.
    ///
    /// # Panics
    /// As [`Self::assume`].
    pub fn hold(&mut self, pod: PodId, node: NodeId, devices: &[DeviceUse]) {
        self.decide(pod, node, devices, Some(Timestamp::MAX));
    }

    /// Counts a pod as gone: from its node and from what its queue holds. It is still a member of its gang, but neither
    /// runs nor waits.
    ///
    /// # Panics
    /// If the pod counts on no node.
    pub fn evict(&mut self, pod: PodId) {
        assert!(self.state.pod(pod).place().is_some(), "only a pod that has a node is evicted");
        self.change(pod, PodStanding { decision: None, evicted: true });
    }

    /// Gives up the node that is held for a pod; it waits again. One that was evicted in this fork stays evicted.
    ///
    /// # Panics
    /// If no node is held for it.
    pub fn release(&mut self, pod: PodId) {
        assert_eq!(self.state.pod(pod).place(), Some(Place::Held), "only what is held is released");
        let evicted = self.state.pod(pod).standing.evicted;
        self.change(pod, PodStanding { decision: None, evicted });
    }

    /// Counts a pod as being on the node that is held for it.
    ///
    /// # Panics
    /// If no node is held for it.
    pub fn land(&mut self, pod: PodId) {
        let state = self.state.pod(pod);
        assert_eq!(state.place(), Some(Place::Held), "only a pod that is held lands");
        let mut standing = state.standing.clone();
        let now = self.state.now();
        if let Some(decision) = &mut standing.decision {
            (decision.held_until, decision.since) = (None, now);
        }
        self.change(pod, standing);
    }

    /// Turns an assumption into a hold: the pod comes to its node only later.
    ///
    /// # Panics
    /// If the pod is not assumed to be anywhere.
    pub fn postpone(&mut self, pod: PodId) {
        let state = self.state.pod(pod);
        assert!(state.is_assumed(), "only a pod that is assumed comes later");
        let mut standing = state.standing.clone();
        if let Some(decision) = &mut standing.decision {
            decision.held_until = Some(Timestamp::MAX);
        }
        self.change(pod, standing);
    }

    /// Starts a fork of the fork.
    pub fn fork(&mut self) -> Fork<'_> {
        self.state.fork()
    }

    /// Ends the fork, and leaves its changes to the fork it was started from. The outermost fork leaves them to the
    /// state itself, for good.
    pub fn keep(mut self) {
        self.kept = true;
    }

    fn decide(&mut self, pod: PodId, node: NodeId, devices: &[DeviceUse], held_until: Option<Timestamp>) {
        let state = self.state.pod(pod);
        let may_move = state.standing.evicted || state.place() == Some(Place::Held);
        let is_free = self.state.is_pending(pod) || may_move && !state.is_assumed();
        assert!(is_free, "only a pod that waits for a node is placed");
        let decision = Decision { node, devices: devices.to_vec(), since: self.state.now(), held_until };
        let evicted = state.standing.evicted;
        self.change(pod, PodStanding { decision: Some(decision), evicted });
    }

    fn change(&mut self, pod: PodId, standing: PodStanding) {
        let before = self.state.pod(pod).standing.clone();
        let gives_back = self.state.pod(pod).place().is_some();
        self.state.steps.push(gives_back);
        self.state.stand(pod, standing);
        self.state.undo.push((pod, before));
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
            self.state.take_back(self.mark);
            self.state.steps.truncate(self.mark);
        }
        self.state.forks_open -= 1;
        if self.state.forks_open == 0 {
            self.state.nodes.end_forks();
            self.state.steps.truncate(0);
            if !self.state.undo.is_empty() {
                self.state.keep_changes();
            }
        }
    }
}
