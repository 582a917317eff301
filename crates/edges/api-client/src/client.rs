//! The client and its calls, except those about costs.

use std::net::IpAddr;
use std::time::Duration;

use api_types::capacity::CapacityView;
use api_types::logs::RunLogs;
use api_types::rest::{
    Board, MemberView, NodeView, Page, Problem, QueueView, RunSummary, RunView, WhoAmI, Why,
};
use api_types::{JobFile, RunPhase};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;

/// The server gives up on a request after 30 s. The rest is for the network.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(35);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// The largest answer read: a page of 500 summaries is below 1 MiB, one run with its command below 16 MiB.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// A snapshot of 100,000 pods is below 100 MiB.
const SNAPSHOT_BYTES_MAX: usize = 1024 * 1024 * 1024;
const SNAPSHOT_TIME_MAX: Duration = Duration::from_mins(10);

/// Why a call gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server's address is not a usable URL.
    #[error("`{0}` is not an address of a server: write it as https://host or http://127.0.0.1:8080")]
    InvalidServer(String),
    /// The token would cross the network in plain text.
    #[error("refusing to send a token over plain HTTP to `{0}`: use https")]
    PlainText(String),
    /// The token contains characters that no token has.
    #[error("the token is malformed")]
    MalformedToken,
    /// The client could not be made.
    #[error("cannot set up HTTP")]
    Setup(#[source] reqwest::Error),
    /// The server refused, and said why.
    #[error("{}", .0.detail)]
    Problem(Problem),
    /// The server could not be reached, or stopped in the middle.
    #[error("cannot reach {server}")]
    Transport {
        /// The server's address.
        server: String,
        /// What happened.
        #[source]
        source: reqwest::Error,
    },
    /// The answer is not what this client understands.
    #[error("{server} answered {status} with an answer that is not in this API's format")]
    UnexpectedAnswer {
        /// The server's address.
        server: String,
        /// The HTTP status.
        status: u16,
    },
}

/// Which runs to list.
#[derive(Clone, Debug, Default)]
pub struct RunFilter {
    /// Only runs of this namespace; without it, of all that the caller may see.
    pub namespace: Option<String>,
    /// Only runs that are charged to this queue.
    pub queue: Option<String>,
    /// Only runs in this phase.
    pub phase: Option<RunPhase>,
    /// Also runs that were removed from the cluster after they ended.
    pub archived: bool,
    /// The most runs on the page, at most 500.
    pub limit: Option<u16>,
    /// The `continue` of the page before.
    pub continue_token: Option<String>,
}

/// Which lines of a run's logs.
#[derive(Clone, Debug, Default)]
pub struct LogFilter {
    /// Only of this attempt.
    pub attempt: Option<u32>,
    /// Only of this member.
    pub member: Option<u32>,
    /// Only what was printed after this, RFC 3339.
    pub since: Option<String>,
    /// The most lines of each member, from the end, at most 10,000.
    pub tail: Option<u16>,
}

/// A client of one server. Clones share connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    server: Url,
    token: String,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.server.as_str()).finish_non_exhaustive()
    }
}

