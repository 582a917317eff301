//! On a schedule, nodes that are nearly empty are emptied.

use cluster_model::{ClusterState, Node, Pod, Power};
use placement::testing::tidy;
use placement::{ConsolidationPolicy, EnergyPolicy, Plan, Policy};
use plan_check::check_plan;

use crate::build::{add, cluster, each, gang, node, placements, waiting};
use crate::evict::{at, evictions, gone, holds, planned_at, running, saving, with_terms};

const NOW: i64 = 10_000;

fn policy(moves_max: u32) -> Policy {
    let consolidation = ConsolidationPolicy { moves_max, ..ConsolidationPolicy::default() };
    Policy { consolidation, ..Policy::default() }
}

/// Tidies up, and has the judge look at it. The state must come out as it went in.
fn tidied(state: &mut ClusterState, policy: &Policy) -> Plan {
    state.advance(at(NOW));
    let before = state.dump();
    let plan = tidy(state, policy, at(NOW));
    assert_eq!(state.dump(), before, "tidying leaves the state alone");
    let silent = Policy { explain: false, ..policy.clone() };
    assert_eq!(check_plan(state, &plan, &silent), []);
    plan
}

/// Runs since long ago and saved its state a minute ago.
fn settled(name: &str, gpus: i64, node: &str) -> Vec<Pod> {
    let mut pods = with_terms(running(gang(name, 1, gpus), &[node], 0), &saving());
    pods[0].checkpointed = Some(at(NOW - 60));
    pods
}

fn comes_again(state: &mut ClusterState, name: &str, gpus: i64) {
    gone(state, name);
    add(state, with_terms(gang(name, 1, gpus), &saving()));
}

fn two_nodes(small: Vec<Pod>) -> ClusterState {
    let mut state = cluster([node("a", "H100", 8), node("b", "H100", 8)]);
    add(&mut state, small);
    add(&mut state, running(gang("large", 1, 5), &["b"], 0));
    state
}

#[test]
fn who_would_not_come_back_is_not_moved() {
    let bare = each(settled("small", 2, "a"), |pod| pod.comes_back = false);
    assert_eq!(evictions(&tidied(&mut two_nodes(bare), &policy(1))), [""; 0]);
}

#[test]
fn the_place_of_who_is_moved_is_held_for_longer_than_it_may_take_to_end() {
    let slow = each(settled("small", 2, "a"), |pod| pod.grace_seconds = 1800);
    let plan = tidied(&mut two_nodes(slow), &policy(1));
    assert_eq!(plan.holds[0].expires, at(NOW + 1860));
}

#[test]
fn a_nearly_empty_node_is_emptied_onto_one_that_is_in_use() {
    let mut state = two_nodes(settled("small", 2, "a"));
    let plan = tidied(&mut state, &policy(1));
    assert_eq!(evictions(&plan), ["small for small by Consolidation, lost 120"]);
    assert!(plan.evictions[0].moves);
    assert_eq!(holds(&plan), ["small: small-0@b"]);

    state.commit(&plan).whole().expect("it can be carried out");
    comes_again(&mut state, "small", 2);
    assert_eq!(placements(&planned_at(&mut state, &policy(1), NOW + 10)), ["small: small-0@b"]);
}

#[test]
fn nobody_is_moved_who_would_lose_by_it_or_to_no_end() {
    let nobody = |small: Vec<Pod>, policy: &Policy| {
        let plan = tidied(&mut two_nodes(small), policy);
        assert_eq!((evictions(&plan), holds(&plan)), (vec![], vec![]));
    };
    nobody(running(gang("small", 1, 2), &["a"], 0), &policy(1));
    nobody(with_terms(running(gang("small", 1, 2), &["a"], NOW - 599), &saving()), &policy(1));
    nobody(settled("small", 4, "a"), &policy(1));
    nobody(settled("small", 2, "a"), &policy(0));
    nobody([settled("one", 1, "a"), settled("two", 1, "a")].concat(), &policy(1));
    let stays = running(gang("stays", 1, 1), &["a"], 0);
    nobody([settled("small", 1, "a"), stays].concat(), &policy(2));
}

#[test]
fn a_node_that_is_more_than_half_full_is_left_alone() {
    let mut state = cluster([node("a", "H100", 8), node("b", "H100", 16)]);
    add(&mut state, settled("small", 5, "a"));
    add(&mut state, running(gang("large", 1, 9), &["b"], 0));
    assert_eq!(evictions(&tidied(&mut state, &policy(1))), [""; 0]);
}

#[test]
fn no_node_is_switched_on_to_empty_another_one() {
    let mut state = cluster([node("a", "H100", 8), node("b", "H100", 8)]);
    add(&mut state, settled("small", 2, "a"));
    assert_eq!(evictions(&tidied(&mut state, &policy(1))), [""; 0], "b is not in use");
}

fn powered(name: &str, idle_watts: u32, gpu_watts: u32) -> Node {
    Node { power: Some(Power { idle_watts, gpu_watts }), ..node(name, "H100", 8) }
}

/// Gangs `one` and `two` are moved to node `c`. In the end it draws 8 × 300 W, just what all may draw. With `one` still
/// where it was (500 + 2 × 100 W) and `two` on `c` already (6 × 300 W) it would be 100 W more.
#[test]
fn who_was_moved_lands_only_when_the_cap_holds_beside_those_that_still_leave() {
    let mut state = cluster([powered("a", 500, 100), powered("b", 100, 100), powered("c", 0, 300)]);
    add(&mut state, settled("one", 2, "a"));
    add(&mut state, settled("two", 2, "b"));
    add(&mut state, running(gang("large", 1, 4), &["c"], 0));
    let policy = Policy { energy: EnergyPolicy { cap_watts: Some(2400) }, ..policy(2) };
    let plan = tidied(&mut state, &policy);
    assert_eq!(holds(&plan), ["one: one-0@c", "two: two-0@c"]);
    state.commit(&plan).whole().expect("it can be carried out");

    comes_again(&mut state, "two", 2);
    let plan = planned_at(&mut state, &policy, NOW + 10);
    assert_eq!(placements(&plan), [""; 0], "{:?}", waiting(&plan));
    comes_again(&mut state, "one", 2);
    let plan = planned_at(&mut state, &policy, NOW + 20);
    assert_eq!(placements(&plan), ["one: one-0@c", "two: two-0@c"]);
}
