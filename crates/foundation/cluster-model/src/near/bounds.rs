//! How much is counted at a time: users write rules about other pods, and each new rule costs.
//!
//! | What | costs | at most |
//! |---|---|---|
//! | a narrow area, at 5,000 nodes | 40 kB for the nodes, 400 kB more if each is a domain of its own | 256: 10 to 110 MB |
//! | a tally that no label leads to, at 50,000 pods | 12 bytes for each pod it selects, a look at each new pod | 512: 300 MB |
//!
//! There are no more wide areas than nodes have labels: an area of a label that no node has is empty.
//!
//! If a waiting pod of ours asks for more, it is not counted, and waits until others that ask for something are gone.
//! A pod that has a node, or is not ours, always counts: what it keeps away must be kept away.

use super::neighbours::Neighbours;
use super::tally::{TallyId, TallyKey};
use super::{Near, own};
use crate::nodes::Nodes;
use crate::objects::Pod;
use crate::pods::PodState;
use crate::slots::Slots;

/// Areas to which not all nodes with a label belong.
const NARROW_AREAS_MAX: usize = 256;

/// Tallies for which each pod is examined. Two for each namespace with pods that want nodes for themselves.
const LEADERLESS_MAX: usize = 512;

impl Near {
    /// Whether a pod asks for too much, given what others ask for.
    pub(super) fn is_beyond(&self, pod: &Pod, asks: &Neighbours) -> bool {
        if !pod.ours || pod.node.is_some() {
            return false;
        }
        let before = self.bounded();
        let terms = asks.affinity.len() + 2 * asks.anti_affinity.len() + asks.spread.len();
        if before.0 + asks.spread.len() <= NARROW_AREAS_MAX && before.1 + terms <= LEADERLESS_MAX {
            return false;
        }
        let (mut areas, mut leaderless) = before;
        own(pod, asks, |what: TallyKey| {
            if !self.ids.contains_key(&what) {
                areas += usize::from(what.area.is_narrow() && !self.areas.contains(&what.area));
                leaderless += usize::from(what.who.leading().is_none());
            }
            TallyId(0)
        });
        (areas > NARROW_AREAS_MAX && areas > before.0)
            || (leaderless > LEADERLESS_MAX && leaderless > before.1)
    }

    /// How much there is of what is bounded: narrow areas, and tallies that no label leads to.
    pub(super) fn bounded(&self) -> (usize, usize) {
        (self.areas.narrow(), self.leading.leaderless())
    }

    /// Counts pods that asked for too much, if there is room now for what they ask.
    pub(super) fn count_beyond(&mut self, pods: &Slots<PodState>, nodes: &Nodes) {
        for id in self.beyond.clone() {
            let state = pods.get(id.0);
            let Some(asks) = &state.pod.neighbours else { continue };
            if self.is_beyond(&state.pod, asks) {
                continue;
            }
            self.beyond.remove(&id);
            self.count(id, state, false);
            let own = self.ask(&state.pod, asks, pods, nodes);
            self.entry(id).own = own;
            self.count(id, state, true);
        }
    }
}
