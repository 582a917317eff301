//! No gang gives way without a rule, without a claimant, or for nothing.

use std::collections::BTreeSet;

use cluster_model::plan::{Eviction, EvictionRule, Plan};
use cluster_model::policy::Policy;
use cluster_model::{GangKey, PodKey, Queue, ResourceName, Tier};
use jiff::Timestamp;

use crate::capacity;
use crate::facts::{Facts, Member, amounts};
use crate::gangs::Decision;
use crate::picture::{Occupant, Picture};
use crate::quota::{self, Holdings};
use crate::tidying::is_for_itself;
use crate::violation::Violation;
use crate::{budgets, neighbours, outruns};

pub(crate) fn evictions_are_allowed<'a>(
    facts: &Facts<'a>,
    plan: &'a Plan,
    policy: &Policy,
    violations: &mut Vec<Violation>,
) {
    let mut seen = BTreeSet::new();
    for eviction in &plan.evictions {
        let runs = facts.running(&eviction.gang).next().is_some();
        // A gang that is moved to tidy up moves for its own sake.
        let for_itself = eviction.gang == eviction.claimant && !eviction.moves;
        if !runs || !seen.insert(&eviction.gang) || for_itself {
            violations.push(Violation::NotEvictable(eviction.gang.clone()));
            continue;
        }
        let gets_something = |gang: &GangKey| Decision::all(plan).any(|decision| decision.gang == gang);
        if !gets_something(&eviction.claimant) || (eviction.moves && !gets_something(&eviction.gang)) {
            violations.push(Violation::EvictedForNobody(eviction.gang.clone()));
        }
        is_not_protected(facts, plan, eviction, violations);
        match eviction.why {
            EvictionRule::Priority => by_priority(facts, eviction, policy, violations),
            EvictionRule::Reclaim => by_reclaim(facts, plan, eviction, policy, violations),
            EvictionRule::ExpectedWork => {
                outruns::by_expected_work(facts, plan, eviction, policy, violations);
            }
            EvictionRule::Consolidation => by_consolidation(facts, plan, eviction, policy, violations),
        }
        if eviction.gang != eviction.claimant {
            is_not_for_nothing(facts, &up_to(plan, &eviction.claimant), eviction, policy, violations);
        }
        loss_is_right(facts, plan, eviction, violations);
    }
    queues_that_give_keep_their_quota(facts, plan, policy, violations);
    budgets::budgets_are_kept(facts, plan, violations);
}

/// How much a hold may outlast the grace of gangs that leave. No grace counts for longer than an hour.
const SEEN_GONE_SECONDS: u32 = 60;
const GRACE_SECONDS_MAX: u32 = 3600;

/// Holds are for claimants and for gangs that are moved, and do not last for ever.
pub(crate) fn holds_are_allowed(
    facts: &Facts<'_>,
    plan: &Plan,
    policy: &Policy,
    violations: &mut Vec<Violation>,
) {
    let leave = plan.evictions.iter().map(|it| &it.gang).chain(facts.leaving_for.keys().copied());
    let graces = leave.flat_map(|gang| facts.members(gang)).map(|member| member.pod.grace_seconds);
    let gone_after = graces.max().unwrap_or(0).min(GRACE_SECONDS_MAX) + SEEN_GONE_SECONDS;
    let lasts_max = i64::from(policy.eviction.hold_seconds.max(gone_after));
    for hold in &plan.holds {
        let has_reason = plan
            .evictions
            .iter()
            .any(|it| it.claimant == hold.gang || (it.moves && it.gang == hold.gang))
            // A hold may be renewed, or moved.
            || facts.held.contains_key(&hold.gang)
            // Room that others are about to leave may be held as well.
            || !plan.evictions.is_empty()
            || !facts.leaving_for.is_empty();
        let lasts = hold.expires.as_second() - plan.made_at.as_second();
        if !has_reason || lasts <= 0 || lasts > lasts_max {
            violations.push(Violation::WrongHold(hold.gang.clone()));
        }
    }
}

