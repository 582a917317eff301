use costing::{End, Moment};
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use slim_objects::{SlimNode, SlimPod};
use store::Batch;

use super::MeterState;

/// A time of the tests' day.
fn time(second: i64) -> String {
    jiff::Timestamp::from_second(at(second).0).unwrap().to_string()
}

fn at(second: i64) -> Moment {
    Moment(1_794_700_800 + second)
}

/// A pod of a Run: held by our finalizer, with a node since second 3 if it has one.
fn pod(uid: &str, node: Option<&str>, status: &Value) -> SlimPod {
    let mut status = status.clone();
    if node.is_some() {
        status["conditions"] =
            json!([{ "type": "PodScheduled", "status": "True", "lastTransitionTime": time(3) }]);
    }
    serde_json::from_value(json!({
        "metadata": { "name": uid, "namespace": "team", "uid": uid, "finalizers": ["other", "warpyard.dev/metering"] },
        "spec": { "nodeName": node, "schedulerName": "warpyard", "containers": [{ "name": "main" }] },
        "status": status,
    }))
    .unwrap()
}

fn running(uid: &str) -> SlimPod {
    pod(uid, Some("node-0"), &json!({ "phase": "Running" }))
}

fn succeeded(uid: &str, finish: i64) -> SlimPod {
    let terminated = json!({ "exitCode": 0, "startedAt": time(4), "finishedAt": time(finish) });
    let containers = json!([{ "name": "main", "state": { "terminated": terminated } }]);
    pod(uid, Some("node-0"), &json!({ "phase": "Succeeded", "containerStatuses": containers }))
}

fn deleted(mut pod: SlimPod) -> SlimPod {
    pod.metadata.deletion_timestamp = serde_json::from_value(json!(time(99))).unwrap();
    pod
}

fn released(mut pod: SlimPod) -> SlimPod {
    pod.metadata.finalizers = Some(vec!["other".to_owned()]);
    pod
}

fn node(uid: &str, gpus: u32) -> SlimNode {
    serde_json::from_value(json!({
        "metadata": { "name": "node-0", "uid": uid, "creationTimestamp": time(0) },
        "status": { "capacity": { "cpu": "8", "nvidia.com/gpu": gpus.to_string() } },
    }))
    .unwrap()
}

fn batch(state: &mut MeterState) -> Batch {
    state.batch(|_| None)
}

/// Writes all dirty records into the ledger.
fn flush(state: &mut MeterState) -> Batch {
    let batch = batch(state);
    state.recorded(&batch);
    batch
}

fn releasable(state: &MeterState) -> Vec<String> {
    state.releasable().into_iter().map(|held| held.uid).collect()
}

#[test]
fn a_pod_is_let_go_only_after_its_end_is_recorded() {
    let mut state = MeterState::default();
    state.pod_event(&Event::Apply(running("a")), at(5));
    assert_eq!(flush(&mut state).pods[0].ended, None);
    assert!(releasable(&state).is_empty());
    state.pod_event(&Event::Apply(succeeded("a", 9)), at(10));
    assert!(releasable(&state).is_empty(), "the ledger does not have the end yet");
    assert_eq!(flush(&mut state).pods[0].ended, Some(End::Certain(at(9))));
    assert_eq!(releasable(&state), ["a"]);
    let held = state.releasable();
    state.released(&held[0]);
    assert!(!state.has_work());
}

#[test]
fn what_is_learnt_while_a_batch_is_written_is_not_lost() {
    let mut state = MeterState::default();
    state.pod_event(&Event::Apply(running("a")), at(5));
    let written = batch(&mut state);
    state.pod_event(&Event::Apply(succeeded("a", 9)), at(10));
    state.recorded(&written);
    assert_eq!(state.dirty_count(), 1);
    assert!(releasable(&state).is_empty());
    assert_eq!(flush(&mut state).pods[0].ended, Some(End::Certain(at(9))));
}

#[test]
fn a_batch_that_was_not_confirmed_is_taken_again() {
    let mut state = MeterState::default();
    state.pod_event(&Event::Apply(running("a")), at(5));
    assert_eq!(batch(&mut state).pods, batch(&mut state).pods);
    assert_eq!(state.dirty_count(), 1);
}

