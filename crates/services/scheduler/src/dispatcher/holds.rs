//! The Holds that the API server has, so that each is deleted when it has served.
//!
//! ```text
//!   written ─► victims leave ─► the gang lands ─► all its pods are bound ─► served: deleted
//!      └── expired, given up, or the gang is gone ─────────────────────────► deleted; a victim that was not told yet stays
//! ```
//!
//! The state has what is held, and for which gang.

use std::collections::{BTreeMap, BTreeSet};

use cluster_apply::EvictOutcome;
use cluster_model::plan::{Effect, GangPlacement, HoldEnd};
use cluster_model::{ClusterState, GangKey, PodKey};

/// The Holds that the API server has, or is about to have.
#[derive(Debug, Default)]
pub(super) struct HoldBook {
    written: BTreeSet<GangKey>,
    /// Gangs that were placed on their held nodes, and how many of their pods are not bound yet.
    landing: BTreeMap<GangKey, usize>,
    /// Those pods.
    unbound: BTreeMap<PodKey, GangKey>,
}

impl HoldBook {
    /// Takes note of effects that are about to be sent.
    pub fn note(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::WriteHold(hold) => drop(self.written.insert(hold.gang.clone())),
                Effect::DeleteHold { gang, .. } => drop(self.written.remove(gang)),
                Effect::Bind(placement) => self.lands(placement),
                Effect::Evict(_) | Effect::CallOff(_) => {}
            }
        }
    }

    /// A gang is placed. Its Hold stays until all its pods are bound, so that no other gang takes its nodes if
    /// this process dies before.
    fn lands(&mut self, placement: &GangPlacement) {
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

    /// Deletes Holds that have served: nothing is held for the gang any more, and it is not landing.
    pub fn clear_served(&mut self, state: &ClusterState) -> Vec<Effect> {
        let is_served =
            |gang: &GangKey| state.held_members(gang).next().is_none() && !self.landing.contains_key(gang);
        let served: Vec<GangKey> = self.written.iter().filter(|gang| is_served(gang)).cloned().collect();
        for gang in &served {
            self.written.remove(gang);
        }
        served.into_iter().map(|gang| Effect::DeleteHold { gang, end: HoldEnd::Served }).collect()
    }
}

