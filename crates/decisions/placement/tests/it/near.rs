//! Pods that must or must not be near others, and an even spread: the rules of kube-scheduler's filters.

use std::sync::Arc;

use cluster_model::{
    ClusterChange, ClusterState, LabelSet, Neighbours, Node, Operator, Pod, PodKey, PodTerm, Requirement,
    Scope, Selector, SpreadConstraint,
};
use jiff::Timestamp;
use placement::{Backfill, Policy, plan};
use plan_check::{check_plan, neighbours_admit};

use crate::build::{
    add, carry_out, cluster, each, gang, node, placements, planned, taint, toleration, waiting,
};

/// A node of four GPUs with its name and these labels.
fn at(name: &str, labels: &[(&str, &str)]) -> Node {
    let labels = labels.iter().copied().chain([("host", name)]);
    let labels = labels.map(|(key, value)| (key.into(), value.into()));
    Node { labels: labels.collect(), ..node(name, "H100", 4) }
}

/// Two racks of two nodes.
fn racks() -> [Node; 4] {
    [("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")].map(|(name, rack)| at(name, &[("rack", rack)]))
}

fn labelled(name: &str, members: u32, app: &str) -> Vec<Pod> {
    let labels: LabelSet = [("app", app)].into_iter().collect();
    each(gang(name, members, 1), |pod| pod.labels = labels.clone())
}

fn asking(pods: Vec<Pod>, neighbours: Neighbours) -> Vec<Pod> {
    let neighbours = Arc::new(neighbours);
    each(pods, |pod| pod.neighbours = Some(neighbours.clone()))
}

fn term(key: &str, app: &str) -> PodTerm {
    PodTerm { scope: Scope::within("team", Selector::of([("app", app)])), topology_key: key.into() }
}

fn near(key: &str, app: &str) -> Neighbours {
    Neighbours { affinity: vec![term(key, app)], ..Neighbours::default() }
}

fn apart(key: &str, app: &str) -> Neighbours {
    Neighbours { anti_affinity: vec![term(key, app)], ..Neighbours::default() }
}

fn spread(key: &str, app: &str) -> SpreadConstraint {
    SpreadConstraint::new(key, 1, Selector::of([("app", app)]))
}

fn spreading(constraints: Vec<SpreadConstraint>) -> Neighbours {
    Neighbours { spread: constraints, ..Neighbours::default() }
}

/// On a node, seen there.
fn on(pods: Vec<Pod>, node: &str) -> Vec<Pod> {
    each(pods, |pod| pod.node = Some(node.into()))
}

/// The nodes, by name, that other pods leave to the first member of a gang. The search and the judge must agree.
fn left_to(state: &ClusterState, gang: &str) -> String {
    let key = PodKey::new("team", format!("{gang}-0"), format!("uid-{gang}-0"));
    let verdicts = placement::testing::verdicts(state, &key);
    let nodes = verdicts.iter().filter(|(_, takes)| **takes).map(|(node, _)| node.as_str());
    let judged = verdicts.keys().filter(|node| neighbours_admit(state, &key, node));
    let (nodes, judged) =
        (nodes.collect::<String>(), judged.map(cluster_model::NodeName::as_str).collect::<String>());
    assert_eq!(nodes, judged, "the judge sees it as the search does");
    nodes
}

/// A cluster of these nodes with these pods, and what is left to the gang `new`.
fn check(nodes: impl IntoIterator<Item = Node>, pods: Vec<Vec<Pod>>, expect: &str) {
    let mut state = cluster(nodes);
    for pods in pods {
        add(&mut state, pods);
    }
    assert_eq!(left_to(&state, "new"), expect);
}

