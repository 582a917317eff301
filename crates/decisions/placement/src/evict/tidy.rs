//! Scheduled defragmentation: nodes that are nearly empty are emptied, so that whole nodes are free for what needs them.

use std::collections::BTreeSet;

use cluster_model::plan::{Eviction, EvictionRule, Hold, MemberPlacement, Plan};
use cluster_model::{ClusterState, Fork, PodId};
use jiff::Timestamp;

use super::ground::{GangIndex, Ground, SpotIndex};
use super::placing::{expires, hold, place};
use super::taken;
use crate::gang::Request;
use crate::search::Searches;
use cluster_model::policy::Policy;

/// How long ago a gang that is moved must have saved its state at most: moving is to save energy, not to spend it on
/// the same work again.
const LOST_SECONDS_MAX: u64 = 60;

/// Moves gangs that save their state off nodes that are at most half full, the emptiest first, onto nodes that are in
/// use anyway; at most as many gangs as the policy moves for one claimant. No gang gives way by this: each gang moves
/// for its own sake, and has a hold in the same plan. Nothing is moved while any gang waits: a gang that moves holds
/// two places for a while, and waiting gangs need them.
pub fn tidy(state: &mut ClusterState, policy: &Policy, now: Timestamp) -> Plan {
    let mut plan = Plan::empty(state.generation(), now);
    if state.waiting_gangs().len() > 0 {
        return plan;
    }
    let mut searches = Searches::resume(policy, state);
    let mut planned = state.fork();
    let ground = Ground::read(&planned, &BTreeSet::new(), now);
    let mut moves_left = policy.consolidation.moves_max as usize;
    let mut moved = BTreeSet::new();
    for spot in nearly_empty(&planned, &ground) {
        let Some(gangs) = movable(&planned, &ground, spot, policy, now) else { continue };
        if gangs.len() > moves_left || gangs.iter().any(|gang| moved.contains(gang)) {
            continue;
        }
        let all: Vec<GangIndex> = moved.iter().chain(&gangs).copied().collect();
        if !taken::allow_all(&ground, &all) {
            continue;
        }
        let Some(places) = elsewhere(&mut planned, &ground, spot, &gangs, &mut searches) else { continue };
        moves_left -= gangs.len();
        for (index, members) in places {
            let gang = &ground.gangs[index];
            moved.insert(index);
            let mut grace_seconds = 0;
            for (pod, _) in &gang.members {
                grace_seconds = planned.pod(*pod).pod().grace_seconds.max(grace_seconds);
                planned.evict(*pod);
            }
            hold(&mut planned, &members);
            plan.evictions.push(Eviction {
                gang: gang.key.clone(),
                claimant: gang.key.clone(),
                why: EvictionRule::Consolidation,
                lost_gpu_seconds: gang.lost_gpu_seconds,
                moves: true,
            });
            let expires = expires(policy, now, grace_seconds);
            plan.holds.push(Hold { gang: gang.key.clone(), members, expires });
        }
    }
    drop(planned);
    searches.remember(state);
    plan
}

/// Nodes with GPUs of which at most half are in use, the emptiest first, then by name.
fn nearly_empty(state: &ClusterState, ground: &Ground) -> Vec<SpotIndex> {
    let has = |spot: &SpotIndex| {
        state.node(ground.spots[*spot].id).object().map_or(0, |object| object.allocatable.gpus)
    };
    // A device is in use if any part of it is.
    let used = |spot: &SpotIndex| has(spot) - state.node(ground.spots[*spot].id).free().gpus;
    let mut spots: Vec<SpotIndex> =
        (0..ground.spots.len()).filter(|spot| used(spot) > 0 && 2 * used(spot) <= has(spot)).collect();
    spots.sort_by_key(|spot| (used(spot), *spot));
    spots
}

/// The gangs on a node, if all that is on it may be moved. A gang that was just started or moved is left alone, and
/// so is one that would have to do much again.
fn movable(
    state: &ClusterState,
    ground: &Ground,
    spot: SpotIndex,
    policy: &Policy,
    now: Timestamp,
) -> Option<Vec<GangIndex>> {
    let gangs: Vec<GangIndex> = ground.spots[spot].victims.iter().map(|(gang, _)| *gang).collect();
    let may_move = |gang: &GangIndex| {
        let gang = &ground.gangs[*gang];
        let ran = gang.started.map_or(0, |started| now.as_second() - started.as_second());
        let gpus = u64::try_from(gang.holds.gpus).unwrap_or(0);
        gang.is_movable
            && ran >= i64::from(policy.eviction.hold_seconds)
            && gang.lost_gpu_seconds <= LOST_SECONDS_MAX * gpus
    };
    let on_node = state.node(ground.spots[spot].id).pods().count();
    let members = gangs.iter().flat_map(|gang| &ground.gangs[*gang].members);
    let known = members.filter(|(_, at)| *at == spot).count();
    (known == on_node && gangs.iter().all(may_move)).then_some(gangs)
}

/// Places for all of them on nodes that are in use and stay so.
fn elsewhere(
    planned: &mut Fork<'_>,
    ground: &Ground,
    spot: SpotIndex,
    gangs: &[GangIndex],
    searches: &mut Searches,
) -> Option<Vec<(GangIndex, Vec<MemberPlacement>)>> {
    let mut attempt = planned.fork();
    for (pod, _) in gangs.iter().flat_map(|gang| &ground.gangs[*gang].members) {
        attempt.evict(*pod);
    }
    let mut places = Vec::with_capacity(gangs.len());
    for index in gangs {
        let gang = &ground.gangs[*index];
        let pods: Vec<PodId> = gang.members.iter().map(|(pod, _)| *pod).collect();
        let again = Request::read_again(&attempt, &gang.key, &pods, gang.gpu_type.clone());
        let members = place(&mut attempt, &again, gang.gpu_type.as_ref(), searches)?;
        places.push((*index, members));
    }
    let moved: BTreeSet<PodId> =
        gangs.iter().flat_map(|gang| &ground.gangs[*gang].members).map(|(pod, _)| *pod).collect();
    let is_in_use = |member: &MemberPlacement| {
        attempt.node_id(&member.node).is_some_and(|node| {
            node != ground.spots[spot].id && attempt.node(node).pods().any(|pod| !moved.contains(&pod))
        })
    };
    places.iter().flat_map(|(_, members)| members).all(is_in_use).then_some(places)
}
