//! Which gangs may be made to give way for which.

use std::collections::BTreeSet;

use cluster_model::plan::EvictionRule;
use cluster_model::{ClusterState, GangKey, Queue, ResourceName, Resources, Tier};
use jiff::{SignedDuration, Timestamp};

use super::ground::{Candidate, GangIndex, Ground, QueueIndex};
use super::taken::{self, Taken};
use crate::gang::Request;
use cluster_model::policy::{EvictionPolicy, Outruns, TierPairs};

/// What all running gangs have in common. Most claims fail on it, before any gang is looked at as a victim.
#[derive(Clone, Copy)]
pub(super) struct Runners {
    /// Whether any of them saves its state: only such a gang may be moved, or gives way by expected work.
    pub save: bool,
    priority_min: i32,
}

impl Runners {
    pub fn read(state: &ClusterState) -> Self {
        let leads = state.running_gangs().filter_map(|key| Some(state.pod(state.gang(key)?.lead()).pod()));
        leads.fold(Self { save: false, priority_min: i32::MAX }, |all, lead| Self {
            save: all.save || lead.terms.eviction.checkpoints,
            priority_min: all.priority_min.min(lead.priority),
        })
    }

    /// Whether a rule might let the gang take anything from them.
    pub fn might_give_way(
        self,
        state: &ClusterState,
        request: &Request,
        resource: &ResourceName,
        policy: &EvictionPolicy,
        now: Timestamp,
    ) -> bool {
        let Some(gang) = state.gang(&request.key) else { return false };
        let lead = state.pod(gang.lead()).pod();
        let reclaims = || reclaims_at(state, request).is_none_or(|at| at <= now);
        policy.by_priority && lead.preempts && self.priority_min < lead.priority
            || self.save && expected(state, request, policy, now).is_some()
            || policy.reclaim && reclaims() && is_entitled(state, request, resource)
    }
}

/// What one gang may take from others, and by which rule.
#[derive(Clone)]
pub(super) struct Claim {
    pub key: GangKey,
    /// Its queue and those above.
    chain: Vec<QueueIndex>,
    priority: i32,
    /// What changes hands: GPUs of one type, or CPU for a gang without GPUs.
    pub resource: ResourceName,
    by_priority: bool,
    /// Tiers for which it may also take what another queue owns.
    takes_quota: TierPairs,
    entitled: Option<Entitled>,
    /// How long the claimant is expected to run, and its GPUs, if it claims by that.
    expected: Option<(i64, i64)>,
    outruns: Outruns,
    /// If a queue is too full: only gangs below it help.
    pub below: Option<QueueIndex>,
    /// Gangs that are left alone, to see whether others are better victims.
    pub spared: BTreeSet<GangIndex>,
    /// Whether others are only moved: then any gang that saves its state may be.
    moves: bool,
    now: Timestamp,
}

/// Up to which level the queues of a claimant are within what they own, this gang included.
#[derive(Clone, Copy)]
struct Entitled {
    /// The first level that owns anything.
    first: usize,
    /// The first level that would hold more than it owns.
    end: usize,
}

/// A claim, and which gangs already give way for it.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub claim: &'a Claim,
    pub state: &'a ClusterState,
    pub ground: &'a Ground,
    /// Gangs that give way already.
    pub taken: &'a Taken,
    /// Further gangs that would, on the node that is looked at.
    pub chosen: &'a [GangIndex],
}

impl Claim {
    /// What a gang may claim.
    pub fn of(
        state: &ClusterState,
        ground: &mut Ground,
        request: &Request,
        resource: ResourceName,
        policy: &EvictionPolicy,
        now: Timestamp,
    ) -> Self {
        let gang = state.gang(&request.key).expect("a gang that waits is known");
        let lead = state.pod(gang.lead()).pod();
        let chain = ground.chain(state, gang.lead());
        let may_reclaim = policy.reclaim && reclaims_at(state, request).is_none_or(|at| at <= now);
        Self {
            key: request.key.clone(),
            entitled: may_reclaim.then(|| entitled(state, request, &resource)).flatten(),
            chain,
            priority: lead.priority,
            resource,
            by_priority: policy.by_priority && lead.preempts,
            takes_quota: policy.takes_quota,
            expected: expected(state, request, policy, now),
            outruns: policy.outruns,
            below: None,
            spared: BTreeSet::new(),
            moves: false,
            now,
        }
    }

