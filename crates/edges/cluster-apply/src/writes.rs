//! The client side of a write: a deadline for the server, a longer one for us, and an eye on the fence.

use std::fmt;
use std::time::Duration;

use api_types::names::EPOCH_LABEL;
use cluster_model::{NodeName, PodKey};
use kube::Client;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;
use tokio::sync::watch;

use crate::outcome::{Answer, Failure, answer};

/// The server gives up first; we wait this much longer for its answer. The next leader's `--settle`
/// need not cover this margin: it must only be longer than the server's deadline, after which
/// nothing can happen any more.
const ANSWER_MARGIN: Duration = Duration::from_secs(1);
/// The pod of [`Writes::probe`]; nobody may create it in our namespace but us, and we do not.
const PROBE_POD: &str = "warpyard-fence-probe";

/// Set when the API server refuses a write because another process leads: nothing may be written
/// any more. Clones share it.
#[derive(Clone, Debug)]
pub struct Fenced(watch::Sender<Option<String>>);

impl Default for Fenced {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Fenced {
    /// Notes a refusal; the first one is kept.
    pub fn report(&self, message: &str) {
        self.0.send_if_modified(|first| {
            let is_first = first.is_none();
            if is_first {
                *first = Some(message.to_owned());
            }
            is_first
        });
    }

    /// Whether a write was refused.
    pub fn is_fenced(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Completes with the server's words once a write was refused.
    pub async fn fenced(&self) -> String {
        let mut receiver = self.0.subscribe();
        match receiver.wait_for(Option::is_some).await {
            Ok(message) => message.clone().unwrap_or_default(),
            // Not while `self` holds the sender.
            Err(_) => std::future::pending().await,
        }
    }
}

/// A client for writes. It must not retry by itself (`default_retry = false`): this crate decides
/// whether to repeat a write, and a retry must not outlive the settle time of the next leader.
#[derive(Clone)]
pub struct Writes {
    client: Client,
    timeout: Duration,
    /// The leader's epoch, which binds carry.
    epoch: Option<i64>,
}

impl Writes {
    /// Writes through `client`, each given up by the server after `timeout`.
    pub fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout, epoch: None }
    }

    /// The same, as the leader of an epoch. The fence lets its binds pass without a closer look,
    /// and refuses them once the epoch is over.
    #[must_use]
    pub fn of_epoch(&self, epoch: i64) -> Self {
        Self { epoch: Some(epoch), ..self.clone() }
    }

    /// A write is executed within this time from sending, or never.
    pub fn settled_after(&self) -> Duration {
        self.timeout + ANSWER_MARGIN
    }

    /// The query that bounds the write on the server.
    pub(crate) fn query(&self) -> String {
        format!("timeout={}ms", self.timeout.as_millis())
    }

    /// Gives a pod a node.
    pub(crate) fn binding(&self, pod: &PodKey, node: &NodeName) -> http::Request<Vec<u8>> {
        // With the uid, a pod that came back under the same name is not bound by mistake.
        self.post_binding((&pod.namespace, &pod.name, Some(&pod.uid)), node.as_str(), &self.query())
    }

    fn post_binding(
        &self,
        (namespace, name, uid): (&str, &str, Option<&str>),
        node: &str,
        query: &str,
    ) -> http::Request<Vec<u8>> {
        let labels = self.epoch.map(|epoch| json!({ EPOCH_LABEL: epoch.to_string() }));
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding?{query}");
        let metadata = json!({ "namespace": namespace, "name": name, "uid": uid, "labels": labels });
        let target = json!({ "apiVersion": "v1", "kind": "Node", "name": node });
        let body = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target });
        http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .expect("names that the API server accepted make a valid URL")
    }

    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<T, Failure> {
        let limit = self.settled_after();
        match tokio::time::timeout(limit, self.client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Failure::Request(error)),
            Err(_) => Err(Failure::NoAnswer(limit)),
        }
    }
}

/// The fence's verdict on us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Our writes pass.
    Admitted,
    /// Another process leads, or none.
    Refused(String),
    /// The answer does not say.
    Unclear(String),
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admitted => f.write_str("admitted"),
            Self::Refused(message) | Self::Unclear(message) => f.write_str(message),
        }
    }
}

impl Writes {
    /// Asks the fence without changing anything: a dry-run bind of a pod that does not exist. Admission comes
    /// before the pod is looked up, so "not found" means admitted.
    pub async fn probe(&self, namespace: &str) -> Probe {
        let query = format!("dryRun=All&{}", self.query());
        let request = self.post_binding((namespace, PROBE_POD, None), PROBE_POD, &query);
        match answer(&self.send::<IgnoredAny>(request).await) {
            Answer::NotFound => Probe::Admitted,
            Answer::Fenced(message) => Probe::Refused(message),
            other => Probe::Unclear(format!("{other:?}")),
        }
    }
}
