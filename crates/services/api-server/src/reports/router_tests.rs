//! The route for reports in the whole router, against a stand-in for Kubernetes that knows audiences.

use std::convert::Infallible;
use std::sync::Arc;

use api_types::names::REPORT_AUDIENCE;
use api_types::run::Attempt;
use api_types::{Run, RunSpec, RunStatus};
use axum::Router;
use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body as KubeBody;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tower::{ServiceExt, service_fn};

use crate::cache::cluster_cache::ClusterCache;
use crate::metrics::Metrics;
use crate::router::router;
use crate::server::Server;

const POD: &str = "00000000-0000-4000-8000-000000000001";
const JOB: &str = "00000000-0000-4000-8000-000000000002";
const PATH: &str = "/v1/namespaces/team/runs/train/reports";
const REPORT: &str = r#"{"attempt": 1, "world_size": 1, "step": 3}"#;

fn kubernetes() -> Client {
    let service = service_fn(|request: Request<KubeBody>| async move {
        let is_review = request.uri().path().ends_with("/tokenreviews");
        let body = request.into_body().collect_bytes().await.expect("the body is in memory");
        let mut object: Value = serde_json::from_slice(&body).expect("the body is JSON");
        if is_review {
            object["status"] = review(&object["spec"]);
        } else {
            object["spec"] = json!({"members": 1, "image": "i", "command": ["c"]});
        }
        Ok::<_, Infallible>(Response::new(KubeBody::from(object.to_string().into_bytes())))
    });
    Client::new(service, "default")
}

/// As kube-apiserver answers; alice's tokens come from an authenticator that knows no audiences.
fn review(spec: &Value) -> Value {
    let for_reports = spec["audiences"] == json!([REPORT_AUDIENCE]);
    let extra = json!({
        "authentication.kubernetes.io/pod-name": ["train-1-0"],
        "authentication.kubernetes.io/pod-uid": [POD],
    });
    match spec["token"].as_str() {
        Some("members") if for_reports => json!({
            "authenticated": true, "audiences": [REPORT_AUDIENCE],
            "user": {"username": "system:serviceaccount:team:default", "extra": extra},
        }),
        Some("unbound") if for_reports => json!({
            "authenticated": true, "audiences": [REPORT_AUDIENCE],
            "user": {"username": "system:serviceaccount:team:default"},
        }),
        Some("alices") => json!({"authenticated": true, "user": {"username": "alice", "extra": extra}}),
        _ => json!({"authenticated": false}),
    }
}

fn api() -> Router {
    let mut run = Run::new("train", RunSpec { members: 1, ..RunSpec::default() });
    run.metadata.namespace = Some("team".to_owned());
    let attempt = Attempt { number: 1, job_uid: Some(JOB.to_owned()), ..Attempt::default() };
    run.status = Some(RunStatus { attempts: vec![attempt], ..RunStatus::default() });
    let owner =
        json!({"apiVersion": "batch/v1", "kind": "Job", "name": "train-1", "uid": JOB, "controller": true});
    let labels = json!({"warpyard.dev/run": "train", "warpyard.dev/attempt": "1"});
    let pod = json!({
        "metadata": {"name": "train-1-0", "namespace": "team", "uid": POD, "labels": labels, "ownerReferences": [owner]},
        "spec": {}, "status": {},
    });
    let cache = ClusterCache::complete_with(vec![run], vec![]);
    cache.see(vec![], vec![serde_json::from_value(pod).expect("the test's pod is valid")]);
    let metrics = Metrics::new(&mut Registry::default());
    router(Arc::new(Server::new(kubernetes(), Arc::new(cache), "image".to_owned(), metrics)))
}

async fn call(api: &Router, method: &Method, path: &str, headers: &[(&str, &str)], body: &str) -> StatusCode {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).expect("the test's request is valid");
    api.clone().oneshot(request).await.expect("the router is infallible").status()
}

const JSON: (&str, &str) = ("content-type", "application/json");
const MEMBER: (&str, &str) = ("authorization", "Bearer members");

#[tokio::test]
async fn a_members_token_is_good_for_reports_and_nothing_else() {
    let api = api();
    assert_eq!(call(&api, &Method::POST, PATH, &[JSON, MEMBER], REPORT).await, StatusCode::ACCEPTED);
    for (method, path) in crate::router_tests::operations("team", "train") {
        let status = call(&api, &method, &path, &[JSON, MEMBER], "{}").await;
        let is_open = ["/healthz", "/readyz"].contains(&path.as_str());
        let expect = match path.as_str() {
            _ if is_open => StatusCode::OK,
            "/v1/session" => StatusCode::FORBIDDEN,
            _ => StatusCode::UNAUTHORIZED,
        };
        assert_eq!(status, expect, "{method} {path}");
    }
}

#[tokio::test]
async fn no_other_credential_is_good_for_reports() {
    let api = api();
    let cookie = ("cookie", "__Host-warpyard=x");
    for (headers, expect) in [
        (vec![JSON], 401),
        (vec![JSON, cookie], 401),
        (vec![JSON, ("authorization", "Bearer made-up")], 401),
        (vec![JSON, ("authorization", "Bearer alices")], 401),
        (vec![JSON, ("authorization", "Bearer unbound")], 403),
    ] {
        assert_eq!(call(&api, &Method::POST, PATH, &headers, REPORT).await.as_u16(), expect, "{headers:?}");
    }
    for path in ["/v1/namespaces/team/runs/other/reports", "/v1/namespaces/teams/runs/train/reports"] {
        assert_eq!(call(&api, &Method::POST, path, &[JSON, MEMBER], REPORT).await, StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn what_is_no_report_is_refused_for_good() {
    let api = api();
    let large = format!("{REPORT}{}", " ".repeat(16 * 1024));
    for (headers, body, expect) in [
        (vec![JSON, MEMBER], large.as_str(), 413),
        (vec![JSON, MEMBER], "{", 400),
        (vec![JSON, MEMBER], "{}", 422),
        (vec![JSON, MEMBER], r#"{"attempt": 2, "world_size": 1, "step": 3}"#, 422),
        (vec![MEMBER], REPORT, 415),
    ] {
        assert_eq!(call(&api, &Method::POST, PATH, &headers, body).await.as_u16(), expect, "{body:.40}");
    }
}