/// Handles the report on a victim's eviction for its claimant. A victim that leaves is seen in the watch.
pub(super) fn settle_claim(
    state: &mut ClusterState,
    gang: &GangKey,
    claimant: &GangKey,
    outcome: EvictOutcome,
) {
    // The report does not apply if the victim gives way for another claimant by now.
    if state.gang(gang).and_then(|known| known.claimant()) != Some(claimant) {
        return;
    }
    match outcome {
        EvictOutcome::Leaves | EvictOutcome::Fenced => {}
        EvictOutcome::Spared | EvictOutcome::Started => state.spare(gang),
        // It stays, and may be evicted for others. Its claimant looks elsewhere at once, and does not evict it
        // again.
        EvictOutcome::Refused => {
            state.stop_leaving(gang);
            state.release(claimant);
            // The nodes to which it was to move.
            state.release(gang);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster_apply::{BindOutcome, BindReport, EvictOutcome, EvictReport};
    use cluster_model::plan::{Departure, EvictCause, EvictRequest, EvictionRule, Hold, MemberPlacement};
    use cluster_model::{ClusterChange, GangKey, Node, Pod, PodKey};
    use jiff::Timestamp;
    use tokio::time::Instant;

    use crate::dispatcher::Dispatcher;
    use crate::dispatcher::testing::{dispatcher, dispatcher_of_a_gang_in_part, pair};

    fn key(name: &str) -> GangKey {
        GangKey::new("ns", name)
    }

    /// A victim that gives way for a claimant, for which nodes are held.
    fn preempting() -> Dispatcher {
        let pod = |name: &str| Pod::new(PodKey::new("ns", name, name), key(name));
        let mut dispatcher = dispatcher();
        dispatcher.state.apply(ClusterChange::Node(Node::new("node")));
        dispatcher.state.apply(ClusterChange::Pod(Pod { node: Some("node".into()), ..pod("victim") }));
        dispatcher.state.apply(ClusterChange::Pod(pod("claimant")));
        dispatcher.state.mark_leaving(&key("victim"), &Departure::For(key("claimant")));
        let member = MemberPlacement {
            pod: PodKey::new("ns", "claimant", "claimant"),
            node: "node".into(),
            devices: Vec::new(),
        };
        let hold = Hold { gang: key("claimant"), members: vec![member], expires: Timestamp::MAX };
        dispatcher.state.hold(&hold).expect("it waits");
        dispatcher
    }

    /// A report on the eviction of the victim, for a claimant or to unwind it.
    fn report(claimant: Option<&str>, outcome: EvictOutcome) -> EvictReport {
        let cause = match claimant {
            Some(claimant) => {
                let (rule, after) = (EvictionRule::Priority, Vec::new());
                EvictCause::Claim { claimant: key(claimant), rule, after }
            }
            None => EvictCause::Unwind { why: "in part".to_owned(), unless_started: false },
        };
        report_of(key("victim"), cause, outcome)
    }

    fn report_of(gang: GangKey, cause: EvictCause, outcome: EvictOutcome) -> EvictReport {
        EvictReport { request: EvictRequest { gang, pods: Vec::new(), cause }, outcome, took: Duration::ZERO }
    }

    #[tokio::test]
    async fn who_cannot_be_evicted_stays_and_its_claimant_asks_others() {
        let mut dispatcher = preempting();
        dispatcher.settle_eviction(&report(Some("claimant"), EvictOutcome::Refused));
        assert_eq!(dispatcher.state.leaving_gangs().len(), 0, "it may be asked for others, and be unwound");
        let was_asked = dispatcher.state.was_evicted_for(&key("victim"), &key("claimant"));
        assert!(was_asked, "the same does not ask it again");
        assert_eq!(dispatcher.state.held_gangs().len(), 0, "the claimant looks elsewhere");
    }

    #[tokio::test]
    async fn who_is_spared_may_be_asked_again_by_the_same() {
        let mut dispatcher = preempting();
        dispatcher.settle_eviction(&report(Some("claimant"), EvictOutcome::Spared));
        assert_eq!(dispatcher.state.leaving_gangs().len(), 0);
        assert!(!dispatcher.state.was_evicted_for(&key("victim"), &key("claimant")));
    }

    #[tokio::test]
    async fn what_became_of_an_unwinding_or_for_another_claimant_does_not_settle_a_preemption() {
        for claimant in [None, Some("another")] {
            for outcome in [EvictOutcome::Spared, EvictOutcome::Started, EvictOutcome::Refused] {
                let mut dispatcher = preempting();
                dispatcher.settle_eviction(&report(claimant, outcome));
                let said = format!("{outcome:?} for {claimant:?}");
                assert_eq!(dispatcher.state.leaving_gangs().len(), 1, "it still gives way: {said}");
                assert_eq!(dispatcher.state.held_gangs().len(), 1, "its room is still kept: {said}");
            }
        }
    }

    #[tokio::test]
    async fn a_gang_that_could_not_be_unwound_is_asked_again() {
        let (mut dispatcher, gang) = (dispatcher_of_a_gang_in_part(), pair());
        let pod = PodKey::new("ns", "rest", "rest");
        dispatcher.state.assume(&pod, &"node".into()).expect("it waits");
        let outcome = BindOutcome::Refused("no".to_owned());
        dispatcher.settle_bind(BindReport { pod, node: "node".into(), outcome, took: Duration::ZERO });
        dispatcher.unwind(Instant::now());
        let due = dispatcher.unwinding.next().expect("it is in part");
        dispatcher.unwind(due);
        assert_eq!(dispatcher.unwinding.next(), None, "it was told to go");
        let outcome = EvictOutcome::Refused;
        let cause = EvictCause::Unwind { why: "in part".to_owned(), unless_started: false };
        dispatcher.settle_eviction(&report_of(gang, cause, outcome));
        assert!(dispatcher.unwinding.next().is_some());
    }
}
