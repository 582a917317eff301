//! What we decide, carried out on the state. The caller sends what these functions return to the cluster.
//!
//! ```text
//!   plan ─► commit ─┬─► the state as it will be when all of it is done
//!                   └─► effects, in order: holds deleted, gangs bound, holds written, gangs told to leave
//!
//!   holds that an earlier leader wrote ─► take_up_holds ─► the same, for those that are still valid
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
    /// Carries a plan out on the state: marks victims, holds nodes for gangs that wait for them, and assumes that
    /// gangs that start are on their nodes. Returns the effects to carry out in the cluster.
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

    /// Releases the holds that have expired, and those that the plan gives up.
    fn end_holds(&mut self, plan: &Plan, effects: &mut Vec<Effect>) {
        let is_over = |(gang, until): (&GangKey, Timestamp)| (until <= plan.made_at).then(|| gang.clone());
        let expired: Vec<GangKey> = self.held_gangs().filter_map(is_over).collect();
        let expired = expired.into_iter().map(|gang| (gang, true));
        let given_up = plan.released.iter().map(|gang| (gang.clone(), false));
        // A gang that starts keeps its Hold until it is bound, and a gang that is held again gets a new one.
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
        // Read before anything is held: after that, a gang that moves is on its new nodes as well.
        let leaving: Vec<(&Eviction, Vec<PodKey>)> =
            plan.evictions.iter().map(|it| (it, self.pods_to_leave(&it.gang))).collect();
        for eviction in &plan.evictions {
            self.mark_leaving(&eviction.gang, &Departure::For(eviction.claimant.clone()));
        }
        let mut by_claimant: BTreeMap<&GangKey, Vec<&(&Eviction, Vec<PodKey>)>> = BTreeMap::new();
        for told in &leaving {
            by_claimant.entry(&told.0.claimant).or_default().push(told);
        }
        let mut misfits = BTreeSet::new();
        for hold in &plan.holds {
            match self.hold(hold) {
                Ok(()) => {
                    let for_it = by_claimant.get(&hold.gang).map(Vec::as_slice).unwrap_or_default();
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
            let (claimant, rule) = (eviction.claimant.clone(), eviction.why);
            let after = with_expiry(eviction_holds(eviction), &expires);
            let cause = EvictCause::Claim { claimant, rule, after };
            committed.effects.push(Effect::Evict(EvictRequest { gang: eviction.gang.clone(), pods, cause }));
        }
    }

    /// Assumes all members of a gang, or none if one does not fit.
    fn assume_gang(&mut self, placement: &GangPlacement) -> Result<(), AssumeError> {
        let mut pods = BTreeSet::new();
        for member in &placement.members {
            let (pod, _) = self.may_assume(member)?;
            if !pods.insert(pod) {
                return Err(AssumeError::NotPending(member.pod.clone()));
            }
        }
        for member in &placement.members {
            self.assume_member(member)?;
        }
        Ok(())
    }

    /// Marks a gang as told to run elsewhere. Returns the effect for it.
    pub fn begin_move(&mut self, gang: &GangKey, why: &str) -> Effect {
        let pods = self.pods_to_leave(gang);
        // This must not be taken for its end, and no other claimant may ask it to leave.
        self.mark_leaving(gang, &Departure::Move);
        Effect::Evict(EvictRequest {
            gang: gang.clone(),
            pods,
            cause: EvictCause::Move { why: why.to_owned() },
        })
    }

    /// Continues with holds that an earlier leader left. Those that are still valid are held again, and their victims
    /// are told again, which does no harm. The others are deleted. A victim that was not told yet stays if its Hold
    /// is deleted, and also if the current policy or its own terms protect it. Call it once, when everything is known
    /// and nothing is planned.
    pub fn take_up_holds(&mut self, left: Vec<HoldRecord>, policy: &Policy, now: Timestamp) -> Vec<Effect> {
        let may_evict = |record: &HoldRecord| self.may_evict(record, policy);
        let (left, refused): (Vec<_>, Vec<_>) = left.into_iter().partition(may_evict);
        let dropped = |gang| Effect::DeleteHold { gang, end: HoldEnd::Dropped };
        let mut effects: Vec<Effect> = refused.into_iter().map(|record| dropped(record.gang)).collect();
        // Gangs that only move leave for others, and have a hold of their own.
        let moved: BTreeSet<GangKey> =
            left.iter().flat_map(|record| &record.victims).map(|victim| victim.gang.clone()).collect();
        let (mut valid, mut lost) = (Vec::<HoldRecord>::new(), BTreeSet::new());
        for record in left {
            let hold = self.still_good(&record, moved.contains(&record.gang), now);
            if hold.is_none_or(|hold| self.hold(&hold).is_err()) {
                self.release(&record.gang);
                lost.insert(record.gang.clone());
                effects.push(dropped(record.gang));
            } else {
                valid.push(record);
            }
        }
        // Everything is held before the first victim is told: one that only moves needs its own hold as well.
        let expires: BTreeMap<&GangKey, Timestamp> =
            valid.iter().map(|record| (&record.gang, record.expires)).collect();
        let mut again = Vec::new();
        for record in &valid {
            let victims = record.victims.iter().filter(|victim| !lost.contains(&victim.gang));
            again.extend(victims.filter_map(|victim| self.tell_again(victim, record, &expires)));
        }
        effects.extend(valid.into_iter().map(Effect::WriteHold));
        effects.extend(again.into_iter().map(Effect::Evict));
        effects
    }

    /// The part of a hold that is still needed: none if it has expired, if a member is gone, or if all members have
    /// landed.
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

    /// Whether the victims of a hold may be told to leave: the policy has its rule, and no victim that was not told
    /// yet is protected from eviction. True for a hold without victims.
    fn may_evict(&self, record: &HoldRecord, policy: &Policy) -> bool {
        let refuses = |victim: &VictimRecord| {
            let members =
                self.gang(&victim.gang).into_iter().flat_map(Gang::members).map(|id| &self.pod(id).pod);
            // Its successor was not told, and is not told now.
            let mut told = members.filter(|pod| victim.pods.contains(&pod.key.uid));
            told.any(|pod| pod.terms.eviction.never && !pod.terminating)
        };
        let is_allowed = record.rule.is_some_and(|rule| policy.evicts_by(rule));
        record.victims.is_empty() || is_allowed && !record.victims.iter().any(refuses)
    }

    /// `expires` are the ends of all holds that are valid.
    fn tell_again(
        &mut self,
        victim: &VictimRecord,
        record: &HoldRecord,
        expires: &BTreeMap<&GangKey, Timestamp>,
    ) -> Option<EvictRequest> {
        let told: BTreeSet<&str> = victim.pods.iter().map(|uid| &**uid).collect();
        let is_old = |pod: &PodKey| told.contains(&*pod.uid);
        let members = self.gang(&victim.gang).into_iter().flat_map(Gang::members);
        // Its successor was not told.
        if !members.map(|id| self.pod(id)).any(|it| it.at().is_some() && is_old(&it.pod.key)) {
            return None;
        }
        self.mark_leaving(&victim.gang, &Departure::For(record.gang.clone()));
        let mut pods = self.pods_to_leave(&victim.gang);
        pods.retain(is_old);
        let after = with_expiry([&record.gang, &victim.gang], expires);
        let cause = EvictCause::Claim { claimant: record.gang.clone(), rule: record.rule?, after };
        (!pods.is_empty()).then(|| EvictRequest { gang: victim.gang.clone(), pods, cause })
    }

    /// Pods of a gang that have a node, or are about to get one, and are not being deleted.
    pub fn pods_to_leave(&self, gang: &GangKey) -> Vec<PodKey> {
        let members = self.gang(gang).into_iter().flat_map(Gang::members).map(|id| self.pod(id));
        let has_node = |place: Option<Place>| matches!(place, Some(Place::Bound | Place::Assumed));
        let leave = members.filter(|member| has_node(member.place()) && !member.pod.terminating);
        leave.map(|member| member.pod.key.clone()).collect()
    }

    /// Records that a gang was told to leave, and why. Valid until none of its members has a node.
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

    /// Undoes [`ClusterState::mark_leaving`], because the gang was not told after all: as if it had never been
    /// marked.
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

    /// Records that a gang which was told to leave stays after all, because the API server refused. The gang is not
    /// asked again for that claimant.
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

/// Those of the gangs that have a hold, and until when.
fn with_expiry<'a>(
    gangs: impl IntoIterator<Item = &'a GangKey>,
    expires: &BTreeMap<&GangKey, Timestamp>,
) -> Vec<(GangKey, Timestamp)> {
    gangs.into_iter().filter_map(|gang| Some((gang.clone(), *expires.get(gang)?))).collect()
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
