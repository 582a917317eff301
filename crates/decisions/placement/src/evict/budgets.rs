//! Disruption budgets bind everybody who makes others give way, whatever the rule: no more pods of a budget go than it
//! allows, those included that were told to go and are still there, or of which its maker may not know yet.

use std::collections::BTreeMap;

use cluster_model::{Budget, ClusterState, Gang, Pod, PodId};

use super::ground::{GangIndex, Ground};
use super::rules::Taken;

/// A budget's place in [`Allowed`].
pub(super) type BudgetIndex = usize;

/// What the budgets allow in one plan.
#[derive(Default)]
pub(super) struct Allowed {
    budgets: Vec<Budget>,
    /// How many more pods may go; below zero where others leave already.
    left: Vec<i64>,
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
        // Its maker may not know of them yet. Counted twice, they only keep others from going a little longer.
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

    /// Takes off what a gang has that gives way.
    pub fn spend(&mut self, pods: &[(BudgetIndex, i64)]) {
        for (budget, pods) in pods {
            self.left[*budget] -= pods;
        }
    }
}

/// Whether the budgets allow all these gangs to go.
pub(super) fn allow_all(ground: &Ground, gangs: &[GangIndex]) -> bool {
    let none = Taken::default();
    gangs.iter().all(|gang| allow(ground, &none, gangs, *gang))
}

/// Whether the budgets allow a gang to go as well, after those in `taken` and `chosen`.
pub(super) fn allow(ground: &Ground, taken: &Taken, chosen: &[GangIndex], victim: GangIndex) -> bool {
    ground.gangs[victim].budgets.iter().all(|(budget, pods)| {
        let others = taken.gangs.iter().chain(chosen.iter().filter(|index| !taken.gangs.contains(*index)));
        let others = others.filter(|index| **index != victim);
        let has = |index: &GangIndex| {
            let budgets = ground.gangs[*index].budgets.iter();
            budgets.filter(|(other, _)| other == budget).map(|(_, pods)| *pods).sum::<i64>()
        };
        others.map(has).sum::<i64>() + pods <= ground.allowed.left[*budget]
    })
}
