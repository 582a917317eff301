use cluster_model::{Amounts, ClusterChange, Node, Queue};

use placement::OrderPolicy;

use crate::build::{
    add, carry_out, cluster, cpu_node, each, gang, node, placements, planned, planned_in, queue, taint,
    toleration, waiting,
};

const NOTHING: [&str; 0] = [];

#[test]
fn a_gang_is_placed_whole_or_not_at_all() {
    let mut state = cluster(["a", "b", "c"].map(|name| node(name, "H100", 8)));
    add(&mut state, gang("big", 4, 8));
    add(&mut state, gang("one", 1, 1));
    let plan = planned_in(OrderPolicy::Age, &mut state);
    assert_eq!(placements(&plan), ["one: one-0@a"], "what waits does not hold up the next");
    let reason = "needs 8 free H100 on a node for each of 4 members; 3 fit (24 H100 free in all)";
    assert_eq!(waiting(&plan), [format!("big: {reason}")]);

    state.apply(ClusterChange::Node(node("d", "H100", 8)));
    let plan = planned_in(OrderPolicy::Age, &mut state);
    assert_eq!(placements(&plan), ["big: big-0@a big-1@b big-2@c big-3@d"]);
    assert_eq!(plan.waiting.len(), 1);

    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["one: one-0@a"], "by expected work the small one goes before it");
}

#[test]
fn the_fullest_node_that_fits_is_taken_so_that_whole_nodes_stay_free() {
    let mut state = cluster([node("a", "H100", 8), node("b", "H100", 4), node("c", "H100", 2)]);
    add(&mut state, gang("pair", 1, 2));
    add(&mut state, gang("triple", 1, 3));
    add(&mut state, gang("whole", 1, 8));
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["pair: pair-0@c", "triple: triple-0@b", "whole: whole-0@a"]);
}

#[test]
fn ties_are_broken_by_the_nodes_name() {
    let mut state = cluster(["c", "a", "b"].map(|name| node(name, "H100", 1)));
    add(&mut state, gang("g", 3, 1));
    assert_eq!(placements(&planned(&mut state)), ["g: g-0@a g-1@b g-2@c"]);
}

#[test]
fn members_share_nodes_as_far_as_they_fit() {
    let mut state = cluster([node("a", "H100", 5), node("b", "H100", 4)]);
    add(&mut state, gang("g", 4, 2));
    assert_eq!(placements(&planned(&mut state)), ["g: g-0@b g-1@b g-2@a g-3@a"]);
}

#[test]
fn a_gang_without_a_gpu_type_gets_one_type_for_all_the_first_by_name_that_fits() {
    let mut state = cluster([node("x", "A100", 8), node("y", "H100", 8), node("z", "H100", 8)]);
    add(&mut state, gang("g", 2, 8));
    assert_eq!(placements(&planned(&mut state)), ["g: g-0@y g-1@z"]);
    add(&mut state, gang("h", 3, 8));
    let reasons = waiting(&planned(&mut state)).remove(0);
    assert_eq!(
        reasons,
        "h: needs 8 free A100 on a node for each of 3 members; 1 fits (8 A100 free in all) | \
         needs 8 free H100 on a node for each of 3 members; none fits (0 H100 free in all)"
    );
}

#[test]
fn a_gpu_type_that_is_asked_for_is_honoured_or_waited_for() {
    let mut state = cluster([node("x", "A100", 8), node("y", "H100", 8)]);
    add(&mut state, each(gang("g", 1, 8), |pod| pod.gpu_types = vec!["H100".into()]));
    add(&mut state, each(gang("h", 1, 1), |pod| pod.gpu_types = vec!["B200".into()]));
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["g: g-0@y"]);
    assert_eq!(waiting(&plan), ["h: no node that takes pods has B200"]);
}

