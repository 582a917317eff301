//! Which gangs a claimant displaces: those that lose least, no more of them than it needs, and only if it then really
//! fits.
//!
//! ```text
//!   fill: slots at least cost ──► quota: more, while a queue is too full ──► simulate on a fork
//!                                                                                 │
//!   planned ◄── evict, hold ◄── check again ◄── trim: gangs that can stay, stay ◄─┘
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;

use cluster_model::plan::{EvictionRule, MemberPlacement, OverQuota, WaitReason};
use cluster_model::{ClusterState, DeviceUse, Fork, GpuType, QueueName, Resources};

use super::fill::{Filler, Fronts};
use super::ground::{GangIndex, Ground, SpotIndex};
use super::leaving::has_room;
use super::neighbours;
use super::parts;
use super::rules::{Asking, Claim};
use super::slots::{Scene, Work};
use super::taken::Taken;
use crate::gang::Request;
use crate::quota;
use crate::search::{self, Searches};
use cluster_model::policy::Policy;

/// How often one more slot is added and tried, if room for each member turns out not to be room for the gang.
const ROUNDS_MAX: usize = 6;

/// A set of victims is improved by leaving out one of them: this many rounds, for claimants of up to this many
/// members, and sets of up to this many victims. That is at most 36 further attempts.
const IMPROVED_ROUNDS_MAX: usize = 3;
const IMPROVED_MEMBERS_MAX: usize = 64;
const IMPROVED_VICTIMS_MAX: usize = 12;

/// Whether each victim is needed for the quota is checked if there are no more than this many: that costs their
/// square.
const RECHECKED_MAX: usize = 64;

/// Which gangs give way, by which rule, and where the claimant goes then.
pub(super) struct ChosenVictims {
    pub victims: Vec<(GangIndex, EvictionRule)>,
    pub members: Vec<MemberPlacement>,
    /// What is lost, GPUs evicted, gangs evicted: less is better.
    pub cost: (u64, i64, usize),
}

pub(super) struct Chooser<'a> {
    pub ground: &'a Ground,
    pub claim: Claim,
    pub request: &'a Request,
    pub gpu_type: Option<&'a GpuType>,
    pub policy: &'a Policy,
    /// How many gangs were looked at, at most, in one attempt.
    pub looked: u64,
}

