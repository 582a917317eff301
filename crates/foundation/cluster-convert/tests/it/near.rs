//! What pods ask of other pods.

use cluster_convert::{namespace_change, namespace_gone, pod_change};
use cluster_model::{
    ClusterChange, Neighbours, Operator, Pod, PodTerm, Requirement, Scope, Selector, SpreadConstraint,
};
use serde_json::{Value, json};
use slim_objects::{SlimNamespace, SlimPod};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// A pod of ours with this spec, as the model sees it.
fn model_pod(spec: Value) -> Pod {
    let mut spec = spec;
    spec["schedulerName"] = "warpyard".into();
    let metadata =
        json!({"namespace": "team", "name": "p", "uid": "u", "labels": {"app": "web", "build": "7"}});
    let slim: SlimPod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a pod");
    match pod_change(&slim) {
        ClusterChange::Pod(pod) => pod,
        other => panic!("a pod of ours is a pod, not {other:?}"),
    }
}

fn neighbours(spec: Value) -> Neighbours {
    let pod = model_pod(spec);
    assert_eq!(pod.unsupported, Vec::<String>::new());
    pod.neighbours.as_deref().cloned().unwrap_or_default()
}

fn scope(term: &Value) -> Scope {
    let read = neighbours(json!({"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}));
    assert_eq!((read.affinity.len(), read.spread.len()), (0, 0));
    let PodTerm { scope, topology_key } = read.anti_affinity.into_iter().next().expect("one term");
    assert_eq!(&*topology_key, "rack");
    scope
}

#[test]
fn labels_are_read_and_a_pod_that_asks_nothing_of_others_has_no_neighbours() {
    let pod = model_pod(json!({}));
    assert_eq!(pod.labels, [("app", "web"), ("build", "7")].into_iter().collect());
    assert_eq!(pod.neighbours, None);
    for nothing in [
        json!({"affinity": null}),
        json!({"affinity": {"podAffinity": null, "podAntiAffinity": {REQUIRED: null}}}),
        json!({"affinity": {"podAffinity": {REQUIRED: []}}, "topologySpreadConstraints": null}),
        json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}}),
        json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]}),
    ] {
        assert_eq!(model_pod(nothing.clone()).neighbours, None, "{nothing}");
    }
}

#[test]
fn a_term_means_the_own_namespace_unless_it_says_something_else() {
    let within = |namespaces: &[&str]| namespaces.iter().map(|name| (*name).into()).collect();
    let check = |term: Value, namespaces: &[&str], selector: Option<Selector>| {
        let mut term = term;
        term["topologyKey"] = "rack".into();
        term["labelSelector"] = json!({});
        let expect = Scope {
            selector: Some(Selector::default()),
            namespaces: within(namespaces),
            namespace_selector: selector,
        };
        assert_eq!(scope(&term), expect, "{term}");
    };
    check(json!({}), &["team"], None);
    check(json!({"namespaces": []}), &["team"], None);
    check(json!({"namespaces": ["a", "b"]}), &["a", "b"], None);
    check(json!({"namespaceSelector": {}}), &[], Some(Selector::default()));
    let env = json!({"matchLabels": {"env": "prod"}});
    check(json!({"namespaceSelector": env}), &[], Some(Selector::of([("env", "prod")])));
    check(
        json!({"namespaces": ["a"], "namespaceSelector": env}),
        &["a"],
        Some(Selector::of([("env", "prod")])),
    );
}

#[test]
fn a_selector_that_is_absent_means_nobody_and_an_empty_one_everybody() {
    assert_eq!(scope(&json!({"topologyKey": "rack"})).selector, None);
    assert_eq!(scope(&json!({"topologyKey": "rack", "labelSelector": null})).selector, None);
    assert_eq!(
        scope(&json!({"topologyKey": "rack", "labelSelector": {}})).selector,
        Some(Selector::default())
    );
    let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "tier", "operator": "NotIn", "values": ["b", "a"]},
        {"key": "old", "operator": "DoesNotExist"},
    ]});
    let not_in = ["a".into(), "b".into()].into();
    let expect = Selector::new([
        Requirement::is("app", "web"),
        Requirement { key: "tier".into(), operator: Operator::NotIn, values: not_in },
        Requirement { key: "old".into(), operator: Operator::DoesNotExist, values: vec![] },
    ]);
    // Only the API server merges keys, so they are ignored here.
    let term = json!({"topologyKey": "rack", "labelSelector": selector, "matchLabelKeys": ["build"]});
    assert_eq!(scope(&term).selector, Some(expect));
}

#[test]
fn constraints_on_the_spread_have_the_defaults_of_kubernetes() {
    let check = |fields: Value, expect: SpreadConstraint| {
        let mut constraint = json!({
            "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        });
        constraint.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        let read = neighbours(json!({"topologySpreadConstraints": [constraint]}));
        assert_eq!(read, Neighbours { spread: vec![expect], ..Neighbours::default() }, "{fields}");
    };
    let web = || SpreadConstraint::new("zone", 2, Selector::of([("app", "web")]));
    check(json!({}), web());
    assert_eq!((web().domains_min, web().honours_node_affinity, web().honours_node_taints), (1, true, false));
    check(json!({"minDomains": 3}), SpreadConstraint { domains_min: 3, ..web() });
    check(
        json!({"nodeAffinityPolicy": "Ignore"}),
        SpreadConstraint { honours_node_affinity: false, ..web() },
    );
    check(json!({"nodeTaintsPolicy": "Honor"}), SpreadConstraint { honours_node_taints: true, ..web() });
    let build = Selector::of([("app", "web"), ("build", "7")]);
    // A key that the pod lacks asks for nothing.
    check(json!({"matchLabelKeys": ["build", "none"]}), SpreadConstraint { selector: Some(build), ..web() });
    check(
        json!({"labelSelector": null, "matchLabelKeys": ["build"]}),
        SpreadConstraint { selector: None, ..web() },
    );
}

#[test]
fn a_selector_that_no_api_server_lets_pass_keeps_the_pod_back() {
    let expressions = |expression: Value| {
        let selector = json!({"matchExpressions": [expression]});
        let term = json!({"topologyKey": "rack", "labelSelector": selector});
        model_pod(json!({"affinity": {"podAffinity": {REQUIRED: [term]}}})).unsupported
    };
    assert_eq!(
        expressions(json!({"key": "a", "operator": "Gt", "values": ["1"]})),
        ["spec.affinity.podAffinity: operator Gt"]
    );
    assert_eq!(
        expressions(json!({"key": "a", "operator": "In"})),
        ["spec.affinity.podAffinity: operator In with 0 values"]
    );
}

#[test]
fn namespaces_are_their_name_and_labels() {
    let read = |metadata: Value| -> SlimNamespace {
        serde_json::from_value(json!({"metadata": metadata, "status": {"phase": "Active"}}))
            .expect("a namespace")
    };
    let namespace = read(json!({"name": "team", "labels": {"env": "prod"}, "annotations": {"a": "b"}}));
    let labels = [("env", "prod")].into_iter().collect();
    assert_eq!(namespace_change(&namespace), ClusterChange::Namespace { name: "team".into(), labels });
    assert_eq!(namespace_gone(&namespace), ClusterChange::NamespaceGone("team".into()));
    let plain = namespace_change(&read(json!({"name": "team"})));
    assert_eq!(
        plain,
        ClusterChange::Namespace { name: "team".into(), labels: cluster_model::LabelSet::default() }
    );
}
