//! The probes against endpoints on loopback.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use clap::Parser;
use tokio::time::timeout;

use super::*;
use crate::finding::{NoticeKind, Origin};

const BOUND: Duration = Duration::from_secs(20);

/// Answers by path, and the requests that came.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<BTreeMap<String, (u16, String)>>>,
    asked: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    tokens: Arc<AtomicU32>,
}

impl Server {
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    fn set(&self, path: &str, status: u16, body: impl Into<String>) {
        self.answers.lock().unwrap().insert(path.to_owned(), (status, body.into()));
    }

    /// Waits until a path was requested this many more times.
    async fn asked_again(&self, path: &str, times: usize) {
        let count = || self.asked.lock().unwrap().iter().filter(|(asked, _)| asked == path).count();
        let before = count();
        timeout(BOUND, async {
            while count() < before + times {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("it is asked as often as before");
    }
}

async fn answer(State(server): State<Server>, request: Request) -> Response {
    let path = request.uri().path_and_query().unwrap().to_string();
    server.asked.lock().unwrap().push((path.clone(), request.headers().clone()));
    if path == "/latest/api/token" {
        let is_put = request.method() == "PUT";
        let ttl = request.headers().get("x-aws-ec2-metadata-token-ttl-seconds");
        if !is_put || ttl.is_none_or(|ttl| ttl != "21600") {
            return StatusCode::BAD_REQUEST.into_response();
        }
        return format!("token-{}", server.tokens.fetch_add(1, Ordering::SeqCst) + 1).into_response();
    }
    if path.starts_with("/latest/") {
        let current = format!("token-{}", server.tokens.load(Ordering::SeqCst));
        if request.headers().get("x-aws-ec2-metadata-token").is_none_or(|token| *token != *current) {
            return StatusCode::UNAUTHORIZED.into_response();
        }
    }
    let answers = server.answers.lock().unwrap();
    let (status, body) = answers.get(&path).cloned().unwrap_or((404, String::new()));
    (StatusCode::from_u16(status).unwrap(), [("metadata-flavor", "Google")], body).into_response()
}

fn probes(more: &[&str]) -> Probes {
    let words = ["warpyard-node-agent", "--node-name=node-0", "--poll=20ms", "--dcgm-poll=20ms"];
    Probes::new(&Args::parse_from(words.iter().chain(more).copied())).unwrap()
}

/// Starts the probes of these arguments, and takes in reports until something is seen.
struct Watched {
    reports: Reports,
    receiver: mpsc::Receiver<Report>,
    _tasks: JoinSet<()>,
}

impl Watched {
    fn start(more: &[&str]) -> Self {
        let probes = probes(more);
        let reports = Reports::new(&probes.sources(), "boot");
        let (tasks, receiver) = probes.start(&Metrics::default());
        Self { reports, receiver, _tasks: tasks }
    }

    async fn until(&mut self, is_seen: impl Fn(&Seen) -> bool) {
        timeout(BOUND, async {
            while !is_seen(&self.reports.seen()) {
                self.reports.take_in(self.receiver.recv().await.expect("probes never end"));
            }
        })
        .await
        .expect("it is seen in time");
    }
}

fn kinds(seen: &Seen) -> Vec<NoticeKind> {
    seen.notices.iter().flat_map(|view| &view.found).map(|notice| notice.kind).collect()
}

fn is_quiet(seen: &Seen) -> bool {
    seen.notices.iter().all(|view| view.complete && view.found.is_empty())
        && seen.faults.iter().all(|view| view.complete && view.found.is_empty())
}

#[tokio::test]
async fn notices_of_aws_come_and_go() {
    let server = Server::default();
    let mut watched = Watched::start(&["--cloud=aws", "--metadata-url", &server.start().await]);
    watched.until(is_quiet).await;
    let spot = "/latest/meta-data/spot/instance-action";
    server.set(spot, 200, r#"{"action": "terminate", "time": "2017-09-18T08:22:00Z"}"#);
    watched.until(|seen| kinds(seen) == [NoticeKind::Spot]).await;
    server.set(spot, 404, "");
    watched.until(is_quiet).await;
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_at_once() {
    let server = Server::default();
    let url = server.start().await;
    let http = Http::new(url.parse().unwrap(), BOUND, METADATA_BYTES_MAX).unwrap();
    let (_, mut endpoint) = Endpoint::aws(&http).remove(0);
    for _ in 0..3 {
        endpoint.look().await.unwrap();
    }
    assert_eq!(server.tokens.load(Ordering::SeqCst), 1, "one token serves for many questions");
    server.tokens.fetch_add(1, Ordering::SeqCst);
    endpoint.look().await.unwrap();
    assert_eq!(server.tokens.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn notices_of_gcp_come_and_go() {
    let server = Server::default();
    let (preempted, maintenance) =
        ("/computeMetadata/v1/instance/preempted", "/computeMetadata/v1/instance/maintenance-event");
    server.set(preempted, 200, "FALSE");
    server.set(maintenance, 200, "NONE");
    let mut watched = Watched::start(&["--cloud=gcp", "--metadata-url", &server.start().await]);
    watched.until(is_quiet).await;
    server.set(maintenance, 200, "TERMINATE_ON_HOST_MAINTENANCE");
    watched.until(|seen| kinds(seen) == [NoticeKind::Maintenance]).await;
    server.set(preempted, 200, "TRUE");
    watched.until(|seen| kinds(seen) == [NoticeKind::Spot, NoticeKind::Maintenance]).await;
    server.set(maintenance, 200, "NONE");
    server.set(preempted, 200, "FALSE");
    watched.until(is_quiet).await;
    let asked = server.asked.lock().unwrap();
    assert!(asked.iter().all(|(_, headers)| headers["metadata-flavor"] == "Google"));
}

#[tokio::test]
async fn notices_of_azure_are_those_of_the_machine_itself() {
    let server = Server::default();
    let events = "/metadata/scheduledevents?api-version=2020-07-01";
    let event = |machine: &str| {
        format!(
            r#"{{"DocumentIncarnation": 2, "Events": [{{"EventId": "1", "EventType": "Preempt",
            "Resources": ["{machine}"], "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT"}}]}}"#
        )
    };
    server.set("/metadata/instance/compute/name?api-version=2021-02-01&format=text", 200, "gpus_7");
    server.set(events, 200, event("gpus_8"));
    let mut watched = Watched::start(&["--cloud=azure", "--metadata-url", &server.start().await]);
    watched.until(is_quiet).await;
    server.set(events, 200, event("gpus_7"));
    watched.until(|seen| kinds(seen) == [NoticeKind::Spot]).await;
    server.set(events, 200, r#"{"DocumentIncarnation": 3, "Events": []}"#);
    watched.until(is_quiet).await;
    let asked = server.asked.lock().unwrap();
    assert!(asked.iter().all(|(_, headers)| headers["metadata"] == "true"));
}

#[tokio::test]
async fn an_endpoint_that_fails_is_asked_on_and_what_it_said_stands() {
    let server = Server::default();
    let preempted = "/computeMetadata/v1/instance/preempted";
    server.set("/computeMetadata/v1/instance/maintenance-event", 200, "NONE");
    server.set(preempted, 503, "");
    let mut watched = Watched::start(&["--cloud=gcp", "--metadata-url", &server.start().await]);
    server.asked_again(preempted, 5).await;
    let is_complete = |seen: &Seen| seen.notices.as_ref().is_some_and(|view| view.complete);
    while let Ok(report) = watched.receiver.try_recv() {
        watched.reports.take_in(report);
    }
    assert!(!is_complete(&watched.reports.seen()), "a failure is no answer");
    server.set(preempted, 200, "TRUE");
    watched.until(|seen| is_complete(seen) && kinds(seen) == [NoticeKind::Spot]).await;
    server.set(preempted, 500, "FALSE");
    server.asked_again(preempted, 5).await;
    assert!(watched.receiver.try_recv().is_err(), "a failure takes nothing back");
}

#[tokio::test]
async fn long_answers_redirects_and_other_servers_are_refused() {
    let server = Server::default();
    let url = server.start().await;
    let http = Http::new(url.parse().unwrap(), BOUND, METADATA_BYTES_MAX).unwrap();
    let spot = "/latest/meta-data/spot/instance-action";
    let (_, mut aws) = Endpoint::aws(&http).remove(0);
    server.set(spot, 200, " ".repeat(METADATA_BYTES_MAX + 1));
    assert!(aws.look().await.unwrap_err().to_string().contains("more than"));
    server.set(spot, 302, "");
    assert!(aws.look().await.unwrap_err().to_string().contains("302"));

    let plain = Router::new().fallback(|| async { "FALSE" });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, plain).await });
    let http = Http::new(url.parse().unwrap(), BOUND, METADATA_BYTES_MAX).unwrap();
    let (_, mut gcp) = Endpoint::gcp(&http).remove(0);
    assert!(gcp.look().await.unwrap_err().to_string().contains("not from Google"));
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let http = Http::new(url.parse().unwrap(), Duration::from_millis(50), METADATA_BYTES_MAX).unwrap();
    let (_, mut endpoint) = Endpoint::gcp(&http).remove(0);
    assert!(timeout(BOUND, endpoint.look()).await.expect("it gives up").is_err());
}

