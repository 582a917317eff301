//! The whole router against a stand-in for Kubernetes: alice may do everything in `team-a`, see queue `qa`, and list
//! nodes.

use std::sync::{Arc, Mutex};

use api_types::{Queue, QueueSpec, Run, RunSpec};
use axum::Router;
use axum::body::{Body, Bytes};
use http::{HeaderMap, Method, Request, StatusCode};
use kube::Client;
use kube::client::Body as KubeBody;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::{ServiceExt, service_fn};

use crate::cache::cluster_cache::ClusterCache;
use crate::metrics::Metrics;
use crate::router::router;
use crate::server::Server;

pub(crate) const JOB_FILE: &str = r#"{"name": "new", "gpus": 1, "run": "true"}"#;

/// The requests to the stand-in: method and path, and the headers.
pub(crate) type Asked = Arc<Mutex<Vec<(String, HeaderMap)>>>;

pub(crate) fn kubernetes(asked: Asked) -> Client {
    let service = service_fn(move |request: Request<KubeBody>| {
        let asked = Arc::clone(&asked);
        async move {
            let (parts, body) = request.into_parts();
            let question = format!("{} {}", parts.method, parts.uri.path());
            asked.lock().expect("not poisoned").push((question, parts.headers));
            let body: Bytes = body.collect_bytes().await.expect("the body is in memory");
            let mut object: Value = serde_json::from_slice(&body).expect("the body is JSON");
            if let Some(review) = reviewed(parts.uri.path(), &object) {
                object = review;
            } else if parts.uri.path().ends_with("/runs") {
                object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
            } else {
                object = serde_json::to_value(run("team-a", "one")).expect("a run is JSON");
            }
            Ok::<_, std::convert::Infallible>(http::Response::new(KubeBody::from(
                object.to_string().into_bytes(),
            )))
        }
    });
    Client::new(service, "default")
}

/// The answer to a review; `None` if something else is asked.
pub(crate) fn reviewed(path: &str, review: &Value) -> Option<Value> {
    let status = match path.rsplit('/').next() {
        Some("tokenreviews") => authenticate(review),
        Some("subjectaccessreviews") => json!({ "allowed": is_allowed(&review["spec"]) }),
        _ => return None,
    };
    let mut review = review.clone();
    review["status"] = status;
    Some(review)
}

fn authenticate(review: &Value) -> Value {
    match review["spec"]["token"].as_str() {
        Some("alices") => {
            let groups = ["vision", "system:authenticated"];
            json!({ "authenticated": true, "user": { "username": "alice", "uid": "7", "groups": groups } })
        }
        Some("admins") => json!({ "authenticated": true, "user": { "username": "system:admin" } }),
        _ => json!({ "authenticated": false }),
    }
}

fn is_allowed(spec: &Value) -> bool {
    let attributes = &spec["resourceAttributes"];
    spec["user"] == "alice"
        && spec["groups"][0] == "vision"
        && match (attributes["group"].as_str(), attributes["resource"].as_str()) {
            (Some("warpyard.dev"), Some("runs")) => attributes["namespace"] == "team-a",
            (Some("warpyard.dev"), Some("queues")) => attributes["name"] == "qa",
            (Some(""), Some("nodes")) => attributes["verb"] == "list",
            (Some(""), Some("pods")) => {
                attributes["subresource"] == "log" && attributes["namespace"] == "team-a"
            }
            _ => false,
        }
}

pub(crate) fn run(namespace: &str, name: &str) -> Run {
    // Stopped already, so that an answer to `stop` need not wait for the cache.
    let mut run = Run::new(name, RunSpec { members: 1, stop: true, ..RunSpec::default() });
    run.metadata.namespace = Some(namespace.to_owned());
    run
}

fn api_with(cache: ClusterCache) -> (Router, Asked) {
    let (server, asked) = server_with(cache);
    (router(Arc::new(server)), asked)
}

fn server_with(cache: ClusterCache) -> (Server, Asked) {
    let asked = Asked::default();
    let metrics = Metrics::new(&mut Registry::default());
    let server = Server::new(kubernetes(Arc::clone(&asked)), Arc::new(cache), "image".to_owned(), metrics);
    (server, asked)
}

pub(crate) fn api() -> (Router, Asked) {
    let (server, asked) = server();
    (router(Arc::new(server)), asked)
}

pub(crate) fn server() -> (Server, Asked) {
    let runs = vec![run("team-a", "one"), run("team-b", "one"), run("team-b", "two")];
    let queues = ["qa", "qb"].map(|name| Queue::new(name, QueueSpec::default())).to_vec();
    server_with(ClusterCache::complete_with(runs, queues))
}