    /// The claim of a gang to have others moved.
    pub fn to_move(key: GangKey, resource: ResourceName) -> Self {
        Self {
            key,
            chain: Vec::new(),
            priority: i32::MAX,
            resource,
            by_priority: false,
            takes_quota: TierPairs::default(),
            entitled: None,
            expected: None,
            outruns: Outruns::default(),
            below: None,
            spared: BTreeSet::new(),
            moves: true,
            now: Timestamp::MIN,
        }
    }

    /// What counts for a node if a gang leaves it: what is lost, or how much is moved.
    pub fn share_of(&self, gang: &Candidate, here: &Resources, needed_gpus: i64) -> u64 {
        if self.moves {
            // The smaller move is the better one; what is lost decides between moves of one size.
            let gpus = u64::try_from(gang.holds.gpus).unwrap_or(0);
            return gpus
                .saturating_mul(1 << 32)
                .saturating_add(gang.lost_gpu_seconds.min(u64::from(u32::MAX)));
        }
        gang.share_of(here, needed_gpus)
    }

    /// Whether the floors of nodes bound what it costs.
    pub fn has_floors(&self) -> bool {
        !self.moves
    }

    pub fn is_empty(&self) -> bool {
        !self.by_priority && self.entitled.is_none() && self.expected.is_none()
    }

    /// The queues of a victim that the claimant is not in, the innermost first: those that would lose something.
    fn branch_of<'a>(&self, victim: &'a Candidate) -> &'a [QueueIndex] {
        let length = victim.chain.iter().take_while(|queue| !self.chain.contains(queue)).count();
        &victim.chain[..length]
    }

    /// By which rules the gang claims.
    pub fn rules(&self) -> Rules {
        let (by_priority, reclaims) = (self.by_priority, self.entitled.is_some());
        Rules { priority: self.priority, by_priority, reclaims, expected: self.expected }
    }

    /// Whether the victim holds what the claimant takes. A gang with GPUs is judged by its quota of GPUs; whether its
    /// CPU is borrowed does not matter.
    fn changes_hands(&self, victim: &Candidate) -> bool {
        let is_of_gpus = matches!(self.resource, ResourceName::Gpu(_));
        (victim.holds.gpus == 0 || is_of_gpus) && victim.held(&self.resource) > 0
    }
}

