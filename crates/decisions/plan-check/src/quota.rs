//! What queues hold, may hold, own, lend and keep.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::plan::Plan;
use cluster_model::{GangKey, GpuType, NodeName, Pod, PodKey, Queue, QueueName, ResourceName, Tier};
use jiff::Timestamp;

use crate::facts::{Facts, amounts};
use crate::gangs::Decision;
use crate::violation::Violation;

/// What each queue holds, its children included.
#[derive(Clone, Default)]
pub(crate) struct Holdings<'a> {
    held: BTreeMap<(&'a QueueName, ResourceName), i64>,
}

impl<'a> Holdings<'a> {
    /// What is held by all pods that have a node or a hold, except those of gangs that are gone.
    pub fn without(
        facts: &Facts<'a>,
        gone: &BTreeSet<&GangKey>,
        decided: &BTreeSet<&PodKey>,
        now: Timestamp,
    ) -> Self {
        let mut holdings = Self::default();
        for member in facts.charged() {
            let Some(node) = member.at else { continue };
            let leaves = member.pod.ours && gone.contains(&member.pod.gang) && !member.is_held;
            let outdated = member.is_held
                && (decided.contains(&member.pod.key) || facts.is_outdated(&member.pod.gang, now));
            if !leaves && !outdated {
                holdings.add(facts, member.pod, node, 1);
            }
        }
        holdings
    }

    pub fn add(&mut self, facts: &Facts<'a>, pod: &Pod, node: &NodeName, sign: i64) {
        for queue in facts.chain_of(pod) {
            for (resource, amount) in amounts(facts, pod, node) {
                *self.held.entry((&queue.name, resource)).or_default() += sign * amount;
            }
        }
    }

    pub fn held(&self, queue: &'a Queue, resource: &ResourceName) -> i64 {
        self.held.get(&(&queue.name, resource.clone())).copied().unwrap_or(0)
    }
}

/// Every gang that was not granted its room before had room when it was decided about. The plan does not say which
/// starts and which holds came first. So starts are judged together with earlier starts and holds with earlier holds,
/// and in the end all of them together.
pub(crate) fn queues_have_room<'a>(facts: &Facts<'a>, plan: &'a Plan, violations: &mut Vec<Violation>) {
    let mut gone = facts.leaving(plan.made_at);
    gone.extend(plan.evictions.iter().map(|eviction| &eviction.gang));
    let decisions: Vec<Decision<'a>> = Decision::all(plan).collect();
    let decided: BTreeSet<&PodKey> =
        decisions.iter().flat_map(|it| it.members).map(|member| &member.pod).collect();
    let before = Holdings::without(facts, &gone, &decided, plan.made_at);
    let mut in_the_end = before.clone();
    for is_hold in [false, true] {
        let mut held = before.clone();
        for decision in decisions.iter().filter(|it| it.is_hold == is_hold) {
            for (pod, node) in decision.pods(facts) {
                held.add(facts, pod, node, 1);
                in_the_end.add(facts, pod, node, 1);
            }
            if !was_granted(facts, decision) {
                has_room(facts, &held, decision, violations);
            }
            within_budget(facts, decision, violations);
            within_the_highest_tier(facts, decision, violations);
        }
    }
    // Without holds the starts were judged in their order, and there is no more to say.
    let held = |decision: &&Decision<'a>| !plan.holds.is_empty() && !was_granted(facts, decision);
    for decision in decisions.iter().filter(held) {
        within_bounds(facts, &in_the_end, decision, violations);
    }
}

/// With these holdings, a decision's own included, no queue above it holds too much.
pub(crate) fn has_room<'a>(
    facts: &Facts<'a>,
    holdings: &Holdings<'a>,
    decision: &Decision<'a>,
    violations: &mut Vec<Violation>,
) {
    within_bounds(facts, holdings, decision, violations);
    within_what_is_lent(facts, holdings, decision, violations);
}