pub(crate) async fn call(
    api: &Router,
    token: Option<&str>,
    method: Method,
    path: &str,
    body: &str,
) -> (StatusCode, Value) {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Body::from(body.to_owned())).expect("the test's request is valid");
    let response = api.clone().oneshot(request).await.expect("the router is infallible");
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("the body is in memory");
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// Every operation of the document for people, with its parameters filled in. Reports of members have tests of
/// their own.
pub(crate) fn operations(namespace: &str, name: &str) -> Vec<(Method, String)> {
    let document: Value = serde_json::from_str(&crate::openapi_json()).expect("the document is JSON");
    let paths = document["paths"].as_object().expect("the document has paths");
    paths
        .iter()
        .filter(|(path, _)| !path.ends_with("/reports"))
        .flat_map(|(path, item)| {
            let path = path.replace("{namespace}", namespace).replace("{name}", name);
            item.as_object()
                .expect("a path has operations")
                .keys()
                .map(move |method| (method.to_uppercase().parse().expect("a method"), path.clone()))
        })
        .collect()
}

#[tokio::test]
async fn every_route_but_health_and_the_login_answers_401_without_a_valid_token() {
    let (api, asked) = api();
    let mut protected = 0;
    for (method, path) in operations("team-a", "one") {
        for token in [None, Some("nobodys")] {
            let (status, problem) = call(&api, token, method.clone(), &path, JOB_FILE).await;
            if ["/healthz", "/readyz"].contains(&path.as_str()) {
                assert_eq!(status, StatusCode::OK, "{method} {path}");
            } else if path == "/v1/session" {
                assert_eq!(
                    (status, &problem["code"]),
                    (StatusCode::FORBIDDEN, &json!("CrossSite")),
                    "{method}"
                );
            } else {
                assert_eq!(
                    (status, &problem["code"]),
                    (StatusCode::UNAUTHORIZED, &json!("Unauthorized")),
                    "{method} {path}"
                );
                protected += 1;
            }
        }
    }
    assert_eq!(protected, 42, "twenty-one operations, each without a token and with a wrong one");
    let questions = asked.lock().expect("not poisoned").clone();
    assert!(questions.iter().all(|(question, _)| question.ends_with("/tokenreviews")), "{questions:?}");
    assert_eq!(questions.len(), 1, "a refused token is remembered");
}

#[tokio::test]
async fn what_does_not_exist_is_behind_the_login_too() {
    let (api, _) = api();
    for (method, path) in
        [(Method::GET, "/nothing"), (Method::DELETE, "/v1/runs"), (Method::POST, "/healthz/x")]
    {
        assert_eq!(call(&api, None, method, path, "").await.0, StatusCode::UNAUTHORIZED, "{path}");
    }
    assert_eq!(call(&api, Some("alices"), Method::GET, "/nothing", "").await.0, StatusCode::NOT_FOUND);
    assert_eq!(
        call(&api, Some("alices"), Method::DELETE, "/v1/runs", "").await.0,
        StatusCode::METHOD_NOT_ALLOWED
    );
}

#[tokio::test]
async fn a_namespace_that_the_caller_may_not_see_is_403_whether_the_run_exists_or_not() {
    let (api, asked) = api();
    let mut checked = 0;
    for name in ["one", "none"] {
        for (method, path) in
            operations("team-b", name).into_iter().filter(|(_, path)| path.contains("team-b"))
        {
            for body in [JOB_FILE, ""] {
                let (status, problem) = call(&api, Some("alices"), method.clone(), &path, body).await;
                assert_eq!(
                    (status, &problem["code"]),
                    (StatusCode::FORBIDDEN, &json!("Forbidden")),
                    "{method} {path}"
                );
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 40, "ten operations, two names, two bodies");
    let (status, _) = call(&api, Some("alices"), Method::GET, "/v1/runs?namespace=team-b", "").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    for queue in ["qb", "none"] {
        let (status, _) = call(&api, Some("alices"), Method::GET, &format!("/v1/queues/{queue}"), "").await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{queue}");
    }
    let questions = asked.lock().expect("not poisoned").clone();
    assert!(
        questions.iter().all(|(question, _)| question.ends_with("reviews")),
        "nothing was written: {questions:?}"
    );
}

#[tokio::test]
async fn lists_leave_out_what_the_caller_may_not_see() {
    let (api, _) = api();
    let (_, runs) = call(&api, Some("alices"), Method::GET, "/v1/runs", "").await;
    let seen: Vec<_> = runs["items"].as_array().expect("items").iter().map(|run| &run["namespace"]).collect();
    assert_eq!(seen, ["team-a"]);
    let (_, queues) = call(&api, Some("alices"), Method::GET, "/v1/queues", "").await;
    let seen: Vec<_> =
        queues["items"].as_array().expect("items").iter().map(|queue| &queue["name"]).collect();
    assert_eq!(seen, ["qa"]);
}

#[tokio::test]
async fn writes_are_made_as_the_caller_and_nobody_else() {
    let (api, asked) = api();
    for path in ["/v1/namespaces/team-a/runs?dryRun=true", "/v1/namespaces/team-a/runs/one/stop"] {
        let request = Request::post(path)
            .header("authorization", "Bearer alices")
            .header("content-type", "application/json")
            .header("impersonate-user", "bob")
            .header("impersonate-group", "system:masters")
            .body(Body::from(JOB_FILE))
            .expect("the test's request is valid");
        let response = api.clone().oneshot(request).await.expect("the router is infallible");
        assert_eq!(response.status(), StatusCode::OK, "{path}");
    }
    let questions = asked.lock().expect("not poisoned").clone();
    let writes: Vec<_> =
        questions.iter().filter(|(question, _)| question.contains("/namespaces/team-a/runs")).collect();
    assert_eq!(writes.len(), 2);
    for (question, headers) in writes {
        let all = |name| {
            headers.get_all(name).iter().map(|value| value.to_str().expect("ASCII")).collect::<Vec<_>>()
        };
        assert_eq!(all("impersonate-user"), ["alice"], "{question}");
        assert_eq!(all("impersonate-group"), ["vision"], "{question}");
        assert_eq!(all("impersonate-uid"), ["7"], "{question}");
        assert_eq!(all("authorization"), Vec::<&str>::new(), "the caller's token goes nowhere");
    }
    for (question, headers) in questions.iter().filter(|(question, _)| question.ends_with("reviews")) {
        assert!(headers.get("impersonate-user").is_none(), "{question} is asked on our own account");
    }
}

#[tokio::test]
async fn kubernetes_is_asked_once_about_a_caller_and_a_right() {
    let (api, asked) = api();
    for _ in 0..5 {
        call(&api, Some("alices"), Method::GET, "/v1/namespaces/team-a/runs/one", "").await;
    }
    assert_eq!(asked.lock().expect("not poisoned").len(), 2, "one TokenReview and one SubjectAccessReview");
}

#[tokio::test]
async fn users_of_kubernetes_itself_are_refused() {
    let (api, _) = api();
    let (status, problem) = call(&api, Some("admins"), Method::GET, "/v1/whoami", "").await;
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &json!("UserRefused")));
}

