//! What a gang asks beyond resources.

use cluster_model::policy::{EnergyPolicy, Policy};
use cluster_model::{
    ClusterChange, ClusterState, GroupTerms, Level, Node, Pod, Power, Queue, Segment, Spread, Terms,
    TopologyTerms,
};
use plan_check::{Violation, check_plan};

use crate::build::{cluster, gang, judged, key, name, node, on, place, plan, with, with_terms};

/// Two zones with two racks each, of one node.
fn nodes() -> [Node; 4] {
    [node("a", "x", "1"), node("b", "x", "2"), node("c", "y", "1"), node("d", "y", "2")]
}

fn placed(pods: Vec<Pod>, nodes_of_members: &[&str]) -> Vec<Violation> {
    judged(&cluster(nodes(), pods), vec![place("g", nodes_of_members)])
}

#[test]
fn a_required_domain_is_for_all_members_also_those_that_run() {
    let topology = TopologyTerms { required: Some(Level(0)), ..TopologyTerms::default() };
    let pods = || with_terms(gang("g", 3, 1), Terms { topology, ..Terms::default() });
    let apart = [Violation::NotTogether { gang: name("g"), part: "the whole".to_owned() }];
    assert_eq!(placed(pods(), &["a", "b", "a"]), []);
    assert_eq!(placed(pods(), &["a", "b", "c"]), apart, "zone x and zone y");
    let mut some_run = pods();
    some_run[2].node = Some("c".into());
    assert_eq!(placed(some_run.clone(), &["a", "b"]), apart, "the third runs in zone y");
    assert_eq!(placed(some_run, &["d", "d"]), []);
    let topology = TopologyTerms { required: Some(Level(2)), ..TopologyTerms::default() };
    let deeper = with_terms(gang("g", 3, 1), Terms { topology, ..Terms::default() });
    assert_eq!(placed(deeper, &["a", "a", "a"]), apart, "no node lies in a domain of that level");
}

#[test]
fn each_segment_lies_in_one_domain() {
    let segment = Some(Segment { members: 2, level: Level(1) });
    let topology = TopologyTerms { segment, ..TopologyTerms::default() };
    let pods = || with_terms(gang("g", 4, 1), Terms { topology, ..Terms::default() });
    assert_eq!(placed(pods(), &["a", "a", "c", "c"]), []);
    let apart =
        |number| Violation::NotTogether { gang: name("g"), part: format!("segment {number} of the whole") };
    assert_eq!(placed(pods(), &["a", "c", "a", "c"]), [apart(0), apart(1)], "rack 1 of x is not rack 1 of y");
    assert_eq!(placed(pods(), &["a", "a", "a", "b"]), [apart(1)]);
}

#[test]
fn groups_start_whole_and_lie_together() {
    let group = |parent: Option<&str>, members_min, required| GroupTerms {
        parent: parent.map(Into::into),
        members_min,
        topology: TopologyTerms { required, ..TopologyTerms::default() },
    };
    let groups = [
        ("outer".into(), group(None, Some(2), Some(Level(0)))),
        ("inner".into(), group(Some("outer"), None, Some(Level(1)))),
    ];
    let terms = Terms { groups: groups.into(), members_max: Some(4), ..Terms::default() };
    let mut pods = with_terms(gang("g", 4, 1), terms);
    for (pod, group) in pods.iter_mut().zip(["inner", "inner", "outer"]) {
        pod.group = Some(group.into());
    }
    let pods = with(pods, |pod| pod.gang_size = Some(1));
    assert_eq!(placed(pods.clone(), &["a", "a", "b", "d"]), []);
    let apart = |part: &str| Violation::NotTogether { gang: name("g"), part: part.to_owned() };
    assert_eq!(placed(pods.clone(), &["a", "b", "b"]), [apart("group inner")]);
    assert_eq!(placed(pods.clone(), &["a", "a", "d"]), [apart("group outer")]);
    let part = |group: &str| Violation::GroupNotWhole(name("g"), group.into());
    assert_eq!(placed(pods, &["a"]), [part("inner"), part("outer")]);
}

#[test]
fn a_gang_with_a_maximum_runs_with_no_more_and_starts_with_its_size() {
    let pods = |size| {
        let pods = with_terms(gang("g", 4, 1), Terms { members_max: Some(3), ..Terms::default() });
        with(pods, |pod| pod.gang_size = Some(size))
    };
    assert_eq!(placed(pods(2), &["a", "a"]), []);
    assert_eq!(placed(pods(2), &["a", "a", "a"]), []);
    assert_eq!(placed(pods(2), &["a"]), [Violation::NotWhole(name("g"))]);
    assert_eq!(placed(pods(2), &["a", "a", "a", "a"]), [Violation::TooManyMembers(name("g"))]);
}

