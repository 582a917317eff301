//! What a pod asks of one node alone: labels, ports, resources.

use cluster_convert::{node_change, pod_change};
use cluster_model::{ClusterChange, Features, HostPort, HostPorts, Node, Pod, Taint};
use serde_json::{Value, json};
use slim_objects::{SlimPod, pod_requests};

fn pod(spec: &Value, status: &Value) -> Pod {
    let object = json!({
        "metadata": {"namespace": "team", "name": "p", "uid": "u"},
        "spec": spec,
        "status": status,
    });
    let mut slim: SlimPod = serde_json::from_value(object).expect("it has the form of a pod");
    slim.spec.scheduler_name = Some("warpyard".into());
    match pod_change(&slim) {
        ClusterChange::Pod(pod) => {
            assert_eq!(pod.unsupported, Vec::<String>::new());
            pod
        }
        other => panic!("a pod of ours is a pod, not {other:?}"),
    }
}

fn node(name: &str, labels: &Value) -> Node {
    node_with(&json!({"name": name, "labels": labels}), &json!({}), &json!({}))
}

fn node_with(metadata: &Value, spec: &Value, allocatable: &Value) -> Node {
    let object = json!({"metadata": metadata, "spec": spec, "status": {"allocatable": allocatable}});
    match node_change(&serde_json::from_value(object).expect("it has the form of a node")) {
        ClusterChange::Node(node) => node,
        other => panic!("a node is a node, not {other:?}"),
    }
}

/// Whether a pod with these terms goes to a node `a` with these labels.
fn admits(terms: &Value, labels: &Value) -> bool {
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
    let pod = pod(&json!({"affinity": {"nodeAffinity": required}}), &json!({}));
    pod.node_affinity.expect("it has rules").admits(&node("a", labels))
}

#[test]
fn every_operator_of_node_affinity_means_what_kubernetes_says() {
    let check = |operator: &str, values: Value, label: Option<&str>, expected: bool| {
        let labels = label.map_or(json!({}), |label| json!({"key": label}));
        let rule = json!({"key": "key", "operator": operator, "values": values});
        let found = admits(&json!([{"matchExpressions": [rule]}]), &labels);
        assert_eq!(found, expected, "{operator} {values} {label:?}");
    };
    check("In", json!(["x", "y"]), Some("y"), true);
    check("In", json!(["x", "y"]), Some("z"), false);
    check("In", json!(["x"]), None, false);
    check("In", json!([""]), Some(""), true);
    check("NotIn", json!(["x"]), Some("y"), true);
    check("NotIn", json!(["x"]), Some("x"), false);
    check("NotIn", json!(["x"]), None, true);
    check("Exists", json!(null), Some(""), true);
    check("Exists", json!([]), None, false);
    check("DoesNotExist", json!([]), Some("x"), false);
    check("DoesNotExist", json!([]), None, true);
    check("Gt", json!(["7"]), Some("8"), true);
    check("Gt", json!(["7"]), Some("7"), false);
    check("Gt", json!(["7"]), Some("seven"), false);
    check("Gt", json!(["7"]), None, false);
    check("Lt", json!(["7"]), Some("007"), false);
    check("Lt", json!(["7"]), Some("06"), true);
    // A value that Kubernetes cannot read matches nothing.
    check("Gt", json!(["seven"]), Some("8"), false);
    check("Gt", json!(["-1"]), Some("8"), false);
    check("Gt", json!(["1", "2"]), Some("8"), false);
    check("In", json!([]), Some("x"), false);
    check("NotIn", json!([]), Some("x"), false);
    check("NotIn", json!(["not a label"]), Some("x"), false);
    check("Exists", json!(["x"]), Some("x"), false);
    check("Near", json!(["x"]), Some("x"), false);
}

