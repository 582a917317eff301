//! Room for a blocked gang, made by others that give way.
//!
//! ```text
//!   plan starts ──► held gangs first: land, or wait, or their hold has expired       held.rs
//!   gang placed ──► where others still leave: held instead of started                leaving.rs
//!   gang blocked ─► consolidate: move a few others                                   consolidate.rs
//!                └► claim: by which rule may it take from which gangs                rules.rs
//!                     └► those that lose least, on nodes that help; simulate; trim   ground.rs, slots.rs, fill.rs, choose.rs
//! ```
//!
//! A gang gives way as a whole, for a claimant whose place has been simulated without it and is held from then on.
//! The plan is made in the view of what will be (victims gone, claimants held). A gang starts now only if it also
//! fits together with what is still there. No claim is made for a gang that has a hold. No gang gives way twice for
//! the same claimant, and none gives way in the plan that starts it.

mod budgets;
mod choose;
mod consolidate;
mod fill;
mod ground;
mod held;
mod leaving;
mod loss;
mod neighbours;
mod parts;
mod placing;
mod rules;
mod slots;
mod taken;
#[cfg(feature = "testing")]
mod tidy;

#[cfg(feature = "testing")]
pub use self::tidy::tidy;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cluster_model::plan::{Eviction, EvictionRule, GangPlacement, Hold, MemberPlacement, Plan, WaitReason};
use cluster_model::{ClusterState, Fork, Gang, GangKey, GpuType, QueueName, ResourceName, Terms};
use jiff::{SignedDuration, Timestamp};

use self::choose::{Chooser, ChosenVictims, Filling};
use self::consolidate::{Blocked, ClearFronts, Moves};
use self::fill::Fronts;
use self::ground::{GangIndex, Ground};
use self::leaving::Leaving;
use self::placing::{expires, hold};
use self::rules::{Claim, Runners};
use crate::backfill::Reservations;
use crate::gang::{Members, Request};
use crate::quota;
use crate::search::Searches;
use cluster_model::policy::Policy;

/// Which gangs give way, and what is held for the blocked gang. Both are in the plan, or neither is.
pub(crate) struct MadeRoom {
    pub evictions: Vec<Eviction>,
    pub holds: Vec<Hold>,
}

/// What happens to a gang that was placed.
pub(crate) enum Start {
    /// It starts.
    Now(GangPlacement),
    /// Its nodes are held until the gangs on them have left.
    Held(Hold, WaitReason),
}

/// Why a gang is not decided about.
pub(crate) enum Stop {
    /// It waits, whatever there is.
    Waits(WaitReason),
    /// It was decided about before in this plan.
    Decided,
}

/// A blocked gang that asks others to give way, and what is used and noted for it.
pub(crate) struct Claimant<'a> {
    pub request: &'a Request,
    /// Why it waits; what is in the way of its claim is added.
    pub reasons: &'a mut Vec<WaitReason>,
    pub searches: &'a mut Searches,
    pub reservations: &'a Reservations,
}

/// What one plan knows about gangs that give way.
pub(crate) struct Evictions<'a> {
    policy: &'a Policy,
    now: Timestamp,
    leaving: Leaving,
    leaving_gangs: u32,
    /// Gangs whose nodes were held before and stay so.
    held: BTreeMap<GangKey, WaitReason>,
    /// Gangs that start in this plan.
    started: BTreeSet<GangKey>,
    /// Gangs that give way in this plan, and their claimants.
    given: BTreeMap<GangKey, GangKey>,
    /// What all running gangs have in common, from the first blocked gang on.
    runners: Option<Runners>,
    /// All running gangs, from the first claim on.
    ground: Option<Ground>,
    fronts: Fronts,
    clear_fronts: ClearFronts,
    /// Claimants for which there was no room; there is none for others like them either.
    hopeless: HashMap<Class, Option<WaitReason>>,
    /// Whether `look_again_at` takes account of gangs that are protected from reclaim for now.
    knows_protections: bool,
    look_again_at: Option<Timestamp>,
}

/// Claimants that find or miss the same room: queue, priority, rules, members, terms, GPU type.
type Class = (Option<QueueName>, rules::Rules, Members, Arc<Terms>, Option<GpuType>);

