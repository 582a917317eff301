//! Gangs that leave bought machines for cheaper ones: `capacity::moves` decides.
//!
//! ```text
//!   Move ─► still as it was decided? ─► its nodes closed, its gangs told to save and leave ─► they wait again, like any other
//!             │ no: nothing is done                │ refused, spared
//!             ▼                                    ▼
//!           forgotten                            the nodes are open again
//! ```
//!
//! The nodes stay closed once their gangs leave, so that nothing is placed on them. Empty nodes are given back.

use capacity::moves::Move;
use cluster_apply::EvictOutcome;
use cluster_model::plan::Effect as ClusterEffect;
use cluster_model::{ClusterState, GangKey, NodeName, Place};
use tracing::debug;

use super::machines::Machines;

impl Machines {
    /// Tells gangs to leave their machines, if it is still right.
    pub(super) fn move_away(&mut self, state: &mut ClusterState, it: &Move) -> Vec<ClusterEffect> {
        let may_go = it.gangs.iter().all(|gang| may_move(state, gang))
            && it.leaves.iter().all(|node| is_alone(state, node, &it.gangs));
        if !may_go {
            debug!(gangs = ?it.gangs, "Things have changed, and nothing moves.");
            return Vec::new();
        }
        for node in &it.leaves {
            self.close(state, node);
        }
        for gang in &it.gangs {
            self.moving.insert(gang.clone(), it.leaves.clone());
        }
        it.gangs.iter().map(|gang| state.begin_move(gang, &it.why)).collect()
    }

    /// Handles the report on a gang that was told to move.
    pub(super) fn settle_move(&mut self, state: &mut ClusterState, gang: &GangKey, outcome: EvictOutcome) {
        let leaves = self.moving.remove(gang).unwrap_or_default();
        match outcome {
            EvictOutcome::Leaves | EvictOutcome::Fenced => return,
            EvictOutcome::Spared | EvictOutcome::Started => state.spare(gang),
            EvictOutcome::Refused => state.stop_leaving(gang),
        }
        for node in &leaves {
            self.reopen(state, node);
        }
    }
}

/// Whether a gang runs whole, and is neither leaving nor protected by now.
fn may_move(state: &ClusterState, gang: &GangKey) -> bool {
    let Some(gang) = state.gang(gang) else { return false };
    let mut members = gang.members().map(|pod| state.pod(pod));
    let is_protected = state.pod(gang.lead()).pod().terms.eviction.never;
    !gang.is_leaving()
        && !is_protected
        && members.all(|it| it.place() == Some(Place::Bound) && !it.pod().terminating)
}

