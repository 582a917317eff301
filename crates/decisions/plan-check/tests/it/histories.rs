use cluster_model::{ClusterChange, GangKey, Node, Pod, PodKey, Resources};
use plan_check::{HistoryJudge, HistoryViolation};

fn node(gpus: i64) -> ClusterChange {
    ClusterChange::Node(Node {
        gpu_type: Some("H100".into()),
        allocatable: Resources { gpus, ..Resources::default() },
        ..Node::new("a")
    })
}

fn pod(name: &str, gang: &str, size: u32, node: Option<&str>) -> ClusterChange {
    ClusterChange::Pod(Pod {
        gang_size: Some(size),
        requests: Resources { gpus: 5, cpu_millis: 0, memory_bytes: 0, pods: 1 },
        node: node.map(Into::into),
        ..Pod::new(key(name), GangKey::new("team", gang))
    })
}

fn key(name: &str) -> PodKey {
    PodKey::new("team", name, "u")
}

fn gone(name: &str) -> ClusterChange {
    ClusterChange::PodGone(key(name))
}

fn judge(events: &[ClusterChange]) -> Vec<HistoryViolation> {
    let mut history = HistoryJudge::default();
    for (revision, change) in (1..).zip(events) {
        history.apply(revision, change);
    }
    history.finish()
}

fn over(revision: u64, pods: &[&str], by: Option<&str>) -> HistoryViolation {
    let used = 5 * i64::try_from(pods.len()).expect("a handful of pods");
    let pods = pods.iter().map(|name| key(name)).collect();
    HistoryViolation::NodeOverGpus { revision, node: "a".into(), used, allocatable: 8, pods, by: by.map(key) }
}

#[test]
fn one_pod_after_the_other_is_fine() {
    let events = [
        node(8),
        pod("p", "p", 1, None),
        pod("p", "p", 1, Some("a")),
        gone("p"),
        pod("q", "q", 1, Some("a")),
    ];
    assert_eq!(judge(&events), []);
}

#[test]
fn a_node_that_is_over_for_one_revision_is_found_once() {
    let (p, q) = (pod("p", "p", 1, Some("a")), pod("q", "q", 1, Some("a")));
    let events = [node(8), p.clone(), q.clone(), p.clone(), gone("p"), p, gone("q")];
    assert_eq!(judge(&events), [over(3, &["p", "q"], Some("q")), over(6, &["p", "q"], Some("p"))]);
}

#[test]
fn a_node_that_comes_after_its_pods_is_judged_then() {
    let events = [pod("p", "p", 1, Some("a")), pod("q", "q", 1, Some("a")), node(8)];
    assert_eq!(judge(&events), [over(3, &["p", "q"], None)]);
}

#[test]
fn every_pod_that_is_put_on_a_node_that_is_over_is_found() {
    let put = |name| pod(name, name, 1, Some("a"));
    let events = [node(10), put("p"), put("q"), node(8), put("r"), put("r")];
    assert_eq!(judge(&events), [over(4, &["p", "q"], None), over(5, &["p", "q", "r"], Some("r"))]);
}

#[test]
fn a_gang_bound_in_part_at_the_end_is_found_and_members_that_ended_count() {
    let in_part = [pod("p", "g", 2, Some("a")), pod("q", "g", 2, None)];
    let found = [HistoryViolation::GangBoundInPart { gang: GangKey::new("team", "g"), bound: 1, size: 2 }];
    assert_eq!(judge(&in_part), found);
    let missing = [pod("p", "g", 2, Some("a")), gone("p")];
    assert_eq!(judge(&missing), found);
    let whole = [pod("p", "g", 2, Some("a")), gone("p"), pod("q", "g", 2, Some("b")), gone("q")];
    assert_eq!(judge(&whole), []);
    let untouched = [pod("p", "g", 2, None), pod("q", "g", 2, None)];
    assert_eq!(judge(&untouched), []);
}

#[test]
fn a_pod_that_moves_and_events_out_of_order_are_found() {
    let moved = [pod("p", "p", 1, Some("a")), pod("p", "p", 1, Some("b"))];
    assert_eq!(judge(&moved), [HistoryViolation::PodMoved { revision: 2, pod: key("p") }]);
    let mut history = HistoryJudge::default();
    history.apply(5, &node(8));
    history.apply(4, &pod("p", "p", 1, Some("a")));
    assert_eq!(history.violations(), [HistoryViolation::OutOfOrder { revision: 4 }]);
}
