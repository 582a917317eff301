//! What we decide, carried out on the state. The caller sends what these functions return to the cluster.
//!
//! ```text
//!   plan ─► commit ─┬─► the state as it will be when all of it is done
//!                   └─► effects, in order: holds deleted, gangs bound, holds written, gangs told to leave
//!
//!   holds that an earlier leader wrote ─► take_up_holds ─► the same, for what of them is still good
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::gangs::{Gang, GangSlot};
use crate::names::{GangKey, PodKey};
use crate::plan::{
    Committed, Departure, Effect, EvictCause, EvictRequest, Eviction, EvictionRule, GangPlacement, Hold,
    HoldEnd, HoldRecord, MemberPlacement, Plan, VictimRecord,
};
use crate::pods::Place;
use crate::policy::Policy;
use crate::state::{AssumeError, ClusterState};

impl ClusterState {
    /// Carries a plan out on the state: victims are marked, nodes are held for gangs that wait for them, and gangs that start
    /// are assumed to be on their nodes. Returns what to do in the cluster for it.
    pub fn commit(&mut self, plan: &Plan) -> Committed {
        let mut committed = Committed::default();
        self.end_holds(plan, &mut committed.effects);
        let ended = committed.effects.len();
        self.begin_holds(plan, &mut committed);
        let mut binds = Vec::with_capacity(plan.placements.len());
        for placement in &plan.placements {
            match self.assume_gang(placement) {
                Ok(()) => binds.push(Effect::Bind(placement.clone())),
                Err(misfit) => committed.misfits.push(misfit),
            }
        }
        // Gangs that can start now do not wait for the others.
        committed.effects.splice(ended..ended, binds);
        committed
    }

    /// Releases the holds that have run out, and those that the plan gives up.
    fn end_holds(&mut self, plan: &Plan, effects: &mut Vec<Effect>) {
        let is_over = |(gang, until): (&GangKey, Timestamp)| (until <= plan.made_at).then(|| gang.clone());
        let expired: Vec<GangKey> = self.held_gangs().filter_map(is_over).collect();
        let expired = expired.into_iter().map(|gang| (gang, true));
        let given_up = plan.released.iter().map(|gang| (gang.clone(), false));
        // A gang that starts keeps its object until it is bound, and one that is held anew gets another.
        let starts: BTreeSet<&GangKey> = plan.placements.iter().map(|it| &it.gang).collect();
        let goes_on = |gang: &GangKey| starts.contains(gang) || plan.holds.iter().any(|it| it.gang == *gang);
        for (gang, has_expired) in expired.chain(given_up) {
            let Some(member) = self.held_members(&gang).next().map(|id| self.pod(id).pod().key.clone())
            else {
                continue;
            };
            self.release(&gang);
            if !goes_on(&gang) {
                let end = if has_expired { HoldEnd::Expired { member } } else { HoldEnd::GivenUp };
                effects.push(Effect::DeleteHold { gang, end });
            }
        }
    }

    /// Holds nodes for claimants, and marks their victims.
    fn begin_holds(&mut self, plan: &Plan, committed: &mut Committed) {
        // Read before anything is held: a gang that moves is then on its new nodes as well.
        let leaving: Vec<(&Eviction, Vec<PodKey>)> =
            plan.evictions.iter().map(|it| (it, self.pods_to_leave(&it.gang))).collect();
        for eviction in &plan.evictions {
            self.mark_leaving(&eviction.gang, &Departure::For(eviction.claimant.clone()));
        }
        let mut misfits = BTreeSet::new();
        for hold in &plan.holds {
            let for_it: Vec<_> =
                leaving.iter().filter(|(eviction, _)| eviction.claimant == hold.gang).collect();
            match self.hold(hold) {
                Ok(()) => {
                    let victims =
                        for_it.iter().map(|(eviction, pods)| VictimRecord::new(&eviction.gang, pods));
                    let rule = for_it.first().map(|(eviction, _)| eviction.why);
                    let record = HoldRecord::new(hold, rule, victims.collect());
                    committed.effects.push(Effect::WriteHold(record));
                }
                Err(misfit) => {
                    self.release(&hold.gang);
                    misfits.insert(&hold.gang);
                    committed.misfits.push(misfit);
                }
            }
        }
        let expires: BTreeMap<&GangKey, Timestamp> =
            plan.holds.iter().map(|it| (&it.gang, it.expires)).collect();
        for (eviction, pods) in leaving {
            if eviction_holds(eviction).any(|gang| misfits.contains(gang)) {
                self.spare(&eviction.gang);
                continue;
            }
            let after = eviction_holds(eviction).filter_map(|gang| Some((gang.clone(), *expires.get(gang)?)));
            let (claimant, rule) = (eviction.claimant.clone(), eviction.why);
            let cause = EvictCause::Claim { claimant, rule, after: after.collect() };
            committed.effects.push(Effect::Evict(EvictRequest { gang: eviction.gang.clone(), pods, cause }));
        }
    }

