//! Every gang is decided about once, and similar gangs start in their order.

use std::collections::BTreeMap;

use cluster_model::plan::Plan;
use cluster_model::policy::Policy;
use cluster_model::{GangKey, Pod};

use crate::facts::Facts;
use crate::gangs::Decision;
use crate::violation::Violation;

pub(crate) fn decided_once(facts: &Facts<'_>, plan: &Plan, policy: &Policy, violations: &mut Vec<Violation>) {
    let mut decisions: BTreeMap<&GangKey, (bool, u32)> = BTreeMap::new();
    for (key, member) in &facts.pods {
        // A gang with a hold waits for its victims, and was decided about before.
        if facts.waits(key) && !member.is_held {
            decisions.insert(&member.pod.gang, (true, 0));
        }
    }
    let placed = plan.placements.iter().map(|gang| &gang.gang);
    for gang in placed.chain(plan.waiting.iter().map(|gang| &gang.gang)) {
        decisions.entry(gang).or_default().1 += 1;
    }
    for (gang, (waits, decided)) in decisions {
        let may_be_silent = !policy.explain || !waits;
        let may_be_decided = waits || facts.held.contains_key(gang);
        let right = match decided {
            0 => may_be_silent,
            1 => may_be_decided,
            _ => false,
        };
        if !right {
            violations.push(Violation::NotDecidedOnce(gang.clone()));
        }
    }
    for gang in &plan.waiting {
        if gang.reasons.is_empty() {
            violations.push(Violation::NoReason(gang.gang.clone()));
        }
    }
}

/// Of gangs in one queue that ask for the same, that of higher priority starts first; then the oldest. This is so in
/// every order, because similar gangs are expected to do the same work.
pub(crate) fn first_come_first(facts: &Facts<'_>, plan: &Plan, violations: &mut Vec<Violation>) {
    // A gang that came first may have found nothing before others gave way, and gangs that gave way leave room for
    // more.
    if !plan.evictions.is_empty() || !facts.held.is_empty() {
        return;
    }
    let starts: Vec<&GangKey> =
        Decision::all(plan).filter(|decision| !decision.moves).map(|decision| decision.gang).collect();
    let gets_room = |gang: &GangKey| starts.contains(&gang);
    for waits in plan.waiting.iter().map(|waiting| &waiting.gang).filter(|gang| !gets_room(gang)) {
        let Some(lead) = facts.lead(waits) else { continue };
        let class = class(facts, waits);
        for gang in plan.placements.iter().map(|placement| &placement.gang) {
            let Some(other) = facts.lead(gang) else { continue };
            let same_queue =
                facts.queue_of(lead).map(|it| &it.name) == facts.queue_of(other).map(|it| &it.name);
            let jumped = other.priority < lead.priority
                || (other.priority == lead.priority && (lead.created, waits) < (other.created, gang));
            if jumped && same_queue && class.is_some() && class == self::class(facts, gang) {
                let (gang, waits) = (gang.clone(), waits.clone());
                violations.push(Violation::OutOfTurn { gang, waits });
            }
        }
    }
}

/// What a gang asks for, in every respect but its priority and age; none if it has begun.
fn class<'a>(facts: &Facts<'a>, gang: &GangKey) -> Option<Vec<Asks<'a>>> {
    let begun = facts.members(gang).any(|member| member.at.is_some() || member.pod.terminating);
    if begun || facts.ended(gang) > 0 {
        return None;
    }
    let mut members: Vec<&Pod> = facts.members(gang).map(|member| member.pod).collect();
    // A gang that came first may have found nothing before others came.
    let is_helped = |pod: &&Pod| pod.neighbours.as_ref().is_some_and(|asks| asks.is_helped_by_others());
    if members.iter().any(is_helped) {
        return None;
    }
    members.sort_by_key(|pod| (pod.member_index, &pod.key.name));
    Some(members.into_iter().map(Asks).collect())
}

struct Asks<'a>(&'a Pod);

impl PartialEq for Asks<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (self.0, other.0);
        one.requests == two.requests
            && one.device == two.device
            && one.gang_size == two.gang_size
            && one.queue == two.queue
            && one.key.namespace == two.key.namespace
            && one.gpu_types == two.gpu_types
            && one.node_selector == two.node_selector
            && one.node_affinity == two.node_affinity
            && one.node_features == two.node_features
            && one.other_requests == two.other_requests
            && one.host_ports == two.host_ports
            && one.tolerations == two.tolerations
            && one.unsupported == two.unsupported
            && one.gated == two.gated
            && one.terms == two.terms
            && one.group == two.group
            && one.labels == two.labels
            && one.neighbours == two.neighbours
    }
}
