//! The router, its bounds, and what handlers share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use kube::Client;
use tokio::sync::{Semaphore, SemaphorePermit};
use tower_http::compression::CompressionLayer;
use tracing::debug;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::authentication::{self, Authenticator};
use crate::access::authorization::Authorizer;
use crate::cache::cluster_cache::ClusterCache;
use crate::cost::ledger::{self, Ledger};
use crate::events::Events;
use crate::http::problem::ApiError;
use crate::http::request_body;
use crate::http::security_headers;
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::openapi;
use crate::portal;
use crate::reports::{REPORT_BYTES_MAX, Reports, reporter};
use crate::routes as operations;
use crate::session::store::Sessions;

/// The largest body: a job file with a long script, environment and annotations.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// The largest body of a login: a token of 16 KiB, and JSON around it.
const LOGIN_BYTES_MAX: usize = 20 * 1024;
/// The longest a request may take, waiting included.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// Requests at one time; more are turned away at once. 512 × 256 KiB of body = 128 MiB at most.
const REQUESTS_AT_ONCE: usize = 512;
/// Answers with logs at one time: 8 × 4 MiB; as JSON, with very short lines, five times that: 160 MiB at most.
const LOGS_AT_ONCE: usize = 8;

/// What handlers share.
pub struct Server {
    client: Client,
    cache: Arc<ClusterCache>,
    authenticator: Authenticator,
    authorizer: Authorizer,
    events: Events,
    default_image: String,
    openapi_document: Bytes,
    requests: Semaphore,
    logs: Semaphore,
    metrics: Metrics,
    sessions: Sessions,
    behind_tls: bool,
    ledger: Option<Ledger>,
    leader: Leader,
    reports: Reports,
}

impl Server {
    /// A server that talks to Kubernetes with `client` and reads from `cache`, which somebody else keeps current.
    pub fn new(client: Client, cache: Arc<ClusterCache>, default_image: String, metrics: Metrics) -> Self {
        Self {
            authenticator: Authenticator::new(client.clone()),
            authorizer: Authorizer::new(client.clone()),
            events: Events::default(),
            leader: Leader::new(client.clone()),
            reports: Reports::new(client.clone(), Arc::clone(&cache)),
            client,
            cache,
            default_image,
            openapi_document: openapi::openapi_json().into(),
            requests: Semaphore::new(REQUESTS_AT_ONCE),
            logs: Semaphore::new(LOGS_AT_ONCE),
            metrics,
            sessions: Sessions::default(),
            behind_tls: false,
            ledger: None,
        }
    }

    /// Says that browsers come by TLS, and should never come by anything else.
    #[must_use]
    pub fn behind_tls(mut self, behind_tls: bool) -> Self {
        self.behind_tls = behind_tls;
        self
    }

    /// The portal's sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The server's numbers.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The same server, with a ledger to read from if there is one.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Option<Ledger>) -> Self {
        self.ledger = ledger;
        self
    }

    /// The ledger, if one was configured.
    pub fn ledger(&self) -> Result<&Ledger, ApiError> {
        self.ledger.as_ref().ok_or_else(ledger::not_configured)
    }

    /// The scheduler's leader.
    pub fn leader(&self) -> &Leader {
        &self.leader
    }

    /// What members report.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// Finds out who calls.
    pub fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// Finds out what callers may do.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
    }

    /// The streams of what changes.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Room for one more answer with logs, for as long as it is kept.
    pub fn try_read_logs(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        let busy = |_| ApiError::unavailable("Busy", "too many logs are read at one time");
        self.logs.try_acquire().map_err(busy)
    }

    /// The client for writes, which are made as the caller.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The image of job files that name none.
    pub fn default_image(&self) -> &str {
        &self.default_image
    }

    /// The API's description.
    pub fn openapi_document(&self) -> Bytes {
        self.openapi_document.clone()
    }

    /// The cache, once it is complete: half a list would look like a whole one.
    pub fn cache(&self) -> Result<&ClusterCache, ApiError> {
        if self.cache.is_complete() {
            Ok(&self.cache)
        } else {
            Err(ApiError::unavailable("NotReady", "the server is starting and does not know all runs yet"))
        }
    }
}

