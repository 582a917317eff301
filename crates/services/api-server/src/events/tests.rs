//! Streams, the map and members through the whole router, against a stand-in for Kubernetes (see `router_tests`).

use std::sync::Arc;
use std::time::Duration;

use api_types::run::Attempt;
use api_types::{Queue, QueueSpec, RunPhase, RunStatus};
use axum::Router;
use axum::body::{Body, BodyDataStream};
use futures::StreamExt;
use http::{Method, Request, StatusCode, header};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use slim_objects::{SlimNode, SlimPod};
use tower::ServiceExt;

use super::BATCHES_MAX;
use super::batch::Batch;
use super::changes::{ChangedObject, RunKey, Taken};
use crate::cache::cluster_cache::ClusterCache;
use crate::metrics::Metrics;
use crate::router::router;
use crate::router_tests::{Asked, call, kubernetes, run};
use crate::server::Server;

/// Ten times what an event takes.
const PATIENCE: Duration = Duration::from_secs(5);

fn node(name: &str) -> SlimNode {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"warpyard.dev/gpu-type": "H100"}},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }))
    .expect("the test's node is valid")
}

fn pod(namespace: &str, run: &str, index: u32, node: &str) -> SlimPod {
    serde_json::from_value(json!({
        "metadata": {
            "name": format!("{run}-{index}"), "namespace": namespace,
            "labels": {"warpyard.dev/run": run, "warpyard.dev/attempt": "1", "warpyard.dev/queue": "secret"},
            "annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()},
        },
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        "status": {"phase": "Running"},
    }))
    .expect("the test's pod is valid")
}

/// The API, what it reads, and the server behind it.
fn api() -> (Router, Arc<ClusterCache>, Arc<Server>) {
    let attempts = vec![Attempt { number: 1, ..Attempt::default() }];
    let mut one = run("team-a", "one");
    one.status = Some(RunStatus { phase: RunPhase::Running, attempts, ..RunStatus::default() });
    let queues = ["qa", "qb"].map(|name| Queue::new(name, QueueSpec::default())).to_vec();
    let cache = Arc::new(ClusterCache::complete_with(vec![one, run("team-b", "hidden")], queues));
    let pods =
        vec![pod("team-a", "one", 0, "n1"), pod("team-a", "one", 1, "n1"), pod("team-b", "hidden", 0, "n1")];
    cache.see(vec![node("n1"), node("n2")], pods);
    let metrics = Metrics::new(&mut Registry::default());
    let client = kubernetes(Asked::default());
    let server = Arc::new(Server::new(client, Arc::clone(&cache), "image".to_owned(), metrics));
    (router(Arc::clone(&server)), cache, server)
}

struct Page {
    body: BodyDataStream,
    read: String,
}

impl Page {
    async fn open(api: &Router, path: &str) -> Result<Self, StatusCode> {
        let request = Request::get(path).header("authorization", "Bearer alices").body(Body::empty());
        let response = api.clone().oneshot(request.expect("valid")).await.expect("the router is infallible");
        if response.status() != StatusCode::OK {
            return Err(response.status());
        }
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        let mut page = Self { body: response.into_body().into_data_stream(), read: String::new() };
        assert_eq!(page.next().await, Some(("hello".to_owned(), json!({}))));
        Ok(page)
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((frame, rest)) = self.read.split_once("\n\n") {
                let field =
                    |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                let event = field("event: ").zip(field("data: "));
                self.read = rest.to_owned();
                match event {
                    Some((event, data)) => return Some((event, serde_json::from_str(&data).expect("JSON"))),
                    None => continue,
                }
            }
            let chunk =
                tokio::time::timeout(PATIENCE, self.body.next()).await.expect("something comes in time")?;
            self.read.push_str(std::str::from_utf8(&chunk.expect("a body in memory")).expect("text"));
        }
    }
}

#[tokio::test]
async fn a_stream_tells_what_its_caller_may_see_and_nothing_else() {
    let (api, cache, server) = api();
    let mut page = Page::open(&api, "/v1/events").await.expect("opened");
    let tell = async {
        for name in ["hidden", "other"] {
            cache.see_run(run("team-b", name));
        }
        cache.changes().note(["qb", "qa"].map(|queue| ChangedObject::Queue(queue.into())));
        cache.see(vec![], vec![pod("team-b", "hidden", 1, "n1")]);
        cache.see_run(run("team-a", "two"));
        server.events().publish(&cache).await;
    };
    let read = async {
        let mut events = Vec::new();
        while events.last().is_none_or(|(event, _)| event != "run") {
            events.push(page.next().await.expect("it goes on"));
        }
        events
    };
    let events = tokio::select! { events = read => events, () = tell => unreachable!("it waits for ever") };
    let seen: Vec<_> = events.iter().map(|(event, data)| (event.as_str(), data["name"].as_str())).collect();
    // The nodes and pods that were there before were noted too.
    assert_eq!(
        seen,
        [("node", Some("n1")), ("node", Some("n2")), ("queue", Some("qa")), ("run", Some("two"))]
    );
    let text = format!("{events:?}");
    assert!(!text.contains("hidden") && !text.contains("team-b"), "{text}");
    let occupants = json!([
        {"gpus": 4, "state": "Running"},
        {"namespace": "team-a", "run": "one", "queue": "secret", "gpus": 4, "state": "Running"},
    ]);
    assert_eq!(events[0].1["occupants"], occupants);
}