fn is_not_protected(facts: &Facts<'_>, plan: &Plan, eviction: &Eviction, violations: &mut Vec<Violation>) {
    let gang = &eviction.gang;
    let mut protected = |by| violations.push(Violation::Protected { gang: gang.clone(), by });
    if facts.members(gang).any(|member| member.pod.terms.eviction.never) {
        protected("it is never evicted");
    }
    if facts.leaving_for.contains_key(gang) {
        protected("it is evicted already");
    }
    if facts.held.contains_key(gang) && !eviction.moves {
        protected("it is held, and about to start");
    }
    if plan.placements.iter().any(|placement| placement.gang == *gang) {
        protected("it starts in this plan");
    }
}

fn by_priority(facts: &Facts<'_>, eviction: &Eviction, policy: &Policy, violations: &mut Vec<Violation>) {
    let mut wrong = |what| violations.push(Violation::NotTheRule { gang: eviction.gang.clone(), what });
    if !policy.eviction.by_priority {
        wrong("the policy evicts none by priority");
    }
    let lead = facts.lead(&eviction.claimant);
    if lead.is_some_and(|pod| !pod.preempts) {
        wrong("the claimant's priority makes no gang give way");
    }
    let claims = lead.map(|pod| pod.priority);
    let gives = facts.members(&eviction.gang).map(|member| member.pod.priority).max();
    if claims <= gives {
        wrong("it is of no lower priority");
    }
    let queue =
        |gang: &GangKey| facts.lead(gang).and_then(|pod| facts.queue_of(pod)).map(|queue| &queue.name);
    let is_tier_below = gives.map(Tier::of) < claims.map(Tier::of);
    if queue(&eviction.claimant) != queue(&eviction.gang) && !is_tier_below {
        wrong("within a tier no gang takes from another queue by priority");
    }
    if eviction.moves {
        wrong("a moved gang is not evicted by priority");
    }
}

fn by_reclaim<'a>(
    facts: &Facts<'a>,
    plan: &'a Plan,
    eviction: &'a Eviction,
    policy: &Policy,
    violations: &mut Vec<Violation>,
) {
    let mut wrong = |what| violations.push(Violation::NotTheRule { gang: eviction.gang.clone(), what });
    if !policy.eviction.reclaim {
        wrong("no queue takes back its quota");
    }
    let (Some(claims), Some(gives)) = (facts.lead(&eviction.claimant), facts.lead(&eviction.gang)) else {
        return;
    };
    let (Some(from), Some(to)) = (facts.queue_of(gives), facts.queue_of(claims)) else {
        return wrong("one of the two has no queue");
    };
    if branch(facts, from, to).is_none() {
        wrong("one of the two queues is above the other");
    }
    if Tier::of(gives.priority) > Tier::of(claims.priority) {
        wrong("it is of a higher tier");
    }
    if !is_within_quota(facts, plan, eviction, from, to) {
        wrong("the claimant's queue would hold more than its own");
    }
    let waited = plan.made_at.as_second() - claims.created.as_second();
    if waited < i64::from(to.reclaim.grace_seconds) {
        wrong("the grace has not passed");
    }
    let started = facts.members(&eviction.gang).filter_map(|member| member.started).min();
    let ran = started.map_or(0, |started| plan.made_at.as_second() - started.as_second());
    if ran < i64::from(from.reclaim.min_run_seconds) {
        wrong("it has not run for as long as its queue protects it");
    }
}