#[test]
fn what_says_nothing_new_is_not_written_again() {
    let mut state = MeterState::default();
    state.pod_event(&Event::Apply(running("a")), at(5));
    flush(&mut state);
    state.pod_event(&Event::Apply(running("a")), at(6));
    assert!(!state.has_work());
}

#[test]
fn a_pod_that_never_had_a_node_needs_no_ledger_to_go() {
    let mut state = MeterState::default();
    let waiting = pod("a", None, &json!({ "phase": "Pending" }));
    state.pod_event(&Event::Apply(waiting.clone()), at(5));
    assert!(!state.has_work());
    state.pod_event(&Event::Apply(deleted(waiting)), at(6));
    assert_eq!((state.dirty_count(), releasable(&state)), (0, vec!["a".to_owned()]));
}

#[test]
fn a_pod_that_goes_without_telling_its_end_ends_when_it_was_seen_to_go() {
    let mut state = MeterState::default();
    state.pod_event(&Event::Apply(released(running("a"))), at(5));
    state.pod_event(&Event::Delete(released(running("a"))), at(30));
    assert_eq!(flush(&mut state).pods[0].ended, Some(End::Provisional(at(30))));
    assert!(!state.has_work());
}

#[test]
fn a_pod_that_tells_its_end_with_its_last_event_is_recorded_after_it_is_gone() {
    let mut state = MeterState::default();
    state.pod_event(&Event::Delete(released(succeeded("a", 9))), at(30));
    assert_eq!(flush(&mut state).pods[0].ended, Some(End::Certain(at(9))));
    assert_eq!(state.dirty_count(), 0);
}

#[test]
fn what_a_new_list_does_not_bring_ended_when_everything_was_last_seen() {
    let mut state = MeterState::default();
    state.pod_event(&Event::Apply(running("a")), at(5));
    state.pod_event(&Event::Apply(running("b")), at(5));
    state.node_event(&Event::Apply(node("n", 8)), at(5));
    flush(&mut state);
    state.seen_until(at(20));
    state.pod_event(&Event::Init, at(40));
    state.pod_event(&Event::InitApply(running("b")), at(40));
    state.pod_event(&Event::InitDone, at(41));
    state.node_event(&Event::Init, at(40));
    state.node_event(&Event::InitDone, at(41));
    let flushed = flush(&mut state);
    let ends: Vec<_> = flushed.pods.iter().map(|pod| (pod.uid.as_str(), pod.ended)).collect();
    assert_eq!(ends, [("a", Some(End::Provisional(at(20))))]);
    assert_eq!(flushed.nodes[0].ended, Some(End::Provisional(at(20))));
}

#[test]
fn a_new_meter_writes_only_what_the_ledger_does_not_have() {
    let mut old = MeterState::default();
    for uid in ["stays", "ends", "vanishes"] {
        old.pod_event(&Event::Apply(running(uid)), at(5));
    }
    old.node_event(&Event::Apply(node("n", 8)), at(5));
    old.node_event(&Event::Apply(node("m", 8)), at(5));
    let ledger = flush(&mut old);

    let mut new = MeterState::default();
    new.pod_event(&Event::Apply(running("stays")), at(50));
    new.pod_event(&Event::Apply(succeeded("ends", 9)), at(50));
    new.node_event(&Event::Apply(node("n", 8)), at(50));
    new.seen_until(at(20));
    let unknown = new.in_ledger(ledger);
    assert_eq!((unknown.pods.len(), unknown.nodes.len()), (1, 1));
    new.vanished(unknown, at(20));
    let flushed = flush(&mut new);
    let ends: Vec<_> = flushed.pods.iter().map(|pod| (pod.uid.as_str(), pod.ended)).collect();
    assert_eq!(ends, [("ends", Some(End::Certain(at(9)))), ("vanishes", Some(End::Provisional(at(20))))]);
    let ends: Vec<_> = flushed.nodes.iter().map(|node| (node.uid.as_str(), node.ended)).collect();
    assert_eq!(ends, [("m", Some(End::Provisional(at(20))))]);
}

#[test]
fn an_end_is_never_before_the_beginning() {
    let mut state = MeterState::default();
    state.pod_event(&Event::Apply(released(running("a"))), at(5));
    state.pod_event(&Event::Delete(released(running("a"))), at(1));
    assert_eq!(flush(&mut state).pods[0].ended, Some(End::Provisional(at(3))));
}