#[test]
fn terms_are_alternatives_and_what_a_term_asks_must_hold_in_whole() {
    let rule = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let labels = json!({"zone": "a", "disk": "fast"});
    let both = |disk: &str| json!({"matchExpressions": [rule("zone", "a"), rule("disk", disk)]});
    assert!(admits(&json!([both("fast")]), &labels));
    assert!(!admits(&json!([both("slow")]), &labels));
    assert!(admits(&json!([both("slow"), both("fast")]), &labels));
    // No terms match nothing, and neither do empty ones. A term that cannot be read does not spoil the others.
    assert!(!admits(&json!([]), &labels));
    assert!(!admits(&json!([{}, {"matchExpressions": [], "matchFields": null}]), &labels));
    let broken = json!({"matchExpressions": [rule("zone", "a"), {"key": "zone", "operator": "Near"}]});
    assert!(!admits(&json!([broken]), &labels));
    assert!(admits(&json!([broken, both("fast")]), &labels));
    // By the node's name, alone and together with labels.
    let named = |operator: &str, name: &str| json!([{"key": "metadata.name", "operator": operator, "values": [name]}]);
    assert!(admits(&json!([{"matchFields": named("In", "a")}]), &labels));
    assert!(!admits(&json!([{"matchFields": named("In", "b")}]), &labels));
    assert!(admits(&json!([{"matchFields": named("NotIn", "b")}]), &labels));
    assert!(!admits(&json!([{"matchFields": named("NotIn", "a")}]), &labels));
    let beside = json!({"matchFields": named("In", "a"), "matchExpressions": [rule("disk", "slow")]});
    assert!(!admits(&json!([beside]), &labels));
    // Preferences are no rules.
    let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]});
    assert_eq!(pod(&json!({"affinity": {"nodeAffinity": preferred}}), &json!({})).node_affinity, None);
    assert_eq!(pod(&json!({"affinity": {"nodeAffinity": null}}), &json!({})).node_affinity, None);
}

#[test]
fn a_cordon_is_no_taint_of_the_node_but_counts_as_one() {
    let repelling = |spec: Value| -> Vec<Taint> {
        node_with(&json!({"name": "a"}), &spec, &json!({})).repelling().collect()
    };
    assert_eq!(repelling(json!({"unschedulable": true})), [Taint::cordon()]);
    assert_eq!(repelling(json!({"unschedulable": false})), []);
    let node = node_with(&json!({"name": "a"}), &json!({"unschedulable": true}), &json!({}));
    assert!(node.cordoned && node.schedulable && node.taints.is_empty());
    // One with a value is another taint: both must be tolerated.
    let other = json!([{"key": "node.kubernetes.io/unschedulable", "value": "x", "effect": "NoSchedule"}]);
    assert_eq!(repelling(json!({"unschedulable": true, "taints": other})).len(), 2);
}

#[test]
fn ports_of_the_host_are_those_of_containers_and_sidecars() {
    let port = |number: u16| json!({"name": format!("c{number}"), "ports": [{"containerPort": 1, "hostPort": number}]});
    let mut sidecar = port(3);
    sidecar["restartPolicy"] = "Always".into();
    let spec = json!({"containers": [port(1), port(0)], "initContainers": [port(2), sidecar]});
    let expected: HostPorts =
        [1, 3].map(|number| HostPort::new(number, "TCP", "0.0.0.0")).into_iter().collect();
    assert_eq!(pod(&spec, &json!({})).host_ports, expected);
    let ports = json!([{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}, {"containerPort": 80}, {"hostPort": null}, {"hostPort": -1}]);
    let found = pod(&json!({"containers": [{"name": "c", "ports": ports}]}), &json!({})).host_ports;
    assert_eq!(found, [HostPort::new(53, "UDP", "10.0.0.1")].into_iter().collect());
}