/// Whether the queues that take would hold no more than they own of what the claimant gets. A queue with credit in
/// its bank counts as if it did.
fn is_within_quota<'a>(
    facts: &Facts<'a>,
    plan: &'a Plan,
    eviction: &'a Eviction,
    from: &'a Queue,
    to: &'a Queue,
) -> bool {
    let mut gone = facts.leaving(plan.made_at);
    gone.extend(plan.evictions.iter().map(|it| &it.gang));
    let decided: BTreeSet<&PodKey> =
        Decision::all(plan).flat_map(|it| it.members).map(|member| &member.pod).collect();
    let mut holdings = Holdings::without(facts, &gone, &decided, plan.made_at);
    let gets: Vec<_> = Decision::all(plan)
        .filter(|it| *it.gang == eviction.claimant)
        .flat_map(|it| it.pods(facts))
        .collect();
    for (pod, node) in &gets {
        holdings.add(facts, pod, node, 1);
    }
    let taken: BTreeSet<ResourceName> =
        gets.iter().flat_map(|(pod, node)| amounts(facts, pod, node)).map(|(resource, _)| resource).collect();
    branch(facts, to, from).unwrap_or_default().iter().all(|queue| {
        let within = |resource: &ResourceName| {
            quota::owned_by_name(queue, resource).is_none_or(|owned| holdings.held(queue, resource) <= owned)
        };
        facts.has_credit(queue) || taken.iter().all(within)
    })
}

fn by_consolidation(
    facts: &Facts<'_>,
    plan: &Plan,
    eviction: &Eviction,
    policy: &Policy,
    violations: &mut Vec<Violation>,
) {
    let mut wrong = |what| violations.push(Violation::NotTheRule { gang: eviction.gang.clone(), what });
    if !eviction.moves {
        wrong("a gang that makes room by consolidation is moved");
    }
    if facts.terms(&eviction.gang).is_none_or(|terms| !terms.eviction.checkpoints) {
        wrong("it does not save its state");
    }
    if facts.running(&eviction.gang).any(|(pod, _)| !pod.comes_back) {
        wrong("nobody makes it anew");
    }
    if is_for_itself(eviction) {
        return;
    }
    let same = |it: &&Eviction| it.why == EvictionRule::Consolidation && it.claimant == eviction.claimant;
    if plan.evictions.iter().filter(same).count() > policy.consolidation.moves_max as usize {
        wrong("more are moved for one claimant than may");
    }
    let waited = facts
        .lead(&eviction.claimant)
        .map_or(0, |claims| plan.made_at.as_second() - claims.created.as_second());
    if waited < i64::from(policy.consolidation.after_seconds) {
        wrong("the claimant has not waited for long enough");
    }
}

/// The queues at and above `from` that are not above `to`, the innermost first: those that give. None if one of the
/// two is above the other, because then nothing changes hands.
fn branch<'a>(facts: &Facts<'a>, from: &'a Queue, to: &'a Queue) -> Option<Vec<&'a Queue>> {
    let above: BTreeSet<_> = facts.chain(to)?.iter().map(|queue| &queue.name).collect();
    let branch: Vec<&Queue> =
        facts.chain(from)?.into_iter().filter(|queue| !above.contains(&queue.name)).collect();
    (!branch.is_empty()).then_some(branch)
}

