//! Gangs with a hold come first: they land, or wait for gangs that leave, or their hold has expired.
//!
//! ```text
//!            victims gone
//!   held ────────────────► lands where it was held
//!     │
//!     ├── victims, or its own members that are moved, not gone ──► waits, its nodes stay held
//!     ├── victims gone, and yet there is no room and none will come ──► waits like any other gang
//!     └── the hold has expired ──► waits like any other gang
//! ```
//!
//! Room on a node is for any gang that is held there: the first that finds it lands. Then gangs that were to leave
//! for *that* one may be spared, because its Hold has served. Another gang is left without room, and claims them
//! again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cluster_model::plan::{GangPlacement, MemberPlacement, Plan, WaitReason, WaitingGang};
use cluster_model::{ClusterState, DeviceUse, Fork, Gang, GangKey, NodeId, Pod, PodId};
use jiff::Timestamp;

use super::leaving::Leaving;
use super::parts;
use super::slots::suits;
use crate::gang::{Request, Shape};
use crate::quota;
use crate::search;

/// A gang and the nodes that are held for it.
struct Held {
    key: GangKey,
    expires: Timestamp,
    members: Vec<(PodId, NodeId, Vec<DeviceUse>)>,
    /// Whether all members that will go there wait for it; else some still run where they are moved from.
    is_whole: bool,
}

/// Decides about every gang with a hold. After it, `planned` shows what will be: victims are gone (and recorded in
/// `leaving`), gangs that wait for them are held.
pub(super) fn settle(
    planned: &mut Fork<'_>,
    plan: &mut Plan,
    leaving: &mut Leaving,
    cap_watts: Option<u64>,
) -> Settled {
    let held = read(planned);
    // First the view of what is: no hold keeps another gang from landing where there is room now.
    for member in held.iter().flat_map(|gang| &gang.members) {
        planned.release(member.0);
    }
    let mut waiting = Vec::new();
    for gang in held.into_iter().filter(|gang| gang.expires > plan.made_at) {
        match land(planned, &gang, cap_watts) {
            Some(placement) => plan.placements.push(placement),
            None => waiting.push(gang),
        }
    }
    let leave = let_leave(planned, leaving, &waiting);
    let mut settled = Settled { leave, ..Settled::default() };
    for gang in waiting {
        let awaits = WaitReason::AwaitsVictims { gangs: leave, expires: gang.expires };
        let first = planned.gang(&gang.key).and_then(|known| known.pending().next());
        if !hold_again(planned, &gang) {
            plan.released.push(gang.key);
            continue;
        }
        // If the gang has grown since, or lost a member, other members wait as well: it comes up again with them.
        let comes_up = planned.gang(&gang.key).is_some_and(|known| known.pending().len() > 0);
        if let Some(first) = first.filter(|_| !comes_up) {
            let first = planned.pod(first).pod();
            plan.waiting.push(WaitingGang {
                gang: gang.key.clone(),
                run: first.run.clone(),
                first_pod: first.key.clone(),
                reasons: vec![awaits.clone()],
            });
        }
        settled.expires = settled.expires.into_iter().chain([gang.expires]).min();
        settled.waiting.insert(gang.key, awaits);
    }
    settled
}

/// What happened to the holds.
#[derive(Default)]
pub(super) struct Settled {
    /// How many gangs leave.
    pub leave: u32,
    /// Gangs whose nodes stay held, and why.
    pub waiting: BTreeMap<GangKey, WaitReason>,
    /// When the first of their holds expires.
    pub expires: Option<Timestamp>,
}

/// All holds, in the order in which they may land: by priority, then age, then name.
fn read(planned: &ClusterState) -> Vec<Held> {
    let mut held: Vec<Held> = planned
        .held_gangs()
        .map(|(key, expires)| {
            let members = planned.held_members(key).filter_map(|id| {
                let member = planned.pod(id);
                Some((id, member.at()?, member.devices().to_vec()))
            });
            let is_whole = planned.held_members(key).all(|id| !planned.is_stand_in(id));
            let mut members: Vec<_> = members.collect();
            // Not by number: a plan depends on what is there, not on the order in which it came.
            members.sort_by_cached_key(|(id, ..)| {
                let pod = planned.pod(*id).pod();
                (pod.member_index.unwrap_or(u32::MAX), pod.key.name.clone())
            });
            Held { key: key.clone(), expires, members, is_whole }
        })
        .collect();
    held.sort_by_cached_key(|gang| {
        let lead = planned.gang(&gang.key).map(|known| planned.pod(known.lead()).pod());
        (Reverse(lead.map(|pod| pod.priority)), lead.map(|pod| pod.created), gang.key.clone())
    });
    held
}

