//! Where members go: topology, spread, devices, power, and what is usually asked for.

use std::sync::Arc;

use cluster_model::{
    ClusterChange, DeviceAsk, DevicePart, DeviceUse, GroupTerms, Level, MigProfile, Node, Pod, Power,
    Segment, Spread, Terms, TopologyTerms,
};
use jiff::Timestamp;
use placement::{EnergyPolicy, Packing, Plan, Policy, plan};
use plan_check::check_plan;

use crate::build::{add, cluster, each, gang, node, placements, planned, waiting};

const RACK: Level = Level(1);

/// A node in `zone/rack`.
fn at(place: &str, name: &str, gpus: i64) -> Node {
    Node { topology: place.split('/').map(Into::into).collect(), ..node(name, "H100", gpus) }
}

fn with_terms(pods: Vec<Pod>, terms: Terms) -> Vec<Pod> {
    let terms = Arc::new(terms);
    each(pods, |pod| pod.terms = terms.clone())
}

fn together(level: Level) -> Terms {
    Terms {
        topology: TopologyTerms { required: Some(level), ..TopologyTerms::default() },
        ..Terms::default()
    }
}

fn planned_with(state: &mut cluster_model::ClusterState, policy: &Policy) -> Plan {
    let plan = plan(state, policy, Timestamp::UNIX_EPOCH);
    assert_eq!(check_plan(state, &plan, policy), []);
    plan
}

#[test]
fn a_gang_that_must_lie_together_takes_the_tightest_rack_with_room() {
    let nodes = [at("a/r1", "n1", 8), at("a/r1", "n2", 8), at("a/r2", "n3", 4), at("b/r1", "n4", 2)];
    let mut state = cluster(nodes);
    add(&mut state, with_terms(gang("train", 3, 1), together(RACK)));
    assert_eq!(placements(&planned(&mut state)), ["train: train-0@n3 train-1@n3 train-2@n3"]);
}

#[test]
fn a_gang_that_fits_in_no_rack_waits_and_says_how_much_the_best_one_has() {
    let mut state = cluster([at("a/r1", "n1", 8), at("a/r2", "n2", 8), at("a/r2", "n3", 4)]);
    add(&mut state, with_terms(gang("train", 4, 4), together(RACK)));
    let expected = "train: must be in one domain of level 1; the best (a/r2) has room for 3 of 4 members";
    assert_eq!(waiting(&planned(&mut state)), [expected]);
}

#[test]
fn later_members_join_those_that_run() {
    let mut state = cluster([at("a/r1", "n1", 2), at("a/r2", "n2", 8)]);
    let pods = with_terms(gang("train", 3, 2), together(RACK));
    let pods = each(pods, |pod| pod.gang_size = Some(1));
    add(&mut state, vec![Pod { node: Some("n1".into()), ..pods[0].clone() }, pods[1].clone()]);
    let expected = "train: must be in one domain of level 1; the best (a/r1) has room for 0 of 1 members";
    assert_eq!(waiting(&planned(&mut state)), [expected]);
}

/// Of a gang of three, two run on these nodes.
fn two_of_three(
    state: &mut cluster_model::ClusterState,
    terms: Terms,
    nodes: [&str; 2],
    group: Option<&str>,
) {
    let mut pods = with_terms(gang("train", 3, 1), terms);
    for (pod, node) in pods.iter_mut().zip(nodes) {
        pod.node = Some(node.into());
    }
    for index in [0, 2] {
        pods[index].group = group.map(Into::into);
    }
    add(state, pods);
}

#[test]
fn what_is_required_binds_to_those_that_run_though_they_lie_apart_where_it_is_only_preferred() {
    let topology = TopologyTerms { required: Some(Level(0)), preferred: Some(RACK), segment: None };
    let mut state = cluster([at("a/r1", "n1", 1), at("a/r2", "n2", 8), at("b/r1", "n3", 1)]);
    two_of_three(&mut state, Terms { topology, ..Terms::default() }, ["n1", "n2"], None);
    assert_eq!(placements(&planned(&mut state)), ["train: train-2@n2"]);
}