impl<'a> Evictions<'a> {
    /// Settles gangs with a hold, and lets gangs leave that were told to: see [`held`].
    pub fn new(planned: &mut Fork<'_>, plan: &mut Plan, policy: &'a Policy) -> Self {
        let mut leaving = Leaving::default();
        let settled = held::settle(planned, plan, &mut leaving, policy.energy.cap_watts);
        let started = plan.placements.iter().map(|placement| placement.gang.clone()).collect();
        Self {
            policy,
            now: plan.made_at,
            leaving,
            leaving_gangs: settled.leave,
            held: settled.waiting,
            started,
            given: BTreeMap::new(),
            runners: None,
            ground: None,
            fronts: Fronts::new(),
            clear_fronts: ClearFronts::default(),
            hopeless: HashMap::new(),
            knows_protections: false,
            look_again_at: settled.expires,
        }
    }

    /// When to plan again even if nothing happens: a hold, a grace or a protection ends then.
    pub fn look_again_at(&self) -> Option<Timestamp> {
        self.look_again_at
    }

    /// Whether nothing is decided about a gang: it gives way, and the rest of it does not start; or it is held, and
    /// the rest of it comes later.
    pub fn stopped(&self, planned: &ClusterState, gang: &GangKey) -> Option<Stop> {
        if let Some(awaits) = self.held.get(gang) {
            return Some(Stop::Waits(awaits.clone()));
        }
        if self.started.contains(gang) {
            return Some(Stop::Decided);
        }
        let leaves = |known: &Gang| known.departure().map(|_| known.claimant().unwrap_or(gang).clone());
        let claimant = self.given.get(gang).cloned().or_else(|| planned.gang(gang).and_then(leaves))?;
        Some(Stop::Waits(WaitReason::GivesWay { claimant }))
    }

    /// Whether a gang that was just placed in `planned` starts now, or waits for gangs that leave.
    pub fn start(&mut self, planned: &mut Fork<'_>, placement: GangPlacement) -> Start {
        if self.is_used() {
            self.started.insert(placement.gang.clone());
            if let Some(ground) = &mut self.ground {
                ground.note_started(planned, &placement.gang);
            }
        }
        // What leaves still draws power, and only this place counts it.
        let draws = self.policy.energy.cap_watts.is_some() && !self.leaving.is_empty();
        if !draws && !self.leaving.blocks(planned, &placement) {
            return Start::Now(placement);
        }
        let pods = placement.members.iter().filter_map(|member| planned.pod_id(&member.pod));
        for pod in pods.collect::<Vec<_>>() {
            planned.postpone(pod);
        }
        let hold = Hold { gang: placement.gang, members: placement.members, expires: self.expires() };
        let reason = self.awaits();
        Start::Held(hold, reason)
    }

    /// Records that a gang keeps room in this plan without starting: the room is not borrowed, and the gang does not
    /// give way.
    pub fn gathers(&mut self, planned: &ClusterState, gang: &GangKey) {
        if self.is_used() {
            self.started.insert(gang.clone());
            if let Some(ground) = &mut self.ground {
                ground.note_started(planned, gang);
            }
        }
    }

    /// Makes room for a blocked gang, if a rule allows it. What it decides is kept in `planned`: the victims are gone
    /// from it, the gang is held where it will go.
    pub fn make_room(&mut self, planned: &mut Fork<'_>, claimant: &mut Claimant<'_>) -> Option<MadeRoom> {
        let Claimant { request, reservations, .. } = *claimant;
        let outlasts = WaitReason::outlasts_evictions;
        if !self.is_used() || !request.problems.is_empty() || claimant.reasons.iter().any(outlasts) {
            return None;
        }
        // Others give way for members that must start, not for more.
        let smaller = (request.optional > 0).then(|| Request::read_with(planned, &request.key, 0));
        let request = smaller.as_ref().unwrap_or(request);
        let mut claimant = Claimant {
            request,
            reasons: &mut *claimant.reasons,
            searches: &mut *claimant.searches,
            reservations,
        };
        let gpu_types = request.gpu_types(planned);
        // A gang that is moved goes on elsewhere, so moving comes before evicting.
        let limit = request.terms.time_limit_seconds;
        // When moved gangs end is not checked: they keep off what is reserved.
        let delays = |moves: &Moves| {
            reservations.delayed(limit, &moves.claimant).is_some()
                || moves.moved.iter().any(|(_, members)| reservations.delayed(None, members).is_some())
        };
        let moves = gpu_types.iter().find_map(|gpu_type| {
            let moves = self.find_moves(planned, &mut claimant, gpu_type.as_ref())?;
            (!delays(&moves)).then_some(moves)
        });
        let room = match moves {
            Some(moves) => Some(self.move_others(planned, request, moves)),
            None => gpu_types.iter().find_map(|gpu_type| {
                let choice = self.claim(planned, &mut claimant, gpu_type.as_ref())?;
                if let Some(delayed) = reservations.delayed(limit, &choice.members) {
                    claimant.reasons.push(delayed);
                    return None;
                }
                Some(self.carry_out(planned, request, choice))
            }),
        }?;
        claimant.reasons.push(self.awaits());
        Some(room)
    }