#[test]
fn a_pod_goes_where_one_is_that_all_its_terms_mean() {
    let web = || on(labelled("web", 1, "web"), "a");
    check(racks(), vec![web(), asking(labelled("new", 1, "x"), near("rack", "web"))], "ab");
    check(racks(), vec![web(), asking(labelled("new", 1, "x"), near("host", "web"))], "a");
    check(racks(), vec![asking(labelled("new", 1, "x"), near("rack", "web"))], "");
    // All of them must select one pod; two pods that are selected by one each are not enough.
    let both =
        |one: PodTerm, other: PodTerm| Neighbours { affinity: vec![one, other], ..Neighbours::default() };
    let db = || on(labelled("db", 1, "db"), "a");
    let asks = both(term("rack", "web"), term("host", "db"));
    check(racks(), vec![web(), db(), asking(labelled("new", 1, "x"), asks)], "");
    let asks = both(term("rack", "web"), term("host", "web"));
    check(racks(), vec![web(), asking(labelled("new", 1, "x"), asks)], "a");
    // Near in each respect, though by different pods.
    let asks = both(term("rack", "web"), term("disk", "web"));
    let nodes =
        [at("a", &[("rack", "1")]), at("b", &[("disk", "s")]), at("c", &[("rack", "1"), ("disk", "s")])];
    let second = on(labelled("second", 1, "web"), "b");
    check(nodes, vec![web(), second, asking(labelled("new", 1, "x"), asks)], "c");
}

#[test]
fn the_first_of_pods_that_want_each_other_near_may_begin_where_the_label_is() {
    let nodes = || racks().into_iter().chain([at("e", &[])]);
    check(nodes(), vec![asking(labelled("new", 1, "web"), near("rack", "web"))], "abcd");
    // A pod on a node without the label is near no pod, and does not count.
    let lost = on(labelled("lost", 1, "web"), "e");
    check(nodes(), vec![lost, asking(labelled("new", 1, "web"), near("rack", "web"))], "abcd");
    let there = on(labelled("there", 1, "web"), "c");
    check(nodes(), vec![there, asking(labelled("new", 1, "web"), near("rack", "web"))], "cd");
    // A pod that is being deleted still counts.
    let leaves = each(on(labelled("there", 1, "web"), "c"), |pod| pod.terminating = true);
    check(nodes(), vec![leaves, asking(labelled("new", 1, "web"), near("rack", "web"))], "cd");
}

#[test]
fn pods_are_kept_apart_whoever_asked_for_it() {
    let nodes = || racks().into_iter().chain([at("e", &[])]);
    let web = || on(labelled("web", 1, "web"), "a");
    check(nodes(), vec![web(), asking(labelled("new", 1, "x"), apart("rack", "web"))], "cde");
    check(nodes(), vec![web(), asking(labelled("new", 1, "x"), apart("host", "web"))], "bcde");
    let shy = || asking(on(labelled("shy", 1, "db"), "a"), apart("rack", "web"));
    check(nodes(), vec![shy(), labelled("new", 1, "web")], "cde");
    check(nodes(), vec![shy(), labelled("new", 1, "x")], "abcde");
    // On a node without the label no pod is near.
    let lost = asking(on(labelled("shy", 1, "db"), "e"), apart("rack", "web"));
    check(nodes(), vec![lost, labelled("new", 1, "web")], "abcde");
    let leaves = each(shy(), |pod| pod.terminating = true);
    check(nodes(), vec![leaves, labelled("new", 1, "web")], "cde");
}

#[test]
fn namespaces_are_named_or_have_labels() {
    let web = |namespace: &str| {
        each(on(labelled("web", 1, "web"), "a"), |pod| {
            pod.key.namespace = namespace.into();
            pod.gang.namespace = namespace.into();
        })
    };
    let scope = |namespaces: &[&str], namespace_selector: Option<Selector>| Scope {
        selector: Some(Selector::of([("app", "web")])),
        namespaces: namespaces.iter().map(|name| (*name).into()).collect(),
        namespace_selector,
    };
    let verdict = |theirs: &str, scope: Scope| {
        let mut state = cluster(racks());
        let labels = [("env", "prod")].into_iter().collect();
        state.apply(ClusterChange::Namespace { name: "other".into(), labels });
        add(&mut state, web(theirs));
        let anti_affinity = vec![PodTerm { scope, topology_key: "rack".into() }];
        add(
            &mut state,
            asking(labelled("new", 1, "x"), Neighbours { anti_affinity, ..Neighbours::default() }),
        );
        left_to(&state, "new")
    };
    let env = |value: &str| Some(Selector::of([("env", value)]));
    assert_eq!(verdict("other", scope(&["team"], None)), "abcd");
    assert_eq!(verdict("other", scope(&["team", "other"], None)), "cd");
    assert_eq!(verdict("other", scope(&[], env("prod"))), "cd");
    assert_eq!(verdict("other", scope(&[], env("test"))), "abcd");
    assert_eq!(verdict("unknown", scope(&[], env("prod"))), "abcd");
    assert_eq!(verdict("unknown", scope(&[], Some(Selector::default()))), "cd", "every namespace");
    // Upstream asks such a selector about no labels too, so it selects every namespace.
    let lacks = Requirement { key: "env".into(), operator: Operator::DoesNotExist, values: vec![] };
    assert_eq!(verdict("other", scope(&[], Some(Selector::new([lacks])))), "cd");
}

