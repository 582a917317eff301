use costing::{End, Moment};
use serde_json::{Value, json};

use super::{is_over, node_record, pod_record};
use slim_objects::{SlimNode, SlimPod};

const ZERO: &str = "2026-11-15T02:00:00Z";

fn at(second: u32) -> String {
    format!("2026-11-15T02:00:{second:02}Z")
}

fn moment(second: u32) -> Moment {
    Moment::of(at(second).parse().unwrap())
}

fn condition(kind: &str, status: &str, second: u32) -> Value {
    json!({ "type": kind, "status": status, "lastTransitionTime": at(second) })
}

fn running(second: u32) -> Value {
    json!({ "name": "main", "state": { "running": { "startedAt": at(second) } } })
}

fn terminated(start: u32, finish: u32) -> Value {
    json!({ "name": "main", "state": { "terminated": { "exitCode": 0, "startedAt": at(start), "finishedAt": at(finish) } } })
}

/// A pod of a Run on a node, with this status.
fn pod(status: &Value) -> SlimPod {
    serde_json::from_value(json!({
        "metadata": {
            "name": "train-1-0-x", "namespace": "team", "uid": "u", "creationTimestamp": ZERO,
            "labels": { "warpyard.dev/run": "train", "warpyard.dev/attempt": "2", "warpyard.dev/queue": "nlp" },
            "annotations": { "warpyard.dev/submitted-by": "ann" },
        },
        "spec": {
            "nodeName": "node-7", "schedulerName": "warpyard",
            "containers": [{ "name": "main", "resources": { "requests": { "cpu": "2", "nvidia.com/gpu": "4" } } }],
        },
        "status": status,
    }))
    .unwrap()
}

fn ended(status: &Value) -> Option<End> {
    pod_record(&pod(status)).unwrap().ended
}

#[test]
fn a_running_pod_tells_whose_it_is_and_since_when() {
    let status = json!({
        "phase": "Running", "conditions": [condition("PodScheduled", "True", 3)], "containerStatuses": [running(5)],
    });
    let record = pod_record(&pod(&status)).unwrap();
    assert_eq!((record.run.as_deref(), record.attempt), (Some("train"), Some(2)));
    assert_eq!((record.queue.as_deref(), record.user.as_deref()), (Some("nlp"), Some("ann")));
    assert_eq!((record.node.as_str(), record.gpus, record.cpu_millis), ("node-7", 4, 2000));
    assert_eq!((record.scheduled_at, record.started_at, record.ended), (moment(3), Some(moment(5)), None));
}

#[test]
fn a_pod_of_another_scheduler_charges_nobody_but_its_namespace() {
    let status = json!({ "phase": "Running", "conditions": [condition("PodScheduled", "True", 3)] });
    let mut pod = pod(&status);
    pod.spec.scheduler_name = Some("default-scheduler".to_owned());
    let record = pod_record(&pod).unwrap();
    assert_eq!((record.run, record.attempt, record.queue, record.user), (None, None, None, None));
    assert_eq!((record.namespace.as_str(), record.gpus), ("team", 4));
}

#[test]
fn without_a_node_or_a_time_there_is_no_record_yet() {
    let mut without_node = pod(&json!({ "conditions": [condition("PodScheduled", "True", 3)] }));
    without_node.spec.node_name = None;
    assert_eq!(pod_record(&without_node), None);
    assert_eq!(pod_record(&pod(&json!({ "phase": "Pending" }))), None);
    let static_pod = pod(&json!({ "phase": "Pending", "startTime": at(4) }));
    assert_eq!(pod_record(&static_pod).unwrap().scheduled_at, moment(4));
}

#[test]
fn the_end_is_the_last_finish_of_any_container() {
    let status = |containers: Value, init: Value| {
        json!({
            "phase": "Succeeded", "conditions": [condition("PodScheduled", "True", 3), condition("Ready", "False", 30)],
            "containerStatuses": containers, "initContainerStatuses": init,
        })
    };
    let certain = |second| Some(End::Certain(moment(second)));
    assert_eq!(ended(&status(json!([terminated(5, 9)]), json!([]))), certain(9));
    assert_eq!(ended(&status(json!([terminated(5, 9), terminated(5, 11)]), json!([]))), certain(11));
    // A sidecar is an init container that outlives the others.
    assert_eq!(ended(&status(json!([terminated(5, 9)]), json!([terminated(4, 12)]))), certain(12));
    // The kubelet may write the start of an hour ago, but use never ends before it began.
    assert_eq!(ended(&status(json!([terminated(1, 2)]), json!([]))), certain(3));
}