impl Client {
    /// A client that calls `server` with `token`.
    pub fn new(server: &str, token: &str) -> Result<Self, Error> {
        let server = check_server(server)?;
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::MalformedToken);
        }
        let http = reqwest::Client::builder()
            .timeout(REQUEST_TIME_MAX)
            .connect_timeout(CONNECT_TIME_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("warpyard/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(Error::Setup)?;
        Ok(Self { http, server, token: token.to_owned() })
    }

    /// The server's address.
    pub fn server(&self) -> &str {
        self.server.as_str().trim_end_matches('/')
    }

    /// `whoAmI`
    pub async fn who_am_i(&self) -> Result<WhoAmI, Error> {
        self.call(self.request(Method::GET, &["v1", "whoami"])).await
    }

    /// `getOpenApi`
    pub async fn openapi(&self) -> Result<serde_json::Value, Error> {
        self.call(self.request(Method::GET, &["v1", "openapi.json"])).await
    }

    /// `listRuns`
    pub async fn list_runs(&self, filter: &RunFilter) -> Result<Page<RunSummary>, Error> {
        let RunFilter { namespace, queue, phase, archived, limit, continue_token } = filter;
        let query = [
            ("namespace", namespace.clone()),
            ("queue", queue.clone()),
            ("phase", phase.map(|phase| phase.as_str().to_owned())),
            ("archived", archived.then(|| "true".to_owned())),
            ("limit", limit.map(|limit| limit.to_string())),
            ("continue", continue_token.clone()),
        ];
        self.call(with_query(self.request(Method::GET, &["v1", "runs"]), query)).await
    }

    /// `submitRun`
    pub async fn submit_run(
        &self,
        namespace: &str,
        job_file: &JobFile,
        dry_run: bool,
    ) -> Result<RunView, Error> {
        let request = self.request(Method::POST, &["v1", "namespaces", namespace, "runs"]);
        let query = [("dryRun", dry_run.then(|| "true".to_owned()))];
        self.call(with_query(request, query).json(job_file)).await
    }

    /// `getRun`
    pub async fn get_run(&self, namespace: &str, name: &str) -> Result<RunView, Error> {
        self.call(self.request(Method::GET, &["v1", "namespaces", namespace, "runs", name])).await
    }

    /// `listMembers`
    pub async fn list_members(
        &self,
        namespace: &str,
        name: &str,
        limit: Option<u16>,
        continue_token: Option<&str>,
    ) -> Result<Page<MemberView>, Error> {
        let request = self.request(Method::GET, &["v1", "namespaces", namespace, "runs", name, "members"]);
        self.call(with_query(request, page_query(limit, continue_token))).await
    }

    /// `listNodes`
    pub async fn list_nodes(
        &self,
        limit: Option<u16>,
        continue_token: Option<&str>,
    ) -> Result<Page<NodeView>, Error> {
        let request = self.request(Method::GET, &["v1", "nodes"]);
        self.call(with_query(request, page_query(limit, continue_token))).await
    }

    /// `explainRun`
    pub async fn explain_run(&self, namespace: &str, name: &str) -> Result<Why, Error> {
        self.call(self.request(Method::GET, &["v1", "namespaces", namespace, "runs", name, "why"])).await
    }

    /// `stopRun`
    pub async fn stop_run(&self, namespace: &str, name: &str) -> Result<RunView, Error> {
        self.call(self.request(Method::POST, &["v1", "namespaces", namespace, "runs", name, "stop"])).await
    }

    /// `pauseRun`
    pub async fn pause_run(&self, namespace: &str, name: &str) -> Result<RunView, Error> {
        self.call(self.request(Method::POST, &["v1", "namespaces", namespace, "runs", name, "pause"])).await
    }

    /// `resumeRun`; with a step, begins another attempt from there.
    pub async fn resume_run(&self, namespace: &str, name: &str, from: Option<i64>) -> Result<RunView, Error> {
        let request = self.request(Method::POST, &["v1", "namespaces", namespace, "runs", name, "resume"]);
        self.call(with_query(request, [("from", from.map(|step| step.to_string()))])).await
    }

    /// `retryRun`
    pub async fn retry_run(&self, namespace: &str, name: &str) -> Result<RunView, Error> {
        self.call(self.request(Method::POST, &["v1", "namespaces", namespace, "runs", name, "retry"])).await
    }

    /// `readLogs`
    pub async fn read_logs(&self, namespace: &str, name: &str, filter: &LogFilter) -> Result<RunLogs, Error> {
        let LogFilter { attempt, member, since, tail } = filter;
        let query = [
            ("attempt", attempt.map(|attempt| attempt.to_string())),
            ("member", member.map(|member| member.to_string())),
            ("since", since.clone()),
            ("tail", tail.map(|tail| tail.to_string())),
        ];
        let request = self.request(Method::GET, &["v1", "namespaces", namespace, "runs", name, "logs"]);
        self.call(with_query(request, query)).await
    }

    /// `listQueues`
    pub async fn list_queues(
        &self,
        limit: Option<u16>,
        continue_token: Option<&str>,
    ) -> Result<Page<QueueView>, Error> {
        let request = self.request(Method::GET, &["v1", "queues"]);
        self.call(with_query(request, page_query(limit, continue_token))).await
    }

    /// `getQueue`
    pub async fn get_queue(&self, name: &str) -> Result<QueueView, Error> {
        self.call(self.request(Method::GET, &["v1", "queues", name])).await
    }

    /// `getBoard`
    pub async fn board(&self, limit: u16) -> Result<Board, Error> {
        let request = self.request(Method::GET, &["v1", "board"]);
        self.call(with_query(request, [("limit", Some(limit.to_string()))])).await
    }

    /// `getCapacity`
    pub async fn capacity(&self, limit: u16) -> Result<CapacityView, Error> {
        let request = self.request(Method::GET, &["v1", "capacity"]);
        self.call(with_query(request, [("limit", Some(limit.to_string()))])).await
    }

    /// `getSnapshot`: the state that the scheduler's last plan was made from, as JSON.
    pub async fn snapshot(&self) -> Result<Vec<u8>, Error> {
        let request = self.request(Method::GET, &["v1", "snapshot"]).timeout(SNAPSHOT_TIME_MAX);
        Ok(self.answer_within(request, SNAPSHOT_BYTES_MAX).await?.2)
    }

    pub(crate) fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.server.clone();
        url.path_segments_mut().expect("checked: the server has a host").pop_if_empty().extend(path);
        self.http.request(method, url).bearer_auth(&self.token)
    }

    pub(crate) async fn call<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        let (status, _, body) = self.answer(request).await?;
        serde_json::from_slice(&body).map_err(|_| self.unexpected(status))
    }

    /// The content of a successful answer.
    pub(crate) async fn answer(
        &self,
        request: RequestBuilder,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), Error> {
        self.answer_within(request, ANSWER_BYTES_MAX).await
    }

    async fn answer_within(
        &self,
        request: RequestBuilder,
        bytes_max: usize,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), Error> {
        let response = request.send().await.map_err(|source| self.transport(source))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = self.body(response, bytes_max).await?.ok_or_else(|| self.unexpected(status))?;
        if status.is_success() {
            return Ok((status, headers, body));
        }
        Err(serde_json::from_slice(&body).map_or_else(|_| self.unexpected(status), Error::Problem))
    }

    /// The body, or `None` if it is longer than any answer.
    async fn body(&self, mut response: Response, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|source| self.transport(source))? {
            if body.len() + chunk.len() > bytes_max {
                return Ok(None);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Some(body))
    }

    pub(crate) fn unexpected(&self, status: StatusCode) -> Error {
        Error::UnexpectedAnswer { server: self.server().to_owned(), status: status.as_u16() }
    }

    fn transport(&self, source: reqwest::Error) -> Error {
        Error::Transport { server: self.server().to_owned(), source: source.without_url() }
    }
}

