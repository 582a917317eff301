//! The route against a stand-in for Kubernetes: attempt 1 is gone, and in attempt 2 member 1 failed first.

use std::sync::{Arc, Mutex};

use api_types::run::{Attempt, AttemptOutcome};
use api_types::{Run, RunPhase, RunSpec, RunStatus};
use axum::Router;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::client::Body as KubeBody;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use slim_objects::SlimPod;
use tower::service_fn;

use crate::cache::cluster_cache::ClusterCache;
use crate::metrics::Metrics;
use crate::router::router;
use crate::router_tests::{call, reviewed};
use crate::server::Server;

const LOGS: &str = "/v1/namespaces/team-a/runs/one/logs";

/// Requests for logs, each with its sender.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

fn run() -> Run {
    let mut run = Run::new("one", RunSpec { members: 3, ..RunSpec::default() });
    run.metadata.namespace = Some("team-a".to_owned());
    let started = Time("2026-01-01T00:00:00Z".parse().expect("a time"));
    let attempt = |number, outcome| Attempt {
        number,
        outcome,
        started_at: Some(started.clone()),
        ..Attempt::default()
    };
    let attempts = vec![attempt(1, Some(AttemptOutcome::Interrupted)), attempt(2, None)];
    run.status = Some(RunStatus { phase: RunPhase::Running, attempts, ..RunStatus::default() });
    run
}

/// A member of attempt 2; it failed at this second, if it did.
fn pod(index: u32, failed: Option<u32>) -> SlimPod {
    let state = failed.map_or(json!({ "running": {} }), |second| {
        let finished = format!("2026-01-01T00:00:{second:02}Z");
        json!({ "terminated": { "exitCode": 1, "finishedAt": finished } })
    });
    let phase = if failed.is_some() { "Failed" } else { "Running" };
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("one-2-{index}"), "namespace": "team-a",
            "labels": { "warpyard.dev/run": "one", "warpyard.dev/attempt": "2" },
            "annotations": { "batch.kubernetes.io/job-completion-index": index.to_string() },
        },
        "spec": { "nodeName": "n", "containers": [{ "name": "main" }] },
        "status": { "phase": phase, "containerStatuses": [{ "name": "main", "state": state }] },
    }))
    .expect("the test's pod is valid")
}

fn api(log: impl Fn(&str, &str) -> (u16, String) + Clone + Send + Sync + 'static) -> (Router, Asked) {
    let cache = ClusterCache::complete_with(vec![run()], vec![]);
    cache.see(vec![], vec![pod(0, Some(9)), pod(1, Some(9)), pod(2, None)]);
    let asked = Asked::default();
    let shared = Arc::clone(&asked);
    let service = service_fn(move |request: Request<KubeBody>| {
        let (log, asked) = (log.clone(), Arc::clone(&shared));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.expect("the body is in memory");
            let review: Value = serde_json::from_slice(&body).unwrap_or_default();
            let (status, answer) = if let Some(review) = reviewed(parts.uri.path(), &review) {
                (200, review.to_string())
            } else {
                let user = parts.headers["impersonate-user"].to_str().expect("ASCII").to_owned();
                let query = parts.uri.query().unwrap_or_default().to_owned();
                let pod = parts.uri.path().strip_suffix("/log").and_then(|path| path.rsplit('/').next());
                let pod = pod.expect("nothing but logs is asked for").to_owned();
                asked.lock().expect("not poisoned").push((user, format!("{pod}?{query}")));
                log(&pod, &query)
            };
            let response = Response::builder().status(status).body(KubeBody::from(answer.into_bytes()));
            Ok::<_, std::convert::Infallible>(response.expect("the stand-in's answer is valid"))
        }
    });
    let metrics = Metrics::new(&mut Registry::default());
    let server = Server::new(Client::new(service, "default"), Arc::new(cache), "image".to_owned(), metrics);
    (router(Arc::new(server)), asked)
}

fn failure(code: u16, message: &str) -> (u16, String) {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "",
        "code": code, "message": message });
    (code, status.to_string())
}

fn printed(pod: &str, _: &str) -> (u16, String) {
    let line = |second: &str, text: &str| format!("2026-01-01T00:00:{second}Z {text}\n");
    match pod {
        "one-2-0" => (200, line("01.5", "hello of 0") + &line("09.9", "connection reset")),
        "one-2-1" => (200, line("01.2", "hello of 1") + &line("09.1", "illegal access\n  in kernel")),
        _ => failure(500, "dial tcp: no route to host"),
    }
}

async fn get(api: &Router, path: &str) -> (StatusCode, Value) {
    call(api, Some("alices"), Method::GET, path, "").await
}