#[test]
fn ports_conflict_by_number_protocol_and_address() {
    let port = |number, protocol: &str, address: &str| HostPort::new(number, protocol, address);
    let check = |one: HostPort, other: HostPort, expected: bool| {
        assert_eq!((one.conflicts(&other), other.conflicts(&one)), (expected, expected), "{one:?} {other:?}");
    };
    check(port(80, "TCP", ""), port(80, "", "0.0.0.0"), true);
    check(port(80, "TCP", "10.0.0.1"), port(80, "TCP", ""), true);
    check(port(80, "TCP", "10.0.0.1"), port(80, "TCP", "10.0.0.1"), true);
    check(port(80, "TCP", "10.0.0.1"), port(80, "TCP", "10.0.0.2"), false);
    check(port(80, "TCP", ""), port(80, "UDP", ""), false);
    check(port(80, "TCP", ""), port(81, "TCP", ""), false);
    // Upstream knows one address that stands for all addresses.
    check(port(80, "TCP", "::"), port(80, "TCP", "10.0.0.1"), false);
}

#[test]
fn every_resource_that_a_scheduler_looks_at_is_counted_and_no_other() {
    let requests = json!({
        "cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1", "ephemeral-storage": "10Gi", "hugepages-2Mi": "4Mi",
        "rdma/hca": "1", "x.kubernetes.io/thing": "2", "attachable-volumes-csi": "3", "nothing.example/at-all": "0",
        "requests.example/x": "1", "storage": "5",
    });
    let pod = pod(&json!({"containers": [{"name": "c", "resources": {"requests": requests}}]}), &json!({}));
    let others: Vec<_> = pod.other_requests.iter().map(|(name, amount)| (&**name, amount)).collect();
    assert_eq!(
        others,
        [
            ("attachable-volumes-csi", 3),
            ("ephemeral-storage", 10 << 30),
            ("hugepages-2Mi", 4 << 20),
            ("rdma/hca", 1),
            ("x.kubernetes.io/thing", 2),
        ]
    );
    let allocatable = json!({"cpu": "8", "pods": "10", "ephemeral-storage": "100Ti", "rdma/hca": "8", "hugepages-1Gi": "0", "odd/one": "many"});
    let node = node_with(&json!({"name": "a"}), &json!({}), &allocatable);
    let others: Vec<_> = node.other_allocatable.iter().map(|(name, amount)| (&**name, amount)).collect();
    assert_eq!(others, [("ephemeral-storage", 100 << 40), ("rdma/hca", 8)]);
}

#[test]
fn sums_are_rounded_once() {
    let container =
        |name: &str| json!({"name": name, "resources": {"requests": {"cpu": "100u", "memory": "500m"}}});
    let ten: Vec<Value> = (0..10).map(|number| container(&format!("c{number}"))).collect();
    let pod = pod(&json!({"containers": ten}), &json!({}));
    assert_eq!((pod.requests.cpu_millis, pod.requests.memory_bytes), (1, 5));
}

#[test]
fn amounts_of_the_whole_pod_win_where_it_names_them() {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "2", "memory": "2Gi", "hugepages-2Mi": "2Mi", "rdma/hca": "1"}}});
    let read = |resources: Value| {
        let pod = pod(&json!({"containers": [container], "resources": resources}), &json!({}));
        let huge = pod.other_requests.get("hugepages-2Mi") >> 20;
        (pod.requests.cpu_millis, pod.requests.memory_bytes >> 30, huge, pod.other_requests.get("rdma/hca"))
    };
    assert_eq!(read(json!({"requests": {"cpu": "1"}})), (1000, 2, 2, 1));
    assert_eq!(read(json!({"requests": {"hugepages-2Mi": "8Mi", "memory": "3Gi"}})), (2000, 3, 8, 1));
    // Only these may be named for the pod as a whole.
    assert_eq!(read(json!({"requests": {"rdma/hca": "5"}})), (2000, 2, 2, 1));
    // A limit is a request only for what no container asks for, but for huge pages always.
    assert_eq!(read(json!({"limits": {"cpu": "9", "hugepages-2Mi": "4Mi"}})), (2000, 2, 4, 1));
}