    /// Assumes all members of a gang, or none if one does not fit.
    fn assume_gang(&mut self, placement: &GangPlacement) -> Result<(), AssumeError> {
        for member in &placement.members {
            self.may_assume(member)?;
        }
        for member in &placement.members {
            self.assume_member(member)?;
        }
        Ok(())
    }

    /// Marks a gang as told to run elsewhere. Returns what to do for it.
    pub fn begin_move(&mut self, gang: &GangKey, why: &str) -> Effect {
        let pods = self.pods_to_leave(gang);
        // Nobody takes this for its end, and nobody else asks it to leave.
        self.mark_leaving(gang, &Departure::Move);
        Effect::Evict(EvictRequest {
            gang: gang.clone(),
            pods,
            cause: EvictCause::Move { why: why.to_owned() },
        })
    }

    /// Goes on with holds that an earlier leader left: those that are still good are held again, and their victims are told
    /// again, which does no harm. The others are deleted, and a victim that was not told yet stays: so does one that the policy
    /// of now, or its own word, protects. To be called once, when everything is known and nothing is planned.
    pub fn take_up_holds(&mut self, left: Vec<HoldRecord>, policy: &Policy, now: Timestamp) -> Vec<Effect> {
        let may_evict = |record: &HoldRecord| self.may_evict(record, policy);
        let (left, refused): (Vec<_>, Vec<_>) = left.into_iter().partition(may_evict);
        let dropped = |gang| Effect::DeleteHold { gang, end: HoldEnd::Dropped };
        let mut effects: Vec<Effect> = refused.into_iter().map(|record| dropped(record.gang)).collect();
        // Gangs that only move leave for others, and have a hold of their own.
        let moved: BTreeSet<GangKey> =
            left.iter().flat_map(|record| &record.victims).map(|victim| victim.gang.clone()).collect();
        for record in left {
            let hold = self.still_good(&record, moved.contains(&record.gang), now);
            if hold.is_none_or(|hold| self.hold(&hold).is_err()) {
                self.release(&record.gang);
                effects.push(dropped(record.gang));
                continue;
            }
            let again: Vec<_> =
                record.victims.iter().filter_map(|victim| self.tell_again(victim, &record)).collect();
            // First, because its victims wait for it.
            effects.push(Effect::WriteHold(record));
            effects.extend(again.into_iter().map(Effect::Evict));
        }
        effects
    }

    /// What of a hold is still to be held: nothing if it has run out, if a member is gone, or if all of them have landed.
    fn still_good(&self, record: &HoldRecord, moves: bool, now: Timestamp) -> Option<Hold> {
        if record.expires <= now {
            return None;
        }
        let known: BTreeMap<&str, _> =
            self.gang(&record.gang)?.members().map(|id| (&*self.pod(id).pod.key.uid, id)).collect();
        let mut members = Vec::new();
        for (uid, node) in &record.members {
            let id = *known.get(&**uid)?;
            let member = self.pod(id);
            let is_there = member.place() == Some(Place::Bound) && member.pod.node.as_ref() == Some(node);
            if self.is_pending(id) || (moves && !is_there && member.at().is_some()) {
                let pod = member.pod.key.clone();
                members.push(MemberPlacement { pod, node: node.clone(), devices: Vec::new() });
            } else if !is_there {
                return None;
            }
        }
        (!members.is_empty()).then(|| Hold { gang: record.gang.clone(), members, expires: record.expires })
    }

    /// Whether the victims of a hold may be told to leave: the policy has its rule, and none of them that was not told yet says
    /// that it is never evicted. A hold without victims is as good as ever.
    fn may_evict(&self, record: &HoldRecord, policy: &Policy) -> bool {
        let refuses = |victim: &VictimRecord| {
            let members =
                self.gang(&victim.gang).into_iter().flat_map(Gang::members).map(|id| &self.pod(id).pod);
            // Its next life was not told, and is not told now.
            let mut told = members.filter(|pod| victim.pods.contains(&pod.key.uid));
            told.any(|pod| pod.terms.eviction.never && !pod.terminating)
        };
        let is_allowed = record.rule.is_some_and(|rule| policy.evicts_by(rule));
        record.victims.is_empty() || is_allowed && !record.victims.iter().any(refuses)
    }