#[test]
fn a_namespace_that_changes_its_labels_changes_who_is_meant() {
    let scope = Scope {
        selector: Some(Selector::default()),
        namespaces: [].into(),
        namespace_selector: Some(Selector::of([("env", "prod")])),
    };
    let anti_affinity = vec![PodTerm { scope, topology_key: "rack".into() }];
    let mut state = cluster(racks());
    add(
        &mut state,
        asking(on(labelled("shy", 1, "x"), "a"), Neighbours { anti_affinity, ..Neighbours::default() }),
    );
    add(&mut state, labelled("new", 1, "web"));
    let labels = |value: &str| [("env", value)].into_iter().collect::<LabelSet>();
    let team = |labels| ClusterChange::Namespace { name: "team".into(), labels };
    assert_eq!(left_to(&state, "new"), "abcd");
    state.apply(team(labels("prod")));
    assert_eq!(left_to(&state, "new"), "cd");
    state.apply(team(labels("test")));
    assert_eq!(left_to(&state, "new"), "abcd");
    state.apply(team(labels("prod")));
    state.apply(ClusterChange::NamespaceGone("team".into()));
    assert_eq!(left_to(&state, "new"), "abcd");
}

#[test]
fn a_spread_counts_pods_alike_by_domain() {
    let web = |name: &str, node: &str| on(labelled(name, 1, "web"), node);
    let new = |constraints| asking(labelled("new", 1, "web"), spreading(constraints));
    check(racks(), vec![new(vec![spread("rack", "web")])], "abcd");
    check(racks(), vec![web("w", "a"), new(vec![spread("rack", "web")])], "cd");
    check(racks(), vec![web("w", "a"), web("v", "c"), new(vec![spread("rack", "web")])], "abcd");
    let wide = SpreadConstraint { skew_max: 2, ..spread("rack", "web") };
    check(racks(), vec![web("w", "a"), new(vec![wide])], "abcd");
    // A node without one of the labels is refused, and does not count for the others.
    let nodes = || racks().into_iter().chain([at("e", &[("zone", "z")])]);
    check(nodes(), vec![web("w", "a"), new(vec![spread("rack", "web")])], "cd");
    check(nodes(), vec![web("w", "a"), new(vec![spread("rack", "web"), spread("host", "web")])], "cd");
    // Pods that leave, that are of another namespace, or are not alike do not count.
    let leaves = each(web("w", "a"), |pod| pod.terminating = true);
    check(racks(), vec![leaves, new(vec![spread("rack", "web")])], "abcd");
    let other = each(web("w", "a"), |pod| pod.key.namespace = "other".into());
    check(racks(), vec![other, new(vec![spread("rack", "web")])], "abcd");
    check(racks(), vec![on(labelled("w", 1, "db"), "a"), new(vec![spread("rack", "web")])], "abcd");
    // A pod that is not among those it spreads with adds none.
    let stranger = asking(labelled("new", 1, "x"), spreading(vec![spread("rack", "web")]));
    check(racks(), vec![web("w", "a"), stranger], "abcd");
}

