//! Rights to call routes, checked by walking the OpenAPI document, so that a new route cannot be forgotten.

use anyhow::{Context, ensure};
use api_types::names;
use e2e::objects::{create_run, run};
use e2e::users::create_team;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use test_cluster::TestCluster;
use test_cluster::platform::Platform;

/// The only routes that answer without a token.
const OPEN: &[&str] = &["/healthz", "/readyz"];
/// The route of members' reports: open only to their pods. `reports` tests it.
const REPORTS: &str = "/reports";
/// The portal's login and logout: open only to its own pages. `portal_security` tests it.
const LOGIN: &str = "/v1/session";

#[tokio::test(flavor = "multi_thread")]
async fn every_route_asks_who_you_are_and_shows_only_what_you_may_see() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().user("alice", &[]).user("bob", &[]).without_kwok().start().await?;
    let client = cluster.admin_client();
    for (user, team) in [("alice", "nlp"), ("bob", "vision")] {
        create_team(&client, user, team, None, &[("H100", 8)]).await?;
        create_run(&client, team, &format!("run-of-{team}"), run(team, 1, 1, None)).await?;
    }
    let (_api_server, url) = Platform::debug(&cluster).api_server("127.0.0.1:0").await?;
    let anonymous = Caller { http: Client::new(), url: url.clone(), token: None };
    let alice = Caller { token: Some(cluster.token_for_user("alice")?.to_owned()), ..anonymous.clone() };

    let document: Value = alice.get("/v1/openapi.json").await?.json().await?;
    ensure!(
        document == serde_json::from_str::<Value>(&api_server::openapi_json())?,
        "the document is the code's own"
    );
    let operations = operations(&document)?;
    ensure!(operations.len() >= 9, "the document lists the routes: {operations:?}");
    for (method, path) in &operations {
        check_operation(&anonymous, &alice, method, path)
            .await
            .with_context(|| format!("{method} {path}"))?;
    }
    ensure!(
        anonymous.get("/no-such-route").await?.status() == StatusCode::UNAUTHORIZED,
        "unknown routes tell nothing"
    );
    for open in OPEN {
        ensure!(anonymous.get(open).await?.status() == StatusCode::OK, "{open} answers without a token");
    }

    // Lists leave out what the caller may not see.
    let runs: Value = alice.get("/v1/runs").await?.json().await?;
    ensure!(names_in(&runs) == ["run-of-nlp"], "alice sees her team's runs only: {runs}");
    let queues: Value = alice.get("/v1/queues").await?.json().await?;
    ensure!(names_in(&queues) == ["nlp"], "alice sees the queue she may read only: {queues}");
    // A name in a foreign namespace is refused alike, whether it exists or not.
    for name in ["run-of-vision", "no-such-run"] {
        let status = alice.get(&format!("/v1/namespaces/vision/runs/{name}")).await?.status();
        ensure!(status == StatusCode::FORBIDDEN, "{name}: {status}");
    }
    let foreign_list = alice.get("/v1/runs?namespace=vision").await?.status();
    ensure!(
        foreign_list == StatusCode::FORBIDDEN,
        "a list that names another team's namespace: {foreign_list}"
    );
    ensure!(alice.get("/v1/queues/vision").await?.status() == StatusCode::FORBIDDEN, "bob's queue");
    // What alice writes is written as alice, so Kubernetes decides.
    let job = json!({"name": "mine", "gpus": 1, "run": "train"});
    let created = alice.call(&Method::POST, "/v1/namespaces/nlp/runs", Some(&job)).await?;
    ensure!(created.status() == StatusCode::CREATED, "{created:?}");
    let mine: Value = alice.get("/v1/namespaces/nlp/runs/mine").await?.json().await?;
    ensure!(mine["name"] == "mine" && mine["submittedBy"] == "alice", "{mine}");
    impersonation_is_for_runs_only(&cluster).await?;
    cluster.stop().await;
    Ok(())
}

/// The API server's identity may act as a user to create and change runs and to read logs, and for nothing else.
async fn impersonation_is_for_runs_only(cluster: &TestCluster) -> anyhow::Result<()> {
    let account = (names::SYSTEM_NAMESPACE, names::API_SERVER_SERVICE_ACCOUNT);
    let kubeconfig = cluster.kubeconfig_for_service_account(account.0, account.1).await?;
    let client = cluster.client_for(&kubeconfig).await?;
    for (method, path, body) in [
        ("DELETE", "/apis/warpyard.dev/v1alpha1/namespaces/nlp/runs/mine", ""),
        ("GET", "/apis/warpyard.dev/v1alpha1/namespaces/nlp/runs", ""),
        ("GET", "/api/v1/namespaces/nlp/pods", ""),
        ("GET", "/api/v1/namespaces/nlp/pods/mine-1-0", ""),
        ("POST", "/api/v1/namespaces/nlp/configmaps", r#"{"metadata": {"name": "x"}}"#),
    ] {
        let request = http::Request::builder().method(method).uri(path).header("Impersonate-User", "alice");
        let request = request.header("Content-Type", "application/json").body(body.as_bytes().to_vec())?;
        let answer = client.request::<Value>(request).await;
        let refused = matches!(&answer, Err(kube::Error::Api(status)) if status.code == 403);
        ensure!(refused, "{method} {path} as alice must be refused: {answer:?}");
    }
    Ok(())
}

/// No token: 401. A namespace that is not the caller's: 403.
async fn check_operation(
    anonymous: &Caller,
    alice: &Caller,
    method: &Method,
    path: &str,
) -> anyhow::Result<()> {
    let foreign = path.replace("{namespace}", "vision").replace("{name}", "run-of-vision");
    let body = (*method == Method::POST).then(|| json!({"gpus": 1, "run": "train"}));
    if OPEN.contains(&path) {
        return Ok(());
    }
    if path == LOGIN {
        let answer = anonymous.call(method, path, Some(&json!({"token": "made-up"}))).await?;
        ensure!(answer.status() == StatusCode::FORBIDDEN, "no page of ours: {}", answer.status());
        return Ok(());
    }
    let answer = anonymous.call(method, &foreign, body.as_ref()).await?;
    ensure!(answer.status() == StatusCode::UNAUTHORIZED, "without a token: {}", answer.status());
    let mut liar = anonymous.clone();
    liar.token = Some("made-up".to_owned());
    let answer = liar.call(method, &foreign, body.as_ref()).await?;
    ensure!(answer.status() == StatusCode::UNAUTHORIZED, "with a made-up token: {}", answer.status());
    if path.contains("{namespace}") {
        let answer = alice.call(method, &foreign, body.as_ref()).await?;
        let is_refused =
            if path.ends_with(REPORTS) { StatusCode::UNAUTHORIZED } else { StatusCode::FORBIDDEN };
        ensure!(answer.status() == is_refused, "for another team: {}", answer.status());
    }
    Ok(())
}

#[derive(Clone)]
struct Caller {
    http: Client,
    url: String,
    token: Option<String>,
}

impl Caller {
    async fn get(&self, path: &str) -> anyhow::Result<reqwest::Response> {
        self.call(&Method::GET, path, None).await
    }

    async fn call(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<reqwest::Response> {
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.with_context(|| format!("failed to call {method} {path}"))
    }
}

fn operations(document: &Value) -> anyhow::Result<Vec<(Method, String)>> {
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().context("the document has paths")? {
        for method in methods.as_object().context("a path has methods")?.keys() {
            if let Ok(method) = method.to_uppercase().parse() {
                operations.push((method, path.clone()));
            }
        }
    }
    Ok(operations)
}

fn names_in(page: &Value) -> Vec<&str> {
    page["items"].as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}