#[test]
fn a_pod_that_is_over_without_a_finish_ended_with_the_last_thing_that_happened_to_it() {
    let never_started = json!({
        "phase": "Failed",
        "conditions": [condition("PodScheduled", "True", 3), condition("Ready", "False", 4), condition("DisruptionTarget", "True", 20)],
    });
    assert_eq!(ended(&never_started), Some(End::Certain(moment(20))));
    let node_vanished = json!({
        "phase": "Failed", "containerStatuses": [running(5)],
        "conditions": [condition("PodScheduled", "True", 3), condition("Ready", "False", 18), condition("DisruptionTarget", "True", 20)],
    });
    assert_eq!(ended(&node_vanished), Some(End::Certain(moment(20))));
    let nothing_known = json!({ "phase": "Failed", "startTime": at(6), "conditions": [] });
    assert_eq!(ended(&nothing_known), Some(End::Certain(moment(6))));
    let finish_unknown = json!({
        "phase": "Failed", "conditions": [condition("PodScheduled", "True", 3), condition("Ready", "False", 18)],
        "containerStatuses": [{ "name": "main", "state": { "terminated": { "exitCode": 137, "finishedAt": null } } }],
    });
    assert_eq!(ended(&finish_unknown), Some(End::Certain(moment(18))));
}

#[test]
fn a_container_that_ended_may_be_restarted_unless_its_pod_is_deleted() {
    let status = json!({
        "phase": "Running", "conditions": [condition("PodScheduled", "True", 3)], "containerStatuses": [terminated(5, 9)],
    });
    assert_eq!(ended(&status), None);
    let mut deleted = pod(&status);
    deleted.metadata.deletion_timestamp = serde_json::from_value(json!(at(50))).unwrap();
    assert_eq!(pod_record(&deleted).unwrap().ended, Some(End::Certain(moment(9))));
    // A sidecar that still runs keeps the pod.
    let sidecar = serde_json::from_value(running(4)).unwrap();
    deleted.status.init_container_statuses = vec![sidecar];
    assert_eq!(pod_record(&deleted).unwrap().ended, None);
}

#[test]
fn the_first_start_counts_also_after_a_restart() {
    let restarted = json!({
        "name": "main", "state": { "running": { "startedAt": at(15) } },
        "lastState": { "terminated": { "exitCode": 1, "startedAt": at(5), "finishedAt": at(9) } },
    });
    let status = json!({
        "phase": "Running", "conditions": [condition("PodScheduled", "True", 3)], "containerStatuses": [restarted],
    });
    assert_eq!(pod_record(&pod(&status)).unwrap().started_at, Some(moment(5)));
}

#[test]
fn a_pod_deleted_before_it_has_a_node_is_over() {
    let mut waiting = pod(&json!({ "phase": "Pending" }));
    waiting.spec.node_name = None;
    assert!(!is_over(&waiting));
    waiting.metadata.deletion_timestamp = serde_json::from_value(json!(at(50))).unwrap();
    assert!(is_over(&waiting));
}

#[test]
fn a_node_is_what_it_has_and_how_it_was_bought() {
    let node = |labels: Value| -> SlimNode {
        serde_json::from_value(json!({
            "metadata": { "name": "node-7", "uid": "n", "creationTimestamp": ZERO, "labels": labels },
            "status": {
                "capacity": { "cpu": "112", "nvidia.com/gpu": "8" },
                "allocatable": { "cpu": "110", "nvidia.com/gpu": "7" },
            },
        }))
        .unwrap()
    };
    let record = node_record(&node(json!({ "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3" }))).unwrap();
    let (from, shape) = &record.shapes[0];
    assert_eq!((*from, record.created_at, record.ended), (moment(0), moment(0), None));
    assert_eq!((shape.gpus, shape.cpu_millis, shape.gpu_type.as_deref()), (8, 112_000, Some("H100")));
    assert_eq!((shape.capacity_type.as_str(), shape.instance_type.as_deref()), ("on-premises", None));
    let labels =
        json!({ "karpenter.sh/capacity-type": "spot", "node.kubernetes.io/instance-type": "p5.48xlarge" });
    let (_, shape) = &node_record(&node(labels)).unwrap().shapes[0];
    assert_eq!((shape.capacity_type.as_str(), shape.instance_type.as_deref()), ("spot", Some("p5.48xlarge")));
}