    fn find_moves(
        &mut self,
        planned: &mut Fork<'_>,
        claimant: &mut Claimant<'_>,
        gpu_type: Option<&GpuType>,
    ) -> Option<Moves> {
        let request = claimant.request;
        let policy = self.policy.consolidation;
        if policy.moves_max == 0 {
            return None;
        }
        let after = SignedDuration::from_secs(i64::from(policy.after_seconds));
        let at = planned.gang(&request.key)?.waiting_since().checked_add(after).ok()?;
        if at > self.now {
            self.look_again(at);
            return None;
        }
        if !self.runners(planned).save {
            return None;
        }
        let (members, terms) = request.class(planned);
        let class = (request.queue.clone(), rules::Rules::default(), members, terms, gpu_type.cloned());
        if !request.is_helped_by_others && self.hopeless.contains_key(&class) {
            return None;
        }
        let ground = self.ground.take().unwrap_or_else(|| Ground::read(planned, &self.started, self.now));
        let blocked = Blocked { ground: &ground, request, gpu_type, policy: self.policy };
        let moves = blocked.find(planned, &mut self.clear_fronts, claimant.searches);
        self.ground = Some(ground);
        if moves.is_none() && !request.is_helped_by_others {
            self.hopeless.insert(class, None);
        }
        moves
    }

    fn move_others(&mut self, planned: &mut Fork<'_>, request: &Request, moves: Moves) -> MadeRoom {
        let leave = moves.moved.iter().map(|(gang, _)| (*gang, EvictionRule::Consolidation)).collect();
        let evictions = self.evict(planned, request, leave);
        let mut holds = vec![self.hold(planned, request.key.clone(), moves.claimant)];
        for ((_, members), eviction) in moves.moved.into_iter().zip(&evictions) {
            holds.push(self.hold(planned, eviction.gang.clone(), members));
        }
        MadeRoom { evictions, holds }
    }

    fn claim(
        &mut self,
        planned: &mut Fork<'_>,
        claimant: &mut Claimant<'_>,
        gpu_type: Option<&GpuType>,
    ) -> Option<ChosenVictims> {
        let request = claimant.request;
        let resource = gpu_type.cloned().map_or(ResourceName::Cpu, ResourceName::Gpu);
        self.note_grace(planned, claimant, &resource);
        let policy = &self.policy.eviction;
        let outruns_at = rules::outruns_at(planned, request, policy).filter(|_| policy.by_expected_work);
        if let Some(at) = outruns_at.filter(|at| *at > self.now) {
            self.look_again(at);
        }
        let runners = self.runners(planned);
        if !runners.might_give_way(planned, request, &resource, &self.policy.eviction, self.now) {
            return None;
        }
        let mut ground = self.ground.take().unwrap_or_else(|| Ground::read(planned, &self.started, self.now));
        let claim = Claim::of(planned, &mut ground, request, resource, &self.policy.eviction, self.now);
        let reclaims = claim.rules().reclaims();
        let choice = self.choose(planned, claimant, gpu_type, &ground, claim);
        if reclaims && choice.is_err() && !self.knows_protections {
            self.knows_protections = true;
            if let Some(at) = rules::protection_ends(planned, &ground, self.now) {
                self.look_again(at);
            }
        }
        self.ground = Some(ground);
        choice.map_err(|gave_up| claimant.reasons.extend(gave_up)).ok()
    }