#[test]
fn a_group_joins_those_of_it_that_run_though_its_gang_lies_apart() {
    let zone = TopologyTerms { required: Some(Level(0)), ..TopologyTerms::default() };
    let group = GroupTerms { topology: zone, ..GroupTerms::default() };
    let topology = TopologyTerms { preferred: Some(Level(0)), ..TopologyTerms::default() };
    let terms = Terms { topology, groups: [("left".into(), group)].into(), ..Terms::default() };
    let mut state = cluster([at("a/r1", "n1", 8), at("b/r1", "n2", 8), at("c/r1", "n3", 1)]);
    two_of_three(&mut state, terms, ["n1", "n2"], Some("left"));
    assert_eq!(placements(&planned(&mut state)), ["train: train-2@n1"]);
}

#[test]
fn who_only_prefers_a_rack_goes_one_level_further_out() {
    let topology = TopologyTerms { preferred: Some(RACK), ..TopologyTerms::default() };
    let terms = || Terms { topology, ..Terms::default() };
    let mut state = cluster([at("a/r1", "n1", 2), at("b/r1", "n2", 2), at("b/r2", "n3", 2)]);
    add(&mut state, with_terms(gang("large", 2, 2), terms()));
    assert_eq!(placements(&planned(&mut state)), ["large: large-0@n2 large-1@n3"]);
}

#[test]
fn segments_of_a_gang_lie_in_one_rack_each() {
    let segment = Some(Segment { members: 2, level: RACK });
    let topology = TopologyTerms { segment, ..TopologyTerms::default() };
    let mut state = cluster([at("a/r1", "n1", 3), at("a/r2", "n2", 2), at("a/r3", "n3", 1)]);
    add(&mut state, with_terms(gang("train", 5, 1), Terms { topology, ..Terms::default() }));
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["train: train-0@n2 train-1@n2 train-2@n1 train-3@n1 train-4@n1"]);
}

#[test]
fn groups_within_a_gang_lie_closer_than_the_gang() {
    let rack = TopologyTerms { required: Some(RACK), ..TopologyTerms::default() };
    let group = GroupTerms { topology: rack, ..GroupTerms::default() };
    let zone = TopologyTerms { required: Some(Level(0)), ..TopologyTerms::default() };
    let groups = [("left".into(), group.clone()), ("right".into(), group)].into();
    let terms = Terms { topology: zone, groups, ..Terms::default() };
    let mut state = cluster([at("a/r1", "n1", 4), at("b/r1", "n2", 2), at("b/r2", "n3", 2)]);
    let pods = with_terms(gang("train", 4, 1), terms);
    add(
        &mut state,
        each(pods, |pod| pod.group = Some(if pod.member_index < Some(2) { "left" } else { "right" }.into())),
    );
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["train: train-0@n1 train-1@n1 train-2@n1 train-3@n1"]);
}

#[test]
fn a_gang_is_spread_no_less_evenly_than_it_asks_for() {
    let terms = || Terms { spread: Some(Spread { level: Some(RACK), skew_max: 1 }), ..Terms::default() };
    let mut state = cluster([at("a/r1", "n1", 8), at("a/r2", "n2", 8), at("a/r3", "n3", 1)]);
    add(&mut state, with_terms(gang("serve", 5, 1), terms()));
    let plan = planned(&mut state);
    let on =
        |node: &str| plan.placements[0].members.iter().filter(|member| member.node.as_str() == node).count();
    assert_eq!((on("n1"), on("n2"), on("n3")), (2, 2, 1));
    add(&mut state, with_terms(gang("wide", 6, 1), terms()));
    let expected = "wide: 6 members fit, but not with at most 1 more in one domain than in another";
    assert_eq!(waiting(&planned(&mut state)), [expected]);
}

#[test]
fn shares_fill_a_device_before_another_is_opened_and_whole_gpus_take_unused_ones() {
    let exact = |name: &str| Node { exact: true, ..node(name, "L4", 2) };
    let share = |name: &str, millis| each(gang(name, 1, 0), |pod| pod.device = DeviceAsk::Share { millis });
    let mut state = cluster([exact("n1")]);
    let mut place = |pods: Vec<Pod>| -> Vec<DeviceUse> {
        add(&mut state, pods);
        let plan = planned(&mut state);
        state.commit(&plan).whole().unwrap();
        plan.placements.first().map(|gang| gang.members[0].devices.clone()).unwrap_or_default()
    };
    let part = |device, millis| vec![DeviceUse { device, part: DevicePart::Millis(millis) }];
    assert_eq!(place(share("a", 600)), part(0, 600));
    assert_eq!(place(share("b", 400)), part(0, 400));
    assert_eq!(place(gang("whole", 1, 1)), [DeviceUse { device: 1, part: DevicePart::Whole }]);
    assert_eq!(place(share("c", 100)), []);
}

