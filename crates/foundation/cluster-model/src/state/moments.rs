//! Moments of the state between the steps of its forks.

use crate::moments::{ForkMoment, Step};
use crate::state::ClusterState;

impl ClusterState {
    /// The current moment.
    pub fn moment(&self) -> ForkMoment {
        ForkMoment { steps: self.steps.steps.len(), stamp: self.steps.last().stamp }
    }

    /// Whether now is that moment, or a later one, and no pod left a node in between.
    pub fn only_took_since(&self, moment: &ForkMoment) -> bool {
        let then = match moment.steps.checked_sub(1) {
            None => Some(Step::default()),
            Some(index) => self.steps.steps.get(index).copied(),
        };
        then.is_some_and(|then| then.stamp == moment.stamp && then.given_back == self.steps.last().given_back)
    }
}
