//! Binds against a scripted API server, on a clock that jumps.

use std::time::Duration;

use cluster_model::PodKey;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{BindOutcome, BindReport, BindRequest, Binder, fate};
use crate::status::StatusWriter;
use crate::testing::{FENCE, TIMEOUT, slow_writes, status, writes};
use crate::writes::Fenced;

fn request() -> BindRequest {
    BindRequest { pod: PodKey::new("ns", "pod", "uid"), node: "wanted".into() }
}

fn pod(node: Option<&str>) -> Value {
    json!({ "metadata": { "uid": "uid" }, "spec": { "nodeName": node } })
}

/// Binds one pod; every scripted answer must be used.
async fn bind(script: Vec<(Method, u16, Value)>) -> (BindReport, Fenced) {
    let (writes, script) = writes(script);
    let fenced = Fenced::default();
    let status = StatusWriter::start(writes.clone(), fenced.clone());
    let (sender, mut reports) = mpsc::unbounded_channel();
    let binder = Binder::start(writes, 64, status, fenced.clone(), sender);
    binder.bind(vec![request()]);
    let report = reports.recv().await.expect("a report");
    binder.stop().await;
    assert!(script.lock().expect("the script").is_empty(), "answers left over: {:?}", report.outcome);
    (report, fenced)
}

fn post(code: u16) -> (Method, u16, Value) {
    let body = if code < 300 { json!({ "kind": "Status", "status": "Success" }) } else { status(code, "no") };
    (Method::POST, code, body)
}

fn get(pod: Value) -> (Method, u16, Value) {
    (Method::GET, 200, pod)
}