/// The queue of a placement is that of all its members, and they may use it.
pub(crate) fn queues_are_right<'a>(facts: &Facts<'a>, plan: &'a Plan, violations: &mut Vec<Violation>) {
    for decision in Decision::all(plan) {
        let charged = plan.placements.iter().find(|it| it.gang == *decision.gang).map(|it| &it.queue);
        let mut queues = decision.pods(facts).into_iter().map(|(pod, _)| facts.queue_of(pod));
        let right = queues.next().flatten().is_some_and(|queue| {
            charged.is_none_or(|charged| *charged == queue.name)
                && facts.chain(queue).is_some()
                && queues.all(|other| other == Some(queue))
        });
        if !right {
            violations.push(Violation::WrongQueue(decision.gang.clone()));
        }
    }
}

/// Whether a gang only takes what it was granted before. Either it was held, or is moved; or there are no more
/// members than its size leaves, and for each one there is a member with a node that asks for as much or more.
fn was_granted(facts: &Facts<'_>, decision: &Decision<'_>) -> bool {
    let is_held = |pod: &PodKey| facts.pods.get(pod).is_some_and(|member| member.is_held);
    if decision.moves || decision.members.iter().all(|member| is_held(&member.pod)) {
        return true;
    }
    let started: Vec<&Pod> = facts.running(decision.gang).map(|(pod, _)| pod).collect();
    let taken = started.len() + facts.ended(decision.gang);
    let as_much = |pod: &Pod, example: &Pod| {
        let (asks, has) = (pod.requests, example.requests);
        asks.gpus <= has.gpus
            && asks.cpu_millis <= has.cpu_millis
            && asks.memory_bytes <= has.memory_bytes
            && (asks.gpus == 0 || pod.gpu_types == example.gpu_types)
    };
    let size = facts.size(decision.gang);
    size.is_some_and(|size| taken + decision.members.len() <= size as usize)
        && decision.pods(facts).iter().all(|(pod, _)| started.iter().any(|example| as_much(pod, example)))
}

/// The queue of a decision and those above it, and what the decision adds to.
fn asks<'a>(facts: &Facts<'a>, decision: &Decision<'a>) -> (Vec<&'a Queue>, BTreeSet<ResourceName>) {
    let pods = decision.pods(facts);
    let chain = pods.first().map(|(pod, _)| facts.chain_of(pod)).unwrap_or_default();
    let resources = pods.iter().flat_map(|(pod, node)| amounts(facts, pod, node)).map(|(name, _)| name);
    (chain, resources.collect())
}

fn within_bounds<'a>(
    facts: &Facts<'a>,
    holdings: &Holdings<'a>,
    decision: &Decision<'a>,
    violations: &mut Vec<Violation>,
) {
    let (chain, resources) = asks(facts, decision);
    for queue in chain {
        for resource in &resources {
            let holds = holdings.held(queue, resource);
            if let Some(bound) = bound(queue, resource)
                && holds > bound
            {
                let (gang, queue, resource) = (decision.gang.clone(), queue.name.clone(), resource.clone());
                violations.push(Violation::QuotaExceeded { gang, queue, resource, holds, bound });
            }
        }
    }
}

/// The most a queue may hold: by its limit if that names the resource, else by its quota; nothing of a GPU type that
/// neither names as soon as one of them names any type.
pub(crate) fn bound(queue: &Queue, resource: &ResourceName) -> Option<i64> {
    let limit = queue.limit.as_ref().and_then(|amounts| amounts.get(resource));
    let named = limit.or_else(|| queue.quota.as_ref().and_then(|amounts| amounts.get(resource)));
    let names_gpus = [&queue.limit, &queue.quota].into_iter().flatten().any(|it| !it.gpus.is_empty());
    match resource {
        ResourceName::Gpu(_) if named.is_none() && names_gpus => Some(0),
        _ => named,
    }
}

/// What a queue owns of a resource: its quota. GPUs that it does not name belong to others; CPU and memory that it does
/// not name are not counted.
pub(crate) fn owned(queue: &Queue, resource: &ResourceName) -> Option<i64> {
    let named = queue.quota.as_ref().and_then(|amounts| amounts.get(resource));
    match resource {
        ResourceName::Gpu(_) => Some(named.unwrap_or(0)),
        ResourceName::Cpu | ResourceName::Memory => named,
    }
}