#[test]
fn a_node_that_changes_is_another_from_then_on_also_for_a_new_meter() {
    let mut old = MeterState::default();
    old.node_event(&Event::Apply(node("n", 0)), at(5));
    let ledger = flush(&mut old);
    old.node_event(&Event::Apply(node("n", 8)), at(30));
    let shapes = |batch: &Batch| -> Vec<_> {
        batch.nodes[0].shapes.iter().map(|(at, shape)| (*at, shape.gpus)).collect()
    };
    assert_eq!(shapes(&flush(&mut old)), [(at(0), 0), (at(30), 8)]);
    // GPUs that vanish for a while are still paid for.
    old.node_event(&Event::Apply(node("n", 0)), at(40));
    assert!(!old.has_work());

    let mut new = MeterState::default();
    new.node_event(&Event::Apply(node("n", 8)), at(60));
    new.in_ledger(ledger);
    assert_eq!(shapes(&flush(&mut new)), [(at(0), 0), (at(60), 8)]);
}

#[test]
fn what_the_ledger_has_may_be_compared_again_and_changes_nothing() {
    let of_type = |instance_type: &str| {
        let mut node = node("n", 8);
        let label = ("node.kubernetes.io/instance-type".to_owned(), instance_type.to_owned());
        node.metadata.labels = Some([label].into());
        node
    };
    let mut old = MeterState::default();
    old.node_event(&Event::Apply(of_type("a")), at(5));
    old.node_event(&Event::Apply(of_type("b")), at(30));
    old.pod_event(&Event::Apply(running("p")), at(30));
    let ledger = flush(&mut old);
    assert_eq!(ledger.nodes[0].shapes.len(), 2);

    let mut new = MeterState::default();
    new.node_event(&Event::Apply(of_type("b")), at(60));
    new.pod_event(&Event::Apply(running("p")), at(60));
    for _ in 0..3 {
        let unknown = new.in_ledger(ledger.clone());
        assert!(unknown.pods.is_empty() && unknown.nodes.is_empty());
        assert_eq!(new.dirty_count(), 0);
    }
}

#[test]
fn a_pod_that_the_ledger_has_keeps_the_queue_that_it_has_there() {
    let mut old = MeterState::default();
    old.pod_event(&Event::Apply(succeeded("ended", 9)), at(10));
    let ledger = old.batch(|_| Some("alpha"));

    // The namespace has another queue by now, whose name is greater.
    let mut new = MeterState::default();
    new.pod_event(&Event::InitApply(succeeded("ended", 9)), at(50));
    new.pod_event(&Event::InitApply(running("new")), at(50));
    assert_eq!(new.pods_without_queue(), ["ended", "new"]);
    new.in_ledger(ledger.clone());
    assert_eq!(new.pods_without_queue(), ["new"]);
    // It has more than the ledger, and is sent.
    new.pod_event(&Event::Apply(succeeded("ended", 12)), at(51));
    let taken = new.batch(|_| Some("beta"));
    let queues: Vec<_> = taken.pods.iter().map(|pod| (pod.uid.as_str(), pod.queue.as_deref())).collect();
    assert_eq!(queues, [("ended", Some("alpha")), ("new", Some("beta"))]);

    // A pod without a queue in the ledger stays without one.
    let mut without = ledger;
    without.pods[0].queue = None;
    let mut new = MeterState::default();
    new.pod_event(&Event::InitApply(succeeded("ended", 9)), at(50));
    new.in_ledger(without);
    new.pod_event(&Event::Apply(succeeded("ended", 12)), at(51));
    assert_eq!(new.batch(|_| Some("beta")).pods[0].queue, None);
}

#[test]
fn a_pod_that_names_no_queue_is_charged_to_its_namespaces_one() {
    let mut state = MeterState::default();
    state.pod_event(&Event::Apply(running("a")), at(5));
    let taken = state.batch(|namespace| (namespace == "team").then_some("only"));
    assert_eq!(taken.pods[0].queue.as_deref(), Some("only"));
    state.recorded(&taken);
    state.pod_event(&Event::Apply(running("a")), at(6));
    assert!(!state.has_work());
    let mut foreign = running("b");
    foreign.spec.scheduler_name = Some("default-scheduler".to_owned());
    state.pod_event(&Event::Apply(foreign), at(7));
    assert_eq!(state.batch(|_| Some("only")).pods[0].queue, None);
}
