//! The state's budgets, and how many of their pods were told to go.

use crate::budgets::Budget;
use crate::ids::GangSlot;
use crate::objects::Pod;
use crate::state::ClusterState;

impl ClusterState {
    /// Every budget, by name.
    pub fn budgets(&self) -> impl ExactSizeIterator<Item = &Budget> {
        self.budgets.values()
    }

    /// Counts the pods of a gang that have a node in the budgets that cover them: they are told to leave, or were not
    /// told after all.
    pub(crate) fn count_told(&mut self, gang: GangSlot, is_told: bool, concerns: impl Fn(&Pod) -> bool) {
        if self.budgets.is_empty() {
            return;
        }
        let members = self.gangs.get(gang).members();
        let pods = members.map(|id| &self.pods.get(id.0).pod);
        for pod in pods.filter(|pod| pod.node.is_some() && concerns(pod)) {
            for budget in self.budgets.values_mut().filter(|budget| budget.covers(pod)) {
                let told = budget.told;
                budget.told = if is_told { told.saturating_add(1) } else { told.saturating_sub(1) };
            }
        }
    }
}

impl Budget {
    /// Whether it covers a pod.
    pub fn covers(&self, pod: &Pod) -> bool {
        let selector = self.selector.as_ref().filter(|_| self.key.namespace == pod.key.namespace);
        selector.is_some_and(|selector| selector.matches(&pod.labels))
    }
}