impl Chooser<'_> {
    /// The cheapest set of victims that is found: first the cheaper of two ways to count, then the same without one
    /// or the other of its victims, as long as it gets better.
    pub fn choose(
        &mut self,
        planned: &mut Fork<'_>,
        fronts: &mut Fronts,
        filling: &Filling,
        searches: &mut Searches,
    ) -> Option<ChosenVictims> {
        let members: usize = self.request.root.all().map(|group| group.members.len()).sum();
        let (mut best, mut tried) = self.both(planned, fronts, filling, members, searches);
        // One member gets the best slot at once; and among many victims one more or less does not matter.
        if members == 1 || members > IMPROVED_MEMBERS_MAX {
            return best;
        }
        for _ in 0..IMPROVED_ROUNDS_MAX {
            let mut chosen =
                best.as_ref().map_or(tried, |best| best.victims.iter().map(|(gang, _)| *gang).collect());
            if chosen.len() > IMPROVED_VICTIMS_MAX {
                break;
            }
            chosen.sort_by_key(|gang| (Reverse(self.ground.gangs[*gang].lost_gpu_seconds), *gang));
            let better = chosen.into_iter().find_map(|gang| {
                self.claim.spared.insert(gang);
                let (found, _) = self.both(planned, &mut Fronts::new(), filling, members, searches);
                let is_better =
                    |found: &ChosenVictims| best.as_ref().is_none_or(|best| found.cost < best.cost);
                let found = found.filter(is_better);
                if found.is_none() {
                    self.claim.spared.remove(&gang);
                }
                found
            });
            match better {
                Some(choice) => best = Some(choice),
                None => break,
            }
            tried = Vec::new();
        }
        best
    }

    /// The cheaper of two ways to count: each GPU that a victim frees counts its part; or a victim counts in full for
    /// the first member that needs it. The first is right for claimants that need many, the second for those that
    /// need few. Also returns the victims of the first attempt.
    fn both(
        &mut self,
        planned: &mut Fork<'_>,
        fronts: &mut Fronts,
        filling: &Filling,
        members: usize,
        searches: &mut Searches,
    ) -> (Option<ChosenVictims>, Vec<GangIndex>) {
        let (all, tried) = self.attempt(planned, fronts, filling, self.request.needs.gpus, searches);
        // With many members, all that a victim frees is used, so the first way is right if it finds anything.
        let is_settled = members == 1 || all.is_some() && members > IMPROVED_MEMBERS_MAX;
        let alone = if is_settled { None } else { self.attempt(planned, fronts, filling, 0, searches).0 };
        ([all, alone].into_iter().flatten().min_by_key(|choice| choice.cost), tried)
    }

    fn attempt(
        &mut self,
        planned: &mut Fork<'_>,
        fronts: &mut Fronts,
        filling: &Filling,
        needed_gpus: i64,
        searches: &mut Searches,
    ) -> (Option<ChosenVictims>, Vec<GangIndex>) {
        let over = quota::exceeded(planned, self.request, self.gpu_type);
        let mut failed = Work::default();
        let ways = filling.filler(planned, self, needed_gpus).ways(self.request, fronts, &mut failed);
        self.looked = self.looked.max(failed.looked);
        let tried = failed.taken.gangs.into_iter().collect();
        for mut work in ways {
            for _ in 0..ROUNDS_MAX {
                if !self.fit_quota(planned, &mut work, &over) {
                    break;
                }
                if let Some(choice) = self.simulate(planned, &work, searches) {
                    return (Some(choice), tried);
                }
                let more = filling.filler(planned, self, needed_gpus).more(self.request, fronts, &mut work);
                self.looked = self.looked.max(work.looked);
                if !more {
                    break;
                }
            }
        }
        (None, tried)
    }

    /// Takes more gangs from below every queue that would still hold too much. False if that is not enough, or if
    /// what is in the way is nothing that others hold.
    fn fit_quota(&mut self, state: &ClusterState, work: &mut Work, over: &[WaitReason]) -> bool {
        let ground = self.ground;
        over.iter().all(|reason| {
            let Some(OverQuota { queue, resource, missing }) = reason.over_quota() else { return false };
            let Some(queue) = ground.queue(queue) else { return false };
            let is_below = |gang: &GangIndex| ground.gangs[*gang].chain.contains(&queue);
            let freed = work.taken.gangs.iter().filter(|gang| is_below(gang));
            let freed: i64 = freed.map(|gang| ground.gangs[*gang].held(resource)).sum();
            let mut missing = missing - freed;
            for gang in ground.gangs_below(queue) {
                if missing <= 0 || work.looked >= self.looked_max() {
                    break;
                }
                work.looked += 1;
                let amount = ground.gangs[gang].held(resource);
                let is_new = amount > 0 && !work.taken.gangs.contains(&gang);
                let asking = Asking { claim: &self.claim, state, ground, taken: &work.taken, chosen: &[] };
                if is_new && asking.rule(gang).is_some() {
                    work.take(Scene { state, ground, claim: &self.claim }, gang);
                    missing -= amount;
                }
            }
            self.looked = self.looked.max(work.looked);
            missing <= 0
        })
    }

    /// Lets all of them leave on a fork, and searches nodes for the claimant. Gangs that can stay then, stay.
    fn simulate(
        &self,
        planned: &mut Fork<'_>,
        work: &Work,
        searches: &mut Searches,
    ) -> Option<ChosenVictims> {
        let (members, stay) = {
            let mut attempt = planned.fork();
            self.evict(&mut attempt, work.taken.gangs.iter().copied());
            if !quota::exceeded(&attempt, self.request, self.gpu_type).is_empty() {
                return None;
            }
            let members = super::placing::place(&mut attempt, self.request, self.gpu_type, searches)?;
            let stay = self.trim(&attempt, work, &members);
            (members, stay)
        };
        let mut victims: Vec<GangIndex> =
            work.taken.gangs.iter().copied().filter(|gang| !stay.contains(gang)).collect();
        self.recheck_quota(planned, &mut victims, stay);
        // Victims that leave for the sake of a queue may free enough room on the nodes as well.
        if victims.len() > 1 && victims.len() <= RECHECKED_MAX {
            victims.sort_by_key(|gang| (Reverse(self.ground.gangs[*gang].lost_gpu_seconds), *gang));
            for gang in victims.clone() {
                if self.fits_beside(planned, &victims, gang, &members) {
                    victims.retain(|other| *other != gang);
                }
            }
        }
        self.recheck_power(planned, &mut victims, work, &members);
        self.legal(planned, victims, members)
    }

    /// Gangs that can stay with the claimant where it was placed, the most lost first.
    fn trim(&self, placed: &ClusterState, work: &Work, members: &[MemberPlacement]) -> Vec<GangIndex> {
        let mut here: HashMap<SpotIndex, Here> = HashMap::new();
        for member in members {
            let (Some(pod), Some(node)) = (placed.pod_id(&member.pod), placed.node_id(&member.node)) else {
                continue;
            };
            let Some(spot) = self.ground.spot_of(node) else { continue };
            let free = placed.node(node).free();
            let here = here.entry(spot).or_insert_with(|| Here { free, ..Here::default() });
            let pod = placed.pod(pod).pod();
            here.asked += pod.requests;
            here.asks_extras |= has_extras(pod);
            here.devices.extend(&member.devices);
        }
        let mut victims: Vec<GangIndex> = work.taken.gangs.iter().copied().collect();
        victims.sort_by_key(|gang| {
            let gang = &self.ground.gangs[*gang];
            (Reverse(gang.lost_gpu_seconds), Reverse(gang.holds.gpus), &gang.key)
        });
        let mut stay = Vec::new();
        for index in victims {
            let gang = &self.ground.gangs[index];
            if !self.is_apart(placed, index, members) {
                continue;
            }
            // Its members share a node, and perhaps a device, with each other too.
            let mut after: HashMap<SpotIndex, (Resources, Vec<DeviceUse>)> = HashMap::new();
            let fits = gang.members.iter().all(|(pod, spot)| {
                let Some(here) = here.get(spot) else { return true };
                let (left, used) = after.entry(*spot).or_insert_with(|| (here.free, here.devices.clone()));
                *left -= placed.pod(*pod).pod().requests;
                let devices = self.ground.devices_of(*pod);
                let are_free = devices.iter().all(|part| parts::is_free(*part, used.iter()));
                used.extend(devices);
                // Whether both fit is checked again in `fits_beside`.
                let in_the_way = here.asks_extras && has_extras(placed.pod(*pod).pod());
                has_room(&here.asked, left) && are_free && !in_the_way
            });
            if fits {
                for (pod, spot) in &gang.members {
                    if let Some(here) = here.get_mut(spot) {
                        here.free -= placed.pod(*pod).pod().requests;
                        here.devices.extend(self.ground.devices_of(*pod));
                    }
                }
                stay.push(index);
            }
        }
        stay
    }

    /// Whether the place of the claimant does not depend on whether a gang stays.
    fn is_apart(&self, placed: &ClusterState, gang: GangIndex, members: &[MemberPlacement]) -> bool {
        let claims = || {
            let known = |member: &MemberPlacement| {
                Some((placed.pod(placed.pod_id(&member.pod)?).pod(), placed.node_id(&member.node)?))
            };
            members.iter().filter_map(known)
        };
        self.ground.gangs[gang].members.iter().all(|(pod, spot)| {
            let stays = (placed.pod(*pod).pod(), self.ground.spots[*spot].id);
            claims().all(|claims| {
                !neighbours::keep_apart(placed, stays, claims)
                    && !neighbours::leans_on(placed, claims.0, stays.0)
            })
        })
    }

    /// A gang that can stay on its node may still be too much for a queue. Then gangs below the queue leave after
    /// all, the least lost first; those that turn out not to be needed for that stay.
    fn recheck_quota(&self, planned: &mut Fork<'_>, victims: &mut Vec<GangIndex>, mut stay: Vec<GangIndex>) {
        let mut again = Vec::new();
        {
            let mut attempt = planned.fork();
            self.evict(&mut attempt, victims.iter().copied());
            // They are sorted, the most lost first. All of them together were enough.
            while let Some(reason) = quota::exceeded(&attempt, self.request, self.gpu_type).first() {
                let full = full_queue(reason).and_then(|queue| self.ground.queue(queue));
                let is_below = |gang: &GangIndex| {
                    full.is_none_or(|queue| self.ground.gangs[*gang].chain.contains(&queue))
                };
                let Some(place) = stay.iter().rposition(is_below).or(stay.len().checked_sub(1)) else {
                    break;
                };
                let gang = stay.remove(place);
                self.evict(&mut attempt, [gang].into_iter());
                again.push(gang);
            }
        }
        // The last one made it enough.
        let needed_not = |again: &[GangIndex], gang: GangIndex, planned: &mut Fork<'_>| {
            let mut attempt = planned.fork();
            let others = again.iter().copied().filter(|other| *other != gang);
            self.evict(&mut attempt, victims.iter().copied().chain(others));
            quota::exceeded(&attempt, self.request, self.gpu_type).is_empty()
        };
        if again.len() > 1 && again.len() <= RECHECKED_MAX {
            for gang in again.clone().into_iter().rev() {
                if needed_not(&again, gang, planned) {
                    again.retain(|other| *other != gang);
                }
            }
        }
        victims.extend(again);
    }

    /// Gangs that stay draw power as well. If that is too much with the claimant, they leave after all, the least
    /// lost first.
    fn recheck_power(
        &self,
        planned: &mut Fork<'_>,
        victims: &mut Vec<GangIndex>,
        work: &Work,
        members: &[MemberPlacement],
    ) {
        let Some(cap_watts) = self.policy.energy.cap_watts else { return };
        let before_watts = planned.drawn_watts();
        let mut stay: Vec<GangIndex> =
            work.taken.gangs.iter().copied().filter(|gang| !victims.contains(gang)).collect();
        stay.sort_by_key(|gang| (Reverse(self.ground.gangs[*gang].lost_gpu_seconds), *gang));
        let mut attempt = planned.fork();
        self.evict(&mut attempt, victims.iter().copied());
        for member in members {
            if let Some((pod, node)) = attempt.pod_id(&member.pod).zip(attempt.node_id(&member.node)) {
                attempt.assume(pod, node, &member.devices);
            }
        }
        while attempt.drawn_watts() > cap_watts.max(before_watts) {
            let Some(gang) = stay.pop() else { break };
            self.evict(&mut attempt, [gang].into_iter());
            victims.push(gang);
        }
    }

    /// Whether the claimant fits where it was placed with one of the victims still there.
    fn fits_beside(
        &self,
        planned: &mut Fork<'_>,
        victims: &[GangIndex],
        gang: GangIndex,
        members: &[MemberPlacement],
    ) -> bool {
        let before_watts = planned.drawn_watts();
        let mut attempt = planned.fork();
        self.evict(&mut attempt, victims.iter().copied().filter(|other| *other != gang));
        if !quota::exceeded(&attempt, self.request, self.gpu_type).is_empty() {
            return false;
        }
        let fit = members.iter().all(|member| {
            let known = attempt.pod_id(&member.pod).zip(attempt.node_id(&member.node));
            let Some((pod, node)) = known else { return false };
            let used = parts::used(&attempt, node);
            let fits = attempt.node(node).has_room_for(attempt.pod(pod).pod())
                && member.devices.iter().all(|part| parts::is_free(*part, used.iter()))
                && search::neighbours_admit(&attempt, node, pod);
            if fits {
                attempt.assume(pod, node, &member.devices);
            }
            fits
        });
        let cap_watts = self.policy.energy.cap_watts;
        fit && cap_watts.is_none_or(|cap_watts| attempt.drawn_watts() <= cap_watts.max(before_watts))
    }

    /// The rule for each victim, checked again one after the other, as they are now.
    fn legal(
        &self,
        planned: &ClusterState,
        mut victims: Vec<GangIndex>,
        members: Vec<MemberPlacement>,
    ) -> Option<ChosenVictims> {
        // A claimant that fits as it is was refused for something that others do not hold.
        if victims.is_empty() {
            return None;
        }
        victims.sort_unstable();
        let mut taken = Taken::default();
        let mut ruled = Vec::with_capacity(victims.len());
        let (claim, ground) = (&self.claim, self.ground);
        for gang in victims {
            let asking = Asking { claim, state: planned, ground, taken: &taken, chosen: &[] };
            ruled.push((gang, asking.rule(gang)?));
            taken.add(ground, &claim.resource, gang);
        }
        let gangs = ruled.iter().map(|(gang, _)| &self.ground.gangs[*gang]);
        let lost = gangs.clone().map(|gang| gang.lost_gpu_seconds).sum();
        let cost = (lost, gangs.map(|gang| gang.holds.gpus).sum(), ruled.len());
        Some(ChosenVictims { victims: ruled, members, cost })
    }

    fn evict(&self, fork: &mut Fork<'_>, gangs: impl Iterator<Item = GangIndex>) {
        for gang in gangs {
            for (pod, _) in &self.ground.gangs[gang].members {
                fork.evict(*pod);
            }
        }
    }

    pub fn looked_max(&self) -> u64 {
        u64::from(self.policy.eviction.candidates_max)
    }
}

/// The queue that is too full, if that is the reason.
pub(super) fn full_queue(reason: &WaitReason) -> Option<&QueueName> {
    reason.over_quota().map(|over| over.queue)
}

/// Which claimants share fronts; see [`Fronts`].
pub(super) struct Filling {
    pub claimants: super::fill::Claimants,
}

impl Filling {
    fn filler<'a>(&self, state: &'a ClusterState, chooser: &'a Chooser<'_>, needed_gpus: i64) -> Filler<'a> {
        Filler {
            scene: Scene { state, ground: chooser.ground, claim: &chooser.claim },
            gpu_type: chooser.gpu_type,
            needed_gpus,
            looked_max: chooser.looked_max(),
            claimants: self.claimants.clone(),
        }
    }
}

/// A node that the claimant uses.
#[derive(Default)]
struct Here {
    free: Resources,
    asked: Resources,
    devices: Vec<DeviceUse>,
    /// Whether a member that uses it asks for other resources, or takes ports.
    asks_extras: bool,
}

fn has_extras(pod: &cluster_model::Pod) -> bool {
    !pod.other_requests.is_empty() || !pod.host_ports.is_empty()
}
