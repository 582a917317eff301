//! Any series of changes leaves the state that one would build from the remaining objects, and a what-if leaves
//! nothing behind.

use std::collections::BTreeSet;

use cluster_model::plan::{Departure, Hold, MemberPlacement};
use cluster_model::{ClusterChange, ClusterState, Fork, GangKey, NodeId, Place, PodId};
use jiff::SignedDuration;
use proptest::prelude::*;

use crate::objects::{Objects, expires};
use crate::steps::{Kinds, Step, WhatIf, steps};

/// Takes those steps of a what-if that are possible: that depends on where pods count.
fn what_if(fork: &mut Fork<'_>, steps: &[WhatIf], evicted: &mut BTreeSet<PodId>) {
    for step in steps {
        let pods: Vec<PodId> = fork.pods().map(|(id, _)| id).collect();
        let nodes: Vec<NodeId> =
            fork.nodes().filter(|(_, node)| node.object().is_some()).map(|(id, _)| id).collect();
        let (WhatIf::Assume(pod, ..)
        | WhatIf::Hold(pod, ..)
        | WhatIf::Evict(pod)
        | WhatIf::Release(pod)
        | WhatIf::Land(pod)
        | WhatIf::Postpone(pod)) = step;
        let Some(&pod) = pods.get(*pod) else { continue };
        let place = fork.pod(pod).place();
        let may_go =
            fork.is_pending(pod) || place == Some(Place::Held) || place.is_none() && evicted.contains(&pod);
        match step {
            WhatIf::Assume(_, node, devices) if may_go => {
                nodes.get(*node).inspect(|node| fork.assume(pod, **node, devices));
            }
            WhatIf::Hold(_, node, devices) if may_go => {
                nodes.get(*node).inspect(|node| fork.hold(pod, **node, devices));
            }
            WhatIf::Evict(_) if place.is_some() => {
                evicted.insert(pod);
                fork.evict(pod);
            }
            WhatIf::Release(_) if place == Some(Place::Held) => fork.release(pod),
            WhatIf::Land(_) if place == Some(Place::Held) => fork.land(pod),
            WhatIf::Postpone(_) if place == Some(Place::Assumed) => fork.postpone(pod),
            _ => {}
        }
    }
}

fn fork_and_drop(state: &mut ClusterState, outer: &[WhatIf], inner: &[WhatIf]) {
    let mut fork = state.fork();
    let mut evicted = BTreeSet::new();
    what_if(&mut fork, outer, &mut evicted);
    let between = fork.dump();
    {
        let mut nested = fork.fork();
        what_if(&mut nested, inner, &mut evicted.clone());
    }
    assert_eq!(fork.dump(), between, "the inner fork was undone");
    let mut kept = fork.fork();
    what_if(&mut kept, inner, &mut evicted);
    kept.keep();
}

/// A hold of all members that can be held, on nodes that are there.
fn hold_of(state: &ClusterState, gang: &GangKey, nodes: &[usize]) -> Option<Hold> {
    let there: BTreeSet<_> =
        state.nodes().filter_map(|(_, node)| node.object()).map(|node| &node.name).collect();
    let there: Vec<_> = there.into_iter().collect();
    let can_be_held = |pod: &PodId| state.is_pending(*pod) || state.pod(*pod).place().is_some();
    let members = state.gang(gang)?.members().filter(can_be_held).zip(nodes).filter_map(|(pod, node)| {
        let (pod, node) = (state.pod(pod).pod().key.clone(), (*there.get(*node)?).clone());
        Some(MemberPlacement { pod, node, devices: Vec::new() })
    });
    Some(Hold { gang: gang.clone(), members: members.collect(), expires: expires() })
}

fn run(steps: &[Step]) -> (ClusterState, Objects) {
    let (mut state, mut objects) = (ClusterState::default(), Objects::default());
    run_on(&mut state, &mut objects, steps);
    (state, objects)
}

/// Applies a series of changes to a state that was made from these objects.
pub fn run_on(state: &mut ClusterState, objects: &mut Objects, steps: &[Step]) {
    for step in steps {
        match step {
            Step::Change(change) => {
                state.apply(change.clone());
                objects.apply(change);
            }
            Step::Assume(pod, node, devices) => {
                let member =
                    MemberPlacement { pod: pod.clone(), node: node.clone(), devices: devices.clone() };
                if state.assume_member(&member).is_ok() {
                    objects.assume(pod, node, devices);
                }
            }
            Step::Forget(pod) => {
                state.forget(pod);
                objects.forget(pod);
            }
            Step::Hold(gang, nodes) => {
                if let Some(hold) = hold_of(state, gang, nodes) {
                    state.hold(&hold).expect("it can be held");
                    objects.hold(&hold);
                }
            }
            Step::Release(gang) => {
                state.release(gang);
                objects.release(gang);
            }
            Step::Evict(victim, claimant) => {
                state.mark_leaving(victim, &Departure::For(claimant.clone()));
                objects.evict(victim, claimant);
            }
            Step::Fork(outer, inner) => {
                let (before, generation) = (state.dump(), state.generation());
                fork_and_drop(state, outer, inner);
                assert_eq!(state.dump(), before, "the fork was undone");
                assert_eq!(state.generation(), generation);
            }
            Step::Advance(seconds) => {
                let now = state.now().checked_add(SignedDuration::from_secs(*seconds)).expect("in range");
                state.advance(now);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_series_of_changes_equals_a_state_built_from_what_is_left(
        steps in steps(Kinds { holds: false, time: false }),
    ) {
        let (state, objects) = run(&steps);
        prop_assert_eq!(state.dump(), objects.rebuild().dump());
    }

    #[test]
    fn any_series_of_changes_and_holds_equals_a_state_built_from_what_is_left(
        steps in steps(Kinds { holds: true, time: false }),
    ) {
        let (state, objects) = run(&steps);
        prop_assert_eq!(state.dump(), objects.rebuild().dump());
    }

    #[test]
    fn when_everything_is_gone_nothing_is_left(steps in steps(Kinds { holds: true, time: true })) {
        let (mut state, objects) = run(&steps);
        let pods = objects.pods.values().map(|pod| ClusterChange::PodGone(pod.key.clone()));
        let nodes = objects.nodes.keys().cloned().map(ClusterChange::NodeGone);
        let queues = objects.queues.keys().cloned().map(ClusterChange::QueueGone);
        for change in nodes.chain(pods).chain(queues) {
            state.apply(change);
        }
        let held: Vec<GangKey> = state.held_gangs().map(|(gang, _)| gang.clone()).collect();
        for gang in held {
            state.release(&gang);
        }
        prop_assert_eq!(state.dump(), ClusterState::default().dump());
    }

    #[test]
    fn a_what_if_leaves_no_trace_even_later(
        before in steps(Kinds { holds: true, time: true }),
        after in steps(Kinds { holds: true, time: true }),
    ) {
        // The same with and without what-ifs on the way.
        let without: Vec<Step> = before.iter().chain(&after).filter(|step| !matches!(step, Step::Fork(..))).cloned().collect();
        let with: Vec<Step> = before.into_iter().chain(after).collect();
        let ((mut with, _), (mut without, _)) = (run(&with), run(&without));
        // Not much later: old use has no effect any more.
        let later = with.now().checked_add(SignedDuration::from_secs(1000)).expect("in range");
        with.advance(later);
        without.advance(later);
        prop_assert_eq!(with.dump(), without.dump());
    }
}