/// Once all gangs that give borrowed resources are gone, their queue still holds its quota of everything that was
/// taken.
fn queues_that_give_keep_their_quota<'a>(
    facts: &Facts<'a>,
    plan: &'a Plan,
    policy: &Policy,
    violations: &mut Vec<Violation>,
) {
    let is_borrowed = |it: &&Eviction| match it.why {
        EvictionRule::Reclaim | EvictionRule::ExpectedWork => true,
        EvictionRule::Priority => !may_take_quota(facts, it, policy),
        EvictionRule::Consolidation => false,
    };
    let victims: Vec<&Eviction> = plan.evictions.iter().filter(is_borrowed).collect();
    if victims.is_empty() {
        return;
    }
    let mut gone = facts.leaving(plan.made_at);
    gone.extend(victims.iter().map(|it| &it.gang));
    let holdings = Holdings::without(facts, &gone, &BTreeSet::new(), plan.made_at);
    for eviction in victims {
        let (Some(claims), Some(gives)) = (facts.lead(&eviction.claimant), facts.lead(&eviction.gang)) else {
            continue;
        };
        let (Some(from), Some(to)) = (facts.queue_of(gives), facts.queue_of(claims)) else { continue };
        let taken: BTreeSet<ResourceName> = facts
            .running(&eviction.gang)
            .flat_map(|(pod, node)| amounts(facts, pod, node))
            .map(|(resource, _)| resource)
            .collect();
        let gpus = taken.iter().filter(|resource| matches!(resource, ResourceName::Gpu(_)));
        // A gang with GPUs is judged by them. A reclaim and expected work are judged by GPUs only.
        let judged: Vec<&ResourceName> = match (gpus.clone().next(), eviction.why) {
            (None, EvictionRule::Priority) => taken.iter().collect(),
            _ => gpus.collect(),
        };
        // Between gangs of one queue nothing changes hands by a reclaim; by expected work it does, if it is borrowed.
        let within_one = || if eviction.why == EvictionRule::ExpectedWork { vec![from] } else { vec![] };
        for queue in branch(facts, from, to).unwrap_or_else(within_one) {
            let below = |resource: &ResourceName| {
                quota::owned_by_name(queue, resource)
                    .is_some_and(|owned| holdings.held(queue, resource) < owned)
            };
            // What is held beyond the quota on credit is not borrowed.
            if facts.has_credit(queue) || judged.iter().copied().any(below) {
                let (gang, queue) = (eviction.gang.clone(), queue.name.clone());
                violations.push(Violation::BelowQuota { gang, queue });
            }
        }
    }
}

/// Whether an eviction by priority may take what the victim's queue owns: within one queue, or if the policy lets the
/// claimant's tier do so.
fn may_take_quota(facts: &Facts<'_>, eviction: &Eviction, policy: &Policy) -> bool {
    let (Some(claims), Some(gives)) = (facts.lead(&eviction.claimant), facts.lead(&eviction.gang)) else {
        return true;
    };
    let queue = |pod| facts.queue_of(pod).map(|queue| &queue.name);
    let gives_priority = facts.members(&eviction.gang).map(|member| member.pod.priority).max();
    let (claims_tier, gives_tier) =
        (Tier::of(claims.priority), Tier::of(gives_priority.unwrap_or(gives.priority)));
    queue(claims) == queue(gives) || policy.eviction.takes_quota.has(claims_tier, gives_tier)
}

/// The plan at the time when room was made for a claimant. Later claimants have others evicted, and in hindsight that
/// might have been enough.
fn up_to(plan: &Plan, claimant: &GangKey) -> Plan {
    let mut before = plan.clone();
    let last = plan.evictions.iter().rposition(|it| it.claimant == *claimant);
    before.evictions.truncate(last.map_or(0, |last| last + 1));
    let is_later = |gang: &GangKey| {
        let is_among = |evictions: &[Eviction]| {
            evictions.iter().any(|it| it.claimant == *gang || (it.moves && it.gang == *gang))
        };
        is_among(&plan.evictions) && !is_among(&before.evictions)
    };
    before.holds.retain(|hold| !is_later(&hold.gang));
    before
}

