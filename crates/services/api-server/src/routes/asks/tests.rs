//! The routes against a stand-in for Kubernetes that keeps one run, and its version.

use std::sync::{Arc, Mutex};

use api_types::run::CheckpointVolume;
use api_types::{Run, RunPhase, RunSpec, RunStatus};
use axum::Router;
use http::{Method, Request, StatusCode};
use kube::Client;
use kube::client::Body as KubeBody;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::service_fn;

use crate::cache::cluster_cache::ClusterCache;
use crate::metrics::Metrics;
use crate::router::router;
use crate::router_tests::{call, reviewed};
use crate::server::Server;

/// The run in Kubernetes, and the patches with their senders.
struct Kubernetes {
    run: Run,
    patches: Vec<(String, Value)>,
    /// Another writer changes the run before each of our writes.
    is_busy: bool,
}

impl Kubernetes {
    fn patch(&mut self, user: &str, patch: &Value) -> (StatusCode, Value) {
        if self.is_busy {
            self.count_up();
        }
        let expected = patch["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        self.patches.push((user.to_owned(), patch["spec"].clone()));
        if expected.is_some_and(|expected| Some(expected) != self.run.metadata.resource_version) {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict",
                "code": 409, "message": "the object has been modified" });
            return (StatusCode::CONFLICT, status);
        }
        let mut spec = serde_json::to_value(&self.run.spec).expect("a spec is JSON");
        for (field, value) in patch["spec"].as_object().expect("a patch has a spec") {
            spec[field] = value.clone();
        }
        self.run.spec = serde_json::from_value(spec).expect("the patched spec is one");
        self.count_up();
        (StatusCode::OK, serde_json::to_value(&self.run).expect("a run is JSON"))
    }

    fn count_up(&mut self) {
        let version = self.run.metadata.resource_version.as_deref().unwrap_or("0");
        let next = version.parse::<u64>().expect("our versions are numbers") + 1;
        self.run.metadata.resource_version = Some(next.to_string());
    }
}

fn run(phase: RunPhase) -> Run {
    let checkpoint = Some(CheckpointVolume { claim: "ckpt".to_owned() });
    let mut run = Run::new("one", RunSpec { members: 1, checkpoint, ..RunSpec::default() });
    run.metadata.namespace = Some("team-a".to_owned());
    run.metadata.resource_version = Some("7".to_owned());
    run.status = Some(RunStatus { phase, ..RunStatus::default() });
    run
}

/// The API on a cache that shows `known`, and a Kubernetes that has `stored`; the cache sees every answer to a write.
fn api(known: Run, stored: Run, is_busy: bool) -> (Router, Arc<Mutex<Kubernetes>>) {
    let cache = Arc::new(ClusterCache::complete_with(vec![known], vec![]));
    let kubernetes = Arc::new(Mutex::new(Kubernetes { run: stored, patches: Vec::new(), is_busy }));
    let (seen, shared) = (Arc::clone(&cache), Arc::clone(&kubernetes));
    let service = service_fn(move |request: Request<KubeBody>| {
        let (seen, kubernetes) = (Arc::clone(&seen), Arc::clone(&shared));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.expect("the body is in memory");
            let body: Value = serde_json::from_slice(&body).expect("the body is JSON");
            let (status, answer) = if let Some(review) = reviewed(parts.uri.path(), &body) {
                (StatusCode::OK, review)
            } else {
                assert_eq!(parts.method, Method::PATCH);
                let user = parts.headers["impersonate-user"].to_str().expect("ASCII").to_owned();
                let mut kubernetes = kubernetes.lock().expect("not poisoned");
                let answer = kubernetes.patch(&user, &body);
                seen.see_run(kubernetes.run.clone());
                answer
            };
            let answer = KubeBody::from(answer.to_string().into_bytes());
            let response = http::Response::builder().status(status).body(answer);
            Ok::<_, std::convert::Infallible>(response.expect("the stand-in's answer is valid"))
        }
    });
    let metrics = Metrics::new(&mut Registry::default());
    let server = Server::new(Client::new(service, "default"), cache, "image".to_owned(), metrics);
    (router(Arc::new(server)), kubernetes)
}