#[test]
fn more_gpus_than_any_node_has_is_said_so() {
    let mut state = cluster([node("x", "H100", 8)]);
    add(&mut state, gang("g", 1, 16));
    assert_eq!(waiting(&planned(&mut state)), ["g: requests 16 H100 on one node; the largest node has 8"]);
    let mut state = cluster([cpu_node("c", 4000)]);
    add(&mut state, gang("g", 1, 1));
    assert_eq!(waiting(&planned(&mut state)), ["g: no node that takes pods has GPUs"]);
}

#[test]
fn every_queue_that_has_no_room_is_named_and_the_nodes_too() {
    let mut state = cluster([node("a", "H100", 8), node("b", "H100", 8)]);
    state.apply(ClusterChange::Queue(queue("org", None, &[("H100", 10)])));
    state.apply(ClusterChange::Queue(queue("nlp", Some("org"), &[("H100", 8)])));
    add(&mut state, each(gang("runs", 1, 6), |pod| pod.node = Some("a".into())));
    add(&mut state, gang("g", 3, 8));
    add(&mut state, gang("small", 1, 2));
    let plan = planned_in(OrderPolicy::Age, &mut state);
    assert_eq!(
        waiting(&plan),
        ["g: queue nlp holds 6 of 8 H100; requests 24 | queue org holds 6 of 10 H100; requests 24 | \
          needs 8 free H100 on a node for each of 3 members; 1 fits (10 H100 free in all)"]
    );
    assert_eq!(placements(&plan), ["small: small-0@a"], "it fills the quota to the brim");
}

#[test]
fn a_queue_above_bounds_the_queues_below_together() {
    let mut state = cluster([node("a", "H100", 8)]);
    state.apply(ClusterChange::Queue(queue("org", None, &[("H100", 4)])));
    state.apply(ClusterChange::Queue(queue("nlp", Some("org"), &[])));
    state.apply(ClusterChange::Queue(queue("vision", Some("org"), &[])));
    add(&mut state, gang("g", 1, 3));
    add(&mut state, each(gang("h", 1, 2), |pod| pod.queue = Some("vision".into())));
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["g: g-0@a"]);
    assert_eq!(
        waiting(&plan),
        ["h: queue org holds 3 of 4 H100; requests 2"],
        "what this plan placed counts"
    );
}

#[test]
fn cpu_and_memory_of_a_queue_are_bounded_too() {
    let amounts = Amounts { cpu_millis: Some(1500), memory_bytes: Some(1 << 30), ..Amounts::default() };
    let mut state = cluster([node("a", "H100", 8)]);
    state.apply(ClusterChange::Queue(Queue { quota: Some(amounts), ..queue("nlp", None, &[]) }));
    add(&mut state, gang("g", 2, 1));
    let expected =
        "g: queue nlp holds 0 of 1500m cpu; requests 2 | queue nlp holds 0 of 1Gi memory; requests 2Gi";
    assert_eq!(waiting(&planned(&mut state)), [expected]);
}

#[test]
fn a_type_that_the_quota_leaves_out_is_passed_over() {
    let mut state = cluster([node("a", "A100", 8), node("b", "H100", 8)]);
    state.apply(ClusterChange::Queue(queue("nlp", None, &[("H100", 8)])));
    add(&mut state, gang("g", 1, 8));
    assert_eq!(placements(&planned(&mut state)), ["g: g-0@b"]);
}

#[test]
fn the_rest_of_a_gang_bound_in_part_comes_first_and_is_not_asked_for_quota_again() {
    let mut state = cluster([node("a", "A100", 1), node("h1", "H100", 1), node("h2", "H100", 1)]);
    state.apply(ClusterChange::Queue(queue("nlp", None, &[("H100", 1)])));
    let mut started = gang("started", 2, 1);
    started[0].node = Some("h1".into());
    add(&mut state, each(gang("urgent", 1, 1), |pod| pod.priority = 9));
    add(&mut state, started);
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["started: started-1@h2"], "on the type that it has");
    assert_eq!(plan.waiting.len(), 1);
}