/// Starts the gang where it is held, if all of that is free, and if all nodes together stay within the power cap.
/// Room was made without the power draw of gangs that leave, and some of them may still be there.
fn land(planned: &mut Fork<'_>, gang: &Held, cap_watts: Option<u64>) -> Option<GangPlacement> {
    // Mostly some victim is still there: that is checked before anything is read.
    let has_room = |(pod, node, _): &(PodId, NodeId, Vec<DeviceUse>)| {
        planned.node(*node).has_room_for(planned.pod(*pod).pod())
    };
    if !gang.is_whole || !gang.members.iter().all(has_room) {
        return None;
    }
    let request = Request::read(planned, &gang.key);
    if !is_whole_gang(planned, &request, gang) {
        return None;
    }
    let gpu_type = gang.members.iter().find_map(|(pod, node, _)| {
        planned.node(*node).gpu_type().filter(|_| planned.pod(*pod).pod().requests.gpus > 0)
    });
    if !request.problems.is_empty() || !quota::exceeded(planned, &request, gpu_type.as_ref()).is_empty() {
        return None;
    }
    let before_watts = planned.drawn_watts();
    let mut attempt = planned.fork();
    let mut members = Vec::with_capacity(gang.members.len());
    for (pod, node, devices) in &gang.members {
        let asks = attempt.pod(*pod).pod();
        let has_room = attempt.node(*node).has_room_for(asks);
        let is_admitted = search::neighbours_admit(&attempt, *node, *pod);
        if !has_room || !is_admitted || !takes(&attempt, *node, asks) || !are_free(&attempt, *node, devices) {
            return None;
        }
        attempt.assume(*pod, *node, devices);
        members.push(MemberPlacement {
            pod: attempt.pod(*pod).pod().key.clone(),
            node: attempt.node(*node).name().clone(),
            devices: devices.clone(),
        });
    }
    if cap_watts.is_some_and(|cap_watts| attempt.drawn_watts() > cap_watts.max(before_watts)) {
        return None;
    }
    attempt.keep();
    Some(GangPlacement { gang: gang.key.clone(), queue: request.queue?, run: request.run, members })
}

/// Holds the gang's nodes again in the view of what will be, unless others have the room on one of them and no gang
/// leaves for it any more. Returns whether it does.
fn hold_again(planned: &mut Fork<'_>, gang: &Held) -> bool {
    for (index, (pod, node, devices)) in gang.members.iter().enumerate() {
        if is_taken(planned, *node, planned.pod(*pod).pod()) && !somebody_leaves_for(planned, &gang.key) {
            for (held, ..) in &gang.members[..index] {
                planned.release(*held);
            }
            return false;
        }
        planned.hold(*pod, *node, devices);
    }
    true
}

fn somebody_leaves_for(planned: &ClusterState, claimant: &GangKey) -> bool {
    planned.leaving_gangs().any(|key| planned.gang(key).and_then(Gang::claimant) == Some(claimant))
}

/// Whether others have the room that a pod asks for on a node. Not if the pod would not fit on the empty node, or if
/// less exists than is used: then GPUs vanished, for a while perhaps. Nor while any gang leaves the node, for
/// whichever claimant.
fn is_taken(planned: &ClusterState, node: NodeId, asks: &Pod) -> bool {
    let node = planned.node(node);
    let leaves = |id: PodId| {
        let pod = planned.pod(id).pod();
        pod.terminating || planned.gang(&pod.gang).is_some_and(Gang::is_leaving)
    };
    !node.has_room_for(asks)
        && node.free().gpus >= 0
        && node.object().is_some_and(|object| asks.requests.fits(&object.allocatable))
        && !node.pods().any(leaves)
}

/// Whether the held members are still those that start together: all that must, and none that may not.
fn is_whole_gang(planned: &ClusterState, request: &Request, gang: &Held) -> bool {
    let ids = |request: &Request| -> BTreeSet<PodId> {
        request.root.all().flat_map(|group| &group.members).copied().collect()
    };
    let held: BTreeSet<PodId> = gang.members.iter().map(|(pod, ..)| *pod).collect();
    let all = ids(request);
    let must =
        if request.optional > 0 { ids(&Request::read_with(planned, &gang.key, 0)) } else { all.clone() };
    must.is_subset(&held) && held.is_subset(&all)
}

/// Whether the node is still one that the pod may go to.
fn takes(state: &ClusterState, node: NodeId, pod: &Pod) -> bool {
    state.node(node).object().is_some_and(|node| suits(&Shape::of(pod), node))
}

fn are_free(state: &ClusterState, node: NodeId, devices: &[DeviceUse]) -> bool {
    if devices.is_empty() {
        return true;
    }
    let used = parts::used(state, node);
    devices.iter().all(|asked| parts::is_free(*asked, used.iter()))
}

/// Takes gangs that give way out of the view, and returns how many they are. Gangs whose claimant lost its hold stay
/// in the view while they are there: they take longer than expected, and the claimant looks elsewhere.
fn let_leave(planned: &mut Fork<'_>, leaving: &mut Leaving, waiting: &[Held]) -> u32 {
    let held: BTreeSet<&GangKey> = waiting.iter().map(|held| &held.key).collect();
    // A gang that moves leaves for its own next start.
    let is_awaited = |claimant: &GangKey| {
        let waits = planned.gang(claimant).is_some_and(|gang| gang.pending().len() > 0);
        !waits || held.contains(claimant)
    };
    let evicting = planned.leaving_gangs().cloned();
    let evicting: Vec<GangKey> = evicting
        .filter(|key| planned.gang(key).is_some_and(|gang| is_awaited(gang.claimant().unwrap_or(key))))
        .collect();
    for key in &evicting {
        let Some(gang) = planned.gang(key) else { continue };
        let pods: Vec<PodId> = gang.members().filter(|id| planned.pod(*id).at().is_some()).collect();
        for pod in pods {
            leaving.add(planned, pod);
            planned.evict(pod);
        }
    }
    u32::try_from(evicting.len()).unwrap_or(u32::MAX)
}
