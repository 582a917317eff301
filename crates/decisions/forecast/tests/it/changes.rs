use std::sync::Arc;

use cluster_model::{ClusterChange, ClusterState, GangKey, Level, Node, Pod, Terms, TopologyTerms};
use forecast::{RequestChange, changes};
use placement::{OrderPolicy, Policy, plan};
use plan_check::check_plan;

use crate::build::{NOW, at, cluster, each, gang, key, node, queue, running};

/// What is offered, as text; each change is made and planned, and the judge looks at the plan.
fn offered(state: &ClusterState, name: &str) -> Vec<String> {
    offered_by(state, name, &Policy { order: OrderPolicy::Age, ..Policy::default() })
}

fn offered_by(state: &ClusterState, name: &str, policy: &Policy) -> Vec<String> {
    let gang: GangKey = key(name);
    let before = state.dump();
    let found = changes(state, policy, at(NOW), &gang);
    assert_eq!(state.dump(), before);
    for change in &found {
        let mut changed = state.clone();
        change.steps(state, &gang, at(NOW)).into_iter().for_each(|step| changed.apply(step));
        let plan = plan(&mut changed, policy, at(NOW));
        assert!(plan.placements.iter().any(|it| it.gang == gang), "{change} does not start it");
        assert_eq!(check_plan(&changed, &plan, policy), []);
    }
    found.iter().map(RequestChange::to_string).collect()
}

fn of_type(pods: Vec<Pod>, gpu_type: &str) -> Vec<Pod> {
    each(pods, |pod| pod.gpu_types = vec![gpu_type.into()])
}

fn with_terms(pods: Vec<Pod>, terms: &Terms) -> Vec<Pod> {
    let terms = Arc::new(terms.clone());
    each(pods, |pod| pod.terms = terms.clone())
}

#[test]
fn the_most_gpus_and_members_that_fit_are_offered() {
    let state = cluster(
        [node("n0", "A100", 8), node("n1", "A100", 8)],
        vec![running("runs", 3, 50, "n0"), gang("waits", 2, 8, 10)],
    );
    assert_eq!(offered(&state, "waits"), ["with 5 GPUs per member", "with 1 member"]);
}

#[test]
fn another_gpu_type_is_offered_if_it_has_room() {
    let nodes = [node("n0", "A100", 8), node("n1", "H100", 8), node("n2", "L4", 4)];
    let waits = of_type(gang("waits", 1, 8, 10), "A100");
    let state = cluster(nodes, vec![running("runs", 8, 50, "n0"), waits]);
    assert_eq!(offered(&state, "waits"), ["with GPUs of type H100"]);
}

#[test]
fn the_innermost_level_that_has_room_is_offered() {
    let required = Some(Level(1));
    let terms = Terms { topology: TopologyTerms { required, ..Default::default() }, ..Terms::default() };
    let nodes = [node("n0", "A100", 8), node("n1", "A100", 8)];
    let waits = with_terms(gang("waits", 2, 8, 10), &terms);
    let found = offered(&cluster(nodes, vec![waits]), "waits");
    assert_eq!(
        found,
        ["with 4 GPUs per member", "with 1 member", "within one domain of level 0"],
        "both racks are in one zone"
    );
}

#[test]
fn a_queue_that_is_open_and_has_room_is_offered_and_one_that_is_closed_is_not() {
    let mut state = cluster([node("n0", "A100", 8)], vec![gang("waits", 1, 1, 10)]);
    let spent = cluster_model::Queue { out_of_budget: true, ..queue("nlp") };
    let closed = cluster_model::Queue { namespaces: ["others".into()].into(), ..queue("closed") };
    for queue in [spent, queue("open"), closed] {
        state.apply(ClusterChange::Queue(queue));
    }
    assert_eq!(offered(&state, "waits"), ["in queue open"]);
}

#[test]
fn spot_is_offered_to_who_does_not_take_it() {
    let spot = Node { spot: true, ..node("n1", "A100", 8) };
    let state = cluster([node("n0", "A100", 4), spot], vec![gang("waits", 1, 8, 10)]);
    assert_eq!(offered(&state, "waits"), ["with 4 GPUs per member", "on spot nodes"]);
}

#[test]
fn nothing_is_offered_to_who_starts_runs_or_cannot_be_helped() {
    let nodes = [node("n0", "A100", 8)];
    let state = cluster(
        nodes,
        vec![running("runs", 4, 50, "n0"), gang("starts", 1, 4, 40), gang("too-late", 1, 2, 10)],
    );
    for name in ["starts", "runs", "too-late", "nobody"] {
        assert_eq!(offered(&state, name), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn what_would_start_only_once_others_gave_way_is_not_offered_as_now() {
    let mut policy = Policy { order: OrderPolicy::Age, ..Policy::default() };
    policy.eviction.by_priority = true;
    let waits = each(gang("waits", 1, 8, 10), |pod| pod.priority = 10);
    let mut state = cluster([node("n0", "A100", 8)], vec![running("runs", 5, 50, "n0"), waits]);
    assert_eq!(plan(&mut state, &policy, at(NOW)).evictions.len(), 1, "it would get room for all 8");
    assert_eq!(offered_by(&state, "waits", &policy), ["with 3 GPUs per member"]);
}
