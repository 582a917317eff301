//! What pods ask of other pods, judged in the order of the plan.

use std::sync::Arc;

use cluster_model::{LabelSet, Neighbours, Node, Pod, PodTerm, Scope, Selector, SpreadConstraint};
use plan_check::Violation;

use crate::build::{cluster, gang, judged, key, node, on, place, with};

/// Two racks of two nodes, and one without a rack.
fn nodes() -> Vec<Node> {
    let at = |name: &str, rack: Option<&str>| {
        let rack = rack.map(|rack| ("rack".into(), rack.into()));
        let labels = [("host".into(), name.into())].into_iter().chain(rack).collect();
        Node { labels, ..node(name, "x", "1") }
    };
    vec![at("a", Some("1")), at("b", Some("1")), at("c", Some("2")), at("d", Some("2")), at("e", None)]
}

fn app(name: &str, members: u32, app: &str) -> Vec<Pod> {
    let labels: LabelSet = [("app", app)].into_iter().collect();
    with(gang(name, members, 1), |pod| pod.labels = labels.clone())
}

fn asking(pods: Vec<Pod>, neighbours: Neighbours) -> Vec<Pod> {
    let neighbours = Arc::new(neighbours);
    with(pods, |pod| pod.neighbours = Some(neighbours.clone()))
}

fn term(key: &str, app: &str) -> Vec<PodTerm> {
    let scope = Scope::within("team", Selector::of([("app", app)]));
    vec![PodTerm { scope, topology_key: key.into() }]
}

fn apart(key: &str, app: &str) -> Neighbours {
    Neighbours { anti_affinity: term(key, app), ..Neighbours::default() }
}

fn near(key: &str, app: &str) -> Neighbours {
    Neighbours { affinity: term(key, app), ..Neighbours::default() }
}

fn forbidden(gang: &str, index: u32, node: &str) -> Violation {
    Violation::NeighboursForbid(key(gang, index), node.into())
}

#[test]
fn pods_are_kept_apart_whichever_comes_first() {
    let quiet = |key: &str| asking(app("g", 1, "quiet"), apart(key, "noisy"));
    let noisy = || app("n", 1, "noisy");
    let both = |one: Vec<Pod>, other: Vec<Pod>| cluster(nodes(), one.into_iter().chain(other));
    let apart = Violation::NotApart { pod: key("g", 0), other: key("n", 0) };
    let state = both(quiet("host"), on(noisy(), "a"));
    assert_eq!(judged(&state, vec![place("g", &["a"])]), [apart.clone(), forbidden("g", 0, "a")]);
    assert_eq!(judged(&state, vec![place("g", &["b"])]), []);
    let state = both(quiet("rack"), on(noisy(), "a"));
    assert_eq!(judged(&state, vec![place("g", &["b"])]), [apart.clone(), forbidden("g", 0, "b")]);
    assert_eq!(judged(&state, vec![place("g", &["e"])]), [], "who has no rack is near nobody");
    let state = both(on(quiet("host"), "a"), noisy());
    assert_eq!(judged(&state, vec![place("n", &["a"])]), [apart.clone(), forbidden("n", 0, "a")]);
    let state = both(quiet("host"), noisy());
    let plan = vec![place("n", &["a"]), place("g", &["a"])];
    assert_eq!(judged(&state, plan), [apart, forbidden("g", 0, "a")], "both come now");
}

#[test]
fn who_must_be_near_is_there_before() {
    let state = |there: Vec<Pod>| {
        cluster(nodes(), asking(app("g", 2, "web"), near("rack", "web")).into_iter().chain(there))
    };
    assert_eq!(judged(&state(vec![]), vec![place("g", &["a", "b"])]), [], "the first begins anywhere");
    assert_eq!(judged(&state(vec![]), vec![place("g", &["a", "c"])]), [forbidden("g", 1, "c")]);
    assert_eq!(
        judged(&state(vec![]), vec![place("g", &["e", "e"])]),
        [forbidden("g", 0, "e"), forbidden("g", 1, "e")]
    );
    let there = on(app("w", 1, "web"), "c");
    assert_eq!(judged(&state(there), vec![place("g", &["a", "d"])]), [forbidden("g", 0, "a")]);
    // In the order of the plan: the one that is needed must come before.
    let wants = || asking(app("g", 1, "x"), near("rack", "web"));
    let state = cluster(nodes(), wants().into_iter().chain(app("w", 1, "web")));
    assert_eq!(judged(&state, vec![place("w", &["a"]), place("g", &["b"])]), []);
    assert_eq!(judged(&state, vec![place("g", &["b"]), place("w", &["a"])]), [forbidden("g", 0, "b")]);
}

#[test]
fn pods_alike_are_spread_with_each_step() {
    let constraint = SpreadConstraint::new("rack", 1, Selector::of([("app", "web")]));
    let spread = Neighbours { spread: vec![constraint], ..Neighbours::default() };
    let state = |there: Vec<Pod>| {
        cluster(nodes(), asking(app("g", 3, "web"), spread.clone()).into_iter().chain(there))
    };
    assert_eq!(judged(&state(vec![]), vec![place("g", &["a", "c", "b"])]), []);
    assert_eq!(judged(&state(vec![]), vec![place("g", &["a", "b", "c"])]), [forbidden("g", 1, "b")]);
    let there = on(app("w", 2, "web"), "c");
    assert_eq!(judged(&state(there), vec![place("g", &["a", "b", "c"])]), []);
    let leaves = with(on(app("w", 2, "web"), "c"), |pod| pod.terminating = true);
    assert_eq!(judged(&state(leaves), vec![place("g", &["a", "c", "b"])]), [], "who leaves does not count");
}
