//! Room that is made for a gang: who is told to go, what is kept for whom, and until when.
//!
//! ```text
//!   plan says so ─► Hold written ─► those in the way told to go ─► they are gone: the gang lands ─► bound ─► Hold deleted
//!                        │                                             │
//!                        └── expired, or the gang is no more ──────────┴─► Hold deleted, who was not told is spared
//! ```
//!
//! What is decided is the plan's. What is kept here is only which Holds there are, so that each is deleted.

use std::collections::{BTreeMap, BTreeSet};

use api_types::conditions::pod::{PREEMPTED, START_FAILED};
use api_types::hold::{HeldMember, HoldSpec, HoldVictim};
use cluster_apply::{EventRequest, EvictCause, EvictOutcome, EvictReport, EvictRequest};
use cluster_model::plan::{Eviction, GangPlacement, Hold, Plan};
use cluster_model::{ClusterState, GangKey, Place, PodKey};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::Planner;
use crate::explain;
use crate::unwind::Unwound;

/// Which Holds the API server has, or is about to have.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    written: BTreeSet<GangKey>,
    /// Gangs that were placed where they were held, and how many of their pods are not bound yet.
    landing: BTreeMap<GangKey, usize>,
    /// Those pods.
    unbound: BTreeMap<PodKey, GangKey>,
}

impl Rooms {
    /// A gang is placed: its Hold stays until it is bound, so that nobody takes its room if we die before.
    pub fn lands(&mut self, placement: &GangPlacement) {
        if !self.written.contains(&placement.gang) {
            return;
        }
        for member in &placement.members {
            if self.unbound.insert(member.pod.clone(), placement.gang.clone()).is_none() {
                *self.landing.entry(placement.gang.clone()).or_default() += 1;
            }
        }
    }

    /// A pod is bound, or gone.
    pub fn landed(&mut self, pod: &PodKey) {
        let Some(gang) = self.unbound.remove(pod) else { return };
        if let Some(left) = self.landing.get_mut(&gang) {
            *left -= 1;
            if *left == 0 {
                self.landing.remove(&gang);
            }
        }
    }

    /// A Hold is written from now on.
    pub fn note_written(&mut self, gang: GangKey) {
        self.written.insert(gang);
    }

    /// Holds that have served: nothing is held for the gang any more, and it does not land.
    fn take_served(&mut self, state: &ClusterState) -> Vec<GangKey> {
        let is_served =
            |gang: &GangKey| state.held_members(gang).next().is_none() && !self.landing.contains_key(gang);
        let served: Vec<GangKey> = self.written.iter().filter(|gang| is_served(gang)).cloned().collect();
        for gang in &served {
            self.written.remove(gang);
        }
        served
    }
}

impl Planner {
    /// Keeps what the plan keeps, and tells those to go that it tells to.
    pub(super) fn make_room(&mut self, plan: &Plan) {
        self.release_expired(plan.made_at);
        for gang in &plan.released {
            info!(%gang, "Gave up the room held for a gang: others have it.");
            self.state.release(gang);
        }
        // Before anything is held: whom a moved gang has where is read from where it runs.
        let leaving: Vec<Leaving<'_>> =
            plan.evictions.iter().map(|it| (it, pods_to_leave(&self.state, &it.gang))).collect();
        let mut by_claimant: BTreeMap<&GangKey, Vec<&Leaving<'_>>> = BTreeMap::new();
        for leaves in &leaving {
            by_claimant.entry(&leaves.0.claimant).or_default().push(leaves);
        }
        for eviction in &plan.evictions {
            self.state.mark_evicting(&eviction.gang, &eviction.claimant);
        }
        for hold in &plan.holds {
            if let Err(error) = self.state.hold(hold) {
                error!(gang = %hold.gang, %error, "The plan does not fit the state it was made from.");
                self.state.release(&hold.gang);
                continue;
            }
            let for_it = by_claimant.get(&hold.gang).map_or(&[][..], Vec::as_slice);
            let hold_object = hold_spec(hold, for_it, self.outputs.epoch);
            info!(gang = %hold.gang, victims = hold_object.victims.len(), why = hold_object.why, "Holds room.");
            self.rooms.note_written(hold.gang.clone());
            self.outputs.holds.write(hold.gang.clone(), hold_object);
        }
        let expires: BTreeMap<&GangKey, Timestamp> =
            plan.holds.iter().map(|hold| (&hold.gang, hold.expires)).collect();
        for (eviction, pods) in leaving {
            info!(gang = %eviction.gang, claimant = %eviction.claimant, why = ?eviction.why, "Evicting gang.");
            let request = evict_request(eviction, pods, &expires);
            self.tell_of(&request, explain::happened(eviction.why));
            self.outputs.evictor.evict(request);
        }
    }

