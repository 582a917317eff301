//! What a node alone decides: labels and name, cordons, ports, other resources.

use std::sync::Arc;

use cluster_model::{
    ClusterChange, ClusterState, Features, HostPort, HostPorts, LabelRule, LabelTest, NameRule, Node,
    NodeAffinity, NodeTerm, OtherResources, Pod, PodKey, Taint,
};
use placement::testing::verdicts;

use crate::build::{
    add, carry_out, cluster, cpu_node, each, gang, node, placements, planned, taint, toleration, waiting,
};

fn labelled(name: &str, key: &str, value: &str) -> Node {
    let labels = [(key.into(), value.into())].into();
    Node { labels, ..node(name, "H100", 8) }
}

fn term(key: &str, test: LabelTest) -> NodeTerm {
    NodeTerm { labels: vec![LabelRule { key: key.into(), test }], names: vec![] }
}

#[expect(clippy::unnecessary_wraps, reason = "it is what a pod has")]
fn requires(terms: impl IntoIterator<Item = NodeTerm>) -> Option<Arc<NodeAffinity>> {
    Some(Arc::new(NodeAffinity { terms: terms.into_iter().collect() }))
}

fn network(amount: i64) -> OtherResources {
    [("rdma/hca".into(), amount)].into_iter().collect()
}

fn ports(number: u16, address: &str) -> HostPorts {
    [HostPort::new(number, "TCP", address)].into_iter().collect()
}

/// The nodes that would take the first member of a gang.
fn takers(state: &ClusterState, gang: &str) -> Vec<String> {
    let key = PodKey::new("team", format!("{gang}-0"), format!("uid-{gang}-0"));
    let all = verdicts(state, &key);
    assert_eq!(all.len(), state.nodes().count(), "every node gets a verdict");
    all.into_iter().filter(|(_, takes)| *takes).map(|(node, _)| node.to_string()).collect()
}

/// The nodes that would take a pod, and where it goes, which must be one of them.
fn check(nodes: impl IntoIterator<Item = Node>, change: impl Fn(&mut Pod), expected: &[&str]) {
    let mut state = cluster(nodes);
    add(&mut state, each(gang("g", 1, 1), change));
    assert_eq!(takers(&state, "g"), expected);
    let plan = planned(&mut state);
    let node = plan.placements.first().map(|gang| gang.members[0].node.as_str());
    assert_eq!(node.is_some(), !expected.is_empty(), "{:?}", waiting(&plan));
    assert!(node.is_none_or(|node| expected.contains(&node)));
}

#[test]
fn a_pod_goes_where_its_affinity_lets_it() {
    let nodes = || [labelled("a", "generation", "1"), labelled("b", "generation", "2"), node("c", "H100", 8)];
    let by = |terms: Vec<NodeTerm>| move |pod: &mut Pod| pod.node_affinity = requires(terms.clone());
    check(nodes(), by(vec![term("generation", LabelTest::In(["2".into()].into()))]), &["b"]);
    check(nodes(), by(vec![term("generation", LabelTest::NotIn(["2".into()].into()))]), &["a", "c"]);
    check(nodes(), by(vec![term("generation", LabelTest::Exists)]), &["a", "b"]);
    check(nodes(), by(vec![term("generation", LabelTest::DoesNotExist)]), &["c"]);
    check(nodes(), by(vec![term("generation", LabelTest::Above(1))]), &["b"]);
    check(nodes(), by(vec![term("generation", LabelTest::Below(2))]), &["a"]);
    let either = [term("generation", LabelTest::Above(1)), term("generation", LabelTest::DoesNotExist)];
    check(nodes(), by(either.to_vec()), &["b", "c"]);
    let named = |rule| NodeTerm { labels: vec![], names: vec![rule] };
    check(nodes(), by(vec![named(NameRule::Is("b".into()))]), &["b"]);
    check(nodes(), by(vec![named(NameRule::IsNot("b".into()))]), &["a", "c"]);
    check(nodes(), by(vec![]), &[]);
    check(nodes(), by(vec![NodeTerm::default()]), &[]);
    // With a selector as well, both must hold.
    let both = |pod: &mut Pod| {
        pod.node_affinity = requires([term("generation", LabelTest::Exists)]);
        pod.node_selector = [("generation".into(), "1".into())].into();
    };
    check(nodes(), both, &["a"]);
}

/// A label with as many values as there are nodes does not split kinds, so nodes are looked at one by one.
#[test]
fn affinity_by_a_label_that_every_node_has_another_value_of_is_honoured() {
    let names: Vec<String> = (100..200).map(|number| format!("n{number}")).collect();
    let nodes = || names.iter().map(|name| labelled(name, "host", name));
    let test = LabelTest::In(["n123".into(), "n177".into()].into());
    check(nodes(), |pod| pod.node_affinity = requires([term("host", test.clone())]), &["n123", "n177"]);
    let mut state = cluster(nodes());
    add(&mut state, each(gang("g", 3, 8), |pod| pod.node_affinity = requires([term("host", test.clone())])));
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), [""; 0]);
    assert_eq!(waiting(&plan).len(), 1);
}

#[test]
fn a_cordoned_node_takes_only_those_that_tolerate_it_and_is_named_as_such() {
    let nodes = || [node("a", "H100", 8), Node { cordoned: true, ..node("b", "H100", 8) }];
    check(nodes(), |_| {}, &["a"]);
    let cordon = Taint::cordon().key;
    check(nodes(), |pod| pod.tolerations = vec![toleration(&cordon)], &["a", "b"]);
    check(
        [Node { schedulable: false, ..node("a", "H100", 8) }],
        |pod| {
            pod.tolerations = vec![toleration(&cordon)];
        },
        &[],
    );
    let tainted = Node { taints: vec![taint("other")], ..node("c", "H100", 8) };
    let mut state = cluster([nodes()[1].clone(), tainted]);
    add(&mut state, gang("g", 1, 1));
    let reason = "g: nodes with enough free H100 are refused: 1 because they are cordoned, 1 by a taint; needs 1, none fits";
    assert_eq!(waiting(&planned(&mut state)), [reason]);
}