#[tokio::test]
async fn a_page_of_one_run_is_told_when_its_members_change() {
    let (api, cache, server) = api();
    cache.changes().take(usize::MAX);
    let mut page = Page::open(&api, "/v1/events?topics=runs&namespace=team-a&run=one").await.expect("opened");
    let mut list = Page::open(&api, "/v1/events?topics=runs").await.expect("opened");
    cache.see(vec![], vec![pod("team-a", "one", 2, "n2")]);
    cache.see_run(run("team-a", "two"));
    let told = async {
        assert_eq!(page.next().await.map(|(_, run)| run["name"].clone()), Some(json!("one")));
        assert_eq!(list.next().await.map(|(_, run)| run["name"].clone()), Some(json!("two")));
    };
    tokio::select! { () = told => {}, () = server.events().publish(&cache) => unreachable!("it waits for ever") }
}

#[tokio::test]
async fn what_a_caller_names_must_be_theirs_and_well_formed() {
    let (api, _, _) = api();
    for (path, expect) in [
        ("/v1/events?namespace=team-b", StatusCode::FORBIDDEN),
        ("/v1/events?namespace=team-b&run=hidden", StatusCode::FORBIDDEN),
        ("/v1/events?run=one", StatusCode::BAD_REQUEST),
        ("/v1/events?topics=pods", StatusCode::BAD_REQUEST),
        ("/v1/events?topic=runs", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(Page::open(&api, path).await.err(), Some(expect), "{path}");
    }
}

#[tokio::test]
async fn a_reader_that_does_not_keep_up_is_told_to_reload_and_goes_on() {
    let (api, cache, server) = api();
    let mut page = Page::open(&api, "/v1/events?topics=runs").await.expect("opened");
    let send = |name: &str| {
        cache.see_run(run("team-a", name));
        let taken =
            Taken { changes: vec![ChangedObject::Run(RunKey::new("team-a", name))], everything: false };
        server.events().batches.send(Arc::new(Batch::read(&taken, &cache))).expect("somebody listens");
    };
    // The stream's task is not polled meanwhile, as if the client did not read.
    for number in 0..BATCHES_MAX * 2 {
        send(&format!("run-{number}"));
    }
    assert_eq!(page.next().await.expect("it goes on").0, "reload");
    for number in BATCHES_MAX..BATCHES_MAX * 2 {
        let (_, run) = page.next().await.expect("it goes on");
        assert_eq!(run["name"], format!("run-{number}"));
    }
    send("last");
    assert_eq!(page.next().await.map(|(_, run)| run["name"].clone()), Some(json!("last")));
}

#[tokio::test]
async fn streams_are_counted_and_end_with_the_process_or_the_client() {
    let (api, _, server) = api();
    let mut pages = Vec::new();
    for _ in 0..20 {
        pages.push(Page::open(&api, "/v1/events").await.expect("opened"));
    }
    let (status, problem) = call(&api, Some("alices"), Method::GET, "/v1/events", "").await;
    assert_eq!((status, &problem["code"]), (StatusCode::TOO_MANY_REQUESTS, &json!("TooManyStreams")));
    pages.pop();
    while server.events().slots().count() == 20 {
        tokio::task::yield_now().await;
    }
    pages.push(Page::open(&api, "/v1/events").await.expect("one has ended"));
    server.events().close();
    for page in &mut pages {
        assert_eq!(page.next().await, None);
    }
    while server.events().slots().count() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_map_comes_in_pages_and_hides_names_and_members_come_by_rank() {
    let (api, _, _) = api();
    let get = async |path: &str| call(&api, Some("alices"), Method::GET, path, "").await;
    let (_, first) = get("/v1/nodes?limit=1").await;
    assert_eq!(first["items"][0]["name"], "n1");
    assert!(!first.to_string().contains("hidden"), "{first}");
    let held: u64 = first["items"][0]["occupants"]
        .as_array()
        .expect("occupants")
        .iter()
        .map(|occupant| occupant["gpus"].as_u64().expect("a count"))
        .sum();
    assert_eq!(held, 6);
    let token = first["continue"].as_str().expect("another page");
    let (_, second) = get(&format!("/v1/nodes?limit=1&continue={token}")).await;
    assert_eq!((&second["items"][0]["name"], second.get("continue")), (&json!("n2"), None));
    assert_eq!(get("/v1/nodes?limit=251").await.0, StatusCode::BAD_REQUEST);

    let members = "/v1/namespaces/team-a/runs/one/members";
    let (_, first) = get(&format!("{members}?limit=1")).await;
    let token = first["continue"].as_str().expect("another page");
    let (_, second) = get(&format!("{members}?limit=1&continue={token}")).await;
    assert_eq!((&first["items"][0]["index"], &second["items"][0]["index"]), (&json!(0), &json!(1)));
    assert_eq!((&second["items"][0]["node"], second.get("continue")), (&json!("n1"), None));
    assert_eq!(get("/v1/namespaces/team-a/runs/none/members").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn runs_are_found_by_a_part_of_their_name_and_by_their_user() {
    let (api, cache, _) = api();
    let mut llama = run("team-a", "ft-llama-3");
    llama.metadata.annotations = Some([("warpyard.dev/submitted-by".to_owned(), "bob".to_owned())].into());
    cache.see_run(llama);
    for (query, expect) in [
        ("search=LLAMA", 1),
        ("search=mistral", 0),
        ("user=bob", 1),
        ("user=bo", 0),
        ("search=ft&user=bob", 1),
        ("", 2),
    ] {
        let (_, page) = call(&api, Some("alices"), Method::GET, &format!("/v1/runs?{query}"), "").await;
        assert_eq!(page["items"].as_array().map(Vec::len), Some(expect), "{query}: {page}");
    }
    let long = format!("/v1/runs?search={}", "a".repeat(64));
    assert_eq!(call(&api, Some("alices"), Method::GET, &long, "").await.0, StatusCode::BAD_REQUEST);
}
