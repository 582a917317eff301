//! Whether a plan is allowed.

use std::collections::BTreeSet;

use cluster_model::ClusterState;
use cluster_model::plan::Plan;
use cluster_model::policy::Policy;

use crate::facts::Facts;
use crate::gangs::Decision;
use crate::picture::{Occupant, Picture};
use crate::violation::Violation;
use crate::{capacity, evictions, gangs, neighbours, quota, reservations, tidying, topology, turns};

/// Everything that is wrong with a plan that was made from this state by this policy.
pub fn check_plan(state: &ClusterState, plan: &Plan, policy: &Policy) -> Vec<Violation> {
    let mut facts = Facts::read(state);
    let mut found = Vec::new();
    for gang in &plan.released {
        if facts.leaving_for.values().any(|claimant| *claimant == gang) {
            found.push(Violation::HoldGivenUp(gang.clone()));
        }
        // For this plan it has expired.
        facts.held.entry(gang).and_modify(|expires| *expires = plan.made_at);
    }
    if plan.generation != state.generation() {
        found.push(Violation::OtherGeneration);
    }
    turns::decided_once(&facts, plan, policy, &mut found);
    turns::first_come_first(&facts, plan, &mut found);
    let mut placed = BTreeSet::new();
    for decision in Decision::all(plan) {
        for member in decision.members {
            if !placed.insert(&member.pod) {
                found.push(Violation::PlacedTwice(member.pod.clone()));
            }
        }
        gangs::members_may_go_there(&facts, &decision, &mut found);
        gangs::gang_is_whole(&facts, &decision, &mut found);
        gangs::one_gpu_type(&facts, &decision, &mut found);
        topology::members_lie_together(&facts, &decision, &mut found);
        topology::members_are_spread(&facts, &decision, &mut found);
    }
    let is_new = |occupant: &Occupant<'_>| occupant.is_new;
    // What is held draws no power yet, so it excuses nothing that starts now.
    let mut pictures = vec![(Picture::running(&facts), Picture::now(&facts, plan))];
    if !plan.holds.is_empty() || !facts.held.is_empty() {
        pictures.push((Picture::before(&facts), Picture::later(&facts, plan, None)));
    }
    for (before, picture) in &pictures {
        capacity::nodes_are_not_over(&facts, picture, &is_new, &mut found);
        capacity::power_is_capped(&facts, picture, before, policy, &mut found);
        neighbours::pods_keep_apart(&facts, picture, &is_new, &mut found);
    }
    let starts = plan.placements.iter().flat_map(|gang| &gang.members);
    neighbours::neighbours_let_them_start(&facts, &Picture::running(&facts), starts, &mut found);
    quota::queues_are_right(&facts, plan, &mut found);
    quota::queues_have_room(&facts, plan, &mut found);
    evictions::evictions_are_allowed(&facts, plan, policy, &mut found);
    tidying::nodes_become_empty(&facts, plan, policy, &mut found);
    evictions::holds_are_allowed(&facts, plan, policy, &mut found);
    reservations::reservations_are_kept(&facts, plan, policy, &mut found);
    once_each(found)
}

/// What is wrong now is mostly wrong later too; it is reported once.
fn once_each(found: Vec<Violation>) -> Vec<Violation> {
    let mut once: Vec<Violation> = Vec::new();
    for violation in found {
        if !once.contains(&violation) {
            once.push(violation);
        }
    }
    once
}