impl Asking<'_> {
    /// The rule by which a gang gives way, after those in `taken` and `chosen` did; none if it need not.
    pub fn rule(&self, index: GangIndex) -> Option<EvictionRule> {
        let Self { claim, state, ground, taken, chosen } = *self;
        let victim = &ground.gangs[index];
        let helps = claim.below.is_none_or(|queue| victim.chain.contains(&queue));
        if victim.is_gone || !helps || victim.key == claim.key || claim.spared.contains(&index) {
            return None;
        }
        let rule = self.rule_for(victim)?;
        if !taken::allow(ground, taken, chosen, index) {
            return None;
        }
        // A gang that gave way once for another is not asked again by the same one. This comes last, because most are
        // refused for less.
        (!state.was_evicted_for(&victim.key, &claim.key)).then_some(rule)
    }

    fn rule_for(&self, victim: &Candidate) -> Option<EvictionRule> {
        let claim = self.claim;
        if claim.moves {
            return victim.is_movable.then_some(EvictionRule::Consolidation);
        }
        if self.may_go_before(victim) {
            return Some(EvictionRule::Priority);
        }
        if self.may_reclaim(victim) {
            return Some(EvictionRule::Reclaim);
        }
        self.may_outrun(victim).then_some(EvictionRule::ExpectedWork)
    }

    /// Whether the claimant comes first by its priority. From another queue it takes only what that queue borrows,
    /// unless the policy lets its tier take quota.
    fn may_go_before(&self, victim: &Candidate) -> bool {
        let claim = self.claim;
        if !claim.by_priority || victim.priority >= claim.priority {
            return false;
        }
        if victim.chain.first() == claim.chain.first() {
            return true;
        }
        let (claims, gives) = (Tier::of(claim.priority), Tier::of(victim.priority));
        gives < claims && (claim.takes_quota.has(claims, gives) || self.borrows_all(victim))
    }

    /// Whether all that a gang holds is borrowed, by each queue that would lose it to the claimant.
    fn borrows_all(&self, victim: &Candidate) -> bool {
        victim.judged_by().all(|resource| self.borrows(victim, self.claim.branch_of(victim), &resource))
    }

    fn may_outrun(&self, victim: &Candidate) -> bool {
        let (claim, state) = (self.claim, self.state);
        let Some((seconds, gpus)) = claim.expected else { return false };
        let (Some(started), Some(gang)) = (victim.started, state.gang(&victim.key)) else { return false };
        let ran = claim.now.as_second() - started.as_second();
        let waited = started.as_second() - gang.waiting_since().as_second();
        if !victim.is_movable
            || !claim.changes_hands(victim)
            || victim.priority > claim.priority
            || waited > i64::from(claim.outruns.waited_seconds_max)
            || ran < waited.max(i64::from(claim.outruns.ran_seconds_min))
        {
            return false;
        }
        // Run times have heavy tails: a gang that ran for long is expected to run for as long again.
        let usual = state.history().expected_seconds(&victim.key.namespace, victim.holds.gpus, claim.now);
        let rest = usual.max(ran);
        let work = |seconds: i64, gpus: i64| seconds.saturating_mul(gpus.max(1));
        let times = i64::from(claim.outruns.times);
        if rest < seconds.saturating_mul(times)
            || work(rest, victim.holds.gpus) < work(seconds, gpus).saturating_mul(times)
        {
            return false;
        }
        // Within one queue nothing changes hands, but what it owns is not taken from its own gangs either.
        let queues = victim.chain.get(..claim.branch_of(victim).len().max(1));
        queues.is_some_and(|queues| self.borrows(victim, queues, &claim.resource))
    }

    fn may_reclaim(&self, victim: &Candidate) -> bool {
        let claim = self.claim;
        let Some(entitled) = &claim.entitled else { return false };
        // A gang of a higher tier would come before the claimant, and take it back.
        if Tier::of(victim.priority) > Tier::of(claim.priority) || !claim.changes_hands(victim) {
            return false;
        }
        // Below the queue where the two chains meet, something changes hands.
        let branch = claim.branch_of(victim);
        let meets = victim.chain.get(branch.len());
        let own = claim.chain.iter().take_while(|queue| Some(*queue) != meets).count();
        if branch.is_empty() || own <= entitled.first || own > entitled.end {
            return false;
        }
        self.has_run(victim) && self.borrows(victim, branch, &claim.resource)
    }

    /// Whether a gang ran for as long as its queue protects it.
    fn has_run(&self, victim: &Candidate) -> bool {
        let queue = victim.chain.first().and_then(|queue| self.state.queue(&self.ground.queues[*queue]));
        let protected = queue.map_or(0, |(queue, _)| i64::from(queue.reclaim.min_run_seconds));
        let ran = victim.started.map_or(0, |started| self.claim.now.as_second() - started.as_second());
        ran >= protected
    }

    /// Whether each of these queues borrows at least what the victim holds, after the others gave way.
    fn borrows(&self, victim: &Candidate, queues: &[QueueIndex], resource: &ResourceName) -> bool {
        let Self { claim, state, ground, taken, chosen } = *self;
        queues.iter().all(|queue| {
            let with_others = ground.held_in(*queue, chosen, resource);
            let already = if *resource == claim.resource {
                taken.by_queue.get(queue).copied().unwrap_or(0)
            } else {
                ground.held_in(*queue, &taken.gangs, resource)
            };
            spare(state, ground, *queue, resource) >= victim.held(resource) + with_others + already
        })
    }
}

/// The rules by which a gang claims. Gangs with the same rules may take from the same gangs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Rules {
    priority: i32,
    by_priority: bool,
    reclaims: bool,
    expected: Option<(i64, i64)>,
}

impl Rules {
    pub fn reclaims(&self) -> bool {
        self.reclaims
    }
}