#[test]
fn a_resize_is_paid_for_until_it_is_done() {
    let spec = |node: &str| json!({"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]});
    let status = |has: Value, granted: Value, conditions: Value| {
        json!({"phase": "Running", "conditions": conditions, "containerStatuses": [
            {"name": "c", "ready": true, "resources": has, "allocatedResources": granted},
        ]})
    };
    let cpu = |amount: &str| json!({"cpu": amount});
    let requests = |amount: &str| json!({"requests": {"cpu": amount}});
    let read = |status: &Value| pod(&spec("a"), status).requests.cpu_millis;
    // It has and was granted less, or more: the most counts.
    assert_eq!(read(&status(requests("2"), cpu("2"), json!(null))), 4000);
    assert_eq!(read(&status(requests("6"), cpu("5"), json!(null))), 6000);
    assert_eq!(read(&status(requests("5"), cpu("6"), json!(null))), 6000);
    // A resize that the node cannot do does not count; one that the node defers does.
    let pending = |reason: &str| json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    assert_eq!(read(&status(requests("2"), cpu("3"), pending("Infeasible"))), 3000);
    assert_eq!(read(&status(requests("2"), cpu("3"), pending("Deferred"))), 4000);
    // Without a report of what it has.
    assert_eq!(read(&status(json!(null), cpu("9"), json!(null))), 4000);
    // Without a node there is nothing to resize.
    let waits = pod(&spec(""), &status(requests("6"), cpu("6"), json!(null)));
    assert_eq!(waits.requests.cpu_millis, 4000);
}

#[test]
fn a_resize_of_the_whole_pod_and_of_a_sidecar_is_paid_for_too() {
    let spec = json!({
        "nodeName": "a",
        "resources": {"requests": {"memory": "4Gi"}},
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            {"name": "i", "resources": {"requests": {"cpu": "1"}}},
        ],
    });
    let status = json!({
        "resources": {"requests": {"memory": "6Gi", "cpu": "7"}},
        "allocatedResources": {"memory": "5Gi"},
        "initContainerStatuses": [
            {"name": "s", "resources": {"requests": {"cpu": "3"}}},
            {"name": "i", "resources": {"requests": {"cpu": "9"}}},
        ],
    });
    let found = pod(&spec, &status).requests;
    assert_eq!((found.cpu_millis, found.memory_bytes >> 30), (4000, 6));
    // The bill counts what was asked for.
    let object = json!({"metadata": {"name": "p"}, "spec": spec, "status": status});
    let slim: SlimPod = serde_json::from_value(object).expect("a pod");
    assert_eq!(pod_requests(&slim).cpu_millis, 2000);
}

#[test]
fn a_pod_that_needs_an_ability_of_the_kubelet_says_so() {
    let rules = |action: &str| json!([{"action": action, "exitCodes": {"operator": "In", "values": [1]}}]);
    let restarts = |action: &str| json!({"name": "c", "restartPolicyRules": rules(action)});
    let needs = |spec: Value| pod(&spec, &json!({})).node_features;
    let all = Features::RESTARTS_ALL_CONTAINERS;
    assert_eq!(needs(json!({"containers": [restarts("Restart")]})), Features::default());
    assert_eq!(needs(json!({"containers": [restarts("RestartAllContainers")]})), all);
    assert_eq!(needs(json!({"initContainers": [restarts("RestartAllContainers")]})), all);
    let users = Features::USERS_ON_HOST_NETWORK;
    assert_eq!(needs(json!({"hostNetwork": true, "hostUsers": false})), users);
    assert_eq!(needs(json!({"hostNetwork": true})), Features::default());
    assert_eq!(needs(json!({"hostUsers": false})), Features::default());
    let status = json!({"declaredFeatures": ["Other", "RestartAllContainersOnContainerExits"]});
    let object = json!({"metadata": {"name": "a"}, "status": status});
    let ClusterChange::Node(node) = node_change(&serde_json::from_value(object).expect("a node")) else {
        panic!("a node is a node");
    };
    assert!(node.features.contain(all) && !node.features.contain(users.with(all)));
}