fn page_query(limit: Option<u16>, continue_token: Option<&str>) -> [(&'static str, Option<String>); 2] {
    [("limit", limit.map(|limit| limit.to_string())), ("continue", continue_token.map(str::to_owned))]
}

pub(crate) fn with_query<const N: usize>(
    request: RequestBuilder,
    query: [(&str, Option<String>); N],
) -> RequestBuilder {
    let given: Vec<(&str, String)> =
        query.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect();
    if given.is_empty() { request } else { request.query(&given) }
}

/// The address, if a token may be sent there: over TLS, or on loopback.
fn check_server(server: &str) -> Result<Url, Error> {
    let invalid = || Error::InvalidServer(server.to_owned());
    let url = Url::parse(server.trim()).map_err(|_| invalid())?;
    let host = url.host_str().ok_or_else(invalid)?;
    if url.query().is_some()
        || url.fragment().is_some()
        || !url.username().is_empty()
        || url.password().is_some()
    {
        return Err(invalid());
    }
    let is_loopback = host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback => Ok(url),
        "http" => Err(Error::PlainText(server.to_owned())),
        _ => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Client, Error, check_server};

    #[test]
    fn a_token_goes_by_tls_or_stays_on_the_machine() {
        for server in
            ["https://gpu.example.com", "http://127.0.0.1:8080", "http://[::1]:80/", "http://localhost:1"]
        {
            assert!(check_server(server).is_ok(), "{server}");
        }
        for server in ["http://gpu.example.com", "http://10.0.0.1:8080", "http://127.0.0.1.example.com"] {
            assert!(matches!(check_server(server), Err(Error::PlainText(_))), "{server}");
        }
        for server in ["", "gpu.example.com", "ftp://a", "https://u:p@a", "https://a/?x", "file:///etc"] {
            assert!(matches!(check_server(server), Err(Error::InvalidServer(_))), "{server}");
        }
    }

    #[test]
    fn paths_are_joined_behind_the_servers_own_and_escaped() {
        let client = Client::new("https://example.com/warpyard/", "t").expect("valid");
        let request =
            client.request(reqwest::Method::GET, &["v1", "queues", "a/../b"]).build().expect("builds");
        assert_eq!(request.url().as_str(), "https://example.com/warpyard/v1/queues/a%2F..%2Fb");
    }

    #[test]
    fn a_token_is_neither_printed_nor_taken_when_malformed() {
        let client = Client::new("https://example.com", " secret\n").expect("valid");
        assert!(!format!("{client:?}").contains("secret"));
        for token in ["", " ", "a b", "a\u{0}b", "é"] {
            assert!(
                matches!(Client::new("https://example.com", token), Err(Error::MalformedToken)),
                "{token:?}"
            );
        }
    }
}