/// Everything that is served. What is neither health, nor the portal's files, nor its login is behind the login,
/// also what does not exist.
///
/// ```text
///   security headers ─► compression ─┬─► health
///                                    └─► portal's files ─┬─► bounds ─► login and logout
///                                                        ├─► bounds ─► which pod? ─► body ─► a member's report
///                                                        └─► bounds ─► who calls? ─► body ─► the API
/// ```
pub fn router(server: Arc<Server>) -> Router {
    let (health, _) = public_routes().split_for_parts();
    let (session, _) = session_routes().split_for_parts();
    let (reports, _) = report_routes().split_for_parts();
    let (protected, _) = protected_routes().split_for_parts();
    let session = session
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn(|request, next| request_body::read_within(LOGIN_BYTES_MAX, request, next)));
    let reports = reports
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn(|request, next| request_body::read_within(REPORT_BYTES_MAX, request, next)))
        .layer(from_fn_with_state(Arc::clone(&server), reporter::require_pod))
        .layer(from_fn(bound_time))
        .layer(from_fn_with_state(Arc::clone(&server), bound_reports))
        .layer(from_fn_with_state(Arc::clone(&server), observe));
    let protected = protected
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(|request, next| request_body::read_within(BODY_BYTES_MAX, request, next)))
        .layer(from_fn_with_state(Arc::clone(&server), authentication::require_login));
    let protected = bounded(protected, &server).with_state(Arc::clone(&server));
    let behind_portal = bounded(session, &server)
        .merge(reports)
        .fallback_service(protected)
        .layer(from_fn_with_state(Arc::clone(&server), portal::serve));
    let behind_tls = server.behind_tls;
    health
        .fallback_service(behind_portal.with_state(Arc::clone(&server)))
        // Not for streams of events, nor for what is tiny or compressed already.
        .layer(CompressionLayer::new())
        .layer(from_fn(move |request, next| security_headers::add(behind_tls, request, next)))
        .with_state(server)
}

/// Every request has a bound in time, all together have one in number, and each is counted.
fn bounded(router: Router<Arc<Server>>, server: &Arc<Server>) -> Router<Arc<Server>> {
    router
        .layer(from_fn(bound_time))
        .layer(from_fn_with_state(Arc::clone(server), bound_requests))
        .layer(from_fn_with_state(Arc::clone(server), observe))
}

/// How the portal logs in and out. They need no login, and check by themselves that a page of ours calls.
pub(crate) fn session_routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(operations::session::log_in, operations::session::log_out))
}

/// Health: it needs no login.
pub(crate) fn public_routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(operations::health::healthz))
        .routes(routes!(operations::health::readyz))
}

/// What members of runs report: they need no login but a token of their pod.
pub(crate) fn report_routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(operations::reports::report))
}

/// All other routes.
pub(crate) fn protected_routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(operations::identity::openapi_document))
        .routes(routes!(operations::identity::whoami))
        .routes(routes!(operations::runs::list))
        .routes(routes!(operations::runs::submit))
        .routes(routes!(operations::runs::get))
        .routes(routes!(operations::runs::why))
        .routes(routes!(operations::asks::stop))
        .routes(routes!(operations::asks::pause))
        .routes(routes!(operations::asks::resume))
        .routes(routes!(operations::asks::retry))
        .routes(routes!(operations::members::list))
        .routes(routes!(operations::logs::read))
        .routes(routes!(operations::queues::list))
        .routes(routes!(operations::queues::get))
        .routes(routes!(operations::board::get))
        .routes(routes!(operations::nodes::list))
        .routes(routes!(operations::capacity::get))
        .routes(routes!(operations::snapshot::get))
        .routes(routes!(operations::events::stream))
        .routes(routes!(operations::cost::of_run))
        .routes(routes!(operations::cost::report))
}

async fn no_such_route() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "NoSuchRoute", "there is nothing at this path")
        .hint("see /v1/openapi.json for what there is")
}

async fn no_such_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "NoSuchMethod", "this path does not know this method")
        .hint("see /v1/openapi.json for what there is")
}

async fn bound_requests(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let Ok(_permit) = server.requests.try_acquire() else {
        return ApiError::unavailable("Busy", "too many requests at one time").into_response();
    };
    next.run(request).await
}

async fn bound_reports(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let Ok(_permit) = server.reports.requests.try_acquire() else {
        return ApiError::unavailable("Busy", "too many reports at one time").into_response();
    };
    next.run(request).await
}

async fn bound_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_TIME_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::unavailable("Timeout", "the request took too long").into_response(),
    }
}

async fn observe(
    State(server): State<Arc<Server>>,
    route: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let started = Instant::now();
    let response = next.run(request).await;
    // The route's pattern and not the path: it is one of a few.
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let status = response.status().as_u16();
    server.metrics.answered(&method, route, status, started.elapsed());
    debug!(%method, route, status, seconds = started.elapsed().as_secs_f64(), "Answered.");
    response
}
