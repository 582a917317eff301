//! API servers for tests of how answers are handled: a scripted one, and a slow one.

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
/// The fence's message.
pub(crate) const FENCE: &str = "refused: this scheduler is not the leader of epoch 7";

/// The answers that are left: the expected method, the code and the body.
pub(crate) type Script = Arc<Mutex<VecDeque<(Method, u16, Value)>>>;

/// The body of a refusal.
pub(crate) fn status(code: u16, message: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": code, "message": message })
}

/// Writes to a server that answers as scripted, and checks that it is asked in that order.
pub(crate) fn writes(script: Vec<(Method, u16, Value)>) -> (Writes, Script) {
    let (writes, _, left) = writes_and_reads(script);
    (writes, left)
}

/// The same, with a client that reads from that server.
pub(crate) fn writes_and_reads(script: Vec<(Method, u16, Value)>) -> (Writes, Client, Script) {
    let script: Script = Arc::new(Mutex::new(script.into()));
    let left = Arc::clone(&script);
    let service = tower::service_fn(move |request: Request<Body>| {
        let next = script.lock().expect("the script").pop_front();
        async move {
            let (method, code, body) = next.expect("a scripted answer");
            assert_eq!(*request.method(), method, "{}", request.uri());
            let query = request.uri().query().unwrap_or_default();
            assert!(method == Method::GET || query.contains("timeout=4000ms"), "{}", request.uri());
            Ok::<_, Infallible>(response(code, &body))
        }
    });
    let client = Client::new(service, "default");
    (Writes::new(client.clone(), TIMEOUT), client, left)
}

/// Requests that a server has under way.
#[derive(Default)]
pub(crate) struct Traffic {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Traffic {
    /// The most that were under way at the same time.
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
