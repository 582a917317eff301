//! Gangs that are moved for their own sake.

use cluster_model::plan::{Eviction, EvictionRule, Plan};
use cluster_model::policy::{ConsolidationPolicy, Policy};
use cluster_model::{ClusterState, EvictionTerms, Pod, Terms};
use plan_check::{Violation, check_plan};

use crate::build::{NOW, at, cluster, evict, gang, hold, name, node, on, plan, with, with_terms};

/// A gang with this many GPUs that has just saved its state.
fn saved(gang_name: &str, gpus: i64, node: &str) -> Vec<Pod> {
    let saves = Terms { eviction: EvictionTerms { never: false, checkpoints: true }, ..Terms::default() };
    let pods = with_terms(on(gang(gang_name, 1, gpus), node), saves);
    with(pods, |pod| pod.checkpointed = Some(at(NOW)))
}

fn state(pods: &[Vec<Pod>]) -> ClusterState {
    cluster(["a", "b", "c"].map(|name| node(name, "x", "1")), pods.concat())
}

/// What is found if these are moved to these nodes.
fn found(state: &ClusterState, moves: &[(&str, &str)], policy: &Policy) -> Vec<Violation> {
    let itself = |gang| Eviction { moves: true, ..evict(gang, gang, EvictionRule::Consolidation, 0) };
    let evictions = moves.iter().map(|(gang, _)| itself(gang)).collect();
    let holds = moves.iter().map(|(gang, to)| hold(gang, &[to])).collect();
    check_plan(state, &Plan { evictions, holds, ..plan(state) }, policy)
}

fn policy(moves_max: u32) -> Policy {
    let consolidation = ConsolidationPolicy { moves_max, ..ConsolidationPolicy::default() };
    Policy { explain: false, consolidation, ..Policy::default() }
}

fn wrong(what: &'static str) -> Vec<Violation> {
    vec![Violation::NotTheRule { gang: name("r"), what }]
}

#[test]
fn a_node_becomes_empty_and_no_other_one_is_used_for_it() {
    let tidy = state(&[saved("r", 2, "a"), on(gang("s", 1, 4), "b")]);
    assert_eq!(found(&tidy, &[("r", "b")], &policy(1)), []);
    assert_eq!(found(&tidy, &[("r", "c")], &policy(1)), wrong("it goes to a node that is not in use"));
    let shared = state(&[saved("r", 2, "a"), on(gang("o", 1, 1), "a"), on(gang("s", 1, 4), "b")]);
    assert_eq!(found(&shared, &[("r", "b")], &policy(1)), wrong("no node becomes empty by it"));
    let full = state(&[saved("r", 5, "a"), on(gang("s", 1, 3), "b")]);
    assert_eq!(
        found(&full, &[("r", "b")], &policy(1)),
        wrong("no node becomes empty by it"),
        "more than half"
    );
}

#[test]
fn who_is_moved_has_room_where_it_goes() {
    let tight = state(&[saved("r", 4, "a"), on(gang("s", 1, 5), "b")]);
    let over = Violation::NodeOver { node: "b".into(), resource: "gpus", used: 9, allocatable: 8 };
    assert_eq!(found(&tight, &[("r", "b")], &policy(1)), [over]);
    let homeless = Plan {
        evictions: vec![Eviction { moves: true, ..evict("r", "r", EvictionRule::Consolidation, 0) }],
        ..plan(&tight)
    };
    assert_eq!(check_plan(&tight, &homeless, &policy(1)), [Violation::EvictedForNobody(name("r"))]);
}

#[test]
fn only_so_many_are_moved_and_nobody_who_has_just_started_or_would_lose_by_it() {
    let two = state(&[saved("r", 1, "a"), saved("t", 1, "a"), on(gang("s", 1, 4), "b")]);
    let both = [("r", "b"), ("t", "b")];
    assert_eq!(found(&two, &both, &policy(1))[..1], wrong("more are moved than may"));
    assert_eq!(found(&two, &both, &policy(2)), []);

    let young = with(saved("r", 2, "a"), |pod| pod.started = Some(at(NOW - 599)));
    let young = state(&[young, on(gang("s", 1, 4), "b")]);
    assert_eq!(found(&young, &[("r", "b")], &policy(1)), wrong("it was just started"));
    let lossy = with_terms(saved("r", 2, "a"), Terms::default());
    let lossy = state(&[lossy, on(gang("s", 1, 4), "b")]);
    let found = found(&lossy, &[("r", "b")], &policy(1));
    assert!(found.contains(&wrong("it does not save its state")[0]), "{found:?}");
}
