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
use tokio::sync::Semaphore;
use tracing::debug;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::authentication::{self, Authenticator};
use crate::authorization::Authorizer;
use crate::cluster_cache::ClusterCache;
use crate::metrics::Metrics;
use crate::problem::ApiError;
use crate::{openapi, routes as operations};

/// The largest body: a job file with a long script, environment and annotations.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// The longest a request may take, waiting included.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// Requests at one time; more are turned away at once. 512 × 256 KiB of body = 128 MiB at most.
const REQUESTS_AT_ONCE: usize = 512;

/// What handlers share.
pub struct Server {
    client: Client,
    cache: Arc<ClusterCache>,
    authenticator: Authenticator,
    authorizer: Authorizer,
    default_image: String,
    openapi_document: Bytes,
    requests: Semaphore,
    metrics: Metrics,
}

impl Server {
    /// A server that talks to Kubernetes with `client` and reads from `cache`, which somebody else keeps current.
    pub fn new(client: Client, cache: Arc<ClusterCache>, default_image: String, metrics: Metrics) -> Self {
        Self {
            authenticator: Authenticator::new(client.clone()),
            authorizer: Authorizer::new(client.clone()),
            client,
            cache,
            default_image,
            openapi_document: openapi::openapi_json().into(),
            requests: Semaphore::new(REQUESTS_AT_ONCE),
            metrics,
        }
    }

    /// Finds out who calls.
    pub fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// Finds out what callers may do.
    pub fn authorizer(&self) -> &Authorizer {
        &self.authorizer
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

/// Everything that is served. What is not health is behind the login, also what does not exist.
pub fn router(server: Arc<Server>) -> Router {
    let (public, _) = public_routes().split_for_parts();
    let (protected, _) = protected_routes().split_for_parts();
    let protected = protected
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&server), authentication::require_login))
        .layer(from_fn(bound_time))
        .layer(from_fn_with_state(Arc::clone(&server), bound_requests))
        .layer(from_fn_with_state(Arc::clone(&server), observe));
    public.fallback_service(protected.with_state(Arc::clone(&server))).with_state(server)
}

/// Routes that need no login: health, and nothing else ever.
pub(crate) fn public_routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(operations::health::healthz))
        .routes(routes!(operations::health::readyz))
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
        .routes(routes!(operations::runs::stop))
        .routes(routes!(operations::queues::list))
        .routes(routes!(operations::queues::get))
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
