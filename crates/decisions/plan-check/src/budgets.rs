//! No more pods of a disruption budget leave than it allows.

use cluster_model::plan::Plan;

use crate::facts::Facts;
use crate::violation::Violation;

/// Counts, for each budget, the pods that the plan evicts, and those that were told to leave before and are still
/// there, or went since the budget was last heard of.
pub(crate) fn budgets_are_kept(facts: &Facts<'_>, plan: &Plan, violations: &mut Vec<Violation>) {
    for budget in &facts.budgets {
        let pods_of = |gang| {
            let seen = facts.members(gang).filter(|member| member.runs_on().is_some());
            seen.filter(|member| budget.covers(member.pod)).count()
        };
        let evicted: usize = plan.evictions.iter().map(|eviction| pods_of(&eviction.gang)).sum();
        let bound = |gang| {
            let seen = facts.members(gang).filter(|member| member.pod.node.is_some());
            seen.filter(|member| budget.covers(member.pod)).count()
        };
        let leaving: usize = facts.leaving_for.keys().map(|gang| bound(gang)).sum();
        if evicted > 0 && evicted + leaving.max(budget.told as usize) > budget.allowed as usize {
            violations.push(Violation::BudgetExceeded(budget.key.clone()));
        }
    }
}
