//! Which moment of a what-if came after which, and whether anybody gave something back in between.
//!
//! What found no room finds none later either, as long as all that happened since is that others took something. Forks
//! make moments a tree: what was seen on a branch that was taken back says nothing about another one.

use crate::state::ClusterState;

/// A moment of a what-if.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    steps: usize,
    stamp: u64,
}

/// The steps of forks that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    steps: Vec<Step>,
    stamps: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Step {
    stamp: u64,
    /// How many steps up to this one gave something back.
    given_back: u64,
}

impl Steps {
    pub fn push(&mut self, gives_back: bool) {
        self.stamps += 1;
        let given = self.last().given_back + u64::from(gives_back);
        self.steps.push(Step { stamp: self.stamps, given_back: given });
    }

    pub fn truncate(&mut self, len: usize) {
        self.steps.truncate(len);
    }

    fn last(&self) -> Step {
        self.steps.last().copied().unwrap_or_default()
    }
}

impl ClusterState {
    /// The moment that it is.
    pub fn moment(&self) -> Moment {
        Moment { steps: self.steps.steps.len(), stamp: self.steps.last().stamp }
    }

    /// Whether this is that moment, or one after it, and in between nobody left a node.
    pub fn only_took_since(&self, moment: &Moment) -> bool {
        let then = match moment.steps.checked_sub(1) {
            None => Some(Step::default()),
            Some(index) => self.steps.steps.get(index).copied(),
        };
        then.is_some_and(|then| then.stamp == moment.stamp && then.given_back == self.steps.last().given_back)
    }
}