/// With the victim still there, what the claimant gets (or a gang that is moved for it) does not fit.
fn is_not_for_nothing<'a>(
    facts: &Facts<'a>,
    plan: &'a Plan,
    eviction: &'a Eviction,
    policy: &Policy,
    violations: &mut Vec<Violation>,
) {
    let beneficiaries: BTreeSet<&GangKey> = plan
        .evictions
        .iter()
        .filter(|it| it.claimant == eviction.claimant && it.moves && it.gang != eviction.gang)
        .map(|it| &it.gang)
        .chain([&eviction.claimant])
        .collect();
    let is_judged = |it: &Occupant<'a>| it.is_new && beneficiaries.contains(&it.pod.gang);
    let mut found = Vec::new();
    let mut picture = Picture::later(facts, plan, Some(&eviction.gang));
    if eviction.moves {
        // It would stay where it is, so its hold is not needed.
        for occupants in picture.on_node.values_mut() {
            occupants.retain(|it| !(it.is_new && it.pod.gang == eviction.gang));
        }
    }
    capacity::nodes_are_not_over(facts, &picture, &is_judged, &mut found);
    capacity::power_is_capped(facts, &picture, &Picture::before(facts), policy, &mut found);
    neighbours::pods_keep_apart(facts, &picture, &is_judged, &mut found);
    let mut before = picture;
    for occupants in before.on_node.values_mut() {
        occupants.retain(|it| !is_judged(it));
    }
    let holds = plan.holds.iter().filter(|hold| beneficiaries.contains(&hold.gang));
    let members = holds.flat_map(|hold| &hold.members);
    neighbours::neighbours_let_them_start(facts, &before, members, &mut found);
    if found.is_empty() && !quota_needs_it(facts, plan, eviction) && !somebody_gathers(facts, plan, policy) {
        let (gang, claimant) = (eviction.gang.clone(), eviction.claimant.clone());
        violations.push(Violation::EvictedForNothing { gang, claimant });
    }
}

/// Whether a gang waited for so long that it may keep room that the plan does not show.
fn somebody_gathers(facts: &Facts<'_>, plan: &Plan, policy: &Policy) -> bool {
    let since = plan.made_at.as_second() - i64::from(policy.backfill.gather_after_seconds);
    policy.backfill.gather_max > 0
        && facts
            .pods
            .values()
            .any(|member| facts.waits(&member.pod.key) && member.pod.created.as_second() <= since)
}

/// Whether, with the victim still there, a queue above the claimant would hold more than it may.
fn quota_needs_it<'a>(facts: &Facts<'a>, plan: &'a Plan, eviction: &'a Eviction) -> bool {
    let mut gone = facts.leaving(plan.made_at);
    gone.extend(plan.evictions.iter().map(|it| &it.gang).filter(|gang| **gang != eviction.gang));
    let decided: BTreeSet<&PodKey> =
        Decision::all(plan).flat_map(|it| it.members).map(|member| &member.pod).collect();
    let mut holdings = Holdings::without(facts, &gone, &decided, plan.made_at);
    for decision in Decision::all(plan) {
        for (pod, node) in decision.pods(facts) {
            holdings.add(facts, pod, node, 1);
        }
    }
    let mut found = Vec::new();
    for decision in Decision::all(plan).filter(|it| *it.gang == eviction.claimant) {
        quota::has_room(facts, &holdings, &decision, &mut found);
    }
    !found.is_empty()
}

/// GPUs times the time since the gang's last checkpoint, if it saves its state, else since the start.
fn loss_is_right(facts: &Facts<'_>, plan: &Plan, eviction: &Eviction, violations: &mut Vec<Violation>) {
    let seconds = |since: Timestamp| u64::try_from(plan.made_at.as_second() - since.as_second()).unwrap_or(0);
    let runs = |it: &Member<'_>| it.runs_on().is_some() && !it.pod.terminating;
    let mut gang_saved = None;
    for member in facts.members(&eviction.gang).filter(runs) {
        if member.pod.terms.eviction.checkpoints {
            gang_saved = gang_saved.max(member.pod.checkpointed);
        }
    }
    let lost = |member: Member<'_>| {
        let saved = gang_saved.filter(|_| member.pod.terms.eviction.checkpoints);
        let since = saved.max(member.pod.started);
        u64::try_from(member.pod.requests.gpus).unwrap_or(0) * since.map_or(0, seconds)
    };
    let is: u64 = facts.members(&eviction.gang).filter(runs).map(lost).sum();
    if is != eviction.lost_gpu_seconds {
        let (gang, said) = (eviction.gang.clone(), eviction.lost_gpu_seconds);
        violations.push(Violation::LossMiscounted { gang, said, is });
    }
}