#[tokio::test(start_paused = true)]
async fn a_bind_is_followed_until_its_outcome_is_known() {
    let refused = |text: &str| BindOutcome::Refused(text.to_owned());
    for (script, expect) in [
        (vec![post(201)], BindOutcome::Bound),
        (vec![post(404)], BindOutcome::Gone),
        (vec![post(422)], refused("no")),
        (vec![post(500), post(201)], BindOutcome::Bound),
        // The first try was executed although its answer was lost.
        (vec![post(504), post(409), get(pod(Some("wanted")))], BindOutcome::Bound),
        (vec![post(409), get(pod(Some("other")))], BindOutcome::OnAnotherNode("other".to_owned())),
        (vec![post(409), get(pod(None))], refused("no")),
        (vec![post(409), (Method::GET, 404, status(404, "gone"))], BindOutcome::Gone),
        (
            vec![post(409), (Method::GET, 500, status(500, "down")), get(pod(Some("wanted")))],
            BindOutcome::Bound,
        ),
        (vec![post(429), post(201)], BindOutcome::Bound),
        (
            vec![post(429), post(429), post(429), post(429), post(429)],
            BindOutcome::Throttled("no".to_owned()),
        ),
    ] {
        let names: Vec<_> = script.iter().map(|(method, code, _)| format!("{method} {code}")).collect();
        let (report, fenced) = bind(script).await;
        assert_eq!(report.outcome, expect, "{names:?}");
        assert!(!fenced.is_fenced(), "{names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bind_without_an_answer_is_not_given_up_before_the_server_must_have() {
    let started = Instant::now();
    let (report, _) = bind(vec![post(500), post(500), post(500), get(pod(None))]).await;
    assert_eq!(report.outcome, BindOutcome::Unknown("500: no".to_owned()));
    assert!(started.elapsed() >= TIMEOUT, "reported after {:?}", started.elapsed());
    let (report, _) = bind(vec![post(500), post(500), post(500), get(pod(Some("wanted")))]).await;
    assert_eq!(report.outcome, BindOutcome::Bound);
}

#[tokio::test(start_paused = true)]
async fn a_clear_answer_does_not_speak_for_the_try_before_it() {
    let (refused, throttled) =
        (BindOutcome::Refused("no".to_owned()), BindOutcome::Throttled("no".to_owned()));
    let throttling = || [post(429), post(429), post(429), post(429), post(429)];
    for (after, otherwise) in [
        (vec![post(422)], refused.clone()),
        (vec![post(403)], refused.clone()),
        (vec![post(409), get(pod(None))], refused),
        (throttling().to_vec(), throttled),
    ] {
        for (node, expect) in [(None, otherwise), (Some("wanted"), BindOutcome::Bound)] {
            let mut script = vec![post(500)];
            script.extend(after.clone());
            script.push(get(pod(node)));
            let names: Vec<_> = script.iter().map(|(method, code, _)| format!("{method} {code}")).collect();
            let started = Instant::now();
            let (report, _) = bind(script).await;
            assert_eq!(report.outcome, expect, "{names:?}");
            assert!(started.elapsed() >= TIMEOUT, "{names:?} after {:?}", started.elapsed());
        }
    }
    let started = Instant::now();
    let (report, _) = bind(vec![post(500), post(404)]).await;
    assert_eq!(report.outcome, BindOutcome::Gone);
    assert!(started.elapsed() < TIMEOUT, "a pod that is gone cannot be bound any more");
}

#[tokio::test(start_paused = true)]
async fn a_bind_whose_fate_cannot_be_read_is_not_given_up() {
    let mut script = vec![post(500), post(422)];
    script.extend((0..100).map(|_| (Method::GET, 500, status(500, "down"))));
    script.push(get(pod(Some("wanted"))));
    let (report, _) = bind(script).await;
    assert_eq!(report.outcome, BindOutcome::Bound);
}

#[tokio::test(start_paused = true)]
async fn a_bind_whose_fate_cannot_be_read_does_not_keep_the_binder_from_stopping() {
    let down = (0..100).map(|_| (Method::GET, 500, status(500, "down")));
    let (writes, _left) = writes([post(409)].into_iter().chain(down).collect());
    let (sender, mut reports) = mpsc::unbounded_channel();
    let status = StatusWriter::start(writes.clone(), Fenced::default());
    let binder = Binder::start(writes, 64, status, Fenced::default(), sender);
    binder.bind(vec![request()]);
    assert!(tokio::time::timeout(TIMEOUT * 3, reports.recv()).await.is_err(), "nothing is known");
    tokio::time::timeout(TIMEOUT * 3, binder.stop()).await.expect("it stops");
    assert_eq!(reports.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_the_fence_refuses_ends_all_writing() {
    let (report, fenced) = bind(vec![(Method::POST, 403, status(403, FENCE))]).await;
    assert_eq!(report.outcome, BindOutcome::Fenced(FENCE.to_owned()));
    assert_eq!(fenced.fenced().await, FENCE);
}

#[test]
fn a_pod_tells_what_became_of_its_bind() {
    for (pod, expect) in [
        (pod(Some("wanted")), BindOutcome::Bound),
        (pod(Some("other")), BindOutcome::OnAnotherNode("other".to_owned())),
        (pod(None), BindOutcome::Refused("conflict".to_owned())),
        (json!({ "metadata": { "uid": "another" }, "spec": { "nodeName": "wanted" } }), BindOutcome::Gone),
        (
            json!({ "metadata": { "uid": "uid", "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
            BindOutcome::Gone,
        ),
    ] {
        let parsed = serde_json::from_value(pod.clone()).expect("a pod");
        let otherwise = BindOutcome::Refused("conflict".to_owned());
        assert_eq!(fate(&parsed, &request(), otherwise), expect, "{pod}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bind_that_waits_keeps_nobody_from_binding() {
    // One request at a time: the first is told to come back in a second, and the second is bound meanwhile.
    let (writes, _) = writes(vec![post(429), post(201), post(201)]);
    let (sender, mut reports) = mpsc::unbounded_channel();
    let status = StatusWriter::start(writes.clone(), Fenced::default());
    let binder = Binder::start(writes, 1, status, Fenced::default(), sender);
    let other = BindRequest { pod: PodKey::new("ns", "other", "uid"), node: "wanted".into() };
    let began = Instant::now();
    binder.bind(vec![request(), other]);
    let first = reports.recv().await.expect("a report");
    assert_eq!((&*first.pod.name, began.elapsed().as_millis() < 500), ("other", true));
    let second = reports.recv().await.expect("a report");
    assert_eq!((&*second.pod.name, second.outcome), ("pod", BindOutcome::Bound));
    binder.stop().await;
}

#[tokio::test(start_paused = true)]
async fn as_many_binds_as_allowed_are_under_way_in_their_order_and_none_begins_after_the_end() {
    // It takes a second for each.
    let (writes, traffic) = slow_writes(|_| (201, json!({ "kind": "Status", "status": "Success" })));
    let status = StatusWriter::start(writes.clone(), Fenced::default());
    let (sender, mut reports) = mpsc::unbounded_channel();
    let binder = Binder::start(writes, 8, status, Fenced::default(), sender);
    let names: Vec<_> = (0..100).map(|index| format!("pod-{index:03}")).collect();
    let request =
        |name: &String| BindRequest { pod: PodKey::new("ns", &**name, "uid"), node: "wanted".into() };
    binder.bind(names.iter().map(request).collect());
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    binder.stop().await;
    let mut bound = Vec::new();
    while let Some(BindReport { pod, outcome: BindOutcome::Bound, .. }) = reports.recv().await {
        bound.push(pod.name.to_string());
    }
    bound.sort();
    assert_eq!(bound, names[..32], "four times eight of them, the first ones");
    assert_eq!(traffic.most(), 8);
}