#[test]
fn members_beyond_the_gangs_size_are_asked_for_quota() {
    let mut state = cluster([node("a", "H100", 8)]);
    state.apply(ClusterChange::Queue(queue("nlp", None, &[("H100", 2)])));
    let whole = each(gang("g", 2, 1), |pod| pod.node = Some("a".into()));
    let extra = each(gang("g", 4, 1).split_off(2), |pod| pod.gang_size = Some(2));
    add(&mut state, whole);
    add(&mut state, extra);
    assert_eq!(waiting(&planned(&mut state)), ["g: queue nlp holds 2 of 2 H100; requests 2"]);
}

/// Queue `nlp` may hold 1 H100. Of a gang of 3, member 0 runs; the others were recreated, and `change` is what
/// differs in them.
fn made_anew(change: impl Fn(&mut cluster_model::Pod)) -> placement::Plan {
    let mut state = cluster([node("a", "H100", 8), node("b", "H100", 8), node("l", "L4", 8)]);
    state.apply(ClusterChange::Queue(queue("nlp", None, &[("H100", 1), ("L4", 1)])));
    let mut members = gang("g", 3, 1);
    members[0].node = Some("a".into());
    members[1..].iter_mut().for_each(change);
    add(&mut state, members);
    add(&mut state, each(gang("urgent", 1, 0), |pod| pod.priority = 9));
    planned(&mut state)
}

#[test]
fn members_made_anew_that_ask_for_more_than_was_granted_are_asked_for_quota_and_do_not_come_first() {
    let plan = made_anew(|_| {});
    assert_eq!(
        placements(&plan),
        ["g: g-1@a g-2@a", "urgent: urgent-0@a"],
        "as granted: first, without quota"
    );

    let plan = made_anew(|pod| pod.requests.gpus = 8);
    assert_eq!(placements(&plan), ["urgent: urgent-0@a"]);
    let reason = "g: queue nlp holds 1 of 1 H100; requests 16 | \
                  needs 8 free H100 on a node for each of 2 members; 1 fits (15 H100 free in all)";
    assert_eq!(waiting(&plan), [reason]);

    let plan = made_anew(|pod| pod.requests.cpu_millis += 1);
    assert_eq!(waiting(&plan), ["g: queue nlp holds 1 of 1 H100; requests 2"], "more of anything is more");
    let plan = made_anew(|pod| pod.requests.memory_bytes += 1);
    assert_eq!(waiting(&plan), ["g: queue nlp holds 1 of 1 H100; requests 2"]);
    let plan = made_anew(|pod| pod.gpu_types = vec!["L4".into()]);
    assert_eq!(waiting(&plan), ["g: queue nlp holds 0 of 1 L4; requests 2"], "another type was not granted");
    let plan = made_anew(|pod| pod.requests.gpus = 0);
    let first = placements(&plan).remove(0);
    assert_eq!(first, "g: g-1@a g-2@a", "less is granted");
}

#[test]
fn one_member_that_asks_for_more_takes_the_exemption_from_all() {
    let plan = made_anew(|pod| pod.requests.gpus = if pod.member_index == Some(2) { 8 } else { 1 });
    assert_eq!(waiting(&plan), ["g: queue nlp holds 1 of 1 H100; requests 9"]);
}

#[test]
fn a_gang_cannot_grow_by_members_that_say_another_size() {
    let plan = made_anew(|pod| pod.gang_size = Some(30));
    assert_eq!(waiting(&plan), ["g: the members of the gang differ in their gang size"]);
}

#[test]
fn when_all_started_members_have_ended_the_rest_is_asked_for_quota() {
    let mut state = cluster([node("a", "H100", 8)]);
    state.apply(ClusterChange::Queue(queue("nlp", None, &[("H100", 1)])));
    let rest = gang("g", 3, 1).split_off(1);
    let key = rest[0].gang.clone();
    add(&mut state, rest);
    add(&mut state, each(gang("urgent", 1, 1), |pod| pod.priority = 9));
    state.note_ended(&key, 1);
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["urgent: urgent-0@a"]);
    assert_eq!(waiting(&plan), ["g: queue nlp holds 1 of 1 H100; requests 2"]);
}