#[test]
fn selectors_without_requirements_and_without_anything_count_nobody() {
    let web = || on(labelled("w", 2, "web"), "a");
    let everybody = SpreadConstraint { selector: Some(Selector::default()), ..spread("rack", "") };
    let new = |constraint| asking(labelled("new", 1, "web"), spreading(vec![constraint]));
    check(racks(), vec![web(), new(everybody)], "abcd");
    check(racks(), vec![web(), new(SpreadConstraint { selector: None, ..spread("rack", "") })], "abcd");
    let scope = Scope { selector: None, ..Scope::within("team", Selector::default()) };
    let anti_affinity = vec![PodTerm { scope, topology_key: "rack".into() }];
    let nobody = Neighbours { anti_affinity, ..Neighbours::default() };
    check(racks(), vec![web(), asking(labelled("new", 1, "x"), nobody)], "abcd");
    let scope = Scope::within("team", Selector::default());
    let anti_affinity = vec![PodTerm { scope, topology_key: "rack".into() }];
    let all = Neighbours { anti_affinity, ..Neighbours::default() };
    check(racks(), vec![web(), asking(labelled("new", 1, "x"), all)], "cd");
}

#[test]
fn with_fewer_domains_than_asked_an_empty_one_is_thought_beside_them() {
    let web = |name: &str, node: &str| on(labelled(name, 1, "web"), node);
    let least = |domains_min| SpreadConstraint { domains_min, ..spread("rack", "web") };
    let new = |constraint| asking(labelled("new", 1, "web"), spreading(vec![constraint]));
    check(racks(), vec![web("w", "a"), web("v", "c"), new(least(2))], "abcd");
    check(racks(), vec![web("w", "a"), web("v", "c"), new(least(3))], "");
    check(racks(), vec![web("w", "a"), new(least(3))], "cd");
}

#[test]
fn a_spread_looks_at_nodes_that_the_pod_selects_and_if_asked_tolerates() {
    let tainted = || {
        racks().map(|node| match node.name.as_str() {
            "c" | "d" => Node { taints: vec![taint("t")], ..node },
            _ => node,
        })
    };
    let web = || on(labelled("w", 1, "web"), "a");
    let new = |constraint, selector: Option<&str>, tolerates: bool| {
        each(asking(labelled("new", 1, "web"), spreading(vec![constraint])), |pod| {
            pod.node_selector = selector.map(|rack| ("rack".into(), rack.into())).into_iter().collect();
            pod.tolerations = if tolerates { vec![toleration("t")] } else { vec![] };
        })
    };
    let honours = || SpreadConstraint { honours_node_taints: true, ..spread("rack", "web") };
    // Verdicts are of all rules, so the judge of neighbours alone is not asked.
    let verdict = |nodes: Vec<Node>, new: Vec<Pod>| {
        let mut state = cluster(nodes);
        add(&mut state, web());
        add(&mut state, new.clone());
        let verdicts = placement::testing::verdicts(&state, &new[0].key);
        let takes = verdicts.iter().filter(|(_, takes)| **takes);
        takes.map(|(node, _)| node.as_str()).collect::<String>()
    };
    // Rack 2 counts as empty though the pod cannot go there.
    assert_eq!(verdict(tainted().into(), new(spread("rack", "web"), None, false)), "");
    assert_eq!(verdict(tainted().into(), new(honours(), None, false)), "ab");
    assert_eq!(verdict(tainted().into(), new(honours(), None, true)), "cd");
    assert_eq!(verdict(racks().into(), new(spread("rack", "web"), Some("1"), false)), "ab");
    let ignores = SpreadConstraint { honours_node_affinity: false, ..spread("rack", "web") };
    assert_eq!(verdict(racks().into(), new(ignores, Some("1"), false)), "");
}

#[test]
fn a_node_that_changes_its_label_takes_its_pods_along() {
    let mut state = cluster(racks());
    add(&mut state, on(labelled("web", 1, "web"), "a"));
    add(&mut state, asking(labelled("new", 1, "web"), spreading(vec![spread("rack", "web")])));
    assert_eq!(left_to(&state, "new"), "cd");
    state.apply(ClusterChange::Node(at("a", &[("rack", "2")])));
    assert_eq!(left_to(&state, "new"), "b");
    state.apply(ClusterChange::NodeGone("a".into()));
    assert_eq!(left_to(&state, "new"), "bcd");
    state.apply(ClusterChange::Node(at("a", &[])));
    assert_eq!(left_to(&state, "new"), "bcd");
}

