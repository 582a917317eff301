//! Disruption budgets bind every rule by which others give way: no more pods of a budget leave than it allows. Pods
//! that were told to leave count too, if they are still there or if the budget's controller may not know of them yet.

use std::collections::BTreeMap;

use cluster_model::{Budget, ClusterState, Gang, Pod, PodId};

/// A budget's place in [`Allowed`].
pub(super) type BudgetIndex = usize;

/// What the budgets allow in one plan.
#[derive(Default)]
pub(super) struct Allowed {
    budgets: Vec<Budget>,
    /// How many more pods may leave; below zero if others leave already.
    pub left: Vec<i64>,
}

impl Allowed {
    pub fn read(state: &ClusterState) -> Self {
        let budgets: Vec<Budget> = state.budgets().cloned().collect();
        let mut allowed = Self { left: Vec::new(), budgets };
        if allowed.budgets.is_empty() {
            return allowed;
        }
        let mut leaving = vec![0; allowed.budgets.len()];
        let pods = state.leaving_gangs().filter_map(|key| state.gang(key)).flat_map(Gang::members);
        for pod in pods.map(|id| state.pod(id).pod()).filter(|pod| pod.node.is_some()) {
            for budget in allowed.of(pod) {
                leaving[budget] += 1;
            }
        }
        // The controller may not know of them yet. To count them twice only keeps others from leaving a little
        // longer.
        let left = |(budget, leaving): (&Budget, i64)| {
            i64::from(budget.allowed) - leaving.max(i64::from(budget.told))
        };
        allowed.left = allowed.budgets.iter().zip(leaving).map(left).collect();
        allowed
    }

    fn of(&self, pod: &Pod) -> impl Iterator<Item = BudgetIndex> {
        let covers = |(index, budget): (usize, &Budget)| budget.covers(pod).then_some(index);
        self.budgets.iter().enumerate().filter_map(covers)
    }

    /// How many pods of each budget a gang has.
    pub fn pods_of(&self, state: &ClusterState, pods: &[PodId]) -> Vec<(BudgetIndex, i64)> {
        if self.budgets.is_empty() {
            return Vec::new();
        }
        let mut counts: BTreeMap<BudgetIndex, i64> = BTreeMap::new();
        for pod in pods {
            for budget in self.of(state.pod(*pod).pod()) {
                *counts.entry(budget).or_default() += 1;
            }
        }
        counts.into_iter().collect()
    }

    /// Subtracts the pods of a gang that gives way.
    pub fn spend(&mut self, pods: &[(BudgetIndex, i64)]) {
        for (budget, pods) in pods {
            self.left[*budget] -= pods;
        }
    }
}
