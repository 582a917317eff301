use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use api_types::names::{LEADER_ADDRESS_ANNOTATION, LEADER_CERTIFICATE_ANNOTATION, LEADER_TLS_NAME};
use axum::Router;
use axum::http::{Request, Response, StatusCode};
use kube::Client;
use serde_json::json;
use service_kit::tls::Listener;

use super::Leader;

/// How often the API server was asked.
#[derive(Default)]
struct Asked {
    epochs: AtomicU32,
    tokens: AtomicU32,
}

impl Asked {
    fn so_far(&self) -> (u32, u32) {
        (self.epochs.load(Ordering::SeqCst), self.tokens.load(Ordering::SeqCst))
    }
}

/// An API server that knows one leader.
fn client(address: SocketAddr, certificate: &str, asked: &Arc<Asked>) -> Client {
    let epoch = json!({
        "apiVersion": "warpyard.dev/v1alpha1", "kind": "SchedulerEpoch",
        "metadata": { "name": "scheduler", "annotations": {
            LEADER_ADDRESS_ANNOTATION: address.to_string(), LEADER_CERTIFICATE_ANNOTATION: certificate,
        } },
        "spec": { "epoch": 1, "holder": "pod" },
    });
    let token = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
        "spec": { "audiences": [] }, "status": { "token": "token", "expirationTimestamp": "2030-01-01T00:00:00Z" },
    });
    let asked = Arc::clone(asked);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let is_token = request.uri().path().ends_with("/token");
        let (answer, count) = if is_token { (&token, &asked.tokens) } else { (&epoch, &asked.epochs) };
        count.fetch_add(1, Ordering::SeqCst);
        let body = kube::client::Body::from(answer.to_string().into_bytes());
        async move { Ok::<_, Infallible>(Response::new(body)) }
    });
    Client::new(service, "default")
}

/// How often the API server is asked for two questions to a leader that answers each with `status`.
async fn asked_for_two(status: StatusCode) -> (u32, u32) {
    let listener =
        Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), LEADER_TLS_NAME).await.expect("it listens");
    let asked = Arc::<Asked>::default();
    let leader = Leader::new(client(listener.address(), listener.certificate_pem(), &asked));
    let serves = tokio::spawn(async move {
        axum::serve(listener, Router::new().fallback(move || async move { status })).await
    });
    for _ in 0..2 {
        let answer = leader.run("ns", "run").await;
        assert!(matches!(&answer, Err(super::Unanswered::Refused(it)) if *it == status), "{answer:?}");
    }
    serves.abort();
    asked.so_far()
}

#[tokio::test]
async fn a_busy_leader_is_asked_again_with_the_same_token() {
    assert_eq!(asked_for_two(StatusCode::SERVICE_UNAVAILABLE).await, (1, 1));
}

#[tokio::test]
async fn a_leader_that_does_not_know_us_is_looked_up_again_with_a_new_token() {
    assert_eq!(asked_for_two(StatusCode::UNAUTHORIZED).await, (2, 2));
}

#[tokio::test]
async fn a_leader_that_is_gone_is_looked_up_again() {
    let listener =
        Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), LEADER_TLS_NAME).await.expect("it listens");
    let asked = Arc::<Asked>::default();
    let gone = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = gone.local_addr().expect("an address");
    drop(gone);
    let leader = Leader::new(client(address, listener.certificate_pem(), &asked));
    for _ in 0..2 {
        assert!(matches!(leader.run("ns", "run").await, Err(super::Unanswered::Silent(_))));
    }
    assert_eq!(asked.so_far(), (2, 1));
}
