use std::mem::size_of;

use api_types::rest::MemberState;
use serde_json::{Value, json};
use slim_objects::SlimPod;

use super::{CachedPod, PodIndex};
use crate::events::changes::{ChangedObject, RunKey};

/// A pod with two GPUs; `changes` is merged over it.
fn pod(run: Option<&str>, name: &str, changes: Value) -> SlimPod {
    let labels = run.map_or(json!({}), |run| json!({"warpyard.dev/run": run, "warpyard.dev/attempt": "1"}));
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": "nlp", "labels": labels, "creationTimestamp": "2026-11-15T02:00:00Z",
            "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
        },
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        "status": {"phase": "Pending"},
    });
    merge(&mut pod, changes);
    serde_json::from_value(pod).expect("the test's pod is valid")
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn on_node(node: &str, phase: &str) -> Value {
    json!({"spec": {"nodeName": node}, "status": {"phase": phase}})
}

fn members(run: &str) -> ChangedObject {
    ChangedObject::Members(RunKey::new("nlp", run))
}

fn node(name: &str) -> ChangedObject {
    ChangedObject::Node(name.into())
}

fn names_holding(index: &PodIndex, node: &str) -> Vec<String> {
    index.holding(node).map(|pod| pod.name.to_string()).collect()
}

#[test]
fn a_pod_takes_as_little_room_as_the_arithmetic_says() {
    assert_eq!(size_of::<CachedPod>(), 208);
}

#[test]
fn a_pod_holds_gpus_from_its_node_until_its_end_and_says_what_changed() {
    let mut index = PodIndex::default();
    assert_eq!(index.apply(&pod(Some("a"), "a-0", json!({}))), [members("a")]);
    assert_eq!(names_holding(&index, "n1"), Vec::<String>::new());
    assert_eq!(
        index.apply(&pod(Some("a"), "a-0", on_node("n1", "Pending"))),
        [members("a"), members("a"), node("n1")]
    );
    assert_eq!(index.apply(&pod(Some("a"), "a-0", on_node("n1", "Pending"))), []);
    assert_eq!(names_holding(&index, "n1"), ["a-0"]);
    index.apply(&pod(
        Some("a"),
        "a-0",
        json!({
            "metadata": {"deletionTimestamp": "2026-11-15T02:01:00Z"}, "spec": {"nodeName": "n1"},
        }),
    ));
    assert_eq!(names_holding(&index, "n1"), ["a-0"], "one that is asked to end still holds them");
    assert_eq!(
        index.apply(&pod(Some("a"), "a-0", on_node("n1", "Failed"))),
        [members("a"), node("n1"), members("a")]
    );
    assert_eq!(names_holding(&index, "n1"), Vec::<String>::new());
    assert_eq!(index.members("nlp", "a", 1).len(), 1, "its end is still shown");
    assert_eq!(index.remove(&pod(Some("a"), "a-0", json!({}))), [members("a")]);
    assert_eq!(index.members("nlp", "a", 1).len(), 0);
}

#[test]
fn a_pod_of_no_run_is_kept_only_while_it_holds_gpus() {
    let mut index = PodIndex::default();
    assert_eq!(index.apply(&pod(None, "web", json!({}))), []);
    assert_eq!(index.apply(&pod(None, "web", on_node("n1", "Running"))), [node("n1")]);
    assert_eq!(index.apply(&pod(None, "web", on_node("n1", "Succeeded"))), [node("n1")]);
    assert!(index.pods.is_empty() && index.by_node.is_empty() && index.by_run.is_empty());
}

#[test]
fn members_are_of_one_run_and_attempt_and_the_newest_of_each_rank() {
    let mut index = PodIndex::default();
    let at = |second: u32, rank: u32| {
        json!({"metadata": {
            "creationTimestamp": format!("2026-11-15T02:00:{second:02}Z"),
            "annotations": {"batch.kubernetes.io/job-completion-index": rank.to_string()},
        }})
    };
    index.apply(&pod(Some("a"), "a-1-0-x", at(1, 0)));
    index.apply(&pod(Some("a"), "a-1-0-b", at(9, 0)));
    index.apply(&pod(Some("a"), "a-1-1-y", at(1, 1)));
    index.apply(&pod(Some("a"), "a-2-0-z", json!({"metadata": {"labels": {"warpyard.dev/attempt": "2"}}})));
    index.apply(&pod(Some("ab"), "ab-1-0-z", json!({})));
    let names = |attempt| -> Vec<_> {
        index.members("nlp", "a", attempt).iter().map(|pod| pod.name.to_string()).collect()
    };
    assert_eq!(names(1), ["a-1-0-b", "a-1-1-y"]);
    assert_eq!(names(2), ["a-2-0-z"]);
}

