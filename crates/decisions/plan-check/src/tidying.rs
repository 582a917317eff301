//! Gangs that are moved for their own sake, so that nearly empty nodes become empty. Whether each can land where it
//! goes is judged like every other hold.

use cluster_model::NodeName;
use cluster_model::plan::{Eviction, Plan};
use cluster_model::policy::Policy;

use crate::capacity;
use crate::facts::Facts;
use crate::picture::Picture;
use crate::violation::Violation;

pub(crate) fn nodes_become_empty<'a>(
    facts: &Facts<'a>,
    plan: &'a Plan,
    policy: &Policy,
    violations: &mut Vec<Violation>,
) {
    let moved: Vec<&Eviction> = plan.evictions.iter().filter(|it| is_for_itself(it)).collect();
    if moved.is_empty() {
        return;
    }
    let (before, later) = (Picture::before(facts), Picture::later(facts, plan, None));
    let running = Picture::running(facts);
    for eviction in &moved {
        let mut wrong = |what| violations.push(Violation::NotTheRule { gang: eviction.gang.clone(), what });
        if moved.len() > policy.consolidation.moves_max as usize {
            wrong("more are moved than may");
        }
        let started = facts.members(&eviction.gang).filter_map(|member| member.pod.started).max();
        let ran = started.map_or(0, |started| plan.made_at.as_second() - started.as_second());
        if ran < i64::from(policy.eviction.hold_seconds) {
            wrong("it was just started");
        }
        let becomes_empty = |node: &NodeName| {
            !later.on_node.contains_key(node) && capacity::is_half_empty(facts, &before, node)
        };
        if !facts.running(&eviction.gang).any(|(_, node)| becomes_empty(node)) {
            wrong("no node becomes empty by it");
        }
        let mut goes_to = plan.holds.iter().filter(|it| it.gang == eviction.gang).flat_map(|it| &it.members);
        // Else as many nodes would be in use as before.
        if !goes_to.all(|member| running.on_node.contains_key(&member.node)) {
            wrong("it goes to a node that is not in use");
        }
    }
}

/// Whether a gang is moved for no claimant but itself.
pub(crate) fn is_for_itself(eviction: &Eviction) -> bool {
    eviction.moves && eviction.gang == eviction.claimant
}