#[test]
fn no_two_pods_with_one_port_share_a_node() {
    let nodes = || ["a", "b"].map(|name| node(name, "H100", 8));
    let mut state = cluster(nodes());
    add(&mut state, each(gang("g", 2, 1), |pod| pod.host_ports = ports(80, "")));
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["g: g-0@a g-1@b"]);
    carry_out(&mut state, &plan);
    add(&mut state, each(gang("same", 1, 1), |pod| pod.host_ports = ports(80, "10.0.0.1")));
    add(&mut state, each(gang("other", 1, 1), |pod| pod.host_ports = ports(81, "")));
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["other: other-0@a"]);
    let reason = "same: nodes with enough free H100 are refused: 2 because a port of the host is taken; needs 1, none fits";
    assert_eq!(waiting(&plan), [reason]);

    // One too many, counted before anything is placed.
    let mut state = cluster(nodes());
    add(&mut state, each(gang("g", 3, 1), |pod| pod.host_ports = ports(80, "")));
    let reason =
        "g: nodes with enough free H100 are refused: 2 because a port of the host is taken; needs 3, 2 fit";
    assert_eq!(waiting(&planned(&mut state)), [reason]);
}

#[test]
fn a_port_of_another_schedulers_pod_is_taken_until_it_is_gone() {
    let mut state = cluster([node("a", "H100", 8)]);
    let foreign = Pod {
        ours: false,
        node: Some("a".into()),
        host_ports: ports(80, ""),
        ..gang("foreign", 1, 0).remove(0)
    };
    state.apply(ClusterChange::Pod(Pod { terminating: true, ..foreign.clone() }));
    add(&mut state, each(gang("g", 1, 1), |pod| pod.host_ports = ports(80, "")));
    assert_eq!(takers(&state, "g"), [""; 0]);
    state.apply(ClusterChange::PodGone(foreign.key));
    assert_eq!(takers(&state, "g"), ["a"]);
}

#[test]
fn other_resources_are_counted_per_node() {
    let with = |name: &str, amount| Node { other_allocatable: network(amount), ..node(name, "H100", 8) };
    let nodes = || [with("a", 1), with("b", 4), node("c", "H100", 8)];
    check(nodes(), |_| {}, &["a", "b", "c"]);
    check(nodes(), |pod| pod.other_requests = network(1), &["a", "b"]);
    check(nodes(), |pod| pod.other_requests = network(2), &["b"]);
    check(nodes(), |pod| pod.other_requests = network(5), &[]);

    let mut state = cluster(nodes());
    add(&mut state, each(gang("g", 5, 1), |pod| pod.other_requests = network(1)));
    let plan = planned(&mut state);
    let on = |node: &str| plan.placements[0].members.iter().filter(|it| it.node.as_str() == node).count();
    assert_eq!((on("a"), on("b"), on("c")), (1, 4, 0));
    carry_out(&mut state, &plan);
    add(&mut state, each(gang("late", 2, 1), |pod| pod.other_requests = network(1)));
    let reason = "late: nodes with enough free H100 are refused: 3 for rdma/hca; needs 2, none fits";
    assert_eq!(waiting(&planned(&mut state)), [reason]);
    // A gang that asks for none of it is not kept away.
    add(&mut state, gang("plain", 1, 8));
    assert_eq!(takers(&state, "plain"), ["c"]);
}

#[test]
fn a_node_must_be_able_to_what_the_pod_needs() {
    let features = Features::RESTARTS_ALL_CONTAINERS;
    let nodes = [node("a", "H100", 8), Node { features, ..node("b", "H100", 8) }];
    check(nodes, |pod| pod.node_features = features, &["b"]);
}

#[test]
fn what_cannot_be_placed_is_refused_everywhere() {
    let nodes = || [node("a", "H100", 8)];
    check(nodes(), |pod| pod.unsupported = vec!["spec.resourceClaims".to_owned()], &[]);
    check(nodes(), |pod| pod.gated = true, &[]);
    let nodes = || [node("a", "H100", 8), node("b", "L4", 8), cpu_node("c", 64_000)];
    check(nodes(), |pod| pod.gpu_types = vec!["L4".into()], &["b"]);
    check(nodes(), |pod| pod.requests.gpus = 0, &["a", "b", "c"]);
}

/// The search remembers what found no room. Gangs that differ only in what they ask of a node's ports, resources or
/// labels, or in the groups of their members, are not alike.
#[test]
fn what_found_no_room_says_nothing_about_gangs_that_ask_for_less() {
    let mut state = cluster([node("a", "H100", 8)]);
    add(&mut state, each(gang("a", 1, 1), |pod| pod.other_requests = network(1)));
    add(&mut state, each(gang("b", 1, 1), |pod| pod.node_affinity = requires([])));
    add(&mut state, each(gang("c", 1, 1), |pod| pod.node_features = Features::RESTARTS_ALL_CONTAINERS));
    add(&mut state, each(gang("d", 1, 1), |pod| pod.host_ports = ports(80, "")));
    add(&mut state, each(gang("e", 1, 1), |pod| pod.host_ports = ports(80, "")));
    add(&mut state, gang("f", 1, 1));
    assert_eq!(placements(&planned(&mut state)), ["d: d-0@a", "f: f-0@a"]);
}
