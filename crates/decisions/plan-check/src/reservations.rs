//! No gang that starts now delays one that has a reservation.

use std::collections::BTreeSet;

use cluster_model::plan::{Plan, Reservation};
use cluster_model::policy::Policy;
use cluster_model::{GangKey, NodeName, Resources};
use jiff::{SignedDuration, Timestamp};

use crate::facts::Facts;
use crate::picture::Picture;
use crate::violation::Violation;

/// Gangs with more members than this are not packed by trying everything: it could take for ever.
const PACKED_MAX: usize = 8;

/// Reservations are for gangs that wait, for a time to come, on existing nodes; there are no more than the policy
/// grants; and at their start there is room.
pub(crate) fn reservations_are_kept<'a>(
    facts: &Facts<'a>,
    plan: &'a Plan,
    policy: &Policy,
    violations: &mut Vec<Violation>,
) {
    let mut seen: BTreeSet<&GangKey> = BTreeSet::new();
    for (number, reservation) in plan.reservations.iter().enumerate() {
        let gets_room = plan.placements.iter().any(|it| it.gang == reservation.gang)
            || plan.holds.iter().any(|it| it.gang == reservation.gang);
        let right = number < policy.backfill.reservations_max as usize
            && seen.insert(&reservation.gang)
            && !gets_room
            && facts.members(&reservation.gang).any(|member| facts.waits(&member.pod.key))
            && reservation.start >= plan.made_at
            && !reservation.nodes.is_empty()
            && reservation.nodes.iter().all(|node| facts.nodes.contains_key(node))
            && reservation.nodes.is_sorted();
        if !right {
            violations.push(Violation::WrongReservation(reservation.gang.clone()));
        }
        if !has_room_at_its_start(facts, plan, reservation) {
            violations.push(Violation::ReservationTaken(reservation.gang.clone()));
        }
    }
}

/// Whether the gang fits on the nodes it counts on, together with everything that does not end by its own limit
/// before.
fn has_room_at_its_start<'a>(facts: &Facts<'a>, plan: &'a Plan, reservation: &'a Reservation) -> bool {
    let picture = Picture::later(facts, plan, None);
    let free_of = |node: &NodeName| {
        let mut free = facts.nodes.get(node)?.allocatable;
        for occupant in picture.on_node.get(node).into_iter().flatten() {
            let ends = end(facts, &occupant.pod.gang, plan.made_at).filter(|_| occupant.pod.ours);
            if ends.is_none_or(|end| end > reservation.start) {
                free -= occupant.pod.requests;
            }
        }
        Some(free)
    };
    let mut free: Vec<Resources> = reservation.nodes.iter().filter_map(free_of).collect();
    let waiting = facts.members(&reservation.gang).filter(|member| facts.waits(&member.pod.key));
    let mut members: Vec<Resources> = waiting.map(|member| member.pod.requests).collect();
    members.sort_unstable();
    // An elastic gang counts on the members that must start.
    if facts.terms(&reservation.gang).is_some_and(|terms| terms.members_max.is_some()) {
        let must = facts.size(&reservation.gang).unwrap_or(1) as usize;
        members.truncate(must.saturating_sub(facts.running(&reservation.gang).count()).max(1));
    }
    members.len() > PACKED_MAX || fits(&mut free, &mut members)
}

/// When a gang has ended by its limit, at the earliest. If it runs already, members that are gone may have started it
/// any time before, so it may be over. If it starts now, it has all of its time.
fn end(facts: &Facts<'_>, gang: &GangKey, now: Timestamp) -> Option<Timestamp> {
    let limit = SignedDuration::from_secs(i64::from(facts.terms(gang)?.time_limit_seconds?));
    let runs = facts.members(gang).any(|member| member.runs_on().is_some());
    Some(if runs { now } else { now.saturating_add(limit).unwrap_or(Timestamp::MAX) })
}

fn fits(free: &mut [Resources], members: &mut Vec<Resources>) -> bool {
    let Some(member) = members.pop() else { return true };
    for index in 0..free.len() {
        if member.fits(&free[index]) {
            free[index] -= member;
            let found = fits(free, members);
            free[index] += member;
            if found {
                return true;
            }
        }
    }
    members.push(member);
    false
}
