use std::collections::BTreeMap;

use api_types::QueueSpec;
use api_types::run::PriorityTier;
use cluster_convert::{node_change, node_gone, queue_change, queue_gone};
use cluster_model::{Amounts, ClusterChange, Node, Queue, Resources, Taint, TaintEffect, Tier};
use serde_json::{Value, json};
use slim_objects::SlimNode;

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
    assert_eq!(node_gone(&slim), ClusterChange::NodeGone(metadata["name"].as_str().expect("a name").into()));
    match node_change(&slim) {
        ClusterChange::Node(node) => node,
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
    assert_eq!(queue_change(&queue), ClusterChange::Queue(expected));
    assert_eq!(queue_gone(&queue), ClusterChange::QueueGone("nlp".into()));
}

#[test]
fn tiers_have_the_same_names_and_values_in_objects_and_in_the_model() {
    let named = PriorityTier::ALL.map(|tier| (serde_json::to_value(tier).unwrap(), tier.priority_value()));
    let known = Tier::NAMED.map(|(name, tier)| (json!(name), tier));
    assert_eq!(named.map(|(name, value)| (name, Tier::of(value))), known);
    for tier in PriorityTier::ALL {
        let spec = QueueSpec { highest_priority: Some(tier), ..QueueSpec::default() };
        let ClusterChange::Queue(queue) = queue_change(&api_types::Queue::new("nlp", spec)) else {
            panic!("a queue");
        };
        assert_eq!(queue.highest_tier, Some(Tier::of(tier.priority_value())));
    }
}
