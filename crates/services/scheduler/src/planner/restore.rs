//! What the leader before left under way: its Holds are the log. Those that still make sense are kept, and those who were
//! told to go are told again, which does no harm. The others are deleted, and whoever was not told yet stays: also who may
//! not be evicted any more, by the policy of now or by its own word.

use std::collections::{BTreeMap, BTreeSet};

use api_types::conditions::pod::PREEMPTED;
use api_types::hold::{HeldMember, HoldVictim};
use cluster_apply::{EvictCause, EvictRequest};
use cluster_model::plan::{EvictionReason, Hold, MemberPlacement};
use cluster_model::{ClusterState, GangKey, Place, PodKey};
use jiff::Timestamp;
use placement::Policy;
use tracing::info;

use super::Planner;
use super::rooms::pods_to_leave;
use crate::explain;

/// Every rule that a Hold may name.
const RULES: [EvictionReason; 4] = [
    EvictionReason::Priority,
    EvictionReason::Reclaim,
    EvictionReason::ExpectedWork,
    EvictionReason::Consolidation,
];

impl Planner {
    /// Takes up what was left. To be called once, when everything is listed and nothing is planned.
    pub(super) fn restore(&mut self) {
        let Some(taken_over) = &mut self.taken_over else { return };
        for (queue, saved) in std::mem::take(&mut taken_over.accounts) {
            self.state.restore_accounts(&queue, &saved);
        }
        let left = std::mem::take(&mut taken_over.holds);
        let may_evict = |hold: &api_types::Hold| may_evict(&self.state, &self.policy, &hold.spec);
        let (left, dropped): (Vec<_>, Vec<_>) = left.into_iter().partition(may_evict);
        for gang in dropped.iter().map(claimant) {
            info!(%gang, "Dropped a hold of the leader before: those in its way may not be evicted any more.");
            self.outputs.holds.delete(&gang);
        }
        let now = Timestamp::now().max(self.state.now());
        let moved = moved_gangs(&left);
        for object in left {
            let gang = claimant(&object);
            let hold = still_good(&self.state, &gang, &object.spec, moved.contains(&gang), now);
            let goes_on = hold.is_some_and(|hold| self.state.hold(&hold).is_ok());
            info!(%gang, goes_on, victims = object.spec.victims.len(), "Took up a hold of the leader before.");
            if !goes_on {
                self.state.release(&gang);
                self.outputs.holds.delete(&gang);
                continue;
            }
            let spec = api_types::HoldSpec { epoch: self.outputs.epoch, ..object.spec };
            self.rooms.note_written(gang.clone());
            // First: who is told to go waits for it.
            self.outputs.holds.write(gang.clone(), spec.clone());
            for victim in &spec.victims {
                self.tell_again(victim, &gang, &spec);
            }
        }
    }

    fn tell_again(&mut self, victim: &HoldVictim, claimant: &GangKey, hold: &api_types::HoldSpec) {
        let gang = GangKey::new(&*victim.namespace, &*victim.gang);
        let told: BTreeSet<&str> = victim.uids.iter().map(String::as_str).collect();
        let is_old = |pod: &PodKey| told.contains(&*pod.uid);
        let members = self.state.gang(&gang).into_iter().flat_map(cluster_model::Gang::members);
        // Its next life was not told.
        if !members.map(|id| self.state.pod(id)).any(|it| it.at().is_some() && is_old(&it.pod().key)) {
            return;
        }
        self.state.mark_evicting(&gang, claimant);
        let mut pods = pods_to_leave(&self.state, &gang);
        pods.retain(is_old);
        if !pods.is_empty() {
            let message = explain::eviction(claimant, &hold.why);
            let after = vec![(claimant.clone(), hold.expires.0)];
            let cause = EvictCause::Claim { claimant: claimant.clone(), after };
            self.outputs.evictor.evict(EvictRequest { gang, pods, reason: PREEMPTED, message, cause });
        }
    }
}

fn claimant(hold: &api_types::Hold) -> GangKey {
    GangKey::new(hold.metadata.namespace.as_deref().unwrap_or_default(), &*hold.spec.claimant)
}

/// Whether those in the way of a Hold may be told to go: the policy has its rule, and none of them that was not told yet
/// says that it is never evicted. A Hold that nobody is in the way of is as good as ever.
fn may_evict(state: &ClusterState, policy: &Policy, hold: &api_types::HoldSpec) -> bool {
    let has_rule = |why: &EvictionReason| match why {
        EvictionReason::Priority => policy.eviction.by_priority,
        EvictionReason::Reclaim => policy.eviction.reclaim,
        EvictionReason::ExpectedWork => policy.eviction.by_expected_work,
        EvictionReason::Consolidation => policy.consolidation.moves_max > 0,
    };
    let refuses = |victim: &HoldVictim| {
        let gang = state.gang(&GangKey::new(&*victim.namespace, &*victim.gang));
        let members = gang.into_iter().flat_map(cluster_model::Gang::members).map(|id| state.pod(id).pod());
        // Its next life was not told, and is not told now.
        let mut told = members.filter(|pod| victim.uids.iter().any(|uid| **uid == *pod.key.uid));
        told.any(|pod| pod.terms.eviction.never && !pod.terminating)
    };
    let is_allowed = RULES.iter().any(|why| explain::rule(*why) == hold.why && has_rule(why));
    hold.victims.is_empty() || is_allowed && !hold.victims.iter().any(refuses)
}

/// Gangs that are only moved: they give way for others, and have a Hold of their own.
fn moved_gangs(holds: &[api_types::Hold]) -> BTreeSet<GangKey> {
    let victims = holds.iter().flat_map(|hold| &hold.spec.victims);
    victims.map(|victim| GangKey::new(&*victim.namespace, &*victim.gang)).collect()
}

/// What of a Hold is still to be held: nothing if it has run out, if a member is not there any more, or if all of them
/// have landed.
fn still_good(
    state: &ClusterState,
    gang: &GangKey,
    spec: &api_types::HoldSpec,
    is_moved: bool,
    now: Timestamp,
) -> Option<Hold> {
    if spec.expires.0 <= now {
        return None;
    }
    let known: BTreeMap<&str, _> =
        state.gang(gang)?.members().map(|id| (&*state.pod(id).pod().key.uid, id)).collect();
    let mut members = Vec::new();
    for HeldMember { uid, node } in &spec.members {
        let id = *known.get(uid.as_str())?;
        let member = state.pod(id);
        let is_there = member.place() == Some(Place::Bound)
            && member.pod().node.as_ref().is_some_and(|at| at.as_str() == node);
        if state.is_pending(id) || (is_moved && !is_there && member.at().is_some()) {
            let pod = member.pod().key.clone();
            members.push(MemberPlacement { pod, node: node.as_str().into(), devices: Vec::new() });
        } else if !is_there {
            return None;
        }
    }
    (!members.is_empty()).then(|| Hold { gang: gang.clone(), members, expires: spec.expires.0 })
}

#[cfg(test)]
mod tests;
