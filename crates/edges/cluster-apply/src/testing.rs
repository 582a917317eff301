//! API servers for tests of what is made of their answers: one that is scripted, and one that takes its time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::writes::Writes;

/// The server's timeout of every write.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);
/// What the fence says.
pub(crate) const FENCE: &str = "refused: this scheduler is not the leader of epoch 7";

/// Answers that are left: to which method, and with which code and body.
pub(crate) type Script = Arc<Mutex<VecDeque<(Method, u16, Value)>>>;

/// The body of a refusal.
pub(crate) fn status(code: u16, message: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "message": message })
}

/// Writes to a server that answers as scripted, and checks that it is asked in that order.
pub(crate) fn writes(script: Vec<(Method, u16, Value)>) -> (Writes, Script) {
    let script: Script = Arc::new(Mutex::new(script.into()));
    let left = Arc::clone(&script);
    let service = tower::service_fn(move |request: Request<Body>| {
        let next = script.lock().expect("the script").pop_front();
        async move {
            let (method, code, body) = next.expect("a scripted answer");
            assert_eq!(*request.method(), method, "{}", request.uri());
            let query = request.uri().query().unwrap_or_default();
            assert!(query.contains("timeout=4000ms"), "{}", request.uri());
            Ok::<_, Infallible>(response(code, &body))
        }
    });
    (Writes::new(Client::new(service, "default"), TIMEOUT), left)
}

/// Requests that a server has under way.
#[derive(Default)]
pub(crate) struct Traffic {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Traffic {
    /// The most that there were at the same time.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// Writes to a server that takes a second for each request.
pub(crate) fn slow_writes(answer: fn(&Method) -> (u16, Value)) -> (Writes, Arc<Traffic>) {
    let traffic = Arc::<Traffic>::default();
    let seen = Arc::clone(&traffic);
    let service = tower::service_fn(move |request: Request<Body>| {
        let traffic = Arc::clone(&traffic);
        async move {
            let now = traffic.now.fetch_add(1, Ordering::SeqCst) + 1;
            traffic.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            traffic.now.fetch_sub(1, Ordering::SeqCst);
            let (code, body) = answer(request.method());
            Ok::<_, Infallible>(response(code, &body))
        }
    });
    (Writes::new(Client::new(service, "default"), TIMEOUT), seen)
}

fn response(code: u16, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = StatusCode::from_u16(code).expect("a code");
    response
}