#[test]
fn instances_are_cut_where_most_stays_possible_and_parts_are_never_on_counted_nodes() {
    let exact = Node { exact: true, ..node("n1", "H100", 1) };
    let mut state = cluster([exact, node("n2", "H100", 8)]);
    let mig = |name: &str, profile| each(gang(name, 1, 0), |pod| pod.device = DeviceAsk::Mig { profile });
    let mut starts = Vec::new();
    for (name, profile) in
        [("a", MigProfile::G3), ("b", MigProfile::G2), ("c", MigProfile::G1), ("d", MigProfile::G1)]
    {
        add(&mut state, mig(name, profile));
        let plan = planned(&mut state);
        state.commit(&plan).whole().unwrap();
        starts.push(plan.placements[0].members[0].devices[0].part);
    }
    let part = |profile, start| DevicePart::Mig { profile, start };
    let expected =
        [part(MigProfile::G3, 4), part(MigProfile::G2, 2), part(MigProfile::G1, 1), part(MigProfile::G1, 0)];
    assert_eq!(starts, expected);
    add(&mut state, mig("e", MigProfile::G1));
    let expected = "e: nodes with enough free H100 are refused: 1 because they give no parts of devices; needs 1, none fits";
    assert_eq!(waiting(&planned(&mut state)), [expected]);
}

#[test]
fn who_did_not_agree_is_not_put_where_nodes_are_taken_away() {
    let mut state = cluster([Node { spot: true, ..node("n1", "H100", 8) }]);
    add(&mut state, gang("careful", 1, 1));
    let taken = with_terms(gang("bold", 1, 1), Terms { takes_spot: true, ..Terms::default() });
    add(&mut state, taken);
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["bold: bold-0@n1"]);
    let expected =
        "careful: nodes with enough free H100 are refused: 1 because they are spot nodes; needs 1, none fits";
    assert_eq!(waiting(&plan), [expected]);
}

#[test]
fn below_a_power_cap_nodes_that_are_on_are_filled_and_what_would_exceed_it_waits() {
    let power = Some(Power { idle_watts: 1000, gpu_watts: 500 });
    let nodes = ["n1", "n2"].map(|name| Node { power, ..node(name, "H100", 4) });
    let mut state = cluster(nodes);
    let running = Pod { node: Some("n2".into()), ..gang("runs", 1, 1).remove(0) };
    state.apply(ClusterChange::Pod(running));
    add(&mut state, gang("small", 1, 2));
    add(&mut state, gang("wide", 1, 4));
    let energy = EnergyPolicy { cap_watts: Some(2_500) };
    let policy = Policy { energy, packing: Packing::Spread, ..Policy::default() };
    let plan = plan(&mut state, &policy, Timestamp::UNIX_EPOCH);
    assert_eq!(placements(&plan), ["small: small-0@n2"]);
    assert_eq!(waiting(&plan), ["wide: all nodes would draw 5500 of 2500 watts; they draw 2500"]);
}

#[test]
fn a_gang_that_takes_any_type_leaves_the_type_that_others_insist_on() {
    let mut state = cluster([node("n1", "A100", 8), node("n2", "H100", 8)]);
    for number in 0..20 {
        let name = format!("picky-{number}");
        add(&mut state, each(gang(&name, 1, 8), |pod| pod.gpu_types = vec!["A100".into()]));
    }
    for number in 0..20 {
        state.apply(ClusterChange::PodGone(gang(&format!("picky-{number}"), 1, 8)[0].key.clone()));
    }
    add(&mut state, gang("any", 1, 1));
    assert_eq!(placements(&planned(&mut state)), ["any: any-0@n2"]);
}

#[test]
fn what_is_remembered_from_plan_to_plan_changes_no_plan() {
    let nodes: Vec<Node> = (0..6).map(|number| node(&format!("n{number}"), "H100", 1 + number % 4)).collect();
    let mut state = cluster(nodes);
    for number in 0..24 {
        add(&mut state, gang(&format!("g{number}"), 1, 1 + number % 3));
        let plan = planned_with(&mut state, &Policy::default());
        // A copy has no memory.
        let afresh = planned_with(&mut state.clone(), &Policy::default());
        assert_eq!(plan, afresh, "after {number} gangs");
        state.commit(&plan).whole().unwrap();
        if number % 5 == 4 {
            state.apply(ClusterChange::PodGone(gang(&format!("g{}", number - 2), 1, 1)[0].key.clone()));
        }
    }
}