#[test]
fn a_gang_waits_for_its_members_and_its_gates() {
    let mut state = cluster([node("a", "H100", 8)]);
    add(&mut state, gang("few", 3, 1).split_off(1));
    let mut gated = gang("gated", 2, 1);
    gated[1].gated = true;
    add(&mut state, gated);
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), NOTHING);
    assert_eq!(waiting(&plan), ["few: 2 of 3 pods exist", "gated: 1 pod is held back by a scheduling gate"]);
}

#[test]
fn what_can_never_start_says_so_before_anything_else() {
    let mut state = cluster([node("a", "H100", 8)]);
    add(
        &mut state,
        each(gang("g", 2, 1).split_off(1), |pod| pod.unsupported = vec!["spec.resourceClaims".into()]),
    );
    let mut torn = gang("torn", 2, 1);
    torn[1].queue = Some("vision".into());
    torn[1].gpu_types = vec!["H100".into()];
    add(&mut state, torn);
    add(&mut state, each(gang("lost", 1, 1), |pod| pod.queue = Some("nowhere".into())));
    let plan = planned(&mut state);
    assert_eq!(
        waiting(&plan),
        [
            "g: requests something that is not supported yet: spec.resourceClaims | 1 of 2 pods exist",
            "torn: the members of the gang differ in their queue | the members of the gang differ in their GPU type",
            "lost: queue nowhere does not exist",
        ]
    );
    let never: Vec<_> = plan.waiting.iter().map(|gang| gang.reasons[0].is_never()).collect();
    assert_eq!(never, [true, true, false]);
}

#[test]
fn taints_and_node_selectors_are_honoured() {
    let tainted = Node { taints: vec![taint("warpyard.dev/gpu")], ..node("tainted", "H100", 8) };
    let labelled = Node { labels: [("zone".into(), "a".into())].into(), ..node("labelled", "H100", 8) };
    let closed = Node { schedulable: false, ..node("closed", "H100", 8) };
    let mut state = cluster([tainted, labelled, closed]);
    let in_zone = |pod: &mut cluster_model::Pod| pod.node_selector = [("zone".into(), "a".into())].into();
    let tolerant = |pod: &mut cluster_model::Pod| pod.tolerations = vec![toleration("warpyard.dev/gpu")];
    add(&mut state, each(gang("a-in-zone", 1, 8), in_zone));
    add(&mut state, gang("b-plain", 1, 8));
    add(
        &mut state,
        each(gang("c-in-zone", 1, 8), |pod| {
            in_zone(pod);
            tolerant(pod);
        }),
    );
    add(&mut state, each(gang("d-tolerant", 1, 8), tolerant));
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["a-in-zone: a-in-zone-0@labelled", "d-tolerant: d-tolerant-0@tainted"]);
    assert_eq!(
        waiting(&plan),
        [
            "b-plain: nodes with enough free H100 are refused: 1 by a taint; needs 1, none fits",
            "c-in-zone: nodes with enough free H100 are refused: 1 by the node selector; needs 1, none fits",
        ]
    );
}

#[test]
fn nodes_with_gpus_but_without_cpu_memory_or_room_for_pods_are_refused() {
    let mut small = node("small", "H100", 8);
    small.allocatable.cpu_millis = 2500;
    let mut state = cluster([small.clone()]);
    add(&mut state, gang("g", 4, 1));
    let sentence =
        |what: &str| format!("g: nodes with enough free H100 are refused: 1 {what}; needs 4, 2 fit");
    assert_eq!(waiting(&planned(&mut state)), [sentence("for cpu")]);
    small.allocatable =
        cluster_model::Resources { cpu_millis: 64_000, memory_bytes: 2 << 30, ..small.allocatable };
    state.apply(ClusterChange::Node(small.clone()));
    assert_eq!(waiting(&planned(&mut state)), [sentence("for memory")]);
    small.allocatable = cluster_model::Resources { memory_bytes: 64 << 30, pods: 2, ..small.allocatable };
    state.apply(ClusterChange::Node(small));
    assert_eq!(waiting(&planned(&mut state)), [sentence("for their number of pods")]);
}