#[test]
fn members_of_a_gang_count_for_each_other() {
    let mut state = cluster(racks());
    add(&mut state, asking(labelled("g", 4, "web"), apart("host", "web")));
    assert_eq!(placements(&planned(&mut state)), ["g: g-0@a g-1@b g-2@c g-3@d"]);
    add(&mut state, asking(labelled("h", 4, "db"), spreading(vec![spread("rack", "db")])));
    let plan = planned(&mut state);
    assert_eq!(placements(&plan)[1], "h: h-0@a h-1@c h-2@a h-3@c");
    carry_out(&mut state, &plan);
    add(&mut state, asking(labelled("i", 1, "web"), apart("host", "web")));
    let reason = "i: other pods prevent it: 4 nodes have a pod in their host that keeps it away";
    assert_eq!(waiting(&planned(&mut state)), [reason]);
}

#[test]
fn a_gang_whose_members_want_each_other_near_begins_where_all_find_room() {
    // The first node alone is the tightest, and its rack is too small for all.
    let mut nodes = racks().to_vec();
    nodes[1].allocatable.gpus = 0;
    let mut state = cluster(nodes);
    add(&mut state, on(gang("filler", 2, 1), "a"));
    add(&mut state, asking(labelled("g", 6, "web"), near("rack", "web")));
    let plan = planned(&mut state);
    assert_eq!(waiting(&plan), [""; 0]);
    assert_eq!(placements(&plan), ["g: g-0@c g-1@c g-2@c g-3@c g-4@d g-5@d"]);
}

#[test]
fn full_places_do_not_keep_a_gang_from_beginning_where_there_is_room() {
    // More racks are full than places are tried. The one after them is the tightest, but too small for all.
    let name = |rack: usize| format!("n{rack:03}");
    let mut state = cluster((0..103).map(|rack| at(&name(rack), &[("rack", &format!("{rack:03}"))])));
    for rack in 0..100 {
        add(&mut state, on(gang(&format!("full-{rack}"), 1, 4), &name(rack)));
    }
    add(&mut state, on(gang("tight", 1, 3), "n100"));
    add(&mut state, on(gang("small", 1, 1), "n101"));
    add(&mut state, asking(labelled("g", 3, "web"), near("rack", "web")));
    let plan = planned(&mut state);
    assert_eq!(waiting(&plan), [""; 0]);
    assert_eq!(placements(&plan), ["g: g-0@n102 g-1@n102 g-2@n102"], "the most room first");
}

#[test]
fn who_comes_may_make_room_for_one_that_found_none_before() {
    let mut state = cluster(racks());
    // By name the first wants the second near, and is considered before it.
    add(&mut state, asking(labelled("a", 1, "x"), near("rack", "web")));
    add(&mut state, asking(labelled("c", 1, "x"), near("rack", "web")));
    add(&mut state, labelled("b", 1, "web"));
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["b: b-0@a", "c: c-0@a"]);
    carry_out(&mut state, &plan);
    assert_eq!(placements(&planned(&mut state)), ["a: a-0@a"]);
}

#[test]
fn who_keeps_others_away_does_not_make_each_of_them_be_looked_for_anew() {
    let mut state = cluster(racks());
    add(&mut state, asking(on(labelled("shy", 1, "db"), "a"), apart("host", "web")));
    // One after the other.
    for (priority, name, members, app) in [(2, "a", 16, "web"), (1, "b", 1, "x"), (0, "c", 16, "web")] {
        add(&mut state, each(labelled(name, members, app), |pod| pod.priority = priority));
    }
    let plan = planned(&mut state);
    assert_eq!(placements(&plan), ["b: b-0@a"]);
    // The second gets the numbers of the moment when the first was looked at, though one GPU less is free now.
    let reasons = waiting(&plan).into_iter().map(|it| it.split_once(": ").map(|(_, why)| why.to_owned()));
    let reasons: Vec<_> = reasons.collect();
    assert_eq!(reasons.len(), 2);
    assert_eq!(reasons[0], reasons[1]);
}

