//! Asks the scheduler's leader, for callers who may see the answer.
//!
//! ```text
//!   SchedulerEpoch ── address, certificate ─► connection, kept for seconds ─┐
//!   TokenRequest ── a token for the scheduler alone, kept for minutes ──────┴─► one question, within a second
//! ```
//!
//! Without an answer the caller's page just shows less: nothing else depends on it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api_types::SchedulerEpoch;
use api_types::capacity::CapacityView;
use api_types::names::{
    API_SERVER_SERVICE_ACCOUNT, LEADER_ADDRESS_ANNOTATION, LEADER_AUDIENCE, LEADER_CERTIFICATE_ANNOTATION,
    LEADER_TLS_NAME, SCHEDULER_EPOCH, SYSTEM_NAMESPACE,
};
use api_types::outlook::{Line, LineQuery, RunOutlook};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use reqwest::{Certificate, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use tracing::debug;

/// The longest wait for the leader's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// A snapshot is a copy of everything; the leader makes it while the planner works.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(25);
/// The leader is looked up again after this, and after each question that did not reach it.
const LEADER_LIFETIME: Duration = Duration::from_secs(5);
/// The shortest lifetime that Kubernetes gives a token; a new one is requested after half of it.
const TOKEN_SECONDS: i64 = 600;
const TOKEN_LIFETIME: Duration = Duration::from_mins(5);
/// The largest answer: a line of 1,000 jobs with their reasons.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// The leader or its certificate could not be found.
    #[error("cannot find the scheduler's leader")]
    Unknown(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No process leads.
    #[error("no scheduler leads")]
    Nobody,
    /// It did not answer.
    #[error("the scheduler's leader does not answer")]
    Silent(#[source] reqwest::Error),
    /// It did not answer in time.
    #[error("the scheduler's leader does not answer in time")]
    Late,
    /// It turned the question away.
    #[error("the scheduler's leader answered {0}")]
    Refused(StatusCode),
    /// This server does not understand its answer.
    #[error("the scheduler's leader gave an unexpected answer")]
    Strange,
}

/// Asks the scheduler's leader.
pub struct Leader {
    client: Client,
    connection: Mutex<Option<(Instant, Arc<Connection>)>>,
    token: Mutex<Option<(Instant, String)>>,
}

/// How to reach one leader.
struct Connection {
    address: String,
    certificate: String,
    http: reqwest::Client,
    base: Url,
}

impl Leader {
    /// Looks up the leader with this client, which needs the right to read the epoch and to make tokens for
    /// itself.
    pub fn new(client: Client) -> Self {
        Self { client, connection: Mutex::default(), token: Mutex::default() }
    }

    /// The outlook of a run; `None` if it does not wait.
    pub async fn run(&self, namespace: &str, run: &str) -> Result<Option<RunOutlook>, Unanswered> {
        self.ask(&["v1", "runs", namespace, run], None).await
    }

    /// The waiting runs that are asked for.
    pub async fn line(&self, query: &LineQuery) -> Result<Option<Line>, Unanswered> {
        self.ask(&["v1", "line"], Some(query)).await
    }

    /// The last decision about machines, as far as it is asked for; `None` if the leader buys none.
    pub async fn capacity(&self, query: &LineQuery) -> Result<Option<CapacityView>, Unanswered> {
        self.ask(&["v1", "capacity"], Some(query)).await
    }

    /// The scheduler's snapshot, to be passed on as it arrives.
    pub async fn snapshot(&self) -> Result<Response, Unanswered> {
        let asked = tokio::time::timeout(SNAPSHOT_WITHIN, self.send(&["v1", "snapshot"], None)).await;
        let response = asked.map_err(|_| Unanswered::Late).flatten();
        let answer = response.and_then(|response| match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(Unanswered::Refused(status)),
        });
        self.forget_what_is_wrong(answer.as_ref().err());
        answer
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: Option<&LineQuery>,
    ) -> Result<Option<T>, Unanswered> {
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.try_to_ask(path, query)).await;
        let answer = answer.map_err(|_| Unanswered::Late).flatten();
        self.forget_what_is_wrong(answer.as_ref().err());
        answer
    }

    /// Forgets only what the error is about: a busy or late leader still leads, and the token is still valid.
    /// Asking for both again would make a slow answer slower.
    fn forget_what_is_wrong(&self, error: Option<&Unanswered>) {
        let Some(error) = error else { return };
        debug!(error = error as &dyn std::error::Error, "The scheduler's leader did not answer a question.");
        let is_unauthorized = matches!(error, Unanswered::Refused(StatusCode::UNAUTHORIZED));
        if is_unauthorized {
            *lock(&self.token) = None;
        }
        // Another process may lead by now, maybe at the same address.
        if is_unauthorized || matches!(error, Unanswered::Silent(error) if error.is_connect()) {
            *lock(&self.connection) = None;
        }
    }

    async fn try_to_ask<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: Option<&LineQuery>,
    ) -> Result<Option<T>, Unanswered> {
        let mut response = self.send(path, query).await?;
        match response.status() {
            StatusCode::NOT_FOUND => return Ok(None),
            status if !status.is_success() => return Err(Unanswered::Refused(status)),
            _ => {}
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(Unanswered::Silent)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(Unanswered::Strange);
            }
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).map(Some).map_err(|_| Unanswered::Strange)
    }

    async fn send(&self, path: &[&str], query: Option<&LineQuery>) -> Result<Response, Unanswered> {
        let connection = self.connection().await?;
        let token = self.token().await?;
        let mut url = connection.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let question = match query {
            None => connection.http.get(url),
            Some(query) => connection.http.post(url).json(query),
        };
        let sent = question.bearer_auth(token).send().await;
        sent.map_err(|error| Unanswered::Silent(error.without_url()))
    }

    async fn connection(&self) -> Result<Arc<Connection>, Unanswered> {
        let known = lock(&self.connection).clone();
        if let Some((_, connection)) = known.as_ref().filter(|(at, _)| at.elapsed() < LEADER_LIFETIME) {
            return Ok(Arc::clone(connection));
        }
        let epochs: Api<SchedulerEpoch> = Api::all(self.client.clone());
        let epoch =
            epochs.get_opt(SCHEDULER_EPOCH).await.map_err(|error| Unanswered::Unknown(error.into()))?;
        let epoch = epoch.ok_or(Unanswered::Nobody)?;
        let annotation = |name: &str| epoch.annotations().get(name).cloned().ok_or(Unanswered::Nobody);
        let address = annotation(LEADER_ADDRESS_ANNOTATION)?;
        let certificate = annotation(LEADER_CERTIFICATE_ANNOTATION)?;
        let same = known.filter(|(_, known)| known.address == address && known.certificate == certificate);
        let connection = match same {
            Some((_, known)) => known,
            None => Arc::new(Connection::new(address, certificate).await?),
        };
        *lock(&self.connection) = Some((Instant::now(), Arc::clone(&connection)));
        Ok(connection)
    }

    async fn token(&self) -> Result<String, Unanswered> {
        if let Some((made, token)) = &*lock(&self.token)
            && made.elapsed() < TOKEN_LIFETIME
        {
            return Ok(token.clone());
        }
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let spec = TokenRequestSpec {
            audiences: Some(vec![LEADER_AUDIENCE.to_owned()]),
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let params = PostParams::default();
        let made = accounts.create_token_request(API_SERVER_SERVICE_ACCOUNT, &params, &request).await;
        let made = made.map_err(|error| Unanswered::Unknown(error.into()))?;
        let token = made.status.and_then(|status| status.token).unwrap_or_default();
        *lock(&self.token) = Some((Instant::now(), token.clone()));
        Ok(token)
    }
}

impl Connection {
    /// Trusts only the certificate that the leader published, and resolves the name without other sources.
    async fn new(address: String, certificate: String) -> Result<Self, Unanswered> {
        let unknown = |error: Box<dyn std::error::Error + Send + Sync>| Unanswered::Unknown(error);
        let sockets = tokio::net::lookup_host(address.clone()).await;
        let socket = sockets.map_err(|error| unknown(error.into()))?.next().ok_or(Unanswered::Nobody)?;
        let trusted = Certificate::from_pem(certificate.as_bytes()).map_err(|error| unknown(error.into()))?;
        let http = reqwest::Client::builder()
            .tls_certs_only([trusted])
            .resolve(LEADER_TLS_NAME, socket)
            .https_only(true)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| unknown(error.into()))?;
        let base = format!("https://{LEADER_TLS_NAME}:{}", socket.port());
        let base = Url::parse(&base).map_err(|error| unknown(error.into()))?;
        Ok(Self { address, certificate, http, base })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