    fn release_expired(&mut self, now: Timestamp) {
        let is_over = |(gang, until): (&GangKey, Timestamp)| (until <= now).then(|| gang.clone());
        let expired: Vec<GangKey> = self.state.held_gangs().filter_map(is_over).collect();
        for gang in expired {
            warn!(%gang, "Gave up the room held for a gang: those in its way did not leave in time.");
            let held = self.state.held_members(&gang).next();
            if let Some(pod) = held.map(|id| self.state.pod(id).pod().key.clone()) {
                let note = "gave up the room that was held for it: those in its way did not leave in time";
                let event =
                    EventRequest { pod, reason: "HoldExpired", action: "Release", note: note.to_owned() };
                self.outputs.events.submit(event);
            }
            self.state.release(&gang);
        }
    }

    /// One event for a gang, about its first pod.
    pub(super) fn tell_of(&self, request: &EvictRequest, reason: &'static str) {
        if let Some(pod) = request.pods.first().cloned() {
            let note = format!("gang {}: {}", request.gang, request.message);
            self.outputs.events.submit(EventRequest { pod, reason, action: "Evict", note });
        }
    }

    /// Takes gangs off their nodes that cannot go on as they are.
    pub(super) fn unwind(&mut self, now: Instant) {
        let failing = self.failing_gangs();
        let found = self.unwinding.update(&self.state, &self.waiting, &failing, now);
        for Unwound { gang, why, unless_started, called_off } in found {
            let pods = pods_to_leave(&self.state, &gang);
            warn!(%gang, pods = pods.len(), why, "Unwinding gang.");
            let (reason, cause) = (START_FAILED, EvictCause::Unwinding { unless_started, called_off });
            self.outputs.evictor.evict(EvictRequest { gang, pods, reason, message: why, cause });
        }
    }

    /// Deletes Holds that have served.
    pub(super) fn clear_rooms(&mut self) {
        for gang in self.rooms.take_served(&self.state) {
            self.outputs.holds.delete(&gang);
        }
    }

    /// Who leaves is seen in the watch; who was spared may be asked again.
    pub(super) fn settle_eviction(&mut self, report: &EvictReport) {
        let EvictReport { gang, claimant, outcome, .. } = report;
        if *outcome == EvictOutcome::Refused {
            error!(%gang, "A gang cannot be evicted.");
        }
        match claimant {
            Some(claimant) => self.settle_claim(gang, claimant, *outcome),
            None if self.settle_move(gang, *outcome) => {}
            None => self.unwinding.ended(gang, *outcome, Instant::now()),
        }
    }

    fn settle_claim(&mut self, gang: &GangKey, claimant: &GangKey, outcome: EvictOutcome) {
        // It says nothing about one that gives way for somebody else by now.
        if self.state.gang(gang).and_then(|known| known.evicting()) != Some(claimant) {
            return;
        }
        match outcome {
            EvictOutcome::Leaves | EvictOutcome::Fenced => {}
            EvictOutcome::Spared | EvictOutcome::Started => self.state.spare(gang),
            // It stays, and may be asked for others. Its claimant looks elsewhere at once, and does not ask it again.
            EvictOutcome::Refused => {
                self.state.stop_evicting(gang);
                self.state.release(claimant);
                // Where it was to be moved to.
                self.state.release(gang);
            }
        }
    }
}

/// Pods of a gang that have a node, or are about to, and are not being deleted.
pub(super) fn pods_to_leave(state: &ClusterState, gang: &GangKey) -> Vec<PodKey> {
    let members = state.gang(gang).into_iter().flat_map(cluster_model::Gang::members);
    let has_node = |place: Option<Place>| matches!(place, Some(Place::Bound | Place::Assumed));
    members
        .map(|id| state.pod(id))
        .filter(|member| has_node(member.place()) && !member.pod().terminating)
        .map(|member| member.pod().key.clone())
        .collect()
}

/// Who gives way, and with which pods.
type Leaving<'a> = (&'a Eviction, Vec<PodKey>);

fn hold_spec(hold: &Hold, for_it: &[&Leaving<'_>], epoch: i64) -> HoldSpec {
    let member = |it: &cluster_model::plan::MemberPlacement| HeldMember {
        uid: it.pod.uid.to_string(),
        node: it.node.to_string(),
    };
    let victim = |(eviction, pods): &&Leaving<'_>| HoldVictim {
        namespace: eviction.gang.namespace.to_string(),
        gang: eviction.gang.name.to_string(),
        uids: pods.iter().map(|pod| pod.uid.to_string()).collect(),
    };
    HoldSpec {
        claimant: hold.gang.name.to_string(),
        why: for_it.first().map_or("Room", |(eviction, _)| explain::rule(eviction.why)).to_owned(),
        members: hold.members.iter().map(member).collect(),
        victims: for_it.iter().map(victim).collect(),
        expires: Time(hold.expires),
        epoch,
    }
}

