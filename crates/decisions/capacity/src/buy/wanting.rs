//! Gangs that wait for machines that could be bought.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::plan::{Plan, WaitReason, WaitingGang};
use cluster_model::{ClusterState, GangKey, Pod};
use jiff::{SignedDuration, Timestamp};

use super::bought::{Bought, RefusedGang};
use crate::claim::{Claim, Purpose};
use crate::launches::UnderWay;
use crate::view::View;

/// Gangs that wait only for nodes, and long enough for new ones to come first.
pub(super) fn wanting(
    view: &View<'_>,
    under_way: &BTreeMap<GangKey, UnderWay>,
    plan: &Plan,
    bought: &mut Bought,
) -> Vec<GangKey> {
    let soonest = view.catalogue.values().map(|machine| machine.boot_seconds).min().unwrap_or(0);
    let ready =
        view.now.saturating_add(SignedDuration::from_secs(i64::from(soonest))).unwrap_or(Timestamp::MAX);
    let starts: BTreeMap<&GangKey, Timestamp> =
        plan.reservations.iter().map(|reservation| (&reservation.gang, reservation.start)).collect();
    let busy: BTreeSet<&GangKey> =
        view.claims.iter().filter_map(|claim| decided_now(claim, view.now)).collect();
    let mut found = Vec::new();
    for waiting in plan.waiting.iter().filter(|waiting| is_for_nodes(waiting)) {
        let gang = &waiting.gang;
        if under_way.contains_key(gang) || busy.contains(gang) || members(view.state, gang).len() < 2 {
            continue;
        }
        if let Some(start) = starts.get(gang).filter(|start| **start <= ready) {
            let why = format!("it starts at about {start:.0}, before a new machine could be ready");
            bought.refused.push(RefusedGang { gang: gang.clone(), why });
            continue;
        }
        found.push(gang.clone());
    }
    found
}

/// Members of a gang that have no node.
pub(super) fn members<'a>(state: &'a ClusterState, gang: &GangKey) -> Vec<&'a Pod> {
    let Some(gang) = state.gang(gang) else { return Vec::new() };
    gang.pending().map(|pod| state.pod(pod).pod()).collect()
}

/// Whether nodes are what it lacks, or nodes not kept for the deadline of another gang. Others may have to give way
/// for it some day, or could not all be looked at: that does not speak against machines that are there sooner.
pub fn is_for_nodes(waiting: &WaitingGang) -> bool {
    let reasons = &waiting.reasons;
    let allows = |reason: &WaitReason| reason.is_cured_by_machines() || reason.stands_beside_machines();
    reasons.iter().any(WaitReason::is_cured_by_machines) && reasons.iter().all(allows)
}

/// The gang of a launch that was decided in this second: another launch would have the same name.
fn decided_now(claim: &Claim, now: Timestamp) -> Option<&GangKey> {
    match &claim.launch.purpose {
        Purpose::Gang(gang) if claim.launch.number >= now.as_second() => Some(gang),
        _ => None,
    }
}