    fn tell_again(&mut self, victim: &VictimRecord, record: &HoldRecord) -> Option<EvictRequest> {
        let told: BTreeSet<&str> = victim.pods.iter().map(|uid| &**uid).collect();
        let is_old = |pod: &PodKey| told.contains(&*pod.uid);
        let members = self.gang(&victim.gang).into_iter().flat_map(Gang::members);
        // Its next life was not told.
        if !members.map(|id| self.pod(id)).any(|it| it.at().is_some() && is_old(&it.pod.key)) {
            return None;
        }
        self.mark_leaving(&victim.gang, &Departure::For(record.gang.clone()));
        let mut pods = self.pods_to_leave(&victim.gang);
        pods.retain(is_old);
        let (claimant, after) = (record.gang.clone(), vec![(record.gang.clone(), record.expires)]);
        let cause = EvictCause::Claim { claimant, rule: record.rule?, after };
        (!pods.is_empty()).then(|| EvictRequest { gang: victim.gang.clone(), pods, cause })
    }

    /// Pods of a gang that have a node, or are about to get one, and are not being deleted.
    pub fn pods_to_leave(&self, gang: &GangKey) -> Vec<PodKey> {
        let members = self.gang(gang).into_iter().flat_map(Gang::members).map(|id| self.pod(id));
        let has_node = |place: Option<Place>| matches!(place, Some(Place::Bound | Place::Assumed));
        let leave = members.filter(|member| has_node(member.place()) && !member.pod.terminating);
        leave.map(|member| member.pod.key.clone()).collect()
    }

    /// Says that a gang was told to leave, and what for. Good until none of its members has a node.
    pub fn mark_leaving(&mut self, gang: &GangKey, departure: &Departure) {
        debug_assert_eq!(self.forks_open, 0, "a fork borrows the state");
        let has_node = |slot: &GangSlot| self.gangs.get(*slot).bound + self.gangs.get(*slot).leaving > 0;
        let Some(slot) = self.gangs.slot(gang).filter(has_node) else { return };
        let before = self.gangs.get_mut(slot).departure.replace(departure.clone());
        if before.is_none() {
            self.count_told(slot, true, |_| true);
        }
        let lineages = self.lineages_of(gang, departure);
        self.evicted.mark(gang, lineages);
        self.generation += 1;
    }

    /// Takes back [`ClusterState::mark_leaving`], because the gang was not told after all; as if it had never been marked.
    pub fn spare(&mut self, gang: &GangKey) {
        debug_assert_eq!(self.forks_open, 0, "a fork borrows the state");
        let Some(slot) = self.gangs.slot(gang) else { return };
        if let Some(departure) = self.gangs.get_mut(slot).departure.take() {
            self.count_told(slot, false, |_| true);
            let lineages = self.lineages_of(gang, &departure);
            self.evicted.take_back(gang, lineages);
            self.generation += 1;
        }
    }

    /// Says that a gang which was told to leave stays after all, because the API server refused. It is remembered that it was
    /// asked for that claimant, so that it is not asked for it again.
    pub fn stop_leaving(&mut self, gang: &GangKey) {
        debug_assert_eq!(self.forks_open, 0, "a fork borrows the state");
        let Some(slot) = self.gangs.slot(gang) else { return };
        if self.gangs.get_mut(slot).departure.take().is_some() {
            // Those that leave were told before the refusal.
            self.count_told(slot, false, |pod| !pod.terminating);
            self.evicted.unmark(gang);
            self.generation += 1;
        }
    }
}

impl VictimRecord {
    fn new(gang: &GangKey, pods: &[PodKey]) -> Self {
        Self { gang: gang.clone(), pods: pods.iter().map(|pod| Arc::clone(&pod.uid)).collect() }
    }
}

/// The gangs whose holds an eviction waits for: its claimant's, and its own if it only moves.
fn eviction_holds(eviction: &Eviction) -> impl Iterator<Item = &GangKey> {
    [Some(&eviction.claimant), eviction.moves.then_some(&eviction.gang)].into_iter().flatten()
}

impl Policy {
    /// Whether gangs may be evicted by a rule.
    pub fn evicts_by(&self, rule: EvictionRule) -> bool {
        match rule {
            EvictionRule::Priority => self.eviction.by_priority,
            EvictionRule::Reclaim => self.eviction.reclaim,
            EvictionRule::ExpectedWork => self.eviction.by_expected_work,
            EvictionRule::Consolidation => self.consolidation.moves_max > 0,
        }
    }
}