#[test]
fn members_are_spread_as_evenly_as_asked() {
    let spread = |level, skew_max| Some(Spread { level, skew_max });
    let pods = |spread| with_terms(gang("g", 4, 1), Terms { spread, ..Terms::default() });
    let uneven = |most, fewest| [Violation::Uneven { gang: name("g"), most, fewest }];
    assert_eq!(placed(pods(spread(Some(Level(0)), 1)), &["a", "a", "c", "d"]), []);
    assert_eq!(placed(pods(spread(Some(Level(0)), 1)), &["a", "b", "a", "d"]), uneven(3, 1));
    assert_eq!(placed(pods(spread(Some(Level(0)), 2)), &["a", "b", "a", "d"]), []);
    assert_eq!(placed(pods(spread(None, 1)), &["a", "a", "c", "d"]), uneven(2, 0), "node b has none");
}

#[test]
fn a_spot_node_is_for_those_who_take_it() {
    let spot = || [Node { spot: true, ..node("a", "x", "1") }];
    let takes = |takes_spot| with_terms(gang("g", 1, 1), Terms { takes_spot, ..Terms::default() });
    assert_eq!(judged(&cluster(spot(), takes(true)), vec![place("g", &["a"])]), []);
    let wrong = [Violation::WrongNode(key("g", 0), "a".into())];
    assert_eq!(judged(&cluster(spot(), takes(false)), vec![place("g", &["a"])]), wrong);
}

#[test]
fn a_power_cap_counts_nodes_that_are_on_and_gpus_in_use() {
    let powered = nodes().map(|node| Node { power: Some(Power { idle_watts: 500, gpu_watts: 100 }), ..node });
    let state = cluster(powered, gang("g", 2, 4).into_iter().chain(on(gang("r", 1, 8), "a")));
    let found = |nodes: &[&str], cap_watts| {
        let plan = cluster_model::plan::Plan { placements: vec![place("g", nodes)], ..plan(&state) };
        let energy = EnergyPolicy { cap_watts: Some(cap_watts) };
        let policy = Policy { energy, explain: false, ..Policy::default() };
        check_plan(&state, &plan, &policy)
    };
    // 500 + 8 × 100 for node a; for g 500 for each node, and 8 × 100.
    assert_eq!(found(&["b", "b"], 2600), []);
    let over = |watts, cap_watts| [Violation::PowerOver { watts, cap_watts }];
    assert_eq!(found(&["b", "b"], 2599), over(2600, 2599));
    assert_eq!(found(&["b", "c"], 2600), over(3100, 2600));
}

#[test]
fn a_queue_out_of_budget_starts_nothing_below_it_either() {
    let mut state = cluster(nodes(), gang("g", 1, 1));
    let spent = |state: &mut ClusterState, queue: Queue| state.apply(ClusterChange::Queue(queue));
    spent(&mut state, Queue { out_of_budget: true, ..Queue::new("org") });
    let below = Queue { parent: Some("org".into()), namespaces: ["team".into()].into(), ..Queue::new("a") };
    spent(&mut state, below);
    let found = judged(&state, vec![place("g", &["a"])]);
    assert_eq!(found, [Violation::OutOfBudget(name("g"), "org".into())]);
}

#[test]
fn of_gangs_alike_the_one_starts_whose_turn_it_is() {
    let early = gang("g", 1, 8);
    let late = with(gang("h", 1, 8), |pod| pod.created = crate::build::at(5));
    let urgent = with(gang("u", 1, 8), |pod| (pod.created, pod.priority) = (crate::build::at(7), 1));
    let other = with(gang("o", 1, 7), |pod| pod.created = crate::build::at(9));
    let pods: Vec<Pod> = [early, late, urgent, other].into_iter().flatten().collect();
    let state = cluster(nodes(), pods);
    let found = |placed: &str| {
        let waiting = ["g", "h", "u", "o"].into_iter().filter(|gang| *gang != placed);
        let plan = cluster_model::plan::Plan {
            placements: vec![place(placed, &["a"])],
            waiting: waiting.map(crate::build::wait).collect(),
            ..plan(&state)
        };
        check_plan(&state, &plan, &Policy::default())
    };
    let jumped = |gang: &str, waits: &str| Violation::OutOfTurn { gang: name(gang), waits: name(waits) };
    assert_eq!(found("u"), []);
    assert_eq!(found("o"), [], "it asks for something else");
    assert_eq!(found("g"), [jumped("g", "u")]);
    assert_eq!(found("h"), [jumped("h", "g"), jumped("h", "u")]);
}