/// Whether only those gangs are on a node, or planned for it.
fn is_alone(state: &ClusterState, node: &NodeName, gangs: &[GangKey]) -> bool {
    let Some(node) = state.node_id(node).map(|node| state.node(node)) else { return false };
    let mut pods = node.pods().map(|pod| state.pod(pod).pod());
    node.object().is_some() && pods.all(|pod| !pod.ours || gangs.contains(&pod.gang))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use capacity::moves::Move;
    use capacity::moves::worth::Worth;
    use cluster_apply::{EvictOutcome, EvictReport};
    use cluster_model::plan::{EvictCause, EvictRequest};
    use cluster_model::{ClusterChange, GangKey, Node, Pod, PodKey, Resources};

    use crate::dispatcher::Dispatcher;
    use crate::dispatcher::testing::{dispatcher, dispatcher_and_requests, member, pair};

    /// A gang of two on two nodes.
    fn on_two_nodes(dispatcher: &mut Dispatcher) {
        let allocatable = Resources { pods: 10, ..Resources::default() };
        for (pod, node) in [("first", "one"), ("second", "two")] {
            dispatcher.apply(ClusterChange::Node(Node { allocatable, ..Node::new(node) }));
            dispatcher.apply(ClusterChange::Pod(Pod { node: Some(node.into()), ..member(pod) }));
        }
    }

    fn it_moves() -> Move {
        let worth = Worth { gain_micros: 2, cost_micros: 0, seconds: 60 };
        Move {
            gangs: vec![pair()],
            leaves: vec!["one".into(), "two".into()],
            why: "cheaper".to_owned(),
            worth,
        }
    }

    fn move_away(dispatcher: &mut Dispatcher) {
        let effects = dispatcher.machines.move_away(&mut dispatcher.state, &it_moves());
        dispatcher.send(effects);
    }

    fn takes_pods(dispatcher: &Dispatcher) -> [bool; 2] {
        ["one", "two"].map(|node| {
            let node = dispatcher.state.node_object(&node.into());
            node.expect("it is there").schedulable
        })
    }

    fn is_told(dispatcher: &Dispatcher) -> bool {
        dispatcher.state.gang(&pair()).is_some_and(cluster_model::Gang::is_leaving)
    }

    fn report(dispatcher: &mut Dispatcher, outcome: EvictOutcome) {
        let took = Duration::ZERO;
        let cause = EvictCause::Move { why: "cheaper".to_owned() };
        let request = EvictRequest { gang: pair(), pods: Vec::new(), cause };
        dispatcher.settle_eviction(&EvictReport { request, outcome, took });
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_gang_is_told_to_go_and_nobody_is_placed_on_its_machines_again() {
        let (mut dispatcher, requests) = dispatcher_and_requests();
        on_two_nodes(&mut dispatcher);
        move_away(&mut dispatcher);
        assert_eq!(takes_pods(&dispatcher), [false, false]);
        assert!(is_told(&dispatcher));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(requests.load(Ordering::SeqCst) >= 3, "each pod is told, and an event");
        report(&mut dispatcher, EvictOutcome::Leaves);
        for (pod, node) in [("first", "one"), ("second", "two")] {
            dispatcher.apply(ClusterChange::PodGone(PodKey::new("ns", pod, pod)));
            dispatcher.apply(ClusterChange::Node(Node::new(node)));
        }
        assert_eq!(takes_pods(&dispatcher), [false, false], "also when they are seen again");
        assert_eq!(dispatcher.state.leaving_gangs().len(), 0);
    }

    #[tokio::test]
    async fn who_may_not_go_after_all_keeps_its_machines() {
        for outcome in [EvictOutcome::Refused, EvictOutcome::Spared] {
            let mut dispatcher = dispatcher();
            on_two_nodes(&mut dispatcher);
            move_away(&mut dispatcher);
            report(&mut dispatcher, outcome);
            assert_eq!(takes_pods(&dispatcher), [true, true], "{outcome:?}");
            assert!(!is_told(&dispatcher));
        }
        // A node that goes anyway is not opened again.
        let mut dispatcher = dispatcher();
        on_two_nodes(&mut dispatcher);
        move_away(&mut dispatcher);
        dispatcher.apply(ClusterChange::Node(Node { schedulable: false, ..Node::new("two") }));
        report(&mut dispatcher, EvictOutcome::Refused);
        assert_eq!(takes_pods(&dispatcher), [true, false]);
    }

    #[tokio::test]
    async fn nobody_moves_if_things_have_changed_since_it_was_decided() {
        let other = || Pod::new(PodKey::new("ns", "other", "other"), GangKey::new("ns", "other"));
        let changes = [
            ClusterChange::Pod(Pod { node: Some("one".into()), ..other() }),
            ClusterChange::Pod(Pod { node: Some("one".into()), terminating: true, ..member("first") }),
            ClusterChange::NodeGone("two".into()),
            ClusterChange::Pod(member("third")),
        ];
        for change in changes {
            let mut dispatcher = dispatcher();
            on_two_nodes(&mut dispatcher);
            let said = format!("{change:?}");
            dispatcher.apply(change);
            move_away(&mut dispatcher);
            assert!(!is_told(&dispatcher), "{said}");
            assert!(dispatcher.machines.closing.is_empty(), "{said}");
        }
    }
}
