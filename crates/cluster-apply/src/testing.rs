//! A scripted API server, for tests of what is made of its answers.

use std::collections::VecDeque;
use std::convert::Infallible;
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
            let mut response = Response::new(Body::from(body.to_string().into_bytes()));
            *response.status_mut() = StatusCode::from_u16(code).expect("a code");
            Ok::<_, Infallible>(response)
        }
    });
    (Writes::new(Client::new(service, "default"), TIMEOUT), left)
}
