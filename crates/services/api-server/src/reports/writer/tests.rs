use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_types::run::StepRange;
use api_types::{Run, RunSpec};
use futures::future::join_all;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::super::check::Told;
use super::{WAITING_MAX, Writer};
use crate::cache::cluster_cache::ClusterCache;

/// Kubernetes with one run, whose version must be right.
#[derive(Clone)]
struct Kubernetes {
    run: Arc<Mutex<Value>>,
    writes: Arc<Mutex<Vec<Value>>>,
}

impl Kubernetes {
    fn new() -> Self {
        let run = serde_json::to_value(run("7")).unwrap();
        Self { run: Arc::new(Mutex::new(run)), writes: Arc::default() }
    }

    fn client(&self) -> Client {
        let this = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let this = this.clone();
            async move {
                let is_write = request.method() == http::Method::PATCH;
                let body = request.into_body().collect_bytes().await.unwrap();
                let (code, answer) = if is_write { this.write(&body) } else { (200, this.read()) };
                let response =
                    Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(response.unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn read(&self) -> Value {
        self.run.lock().unwrap().clone()
    }

    fn write(&self, body: &[u8]) -> (u16, Value) {
        let patch: Value = serde_json::from_slice(body).unwrap();
        let mut run = self.run.lock().unwrap();
        let version: u64 = run["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        if patch["metadata"]["resourceVersion"] != run["metadata"]["resourceVersion"] {
            return (409, json!({"status": "Failure", "code": 409, "reason": "Conflict", "message": ""}));
        }
        run["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        run["status"]["progress"] = patch["status"]["progress"].clone();
        self.writes.lock().unwrap().push(patch);
        (200, run.clone())
    }
}

fn run(version: &str) -> Run {
    let mut run = Run::new("train", RunSpec { members: 1, ..RunSpec::default() });
    run.metadata.namespace = Some("team".to_owned());
    run.metadata.resource_version = Some(version.to_owned());
    run.status = Some(api_types::RunStatus::default());
    run
}

fn told(from: u64) -> Told {
    let range = StepRange { attempt: 1, from, to: from + 1, world_size: 1, milliseconds: 10 };
    Told { attempt: 1, step: from + 1, ranges: vec![range], checkpoint: None, load: None }
}

fn writer(kubernetes: &Kubernetes, cached_version: &str) -> Arc<Writer> {
    let cache = ClusterCache::complete_with(vec![run(cached_version)], vec![]);
    Arc::new(Writer::new(kubernetes.client(), Arc::new(cache)))
}

#[tokio::test(start_paused = true)]
async fn one_write_in_a_second_takes_all_that_wait_and_nothing_but_progress() {
    let kubernetes = Kubernetes::new();
    let writer = writer(&kubernetes, "7");
    let began = tokio::time::Instant::now();
    for _ in 0..3 {
        let answers = join_all((0..10).map(|step| writer.write("team", "train", told(step)))).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    }
    let written = kubernetes.writes.lock().unwrap().clone();
    assert_eq!(written.len(), 3);
    assert!(began.elapsed() >= Duration::from_secs(2), "they are a second apart: {:?}", began.elapsed());
    for write in &written {
        assert_eq!(write["status"].as_object().unwrap().keys().collect::<Vec<_>>(), ["progress"]);
    }
    assert_eq!(kubernetes.read()["status"]["progress"]["ranges"][0]["to"], 10);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(writer.lock().is_empty(), "nothing is kept of runs that are quiet");
}

#[tokio::test(start_paused = true)]
async fn a_write_decided_on_an_old_run_is_decided_again() {
    let kubernetes = Kubernetes::new();
    let writer = writer(&kubernetes, "3");
    writer.write("team", "train", told(0)).await.unwrap();
    assert_eq!(kubernetes.writes.lock().unwrap().len(), 1);
    // The cache is out of date: progress that was written meanwhile must not be lost.
    writer.write("team", "train", told(5)).await.unwrap();
    assert_eq!(kubernetes.read()["status"]["progress"]["ranges"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn of_too_many_reports_at_once_the_last_are_turned_away() {
    let kubernetes = Kubernetes::new();
    let writer = writer(&kubernetes, "7");
    let many = (0..100).map(|step| writer.write("team", "train", told(step)));
    let answers = join_all(many).await;
    let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert_eq!(refused.len(), 100 - WAITING_MAX);
    assert!(refused.iter().all(|error| error.0.status == 429));
}