#[test]
fn what_is_kept_away_says_nothing_of_what_is_not() {
    let mut state = cluster(racks());
    let pods = labelled("shy", 4, "db").into_iter().zip(["a", "b", "c", "d"]);
    let pods = pods.map(|(pod, node)| Pod { node: Some(node.into()), ..pod }).collect();
    add(&mut state, asking(pods, apart("host", "web")));
    // They differ only in their labels, in what they avoid, or in which member it is.
    add(&mut state, labelled("a", 1, "web"));
    add(&mut state, labelled("b", 1, "x"));
    add(&mut state, asking(labelled("c", 1, "x"), apart("host", "db")));
    add(&mut state, asking(labelled("d", 1, "x"), apart("host", "y")));
    for (name, shunned) in [("e", "e-0"), ("f", "")] {
        let mut pods = labelled(name, 2, "x");
        for pod in pods.iter_mut().filter(|pod| *pod.key.name == *shunned) {
            pod.labels = [("app", "web")].into_iter().collect();
        }
        add(&mut state, pods);
    }
    let plan = planned(&mut state);
    let placed: Vec<String> = plan.placements.iter().map(|it| it.gang.name.to_string()).collect();
    assert_eq!(placed, ["b", "d", "f"]);
}

#[test]
fn reasons_say_who_is_in_the_way_and_where_there_is_room() {
    let check = |pods: Vec<Vec<Pod>>, expect: &str| {
        let mut state = cluster(racks());
        for pods in pods {
            add(&mut state, pods);
        }
        let reasons = waiting(&planned(&mut state));
        assert_eq!(reasons, [format!("new: other pods prevent it: {expect}")]);
    };
    let new = |neighbours| asking(labelled("new", 1, "web"), neighbours);
    let all = |name: &str, app: &str| {
        let pods = labelled(name, 4, app).into_iter().zip(["a", "b", "c", "d"]);
        pods.map(|(pod, node)| Pod { node: Some(node.into()), ..pod }).collect::<Vec<_>>()
    };
    check(vec![all("w", "db"), new(apart("host", "db"))], "4 nodes have a pod of app=db in their host");
    check(
        vec![
            asking(on(labelled("w", 1, "db"), "a"), apart("zone", "web")),
            new(near("rack", "db")),
            new(near("zone", "db")),
        ],
        "4 nodes lack the label zone",
    );
    check(
        vec![on(labelled("w", 1, "db"), "a"), new(near("rack", "x"))],
        "4 nodes have no pod of app=x in their rack",
    );
    let full = |gpus| each(on(gang("full", 1, gpus), "c"), |pod| pod.key.uid = "full".into());
    let rest = each(on(gang("rest", 1, 4), "d"), |pod| pod.key.uid = "rest".into());
    check(
        vec![on(labelled("w", 1, "web"), "a"), full(4), rest, new(spreading(vec![spread("rack", "web")]))],
        "the spread of app=web over rack allows one more in 2 only, 2 nodes are elsewhere",
    );
}

#[test]
fn reasons_do_not_depend_on_who_came_first() {
    let shy = |name: &str, key: &str| {
        let pods = labelled(name, 4, "db").into_iter().zip(["a", "b", "c", "d"]);
        let pods = pods.map(|(pod, node)| Pod { node: Some(node.into()), ..pod }).collect();
        asking(pods, apart(key, "web"))
    };
    let reasons = |shies: [Vec<Pod>; 2]| {
        let mut state = cluster(racks());
        for pods in shies {
            add(&mut state, pods);
        }
        add(&mut state, labelled("new", 1, "web"));
        let mut restored = ClusterState::restore(state.save());
        let reasons = waiting(&planned(&mut state));
        assert_eq!(waiting(&planned(&mut restored)), reasons);
        reasons
    };
    let expect = "new: other pods prevent it: 4 nodes have a pod in their host that keeps it away";
    assert_eq!(reasons([shy("s", "rack"), shy("t", "host")]), [expect]);
    assert_eq!(reasons([shy("t", "host"), shy("s", "rack")]), [expect]);
}