#[tokio::test]
async fn members_are_merged_and_the_first_that_failed_and_what_is_missing_are_named() {
    let (api, asked) = api(printed);
    let (status, logs) = get(&api, LOGS).await;
    assert_eq!(status, StatusCode::OK);
    let lines: Vec<String> = logs["lines"]
        .as_array()
        .expect("lines")
        .iter()
        .map(|line| format!("{}/{} {}", line["attempt"], line["member"], line["text"].as_str().unwrap_or("")))
        .collect();
    assert_eq!(
        lines,
        ["2/1 hello of 1", "2/0 hello of 0", "2/1 illegal access", "2/1   in kernel", "2/0 connection reset"]
    );
    assert_eq!(logs["phase"], "Running");
    let first = json!({ "member": 1, "at": "2026-01-01T00:00:09Z", "exitCode": 1 });
    let missing = json!([{ "member": 2, "why": "dial tcp: no route to host" }]);
    let expect = json!([
        { "number": 1, "gone": true, "membersGone": 0 },
        { "number": 2, "gone": false, "membersGone": 0, "firstFailed": first, "missing": missing },
    ]);
    assert_eq!(logs["attempts"], expect);
    let asked = asked.lock().expect("not poisoned").clone();
    assert!(asked.iter().all(|(user, _)| user == "alice"), "{asked:?}");
    assert_eq!(asked.len(), 3);
    let expect = "one-2-0?&container=main&limitBytes=1048576&tailLines=1000&timestamps=true";
    assert!(asked.iter().any(|(_, question)| question == expect), "{asked:?}");
}

#[tokio::test]
async fn one_member_since_a_time_is_asked_for_in_whole_seconds_and_cut_to_the_point() {
    let (api, asked) = api(printed);
    let (status, logs) =
        get(&api, &format!("{LOGS}?attempt=2&member=0&since=2026-01-01T00:00:01.6Z&tail=5")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(logs["lines"].as_array().map(Vec::len), Some(1), "{logs}");
    assert_eq!(logs["lines"][0]["text"], "connection reset");
    assert_eq!(logs["attempts"].as_array().map(Vec::len), Some(1), "only attempt 2 was asked for");
    let (_, only) = asked.lock().expect("not poisoned")[0].clone();
    assert!(only.contains("sinceTime=2026-01-01T00%3A00%3A01Z&tailLines=5"), "{only}");
}

#[tokio::test]
async fn of_a_log_that_is_too_long_the_end_is_read() {
    let line = |number: usize| format!("2026-01-01T00:00:00Z {number:0>1000}\n");
    let (api, asked) = api(move |_, query| {
        let tail = query.split('&').find_map(|part| part.strip_prefix("tailLines="));
        let tail: usize = tail.and_then(|tail| tail.parse().ok()).expect("a number of lines");
        (200, (5_000 - tail..5_000).map(line).collect())
    });
    let (status, logs) = get(&api, &format!("{LOGS}?member=0&tail=5000")).await;
    assert_eq!(status, StatusCode::OK);
    let lines = logs["lines"].as_array().expect("lines");
    assert!(
        lines.last().is_some_and(|last| last["text"].as_str().is_some_and(|text| text.ends_with("04999")))
    );
    let bytes: usize = lines.iter().map(|line| line["text"].as_str().map_or(0, str::len)).sum();
    assert!((500_000..1_048_576).contains(&bytes), "{bytes}");
    let why = format!("only its last {} lines fit", lines.len());
    assert_eq!(logs["attempts"][1]["missing"], json!([{ "member": 0, "why": why }]));
    assert_eq!(asked.lock().expect("not poisoned").len(), 2);
}

#[tokio::test]
async fn a_member_that_has_not_started_has_nothing_and_that_is_no_fault() {
    let (api, _) = api(|_, _| failure(400, "container \"main\" is waiting to start: ContainerCreating"));
    let (status, logs) = get(&api, &format!("{LOGS}?attempt=2")).await;
    assert_eq!((status, &logs["lines"]), (StatusCode::OK, &json!([])));
    assert_eq!(logs["attempts"][0].get("missing"), None);
}

#[tokio::test]
async fn what_kubernetes_refuses_the_caller_is_refused() {
    let (api, _) =
        api(|_, _| failure(403, "pods \"one-2-0\" is forbidden: User \"alice\" cannot get pods/log"));
    let (status, problem) = get(&api, LOGS).await;
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("Forbidden")));
}

#[tokio::test]
async fn an_attempt_that_is_not_there_and_parameters_that_are_wrong_are_refused() {
    let (api, asked) = api(printed);
    let (status, problem) = get(&api, &format!("{LOGS}?attempt=3")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(problem["hint"], "attempts 1 to 2 are known");
    for wrong in ["tail=0", "tail=10001", "since=yesterday", "member=-1", "follow=true"] {
        assert_eq!(get(&api, &format!("{LOGS}?{wrong}")).await.0, StatusCode::BAD_REQUEST, "{wrong}");
    }
    assert!(asked.lock().expect("not poisoned").is_empty());
}