async fn ask(api: &Router, what: &str) -> (StatusCode, Value) {
    let path = format!("/v1/namespaces/team-a/runs/one/{what}");
    call(api, Some("alices"), Method::POST, &path, "").await
}

fn patches(kubernetes: &Mutex<Kubernetes>) -> Vec<Value> {
    let patches = &kubernetes.lock().expect("not poisoned").patches;
    assert!(patches.iter().all(|(user, _)| user == "alice"), "{patches:?}");
    patches.iter().map(|(_, spec)| spec.clone()).collect()
}

#[tokio::test]
async fn a_run_is_paused_and_goes_on_and_is_begun_again_as_the_caller() {
    let (api, kubernetes) = api(run(RunPhase::Running), run(RunPhase::Running), false);
    let (status, view) = ask(&api, "pause").await;
    assert_eq!((status, &view["pause"]), (StatusCode::OK, &json!(true)));
    let (status, view) = ask(&api, "resume").await;
    assert_eq!((status, &view["pause"]), (StatusCode::OK, &json!(false)));
    let (status, problem) = ask(&api, "resume").await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("NotPaused")));
    assert!(problem["hint"].as_str().is_some_and(|hint| hint.contains("warpyard show")), "{problem}");
    let (status, view) = ask(&api, "resume?from=120").await;
    assert_eq!((status, &view["restarts"]), (StatusCode::OK, &json!(1)));
    let expect = [
        json!({ "pause": true }),
        json!({ "pause": false }),
        json!({ "pause": false, "restarts": 1, "resumeStep": 120 }),
    ];
    assert_eq!(patches(&kubernetes), expect);
}

#[tokio::test]
async fn two_who_retry_at_once_begin_one_attempt() {
    // Another server has written; this server's cache does not show it yet.
    let mut stored = run(RunPhase::Failed);
    (stored.spec.restarts, stored.metadata.resource_version) = (1, Some("8".to_owned()));
    let (api, kubernetes) = api(run(RunPhase::Failed), stored, false);
    let (status, view) = ask(&api, "retry").await;
    assert_eq!((status, &view["restarts"]), (StatusCode::OK, &json!(1)));
    assert_eq!(patches(&kubernetes).len(), 1, "the conflict, and nothing after it");
    assert_eq!(kubernetes.lock().expect("not poisoned").run.spec.restarts, 1);
}

#[tokio::test]
async fn a_report_in_between_does_not_lose_the_request() {
    let mut stored = run(RunPhase::Running);
    stored.metadata.resource_version = Some("8".to_owned());
    let (api, kubernetes) = api(run(RunPhase::Running), stored, false);
    let (status, view) = ask(&api, "resume?from=0").await;
    assert_eq!((status, &view["restarts"]), (StatusCode::OK, &json!(1)));
    let restart = json!({ "pause": false, "restarts": 1, "resumeStep": 0 });
    assert_eq!(patches(&kubernetes), [restart.clone(), restart]);
}

#[tokio::test]
async fn a_run_that_always_changes_is_given_up_on() {
    let (api, kubernetes) = api(run(RunPhase::Failed), run(RunPhase::Failed), true);
    let (status, problem) = ask(&api, "retry").await;
    assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("Conflict")));
    assert_eq!(patches(&kubernetes).len(), 3);
    assert_eq!(kubernetes.lock().expect("not poisoned").run.spec.restarts, 0);
}

#[tokio::test]
async fn a_step_that_is_none_and_a_run_that_is_not_there_are_refused() {
    let (api, kubernetes) = api(run(RunPhase::Running), run(RunPhase::Running), false);
    for step in ["from=-1", "from=9007199254740992", "from=1e3", "from=", "form=1"] {
        assert_eq!(ask(&api, &format!("resume?{step}")).await.0, StatusCode::BAD_REQUEST, "{step}");
    }
    let (status, _) =
        call(&api, Some("alices"), Method::POST, "/v1/namespaces/team-a/runs/none/pause", "").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(patches(&kubernetes), Vec::<Value>::new());
}