#[test]
fn pods_without_gpus_prefer_nodes_without_gpus_and_the_fullest_of_them() {
    let mut state = cluster([node("a-gpu", "H100", 8), cpu_node("b", 3000), cpu_node("c", 2000)]);
    add(&mut state, gang("g", 5, 0));
    assert_eq!(placements(&planned(&mut state)), ["g: g-0@c g-1@c g-2@b g-3@b g-4@b"]);
    add(&mut state, gang("h", 1, 0));
    assert_eq!(placements(&planned(&mut state)), ["g: g-0@c g-1@c g-2@b g-3@b g-4@b", "h: h-0@a-gpu"]);
    add(&mut state, each(gang("i", 1, 0), |pod| pod.requests.cpu_millis = 100_000));
    assert_eq!(waiting(&planned(&mut state)), ["i: needs a node with 100 free cpu; none fits"]);
}

#[test]
fn a_node_whose_gpus_are_overcommitted_still_takes_pods_without_gpus() {
    let mut state = cluster([node("a", "H100", 8)]);
    add(&mut state, each(gang("g", 1, 8), |pod| pod.node = Some("a".into())));
    state.apply(ClusterChange::Node(node("a", "H100", 4)));
    add(&mut state, gang("cpu", 1, 0));
    assert_eq!(placements(&planned(&mut state)), ["cpu: cpu-0@a"]);
}

#[test]
fn members_that_differ_are_placed_the_largest_first() {
    let mut state = cluster([node("a", "H100", 8), node("b", "H100", 4)]);
    let mut mixed = gang("g", 3, 4);
    mixed[2].requests.gpus = 8;
    add(&mut state, mixed);
    assert_eq!(waiting(&planned(&mut state)).len(), 1);
    state.apply(ClusterChange::Node(node("c", "H100", 4)));
    assert_eq!(placements(&planned(&mut state)), ["g: g-2@a g-0@b g-1@c"]);
}

#[test]
fn a_plan_that_is_carried_out_leaves_nothing_to_place() {
    let mut state = cluster(["a", "b"].map(|name| node(name, "H100", 8)));
    add(&mut state, gang("g", 2, 6));
    add(&mut state, gang("h", 2, 2));
    add(&mut state, gang("i", 1, 1));
    let plan = planned(&mut state);
    carry_out(&mut state, &plan);
    let next = planned(&mut state);
    assert_eq!(placements(&next), NOTHING);
    assert_eq!(next.waiting.len(), plan.waiting.len());
}

#[test]
fn the_rest_of_a_gang_whose_first_members_have_ended_is_still_placed() {
    let mut state = cluster([node("a", "H100", 8)]);
    let mut pods = gang("g", 3, 1);
    pods.truncate(1);
    let key = pods[0].gang.clone();
    add(&mut state, pods);
    assert_eq!(waiting(&planned(&mut state)), ["g: 1 of 3 pods exist"]);
    state.note_ended(&key, 1);
    assert_eq!(
        waiting(&planned(&mut state)),
        ["g: 2 of 3 pods exist"],
        "one that ended does not stand for all"
    );
    state.note_ended(&key, 2);
    assert_eq!(placements(&planned(&mut state)), ["g: g-0@a"]);
}

#[test]
fn once_a_member_is_bound_members_that_are_gone_are_not_waited_for() {
    let mut state = cluster([node("a", "H100", 8)]);
    let mut pods = gang("g", 3, 1);
    pods.truncate(2);
    pods[0].node = Some("a".into());
    add(&mut state, pods);
    assert_eq!(placements(&planned(&mut state)), ["g: g-1@a"]);
}
