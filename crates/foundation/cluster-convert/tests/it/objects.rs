use std::collections::BTreeMap;

use api_types::Run;
use cluster_convert::{
    Readable, SlimBudget, SlimNamespace, SlimNode, SlimPod, node_change, node_gone, queue_change, queue_gone,
};
use cluster_model::{Amounts, Change, Node, Queue, Resources, Taint, TaintEffect};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_core::{PartialObjectMeta, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn node(metadata: &Value, spec: &Value) -> Node {
    let status = json!({
        "allocatable": {"cpu": "191500m", "memory": "2113536Ki", "nvidia.com/gpu": "8", "pods": "110", "ephemeral-storage": "1Ti"},
        "capacity": {"cpu": "192", "nvidia.com/gpu": "8"},
        "images": [{"names": ["a", "b"], "sizeBytes": 1}],
        "nodeInfo": {"kubeletVersion": "v1.36.3"},
    });
    let slim: SlimNode =
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status}))
            .expect("a node");
    assert_eq!(node_gone(&slim), Change::NodeGone(metadata["name"].as_str().expect("a name").into()));
    match node_change(&slim) {
        Change::Node(node) => node,
        other => panic!("a node is a node, not {other:?}"),
    }
}

#[test]
fn a_node_is_what_pods_may_use_of_it() {
    let metadata = json!({"name": "gpu-17", "labels": {"topology.warpyard.dev/rack": "r3", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}});
    let spec = json!({"taints": [{"key": "warpyard.dev/gpu", "effect": "NoSchedule"}, {"key": "x", "value": "y", "effect": "Later", "timeAdded": "2026-11-14T10:00:00Z"}]});
    let node = node(&metadata, &spec);
    assert_eq!(
        node.allocatable,
        Resources { gpus: 8, cpu_millis: 191_500, memory_bytes: 2_113_536 << 10, pods: 110 }
    );
    assert_eq!(
        (node.gpu_type, node.topology),
        (Some("H100".into()), vec!["".into(), "".into(), "r3".into()])
    );
    assert!(node.schedulable);
    let taint = |key: &str, value: &str| Taint {
        key: key.into(),
        value: value.into(),
        effect: TaintEffect::NoSchedule,
    };
    assert_eq!(node.taints, [taint("warpyard.dev/gpu", ""), taint("x", "y")]);
}

#[test]
fn a_node_that_is_being_deleted_takes_no_pods() {
    assert!(node(&json!({"name": "a"}), &json!({})).schedulable);
    assert!(
        !node(&json!({"name": "a", "deletionTimestamp": "2026-11-14T10:00:00Z"}), &json!({})).schedulable
    );
}

#[test]
fn the_gpu_type_is_the_label_of_ours_else_the_model_in_the_product_name() {
    let check = |labels: Value, expected: Option<&str>| {
        let node = node(&json!({"name": "a", "labels": labels}), &json!({}));
        assert_eq!(node.gpu_type.as_ref().map(cluster_model::GpuType::as_str), expected);
    };
    check(json!({}), None);
    check(json!({"nvidia.com/gpu.product": ""}), None);
    let product =
        |product: &str, expected: &str| check(json!({"nvidia.com/gpu.product": product}), Some(expected));
    product("NVIDIA-H100-80GB-HBM3", "H100");
    product("NVIDIA-A100-SXM4-80GB", "A100");
    product("NVIDIA-L4", "L4");
    product("Tesla-V100-SXM2-16GB", "V100");
    product("NVIDIA-GeForce-RTX-4090", "RTX-4090");
    product("NVIDIA-RTX-A6000", "RTX-A6000");
    product("NVIDIA-GH200-480GB", "GH200");
    product("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100-MIG-1g.5gb");
    product("NVIDIA-H100-80GB-HBM3-SHARED", "H100-SHARED");
    check(
        json!({"nvidia.com/gpu.product": "NVIDIA-L4", "warpyard.dev/gpu-type": "L4-cheap"}),
        Some("L4-cheap"),
    );
}

#[test]
fn a_queue_has_its_amounts_as_integers() {
    let queue: api_types::Queue = serde_json::from_value(json!({
        "apiVersion": "warpyard.dev/v1alpha1", "kind": "Queue",
        "metadata": {"name": "nlp"},
        "spec": {
            "parent": "org", "weight": 3, "namespaces": ["b", "a"],
            "quota": {"gpus": {"H100": 48}, "cpu": "1500m"},
            "limit": {"memory": "1Gi", "cpu": "no quantity"},
            "maxPrice": "120.5",
        },
    }))
    .expect("a queue");
    let quota =
        Amounts { gpus: BTreeMap::from([("H100".into(), 48)]), cpu_millis: Some(1500), memory_bytes: None };
    let limit = Amounts { gpus: BTreeMap::new(), cpu_millis: Some(0), memory_bytes: Some(1 << 30) };
    let expected = Queue {
        parent: Some("org".into()),
        weight: 3,
        quota: Some(quota),
        limit: Some(limit),
        max_price_micros: Some(120_500_000),
        namespaces: ["a".into(), "b".into()].into(),
        ..Queue::new("nlp")
    };
    assert_eq!(queue_change(&queue), Change::Queue(expected));
    assert_eq!(queue_gone(&queue), Change::QueueGone("nlp".into()));
}