/// The same, and nothing at all (`None`) of GPUs if it names no type of them: then the queues above it own them, or
/// none does.
pub(crate) fn owned_by_name(queue: &Queue, resource: &ResourceName) -> Option<i64> {
    let names_gpus = queue.quota.as_ref().is_some_and(|quota| !quota.gpus.is_empty());
    owned(queue, resource).filter(|_| names_gpus || !matches!(resource, ResourceName::Gpu(_)))
}

/// A gang that borrows leaves the other children of the same parent what they do not lend.
fn within_what_is_lent<'a>(
    facts: &Facts<'a>,
    holdings: &Holdings<'a>,
    decision: &Decision<'a>,
    violations: &mut Vec<Violation>,
) {
    let (chain, resources) = asks(facts, decision);
    for (child, parent) in chain.iter().zip(chain.iter().skip(1)) {
        for resource in &resources {
            if owned(child, resource).is_some_and(|owned| holdings.held(child, resource) <= owned) {
                continue;
            }
            let siblings = facts
                .queues
                .values()
                .filter(|it| it.name != child.name && it.parent.as_ref() == Some(&parent.name));
            let reserves: i64 = siblings.map(|it| reserve(it, holdings.held(it, resource), resource)).sum();
            if reserves == 0 {
                continue;
            }
            let kept = holdings.held(parent, resource) + reserves;
            let bound = bound(parent, resource).unwrap_or_else(|| capacity(facts, resource));
            if kept > bound {
                let (gang, queue, resource) = (decision.gang.clone(), child.name.clone(), resource.clone());
                violations.push(Violation::NotLent { gang, queue, resource, kept, bound });
            }
        }
    }
}

/// What a queue keeps for itself of a quota that it does not use.
fn reserve(queue: &Queue, held: i64, resource: &ResourceName) -> i64 {
    let lent = queue.lend.as_ref().and_then(|amounts| amounts.get(resource));
    match (owned(queue, resource), lent) {
        (Some(owned), Some(lent)) => (owned - lent - held).max(0),
        _ => 0,
    }
}

/// What all nodes have.
fn capacity(facts: &Facts<'_>, resource: &ResourceName) -> i64 {
    let has = |(name, node): (&&NodeName, &&cluster_model::Node)| match resource {
        ResourceName::Gpu(gpu_type) => {
            let is_of_type = facts.gpu_type_of(name) == Some(GpuType::clone(gpu_type));
            if is_of_type { node.allocatable.gpus } else { 0 }
        }
        ResourceName::Cpu => node.allocatable.cpu_millis,
        ResourceName::Memory => node.allocatable.memory_bytes,
    };
    facts.nodes.iter().map(has).sum()
}

fn within_the_highest_tier<'a>(facts: &Facts<'a>, decision: &Decision<'a>, violations: &mut Vec<Violation>) {
    // A gang that runs was started while its tier was allowed.
    if decision.moves || facts.running(decision.gang).next().is_some() {
        return;
    }
    let Some(priority) = facts.members(decision.gang).map(|member| member.pod.priority).max() else { return };
    let (chain, _) = asks(facts, decision);
    let is_too_low = |queue: &&&Queue| queue.highest_tier.is_some_and(|highest| Tier::of(priority) > highest);
    for queue in chain.iter().filter(is_too_low) {
        violations.push(Violation::PriorityTooHigh(decision.gang.clone(), queue.name.clone()));
    }
}

fn within_budget<'a>(facts: &Facts<'a>, decision: &Decision<'a>, violations: &mut Vec<Violation>) {
    // A gang that runs, in whole or in part, was started while there was budget.
    if decision.moves || facts.running(decision.gang).next().is_some() {
        return;
    }
    let (chain, _) = asks(facts, decision);
    for queue in chain.iter().filter(|queue| queue.out_of_budget) {
        violations.push(Violation::OutOfBudget(decision.gang.clone(), queue.name.clone()));
    }
}