#[tokio::test]
async fn an_incomplete_cache_answers_nothing() {
    let (api, _) = api_with(ClusterCache::default());
    for path in ["/readyz", "/v1/queues"] {
        let (status, problem) = call(&api, Some("alices"), Method::GET, path, "").await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::SERVICE_UNAVAILABLE, &json!("NotReady")),
            "{path}"
        );
    }
    assert_eq!(call(&api, None, Method::GET, "/healthz", "").await.0, StatusCode::OK);
}

#[tokio::test]
async fn what_is_too_large_or_malformed_is_refused_as_a_problem() {
    let (api, _) = api();
    let large = format!(r#"{{"gpus": 1, "run": "{}"}}"#, "x".repeat(256 * 1024));
    let runs = "/v1/namespaces/team-a/runs";
    for (method, path, body, expect) in [
        (Method::POST, runs, large.as_str(), 413),
        (Method::POST, runs, "{", 400),
        (Method::POST, runs, r#"{"gpus": 1, "run": "x", "gpu": 2}"#, 422),
        (Method::POST, runs, r#"{"gpus": 1, "run": ""}"#, 422),
        (Method::POST, "/v1/namespaces/Team/runs", JOB_FILE, 400),
        (Method::GET, "/v1/namespaces/team-a/runs/a%2Fb", "", 400),
        (Method::GET, "/v1/runs?limit=501", "", 400),
        (Method::GET, "/v1/runs?limit=0", "", 400),
        (Method::GET, "/v1/runs?continue=zz", "", 400),
        (Method::GET, "/v1/runs?nonsense=1", "", 400),
    ] {
        let (status, problem) = call(&api, Some("alices"), method, path, body).await;
        assert_eq!((status.as_u16(), &problem["status"]), (expect, &json!(expect)), "{path} {problem}");
    }
}

#[tokio::test]
async fn without_a_ledger_cost_says_so_after_the_caller_is_known_to_be_allowed() {
    let (api, _) = api();
    for path in [
        "/v1/cost",
        "/v1/cost?namespace=team-a",
        "/v1/cost?queue=qa&by=queue",
        "/v1/namespaces/team-a/runs/one/cost",
    ] {
        let (status, problem) = call(&api, Some("alices"), Method::GET, path, "").await;
        assert_eq!((status.as_u16(), &problem["code"]), (503, &json!("NoLedger")), "{path} {problem}");
        assert!(
            problem["hint"].as_str().is_some_and(|hint| hint.contains("--database-url-file")),
            "{problem}"
        );
    }
    for others in ["/v1/cost?namespace=team-b", "/v1/cost?queue=qb"] {
        let (status, _) = call(&api, Some("alices"), Method::GET, others, "").await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{others}");
    }
    for wrong in [
        "limit=0",
        "limit=1001",
        "by=colour",
        "since=yesterday",
        "since=2026-11-02&until=2026-11-01",
        "since=2025-01-01&until=2026-11-01",
        "user=",
        "continue=zz",
        "nonsense=1",
    ] {
        let (status, problem) =
            call(&api, Some("alices"), Method::GET, &format!("/v1/cost?{wrong}"), "").await;
        assert_eq!((status.as_u16(), &problem["status"]), (400, &json!(400)), "{wrong} {problem}");
    }
}