#[test]
fn slim_and_readable_kinds_are_the_clusters_own() {
    assert_eq!(SlimPod::url_path(&(), Some("team")), "/api/v1/namespaces/team/pods");
    assert_eq!(SlimNode::url_path(&(), None), "/api/v1/nodes");
    assert_eq!(Readable::<Job>::url_path(&(), Some("team")), "/apis/batch/v1/namespaces/team/jobs");
    assert!(!Readable::<Job>::metadata_api());
    assert!(Readable::<PartialObjectMeta<Job>>::metadata_api(), "else whole objects would be sent");
}

/// Any tenant may write such a time, and one object that cannot be read keeps the whole list from being read.
#[test]
fn a_time_in_managed_fields_that_no_type_of_ours_can_hold_keeps_nothing_from_being_read() {
    fn is_read<K: DeserializeOwned>(time: &str) -> bool {
        let managed = json!({"manager": "m", "operation": "Update", "time": time});
        let metadata = json!({"name": "a", "namespace": "team", "managedFields": [managed]});
        serde_json::from_value::<K>(json!({ "metadata": metadata })).is_ok()
    }
    let (last, too_late) = ("9999-12-30T22:00:00Z", "9999-12-31T23:59:59Z");
    assert!(is_read::<PodDisruptionBudget>(last));
    assert!(!is_read::<PodDisruptionBudget>(too_late), "else this test says nothing");
    assert!(is_read::<SlimBudget>(too_late));
    assert!(is_read::<SlimPod>(too_late));
    assert!(is_read::<SlimNode>(too_late));
    assert!(is_read::<SlimNamespace>(too_late));
}

#[test]
fn a_run_and_bare_metadata_with_such_a_time_are_read_with_all_the_rest() {
    let managed = json!({"manager": "m", "operation": "Update", "time": "9999-12-31T23:59:59Z"});
    let labels = json!({"managedFields": "a label"});
    let mut run = json!({
        "metadata": {"name": "train", "namespace": "team", "labels": labels, "managedFields": [managed]},
        "spec": {"members": 2, "image": "i", "command": ["c"]},
    });
    assert!(serde_json::from_value::<Run>(run.clone()).is_err(), "else this test says nothing");
    let Readable(read) = serde_json::from_value::<Readable<Run>>(run.clone()).expect("a run");
    let bare = serde_json::from_value::<Readable<PartialObjectMeta<Pod>>>(run.clone()).expect("metadata");
    assert_eq!(bare.meta(), &read.metadata);
    run["metadata"].as_object_mut().expect("metadata").remove("managedFields");
    assert_eq!(read.metadata, serde_json::from_value::<Run>(run.clone()).expect("a run").metadata);
    assert_eq!(read.spec, serde_json::from_value::<Run>(run).expect("a run").spec);
}

/// Kubernetes looks at the labels and annotations of a template, and keeps the rest of its metadata as it is written.
#[test]
fn a_job_with_such_times_in_its_template_is_read_too() {
    let time = "9999-12-31T23:59:59Z";
    let managed = json!([{"manager": "m", "operation": "Update", "time": time}]);
    for template in [json!({"managedFields": managed}), json!({"creationTimestamp": time})] {
        let job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train-1", "namespace": "team", "managedFields": managed},
            "spec": {"suspend": true, "template": {"metadata": template, "spec": {"containers": []}}},
        });
        let Readable(read) = serde_json::from_value::<Readable<Job>>(job).expect("a job");
        assert_eq!(read.metadata.name.as_deref(), Some("train-1"));
        let spec = read.spec.expect("a spec");
        assert_eq!(spec.suspend, Some(true));
        assert!(spec.template.spec.is_some());
    }
}

#[test]
fn managed_fields_that_are_too_deep_for_a_tree_of_json_keep_nothing_from_being_read() {
    let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(200), "}".repeat(200));
    let metadata = format!(r#"{{"name":"a","managedFields":[{{"manager":"m","fieldsV1":{deep}}}]}}"#);
    let job = format!(r#"{{"metadata":{metadata},"spec":{{"template":{{"metadata":{metadata}}}}}}}"#);
    assert!(serde_json::from_str::<Job>(&job).is_err(), "else this test says nothing");
    let Readable(read) = serde_json::from_str::<Readable<Job>>(&job).expect("a job");
    assert_eq!(read.metadata.name.as_deref(), Some("a"));
    assert!(serde_json::from_str::<SlimPod>(&job).is_ok());
}