fn evict_request(
    eviction: &Eviction,
    pods: Vec<PodKey>,
    expires: &BTreeMap<&GangKey, Timestamp>,
) -> EvictRequest {
    // A gang that is moved keeps its place elsewhere, and that is written first as well.
    let moved = eviction.moves.then_some(&eviction.gang);
    let awaited = [Some(&eviction.claimant), moved].into_iter().flatten();
    EvictRequest {
        gang: eviction.gang.clone(),
        pods,
        reason: PREEMPTED,
        message: explain::eviction(&eviction.claimant, explain::rule(eviction.why)),
        cause: EvictCause::Claim {
            claimant: eviction.claimant.clone(),
            after: awaited.filter_map(|gang| Some((gang.clone(), *expires.get(gang)?))).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster_apply::{BindReport, EvictOutcome, EvictReport, Outcome};
    use cluster_model::plan::{Hold, MemberPlacement};
    use cluster_model::{Change, GangKey, Node, Pod, PodKey};
    use jiff::Timestamp;
    use tokio::time::Instant;

    use crate::planner::Planner;
    use crate::planner::testing::{pair, planner, planner_of_a_gang_in_part};

    fn key(name: &str) -> GangKey {
        GangKey::new("ns", name)
    }

    /// A victim that gives way for a claimant, for which room is held.
    fn preempting() -> Planner {
        let pod = |name: &str| Pod::new(PodKey::new("ns", name, name), key(name));
        let mut planner = planner();
        planner.state.apply(Change::Node(Node::new("node")));
        planner.state.apply(Change::Pod(Pod { node: Some("node".into()), ..pod("victim") }));
        planner.state.apply(Change::Pod(pod("claimant")));
        planner.state.mark_evicting(&key("victim"), &key("claimant"));
        let member = MemberPlacement {
            pod: PodKey::new("ns", "claimant", "claimant"),
            node: "node".into(),
            devices: Vec::new(),
        };
        let hold = Hold { gang: key("claimant"), members: vec![member], expires: Timestamp::MAX };
        planner.state.hold(&hold).expect("it waits");
        planner
    }

    /// What became of the victim, as it was to go for somebody, or to be unwound.
    fn report(claimant: Option<&str>, outcome: EvictOutcome) -> EvictReport {
        let claimant = claimant.map(key);
        EvictReport { gang: key("victim"), claimant, outcome, took: Duration::ZERO }
    }

    #[tokio::test]
    async fn who_cannot_be_evicted_stays_and_its_claimant_asks_others() {
        let mut planner = preempting();
        planner.settle_eviction(&report(Some("claimant"), EvictOutcome::Refused));
        assert_eq!(planner.state.evicting_gangs().len(), 0, "it may be asked for others, and be unwound");
        let was_asked = planner.state.was_evicted_for(&key("victim"), &key("claimant"));
        assert!(was_asked, "the same does not ask it again");
        assert_eq!(planner.state.held_gangs().len(), 0, "the claimant looks elsewhere");
    }

    #[tokio::test]
    async fn who_is_spared_may_be_asked_again_by_the_same() {
        let mut planner = preempting();
        planner.settle_eviction(&report(Some("claimant"), EvictOutcome::Spared));
        assert_eq!(planner.state.evicting_gangs().len(), 0);
        assert!(!planner.state.was_evicted_for(&key("victim"), &key("claimant")));
    }

    #[tokio::test]
    async fn what_became_of_an_unwinding_or_for_another_claimant_does_not_settle_a_preemption() {
        for claimant in [None, Some("another")] {
            for outcome in [EvictOutcome::Spared, EvictOutcome::Started, EvictOutcome::Refused] {
                let mut planner = preempting();
                planner.settle_eviction(&report(claimant, outcome));
                let said = format!("{outcome:?} for {claimant:?}");
                assert_eq!(planner.state.evicting_gangs().len(), 1, "it still gives way: {said}");
                assert_eq!(planner.state.held_gangs().len(), 1, "its room is still kept: {said}");
            }
        }
    }

    #[tokio::test]
    async fn a_gang_that_could_not_be_unwound_is_asked_again() {
        let (mut planner, gang) = (planner_of_a_gang_in_part(), pair());
        let pod = PodKey::new("ns", "rest", "rest");
        planner.state.assume(&pod, &"node".into()).expect("it waits");
        let outcome = Outcome::Refused("no".to_owned());
        planner.settle(BindReport { pod, node: "node".into(), outcome, took: Duration::ZERO });
        planner.unwind(Instant::now());
        let due = planner.unwinding.next().expect("it is in part");
        planner.unwind(due);
        assert_eq!(planner.unwinding.next(), None, "it was told to go");
        let outcome = EvictOutcome::Refused;
        planner.settle_eviction(&EvictReport { gang, claimant: None, outcome, took: Duration::ZERO });
        assert!(planner.unwinding.next().is_some());
    }
}
