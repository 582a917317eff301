use api_types::names;
use cluster_convert::pod_change;
use cluster_model::{ClusterChange, GangKey, Pod, PodKey, Resources, TaintEffect, Toleration};
use serde_json::{Value, json};
use slim_objects::{SlimPod, bound_at, member_index};

fn read(value: Value) -> SlimPod {
    serde_json::from_value(value).expect("it has the form of a pod")
}

/// A pod of ours with this spec, as the model sees it.
fn model_pod(mut spec: Value) -> Pod {
    spec.as_object_mut().expect("an object").entry("schedulerName").or_insert("warpyard".into());
    let metadata = json!({"namespace": "team", "name": "p", "uid": "u"});
    match pod_change(&read(json!({"metadata": metadata, "spec": spec}))) {
        ClusterChange::Pod(pod) => pod,
        other => panic!("a pod of ours is a pod, not {other:?}"),
    }
}

#[test]
fn a_full_pod_is_read_for_the_scheduler_and_the_controllers() {
    let slim: SlimPod = serde_json::from_str(include_str!("full-pod.json")).expect("a real pod");

    assert_eq!(slim.metadata.managed_fields, None);
    let annotations: Vec<_> =
        slim.metadata.annotations.iter().flatten().map(|(key, _)| key.as_str()).collect();
    let ours = ["fake.warpyard.dev/run-time", "warpyard.dev/gang-size", "warpyard.dev/gpu-type"];
    assert_eq!(annotations, [&["batch.kubernetes.io/job-completion-index"], &ours[..]].concat());
    let owner = &slim.metadata.owner_references.as_ref().expect("it has one")[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Job", "train-1"));
    let ended = slim.status.container_statuses[0].state.terminated.as_ref().expect("it ended");
    assert_eq!((ended.exit_code, ended.reason.as_deref()), (137, Some("OOMKilled")));
    assert_eq!(ended.message.as_deref(), Some("out of memory"));
    assert_eq!(ended.finished_at.as_ref().expect("it ended").0.to_string(), "2026-11-14T11:00:10Z");
    assert_eq!(slim.status.start_time.as_ref().expect("it started").0.to_string(), "2026-11-14T10:00:06Z");
    assert_eq!(member_index(&slim), Some(3));
    assert_eq!(bound_at(&slim).expect("it has a node").to_string(), "2026-11-14T10:00:05Z");
    let target = &slim.status.conditions[0];
    assert_eq!((target.kind.as_str(), target.status.as_str()), ("DisruptionTarget", "True"));

    let exists = |key: &str| Toleration { key: Some(key.into()), value: None, effect: None };
    let expected = Pod {
        gang_size: Some(4),
        queue: Some("nlp".into()),
        requests: Resources { gpus: 8, cpu_millis: 31_500, memory_bytes: 64 << 30, pods: 1 },
        gpu_types: vec!["H100".into()],
        priority: 2000,
        created: "2026-11-14T10:00:00Z".parse().expect("a time"),
        node: Some("gpu-17".into()),
        terminating: true,
        ours: true,
        node_selector: [("zone".into(), "a".into())].into(),
        tolerations: vec![
            Toleration { effect: Some(TaintEffect::NoExecute), ..exists("node.kubernetes.io/not-ready") },
            exists("warpyard.dev/gpu"),
            Toleration { value: Some("nlp".into()), effect: Some(TaintEffect::NoSchedule), ..exists("team") },
        ],
        unsupported: vec![],
        run: Some("train".into()),
        member_index: Some(3),
        gated: false,
        grace_seconds: 30,
        started: bound_at(&slim),
        labels: slim.metadata.labels.clone().unwrap_or_default().into_iter().collect(),
        terms: std::sync::Arc::new(cluster_model::Terms {
            time_limit_seconds: Some(3600),
            takes_spot: true,
            ..cluster_model::Terms::default()
        }),
        ..Pod::new(
            PodKey::new("team-nlp", "train-1-3-x7k2p", "7a0c7f0e-2222-4b38-8a39-8a3f4ad1c002"),
            GangKey::new("team-nlp", "train-1"),
        )
    };
    assert_eq!(pod_change(&slim), ClusterChange::Pod(expected));
}

#[test]
fn a_pod_counts_from_its_node_until_it_ends() {
    let check = |scheduler: &str, node: Option<&str>, phase: &str, counts: bool| {
        let pod = read(json!({
            "metadata": {"namespace": "team", "name": "p", "uid": "u", "creationTimestamp": null},
            "spec": {"schedulerName": scheduler, "nodeName": node, "tolerations": null, "containers": []},
            "status": {"phase": phase, "conditions": null},
        }));
        let change = pod_change(&pod);
        assert_eq!(matches!(change, ClusterChange::Pod(_)), counts, "{scheduler} {node:?} {phase}");
        if !counts {
            assert_eq!(change, ClusterChange::PodGone(PodKey::new("team", "p", "u")));
        }
    };
    check("warpyard", None, "Pending", true);
    check("warpyard", Some("a"), "Running", true);
    check("warpyard", Some("a"), "Unknown", true);
    check("warpyard", Some("a"), "Succeeded", false);
    check("warpyard", Some("a"), "Failed", false);
    check("default-scheduler", None, "Pending", false);
    check("default-scheduler", Some(""), "Pending", false);
    check("default-scheduler", Some("a"), "Running", true);
    check("default-scheduler", Some("a"), "Succeeded", false);
}

#[test]
fn a_pod_without_a_gang_is_one_of_its_own_that_no_label_can_name() {
    let pod = model_pod(json!({}));
    assert_eq!((pod.gang, pod.gang_size), (GangKey::new("team", "pod/p"), None));
}

#[test]
fn requests_are_what_the_pod_holds_at_the_most() {
    let container = |cpu: &str, gpus: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu, "nvidia.com/gpu": gpus}}});
    let sidecar =
        |cpu: &str| json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
    let check = |spec: Value, cpu_millis: i64, gpus: i64| {
        let pod = model_pod(spec);
        assert_eq!((pod.requests.cpu_millis, pod.requests.gpus, pod.requests.pods), (cpu_millis, gpus, 1));
        assert_eq!(pod.unsupported, Vec::<String>::new());
    };
    let both = [container("1", "2"), container("500m", "1")];
    check(json!({"containers": both}), 1500, 3);
    // An init container runs alone; the largest counts.
    check(json!({"containers": both, "initContainers": [container("1", "4"), container("2", "0")]}), 2000, 4);
    // A sidecar runs together with the containers, and with init containers that come after it.
    check(json!({"containers": both, "initContainers": [sidecar("1")]}), 2500, 3);
    check(json!({"containers": both, "initContainers": [sidecar("1"), container("3", "0")]}), 4000, 3);
    check(json!({"containers": both, "initContainers": [container("3", "0"), sidecar("1")]}), 3000, 3);
    check(json!({"containers": both, "overhead": {"cpu": "250m"}}), 1750, 3);
    check(
        json!({"containers": both, "resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "250m"}}),
        4250,
        3,
    );
    check(
        json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}}]}),
        1000,
        1,
    );
    check(json!({"containers": [{"name": "c"}]}), 0, 0);
    check(json!({"containers": [{"name": "c", "resources": {"requests": {"foo.com/bar": "0"}}}]}), 0, 0);
}