    /// The cheapest set of victims; if there is none, whether the search gave up.
    fn choose(
        &mut self,
        planned: &mut Fork<'_>,
        claimant: &mut Claimant<'_>,
        gpu_type: Option<&GpuType>,
        ground: &Ground,
        mut claim: Claim,
    ) -> Result<ChosenVictims, Option<WaitReason>> {
        let request = claimant.request;
        let (members, terms) = request.class(planned);
        let queue = request.queue.clone();
        let class = (queue.clone(), claim.rules(), members, terms, gpu_type.cloned());
        if claim.is_empty() {
            return Err(None);
        }
        let comparable = !request.is_helped_by_others;
        if let Some(gave_up) = self.hopeless.get(&class).filter(|_| comparable) {
            return Err(gave_up.clone());
        }
        // If a queue is too full, only gangs below it help, so they are asked first.
        let over = quota::exceeded(planned, request, gpu_type);
        let full = over.iter().find_map(choose::full_queue).and_then(|queue| ground.queue(queue));
        let tries = if full.is_some() { vec![full, None] } else { vec![None] };
        let (mut best, mut looked): (Option<ChosenVictims>, u64) = (None, 0);
        for below in tries {
            claim.below = below;
            let claim = claim.clone();
            let filling = Filling { claimants: (queue.clone(), claim.rules(), below) };
            let mut chooser = Chooser { ground, claim, request, gpu_type, policy: self.policy, looked: 0 };
            let found = chooser.choose(planned, &mut self.fronts, &filling, claimant.searches);
            looked = looked.max(chooser.looked);
            best = [best, found].into_iter().flatten().min_by_key(|choice| choice.cost);
        }
        best.ok_or_else(|| {
            let gave_up = (looked >= u64::from(self.policy.eviction.candidates_max))
                .then(|| WaitReason::GaveUp { candidates: u32::try_from(looked).unwrap_or(u32::MAX) });
            if comparable {
                self.hopeless.insert(class, gave_up.clone());
            }
            gave_up
        })
    }

    /// Says when the gang's queue takes back its quota, if only the grace is in the way.
    fn note_grace(&mut self, planned: &ClusterState, claimant: &mut Claimant<'_>, resource: &ResourceName) {
        let request = claimant.request;
        let at = rules::reclaims_at(planned, request).filter(|at| *at > self.now);
        if let Some(at) = at.filter(|_| self.policy.eviction.reclaim)
            && rules::is_entitled(planned, request, resource)
        {
            self.look_again(at);
            claimant.reasons.push(WaitReason::ReclaimsAt { at });
        }
    }

    fn carry_out(&mut self, planned: &mut Fork<'_>, request: &Request, choice: ChosenVictims) -> MadeRoom {
        let evictions = self.evict(planned, request, choice.victims);
        let hold = self.hold(planned, request.key.clone(), choice.members);
        MadeRoom { evictions, holds: vec![hold] }
    }

    fn evict(
        &mut self,
        planned: &mut Fork<'_>,
        request: &Request,
        victims: Vec<(GangIndex, EvictionRule)>,
    ) -> Vec<Eviction> {
        let ground = self.ground.as_mut().expect("they were chosen on it");
        let mut evictions = Vec::with_capacity(victims.len());
        for (index, why) in victims {
            let gang = &mut ground.gangs[index];
            gang.is_gone = true;
            ground.allowed.spend(&gang.budgets);
            self.given.insert(gang.key.clone(), request.key.clone());
            for (pod, spot) in &gang.members {
                self.leaving.add(planned, *pod);
                planned.evict(*pod);
                let gpu_type = planned.node(ground.spots[*spot].id).gpu_type();
                self.clear_fronts.left(*spot, gpu_type.as_ref());
            }
            evictions.push(Eviction {
                gang: gang.key.clone(),
                claimant: request.key.clone(),
                why,
                lost_gpu_seconds: gang.lost_gpu_seconds,
                moves: why == EvictionRule::Consolidation,
            });
        }
        self.leaving_gangs += u32::try_from(evictions.len()).unwrap_or(u32::MAX);
        evictions
    }

    fn hold(&mut self, planned: &mut Fork<'_>, gang: GangKey, members: Vec<MemberPlacement>) -> Hold {
        hold(planned, &members);
        if let Some(ground) = &mut self.ground {
            ground.note_started(planned, &gang);
        }
        self.started.insert(gang.clone());
        let hold = Hold { gang, members, expires: self.expires() };
        self.look_again(hold.expires);
        hold
    }

    fn runners(&mut self, planned: &ClusterState) -> Runners {
        *self.runners.get_or_insert_with(|| Runners::read(planned))
    }

    fn is_used(&self) -> bool {
        let Policy { eviction, consolidation, .. } = self.policy;
        eviction.by_priority || eviction.reclaim || eviction.by_expected_work || consolidation.moves_max > 0
    }

    fn awaits(&self) -> WaitReason {
        WaitReason::AwaitsVictims { gangs: self.leaving_gangs, expires: self.expires() }
    }

    fn expires(&self) -> Timestamp {
        expires(self.policy, self.now, self.leaving.grace_seconds_max())
    }

    fn look_again(&mut self, at: Timestamp) {
        self.look_again_at = Some(self.look_again_at.map_or(at, |known| known.min(at)));
    }
}