#[test]
fn nobody_leans_on_a_gang_that_only_gathers_its_nodes() {
    let mut state = cluster(racks());
    // It needs all four nodes, and keeps the three that are free until the last one is.
    add(&mut state, on(gang("full", 1, 4), "d"));
    add(&mut state, each(labelled("big", 4, "web"), |pod| pod.requests.gpus = 4));
    let wants = each(asking(labelled("small", 1, "x"), near("rack", "web")), |pod| pod.requests.gpus = 0);
    add(&mut state, wants);
    let backfill = Backfill { gather_max: 1, gather_after_seconds: 0, ..Backfill::default() };
    let policy = Policy { backfill, ..Policy::default() };
    let plan = plan(&mut state, &policy, Timestamp::UNIX_EPOCH);
    assert_eq!(check_plan(&state, &plan, &policy), []);
    assert_eq!(placements(&plan), [""; 0]);
    let reasons = waiting(&plan);
    let expect = "small: other pods prevent it: 4 nodes have no pod of app=web in their rack";
    assert_eq!(reasons.last().map(String::as_str), Some(expect), "{reasons:?}");
}

/// This many gangs, each with a rule on other pods that no other has, on four nodes without GPUs.
fn many(gangs: usize, asks: impl Fn(usize) -> (Neighbours, Option<String>)) -> ClusterState {
    let mut state = cluster(racks().map(|mut node| {
        node.allocatable.gpus = 0;
        node
    }));
    for index in 0..gangs {
        let (neighbours, selected) = asks(index);
        let pods = asking(labelled(&format!("g{index:03}"), 1, "web"), neighbours);
        add(
            &mut state,
            each(pods, |pod| pod.node_selector.extend(selected.clone().map(|it| ("own".into(), it.into())))),
        );
    }
    state
}

fn asks_too_much(state: &mut ClusterState) -> Vec<String> {
    let waiting = waiting(&planned(state)).into_iter();
    let names = waiting.filter(|it| it.contains("too many different rules")).map(|it| it[..4].to_owned());
    names.collect()
}

#[test]
fn of_spreads_over_nodes_of_their_own_only_so_many_are_counted() {
    let own = |index: usize| (spreading(vec![spread("rack", "web")]), Some(index.to_string()));
    let mut state = many(258, own);
    // What others ask for too, and what all nodes count for, costs nothing.
    let again = asking(labelled("z000", 1, "web"), own(0).0);
    add(&mut state, each(again, |pod| pod.node_selector = [("own".into(), "0".into())].into()));
    add(&mut state, asking(labelled("z001", 1, "web"), spreading(vec![spread("rack", "web")])));
    assert_eq!(asks_too_much(&mut state), ["g256", "g257"]);
    state.apply(ClusterChange::PodGone(PodKey::new("team", "g003-0", "uid-g003-0")));
    assert_eq!(asks_too_much(&mut state), ["g257"]);
}

#[test]
fn of_selectors_that_any_label_may_satisfy_only_so_many_are_counted() {
    let own = |index: usize| {
        let values = vec![index.to_string().into()];
        let selector = Selector::new([Requirement { key: "app".into(), operator: Operator::NotIn, values }]);
        let scope = Scope::within("team", selector);
        let anti_affinity = vec![PodTerm { scope, topology_key: "rack".into() }];
        (Neighbours { anti_affinity, ..Neighbours::default() }, None)
    };
    let mut state = many(257, own);
    assert_eq!(asks_too_much(&mut state), ["g256"]);
    // A pod that has a node still keeps others away.
    add(&mut state, labelled("new", 1, "web"));
    let there = each(on(labelled("there", 1, "x"), "a"), |pod| pod.requests.gpus = 0);
    add(&mut state, asking(there, own(999).0));
    let key = PodKey::new("team", "new-0", "uid-new-0");
    let refused = |state: &ClusterState, node: &str| {
        let node = state.node_id(&node.into()).expect("it is there");
        state.near_refusal(state.pod_id(&key).expect("it is there"), node).is_some()
    };
    assert!(refused(&state, "a") && refused(&state, "b") && !refused(&state, "c"));
}
