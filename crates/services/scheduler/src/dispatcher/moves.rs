//! Gangs that leave bought machines, because they can have it cheaper: see `capacity::moves`, which decides.
//!
//! ```text
//!   Move ─► still as it was decided? ─► its nodes closed, its gangs told to save and leave ─► they wait anew, as any other
//!             │ no: nothing is done                │ refused, spared
//!             ▼                                    ▼
//!           forgotten                            the nodes are open again
//! ```
//!
//! The nodes stay closed once their gangs leave, so that nobody is placed on them; when they are empty they are given back.

use api_types::conditions::pod::MOVED;
use capacity::moves::Move;
use cluster_apply::{EvictCause, EvictOutcome, EvictRequest};
use cluster_model::{GangKey, NodeName, Place};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::Planner;
use super::rooms::pods_to_leave;

/// What people are told happened: a reason of an Event.
const HAPPENED: &str = "Moved";

impl Planner {
    /// Tells gangs to leave their machines, if it is still right.
    pub(super) fn move_away(&mut self, it: &Move) {
        let may_go = it.gangs.iter().all(|gang| self.may_move(gang))
            && it.leaves.iter().all(|node| self.is_alone(node, &it.gangs));
        if !may_go {
            debug!(gangs = ?it.gangs, "Things have changed, and nobody moves.");
            return;
        }
        for node in &it.leaves {
            self.close(node);
        }
        for gang in &it.gangs {
            let request = EvictRequest {
                gang: gang.clone(),
                pods: pods_to_leave(&self.state, gang),
                reason: MOVED,
                message: format!("moves: {}", it.why),
                cause: EvictCause::Unwinding { unless_started: false, called_off: CancellationToken::new() },
            };
            info!(%gang, pods = request.pods.len(), why = it.why, "Moving gang.");
            // It goes for its own sake. Nobody takes this for its end, and nobody else asks it to go.
            self.state.mark_evicting(gang, gang);
            self.machines.moving.insert(gang.clone(), it.leaves.clone());
            self.tell_of(&request, HAPPENED);
            self.outputs.evictor.evict(request);
        }
    }

    /// It is known what became of a gang that was told to move; false if this was none.
    pub(super) fn settle_move(&mut self, gang: &GangKey, outcome: EvictOutcome) -> bool {
        let Some(leaves) = self.machines.moving.remove(gang) else { return false };
        match outcome {
            EvictOutcome::Leaves | EvictOutcome::Fenced => return true,
            EvictOutcome::Spared | EvictOutcome::Started => self.state.spare(gang),
            EvictOutcome::Refused => self.state.stop_evicting(gang),
        }
        for node in &leaves {
            self.reopen(node);
        }
        true
    }

    /// Whether a gang runs whole, and neither leaves nor is protected by now.
    fn may_move(&self, gang: &GangKey) -> bool {
        let Some(gang) = self.state.gang(gang) else { return false };
        let mut members = gang.members().map(|pod| self.state.pod(pod));
        let is_protected = self.state.pod(gang.lead()).pod().terms.eviction.never;
        gang.evicting().is_none()
            && !is_protected
            && members.all(|it| it.place() == Some(Place::Bound) && !it.pod().terminating)
    }

    /// Whether nobody but those gangs is on a node, or meant for it.
    fn is_alone(&self, node: &NodeName, gangs: &[GangKey]) -> bool {
        let Some(node) = self.state.node_id(node).map(|node| self.state.node(node)) else { return false };
        let mut pods = node.pods().map(|pod| self.state.pod(pod).pod());
        node.object().is_some() && pods.all(|pod| !pod.ours || gangs.contains(&pod.gang))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use capacity::moves::Move;
    use capacity::moves::worth::Worth;
    use cluster_apply::{EvictOutcome, EvictReport};
    use cluster_model::{Change, GangKey, Node, Pod, PodKey, Resources};

    use crate::planner::Planner;
    use crate::planner::testing::{member, pair, planner, planner_and_requests};

    /// A gang of two on two nodes.
    fn on_two_nodes(planner: &mut Planner) {
        let allocatable = Resources { pods: 10, ..Resources::default() };
        for (pod, node) in [("first", "one"), ("second", "two")] {
            planner.apply(Change::Node(Node { allocatable, ..Node::new(node) }));
            planner.apply(Change::Pod(Pod { node: Some(node.into()), ..member(pod) }));
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

    fn takes_pods(planner: &Planner) -> [bool; 2] {
        ["one", "two"].map(|node| {
            let node = planner.state.node_object(&node.into());
            node.expect("it is there").schedulable
        })
    }

    fn is_told(planner: &Planner) -> bool {
        planner.state.gang(&pair()).is_some_and(|gang| gang.evicting().is_some())
    }

    fn report(planner: &mut Planner, outcome: EvictOutcome) {
        let took = Duration::ZERO;
        planner.settle_eviction(&EvictReport { gang: pair(), claimant: None, outcome, took });
    }

    #[tokio::test(start_paused = true)]
    async fn a_whole_gang_is_told_to_go_and_nobody_is_placed_on_its_machines_again() {
        let (mut planner, requests) = planner_and_requests();
        on_two_nodes(&mut planner);
        planner.move_away(&it_moves());
        assert_eq!(takes_pods(&planner), [false, false]);
        assert!(is_told(&planner));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(requests.load(Ordering::SeqCst) >= 3, "each pod is told, and an event");
        report(&mut planner, EvictOutcome::Leaves);
        for (pod, node) in [("first", "one"), ("second", "two")] {
            planner.apply(Change::PodGone(PodKey::new("ns", pod, pod)));
            planner.apply(Change::Node(Node::new(node)));
        }
        assert_eq!(takes_pods(&planner), [false, false], "also when they are seen again");
        assert_eq!(planner.state.evicting_gangs().len(), 0);
    }

    #[tokio::test]
    async fn who_may_not_go_after_all_keeps_its_machines() {
        for outcome in [EvictOutcome::Refused, EvictOutcome::Spared] {
            let mut planner = planner();
            on_two_nodes(&mut planner);
            planner.move_away(&it_moves());
            report(&mut planner, outcome);
            assert_eq!(takes_pods(&planner), [true, true], "{outcome:?}");
            assert!(!is_told(&planner));
        }
        // One that is going anyhow is not opened again.
        let mut planner = planner();
        on_two_nodes(&mut planner);
        planner.move_away(&it_moves());
        planner.apply(Change::Node(Node { schedulable: false, ..Node::new("two") }));
        report(&mut planner, EvictOutcome::Refused);
        assert_eq!(takes_pods(&planner), [true, false]);
    }

    #[tokio::test]
    async fn nobody_moves_if_things_have_changed_since_it_was_decided() {
        let other = || Pod::new(PodKey::new("ns", "other", "other"), GangKey::new("ns", "other"));
        let changes = [
            Change::Pod(Pod { node: Some("one".into()), ..other() }),
            Change::Pod(Pod { node: Some("one".into()), terminating: true, ..member("first") }),
            Change::NodeGone("two".into()),
            Change::Pod(member("third")),
        ];
        for change in changes {
            let mut planner = planner();
            on_two_nodes(&mut planner);
            let said = format!("{change:?}");
            planner.apply(change);
            planner.move_away(&it_moves());
            assert!(!is_told(&planner), "{said}");
            assert!(planner.machines.closing.is_empty(), "{said}");
        }
    }
}