#[test]
fn what_we_cannot_honour_is_named() {
    let check = |spec: Value, expected: &[&str]| assert_eq!(model_pod(spec).unsupported, expected);
    let requests =
        |requests: Value| json!({"containers": [{"name": "c", "resources": {"requests": requests}}]});
    check(requests(json!({"cpu": "many"})), &["container c: many of cpu"]);
    check(requests(json!({"cpu": "-1"})), &["container c: -1 of cpu"]);
    check(
        json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "w", "csi": {}}, {"name": "x", "csi": {}}]}),
        &["spec.volumes[].csi", "spec.volumes[].persistentVolumeClaim"],
    );
    check(
        json!({"volumes": [{"name": names::CHECKPOINT_VOLUME, "persistentVolumeClaim": {"claimName": "c"}}]}),
        &[],
    );
    check(
        json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "nfs": {"server": "s"}}]}),
        &[],
    );
    check(json!({"resourceClaims": [{"name": "gpu"}]}), &["spec.resourceClaims"]);
    check(json!({"schedulingGroup": {"podGroupName": "g"}}), &["spec.schedulingGroup"]);
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    check(json!({"affinity": {}}), &[]);
    check(json!({"affinity": {"nodeAffinity": {preferred: [{"weight": 1}]}}}), &[]);
    check(json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": []}}}}), &[]);
}

#[test]
fn a_gang_size_that_is_no_number_is_named() {
    for size in ["0", "-1", "four", "99999999999"] {
        let metadata = json!({"namespace": "team", "name": "p", "uid": "u", "annotations": {"warpyard.dev/gang-size": size}});
        let ClusterChange::Pod(pod) =
            pod_change(&read(json!({"metadata": metadata, "spec": {"schedulerName": "warpyard"}})))
        else {
            panic!("a pod of ours is a pod");
        };
        assert_eq!(pod.gang_size, None);
        assert_eq!(
            pod.unsupported,
            [format!("annotation warpyard.dev/gang-size is {size}, not a number from 1")]
        );
    }
}