#[test]
fn how_a_pod_fares_is_read_from_its_phase_node_and_containers() {
    let state = |name: &str| json!({"waiting": {"reason": name}});
    let ended = json!({"terminated": {
        "exitCode": 137, "reason": "OOMKilled",
        "startedAt": "2026-11-15T02:00:05Z", "finishedAt": "2026-11-15T02:00:09Z",
    }});
    let status = |phase: &str, state: &Value| json!({"spec": {"nodeName": "n1"}, "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}});
    let running = json!({"running": {"startedAt": "2026-11-15T02:00:05Z"}});
    for (changes, expect) in [
        (json!({}), (MemberState::Waiting, None, None, None)),
        (status("Pending", &state("ContainerCreating")), (MemberState::Starting, None, None, None)),
        (
            status("Pending", &state("ImagePullBackOff")),
            (MemberState::Starting, Some("ImagePullBackOff"), None, None),
        ),
        (status("Running", &running), (MemberState::Running, None, None, Some(5))),
        (status("Failed", &ended), (MemberState::Failed, Some("OOMKilled"), Some(137), Some(5))),
    ] {
        let mut index = PodIndex::default();
        index.apply(&pod(Some("a"), "a-0", changes.clone()));
        let pod = &index.members("nlp", "a", 1)[0];
        let since_start = pod.started_second.map(|second| second - pod.created_second);
        assert_eq!((pod.state, pod.reason.as_deref(), pod.exit_code, since_start), expect, "{changes}");
    }
}

#[test]
fn a_new_list_changes_what_differs_and_nothing_else() {
    let (mut old, mut new) = (PodIndex::default(), PodIndex::default());
    for index in [&mut old, &mut new] {
        index.apply(&pod(Some("same"), "same-0", on_node("n0", "Running")));
    }
    old.apply(&pod(Some("gone"), "gone-0", on_node("n1", "Running")));
    new.apply(&pod(Some("come"), "come-0", on_node("n2", "Running")));
    assert_eq!(old.differences(&new), [members("gone"), node("n1"), members("come"), node("n2")]);
}

#[test]
fn texts_that_no_pod_has_any_more_are_let_go() {
    let mut index = PodIndex::default();
    for number in 0..10_000 {
        let name = format!("run-{number}");
        index.apply(&pod(Some(&name), &name, json!({})));
        index.remove(&pod(Some(&name), &name, json!({})));
    }
    assert!(index.texts.shared.len() <= 1_024, "{}", index.texts.shared.len());
}

#[test]
fn a_pod_takes_less_than_a_kilobyte_so_a_hundred_thousand_stay_within_a_hundred_megabytes() {
    let resident_bytes = || -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("the tests run on Linux");
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number of pages")
            * 4_096
    };
    let before = resident_bytes();
    let mut index = PodIndex::default();
    let mut pod = pod(Some("a"), "a", on_node("n", "Running"));
    for number in 0..20_000 {
        // The worst case: every pod has a run of its own. Names are as long as Jobs make them, ten pods share a node.
        let run = format!("llama-finetune-of-a-team-{number:06}");
        pod.metadata.name = Some(format!("{run}-1-0-x7k2p"));
        pod.metadata.labels.get_or_insert_default().insert("warpyard.dev/run".to_owned(), run);
        pod.spec.node_name = Some(format!("gpu-node-{:05}.example", number / 10));
        index.apply(&pod);
    }
    let grown = resident_bytes().saturating_sub(before);
    println!("{} pods take {} MB", index.pods.len(), grown / 1_000_000);
    assert!(grown < 20_000_000, "{grown} bytes");
}