#[tokio::test]
async fn the_kernel_log_and_the_exporter_are_read_as_they_grow() {
    let server = Server::default();
    server.set("/metrics", 200, "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-a\"} 0\n");
    let mut log = tempfile::NamedTempFile::new().unwrap();
    writeln!(log, "6,1,0,-;Linux version 6.1.0").unwrap();
    let (kmsg, metrics) =
        (format!("--kmsg={}", log.path().display()), format!("--dcgm-url={}/metrics", server.start().await));
    let mut watched = Watched::start(&[&kmsg, &metrics]);
    watched.until(is_quiet).await;
    let origins =
        |seen: &Seen| seen.faults.iter().flat_map(|view| &view.found).map(|it| it.origin).collect::<Vec<_>>();
    writeln!(log, "3,7,0,-;NVRM: Xid (PCI:0000:cb:00): 13, pid=1, name=python, an application's").unwrap();
    writeln!(log, "3,8,0,-;NVRM: Xid (PCI:0000:cb:00): 79, GPU has fallen off the bus.").unwrap();
    watched.until(|seen| origins(seen) == [Origin::KernelLog(8)]).await;
    server.set("/metrics", 200, "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-a\"} 48\n");
    watched.until(|seen| origins(seen) == [Origin::KernelLog(8), Origin::Dcgm]).await;
}