#[test]
fn absurd_requests_are_bounded() {
    let pod = model_pod(json!({"containers": [
        {"name": "c", "resources": {"requests": {"memory": "8Ei", "cpu": "1e30"}}},
        {"name": "d", "resources": {"requests": {"memory": "8Ei"}}},
    ]}));
    assert_eq!((pod.requests.memory_bytes, pod.requests.cpu_millis), (1 << 45, 1 << 45));
}

#[test]
fn a_pod_says_whether_others_give_way_to_its_priority() {
    assert!(model_pod(json!({})).preempts);
    assert!(model_pod(json!({"preemptionPolicy": "PreemptLowerPriority"})).preempts);
    assert!(!model_pod(json!({"preemptionPolicy": "Never"})).preempts);
}

#[test]
fn a_pod_comes_back_if_it_has_a_controller() {
    let comes_back = |owners: Value| {
        let metadata = json!({"namespace": "team", "name": "p", "uid": "u", "ownerReferences": owners});
        match pod_change(&read(json!({"metadata": metadata, "spec": {"schedulerName": "warpyard"}}))) {
            ClusterChange::Pod(pod) => pod.comes_back,
            other => panic!("a pod of ours is a pod, not {other:?}"),
        }
    };
    let owner = |controller: Value| json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": controller}]);
    assert!(comes_back(owner(json!(true))));
    assert!(
        !comes_back(owner(json!(false))) && !comes_back(owner(Value::Null)),
        "it only goes with its owner"
    );
    assert!(!comes_back(json!([])) && !comes_back(Value::Null), "a bare pod");
}

#[test]
fn who_makes_a_pod_anew_is_kept_where_its_next_life_has_no_index() {
    let controller = |annotations: Value| {
        let owners = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "set", "controller": true}]);
        let metadata = json!({"namespace": "team", "name": "p", "uid": "u", "ownerReferences": owners, "annotations": annotations});
        match pod_change(&read(json!({"metadata": metadata, "spec": {"schedulerName": "warpyard"}}))) {
            ClusterChange::Pod(pod) => pod.controller,
            other => panic!("a pod of ours is a pod, not {other:?}"),
        }
    };
    assert_eq!(controller(json!({})).as_deref(), Some("set"));
    assert_eq!(controller(json!({"batch.kubernetes.io/job-completion-index": "3"})), None);
}

#[test]
fn a_pod_says_how_long_it_may_take_to_end() {
    let grace = |seconds: Value| model_pod(json!({"terminationGracePeriodSeconds": seconds})).grace_seconds;
    assert_eq!((grace(Value::Null), grace(json!(0)), grace(json!(900))), (30, 0, 900));
    assert_eq!((grace(json!(-5)), grace(json!(i64::MAX))), (0, u32::MAX));
}

#[test]
fn scheduling_gates_hold_a_pod_back() {
    assert!(model_pod(json!({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]})).gated);
    assert!(!model_pod(json!({"schedulingGates": []})).gated);
}

#[test]
fn tolerations_mean_what_kubernetes_says() {
    let one = |toleration: Value| model_pod(json!({"tolerations": [toleration]})).tolerations;
    let all = Toleration { key: None, value: None, effect: None };
    assert_eq!(one(json!({"operator": "Exists"})), std::slice::from_ref(&all));
    assert_eq!(
        one(json!({"key": "k"})),
        [Toleration { key: Some("k".into()), value: Some("".into()), effect: None }]
    );
    assert_eq!(one(json!({"key": "k", "operator": "Gt", "value": "5"})), []);
    assert_eq!(one(json!({"key": "k", "operator": "Exists", "effect": "Later"})), []);
}

#[test]
fn what_says_which_gang_and_queue_a_pod_is_in_is_kept_from_changing_by_the_policy() {
    let policy = include_str!("../../../../../deploy/pod-labels.yaml");
    let for_status = include_str!("../../../../../deploy/fence.yaml");
    for (kind, name) in [
        ("labels", names::QUEUE_LABEL),
        ("labels", names::GANG_LABEL),
        ("labels", names::RUN_LABEL),
        ("labels", names::ATTEMPT_LABEL),
        ("annotations", names::GANG_SIZE_ANNOTATION),
        ("annotations", names::GPU_TYPE_ANNOTATION),
        ("annotations", names::SUBMITTED_BY_ANNOTATION),
    ] {
        for object in ["object", "oldObject"] {
            let read = format!(" {object}.metadata.?{kind}[?'{name}'].orValue('')\n");
            assert!(policy.contains(&read), "deploy/pod-labels.yaml does not read {read}");
        }
        assert!(for_status.contains(&format!("'{name}'")), "deploy/fence.yaml does not name {name}");
    }
    assert!(policy.contains(&format!(".orValue('') == '{}'\n", names::SCHEDULER_NAME)));
}
