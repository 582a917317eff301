//! What a node alone decides.

use std::sync::Arc;

use cluster_model::{
    Features, HostPort, LabelRule, LabelTest, NameRule, Node, NodeAffinity, NodeTerm, OtherResources, Pod,
    Taint, Toleration,
};
use plan_check::{Violation, check_state};

use crate::build::{cluster, gang, judged, key, node, on, place, with};

#[expect(clippy::unnecessary_wraps, reason = "it is what a pod has")]
fn requires(labels: Vec<LabelRule>, names: Vec<NameRule>) -> Option<Arc<NodeAffinity>> {
    Some(Arc::new(NodeAffinity { terms: vec![NodeTerm { labels, names }] }))
}

fn network(amount: i64) -> OtherResources {
    [("rdma/hca".into(), amount)].into_iter().collect()
}

/// What the judge says about gang `g` of one on node `a`.
fn one_on(node: Node, change: impl Fn(&mut Pod)) -> Vec<Violation> {
    let state = cluster([node], with(gang("g", 1, 1), change));
    assert_eq!(check_state(&state), []);
    judged(&state, vec![place("g", &["a"])])
}

#[test]
fn a_node_that_the_pod_does_not_match_is_found() {
    let wrong = [Violation::WrongNode(key("g", 0), "a".into())];
    let check = |labels: Vec<LabelRule>, names: Vec<NameRule>, fits: bool| {
        let mut a = node("a", "z", "r");
        a.labels.insert("generation".into(), "4".into());
        let affinity = requires(labels, names);
        let found = one_on(a, |pod| pod.node_affinity.clone_from(&affinity));
        assert_eq!(found, if fits { &[][..] } else { &wrong[..] }, "{affinity:?}");
    };
    let on = |key: &str, test| vec![LabelRule { key: key.into(), test }];
    check(on("generation", LabelTest::In(["4".into()].into())), vec![], true);
    check(on("generation", LabelTest::In(["5".into()].into())), vec![], false);
    check(on("generation", LabelTest::NotIn(["4".into()].into())), vec![], false);
    check(on("missing", LabelTest::NotIn(["4".into()].into())), vec![], true);
    check(on("generation", LabelTest::Exists), vec![], true);
    check(on("missing", LabelTest::Exists), vec![], false);
    check(on("generation", LabelTest::DoesNotExist), vec![], false);
    check(on("generation", LabelTest::Above(3)), vec![], true);
    check(on("generation", LabelTest::Above(4)), vec![], false);
    check(on("generation", LabelTest::Below(4)), vec![], false);
    check(vec![], vec![NameRule::Is("a".into())], true);
    check(vec![], vec![NameRule::Is("b".into())], false);
    check(vec![], vec![NameRule::IsNot("a".into())], false);
    check(vec![], vec![], false);
    assert_eq!(one_on(node("a", "z", "r"), |pod| pod.node_affinity = Some(Arc::default())), wrong);
}

#[test]
fn a_cordoned_node_takes_only_those_that_tolerate_it() {
    let cordoned = || Node { cordoned: true, ..node("a", "z", "r") };
    let wrong = [Violation::WrongNode(key("g", 0), "a".into())];
    assert_eq!(one_on(cordoned(), |_| {}), wrong);
    let toleration = Toleration { key: Some(Taint::cordon().key), value: None, effect: None };
    assert_eq!(one_on(cordoned(), |pod| pod.tolerations = vec![toleration.clone()]), []);
    let able = |features| Node { features, ..node("a", "z", "r") };
    let needs = |pod: &mut Pod| pod.node_features = Features::RESTARTS_ALL_CONTAINERS;
    assert_eq!(one_on(able(Features::USERS_ON_HOST_NETWORK), needs), wrong);
    assert_eq!(one_on(able(Features::RESTARTS_ALL_CONTAINERS), needs), []);
}

#[test]
fn more_of_another_resource_than_there_is_is_found() {
    let a = || Node { other_allocatable: network(2), ..node("a", "z", "r") };
    let over = |used| {
        let (node, resource) = ("a".into(), "rdma/hca".into());
        [Violation::NodeOverOther { node, resource, used, allocatable: 2 }]
    };
    assert_eq!(one_on(a(), |pod| pod.other_requests = network(2)), []);
    assert_eq!(one_on(a(), |pod| pod.other_requests = network(3)), over(3));
    let runs = on(with(gang("r", 1, 1), |pod| pod.other_requests = network(2)), "a");
    let asks = |amount| with(gang("g", 1, 1), move |pod| pod.other_requests = network(amount));
    let state = cluster([a()], runs.iter().cloned().chain(asks(1)));
    assert_eq!(judged(&state, vec![place("g", &["a"])]), over(3));
    // A pod that asks for none of it is not in the way.
    let state = cluster([a()], runs.into_iter().chain(gang("g", 1, 1)));
    assert_eq!(judged(&state, vec![place("g", &["a"])]), []);
}

#[test]
fn a_port_that_is_given_twice_is_found() {
    let port = |number, address: &str| [HostPort::new(number, "TCP", address)].into_iter().collect();
    let check = |taken: (u16, &str), asked: (u16, &str), is_free: bool| {
        let runs = on(with(gang("r", 1, 1), |pod| pod.host_ports = port(taken.0, taken.1)), "a");
        let waits = with(gang("g", 1, 1), |pod| pod.host_ports = port(asked.0, asked.1));
        let state = cluster([node("a", "z", "r")], runs.into_iter().chain(waits));
        assert_eq!(check_state(&state), []);
        let (pod, other) = (key("g", 0), key("r", 0));
        let found = judged(&state, vec![place("g", &["a"])]);
        let expected = [Violation::PortTaken { node: "a".into(), pod, other }];
        assert_eq!(found, if is_free { &[][..] } else { &expected[..] }, "{taken:?} {asked:?}");
    };
    check((80, ""), (80, ""), false);
    check((80, ""), (80, "10.0.0.1"), false);
    check((80, "10.0.0.1"), (80, ""), false);
    check((80, "10.0.0.1"), (80, "10.0.0.2"), true);
    check((80, ""), (81, ""), true);
}