/// When the next gang may have to give back what it borrowed: its protection ends, or the bank that pays for it is empty.
pub(super) fn protection_ends(state: &ClusterState, ground: &Ground, now: Timestamp) -> Option<Timestamp> {
    let protected_until = |gang: &Candidate| {
        let (queue, _) = state.queue(&ground.queues[*gang.chain.first()?])?;
        let protected = SignedDuration::from_secs(i64::from(queue.reclaim.min_run_seconds));
        gang.started?.checked_add(protected).ok()
    };
    let protections = ground.gangs.iter().filter(|gang| !gang.is_gone).filter_map(protected_until);
    let banks = ground.queues.iter().filter_map(|queue| state.bank_empty_at(queue));
    protections.chain(banks).filter(|at| *at > now).min()
}

/// When a gang begins to claim by expected work.
pub(super) fn outruns_at(
    state: &ClusterState,
    request: &Request,
    policy: &EvictionPolicy,
) -> Option<Timestamp> {
    let after = SignedDuration::from_secs(i64::from(policy.outruns.after_seconds));
    state.gang(&request.key)?.waiting_since().checked_add(after).ok()
}

fn expected(
    state: &ClusterState,
    request: &Request,
    policy: &EvictionPolicy,
    now: Timestamp,
) -> Option<(i64, i64)> {
    outruns_at(state, request, policy).filter(|at| policy.by_expected_work && *at <= now)?;
    let namespace = &request.first_pod.namespace;
    let usual = state.history().expected_seconds(namespace, request.needs.gpus, now);
    let limit = request.terms.time_limit_seconds.map_or(i64::MAX, i64::from);
    Some((usual.min(limit), request.needs.gpus))
}

/// When the grace of a gang's queue has passed for it.
pub(super) fn reclaims_at(state: &ClusterState, request: &Request) -> Option<Timestamp> {
    let (queue, _) = state.queue(request.queue.as_ref()?)?;
    let grace = SignedDuration::from_secs(i64::from(queue.reclaim.grace_seconds));
    state.gang(&request.key)?.waiting_since().checked_add(grace).ok()
}

/// Whether the gang's queues would own all of what they would hold, level by level.
pub(super) fn is_entitled(state: &ClusterState, request: &Request, resource: &ResourceName) -> bool {
    entitled(state, request, resource).is_some()
}

fn entitled(state: &ClusterState, request: &Request, resource: &ResourceName) -> Option<Entitled> {
    let lead = state.pod(state.gang(&request.key)?.lead()).pod();
    let chain = state.queue_chain_of(lead).ok()?;
    let asks = [
        (resource.clone(), if matches!(resource, ResourceName::Gpu(_)) { request.needs.gpus } else { 0 }),
        (ResourceName::Cpu, request.needs.cpu_millis),
        (ResourceName::Memory, request.needs.memory_bytes),
    ];
    let is_within = |queue: &Queue, usage: &cluster_model::QueueUsage| {
        state.bank_gpu_seconds(&queue.name) > 0
            || asks.iter().filter(|(_, asks)| *asks > 0).all(|(resource, asks)| {
                owned(queue, resource).is_none_or(|owned| usage.held(resource) + asks <= owned)
            })
    };
    let first = chain.iter().position(|(queue, _)| owned(queue, resource).is_some())?;
    let end = chain.iter().position(|(queue, usage)| !is_within(queue, usage)).unwrap_or(chain.len());
    (first < end).then_some(Entitled { first, end })
}

/// What a queue holds beyond what it owns; everything, if it owns nothing by name. With credit in its bank it borrows
/// nothing.
fn spare(state: &ClusterState, ground: &Ground, queue: QueueIndex, resource: &ResourceName) -> i64 {
    let Some((object, usage)) = state.queue(&ground.queues[queue]) else { return 0 };
    if state.bank_gpu_seconds(&object.name) > 0 {
        return 0;
    }
    let held = usage.held(resource) - ground.fresh(queue, resource);
    owned(object, resource).map_or(i64::MAX, |owned| held - owned)
}

/// What a queue owns of a resource: nothing of a GPU type that it does not name as soon as it names any.
fn owned(queue: &Queue, resource: &ResourceName) -> Option<i64> {
    let quota = queue.quota.as_ref()?;
    let is_other_type = matches!(resource, ResourceName::Gpu(_)) && !quota.gpus.is_empty();
    quota.get(resource).or_else(|| is_other_type.then_some(0))
}
