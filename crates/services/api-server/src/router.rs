//! The router, and its bounds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use http::StatusCode;
use tower_http::compression::CompressionLayer;
use tracing::debug;

use crate::access::require_login::require_login;
use crate::http::problem::ApiError;
use crate::http::{request_body, security_headers};
use crate::openapi;
use crate::portal;
use crate::reports::{REPORT_BYTES_MAX, reporter};
use crate::route_table::{protected_routes, public_routes, report_routes, session_routes};
use crate::routes::identity::OpenApiDocument;
use crate::server::Server;

/// The largest body: a job file with a long script, environment and annotations.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// The largest body of a login: a token of 16 KiB, and JSON around it.
const LOGIN_BYTES_MAX: usize = 20 * 1024;

/// The longest a request may take, waiting included.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// The router of all routes. Every path except health, the portal's files and its login is behind the login,
/// even unknown paths.
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
        .layer(from_fn_with_state(Arc::clone(&server), require_login));
    let document = OpenApiDocument(Bytes::from(openapi::openapi_json()));
    let protected = protected.layer(Extension(document));
    let protected = bounded(protected, &server).with_state(Arc::clone(&server));
    let behind_portal = bounded(session, &server)
        .merge(reports)
        .fallback_service(protected)
        .layer(from_fn_with_state(Arc::clone(&server), portal::serve));
    let behind_tls = server.is_behind_tls();
    health
        .fallback_service(behind_portal.with_state(Arc::clone(&server)))
        // Streams of events, tiny answers and compressed files are not compressed.
        .layer(CompressionLayer::new())
        .layer(from_fn(move |request, next| security_headers::add(behind_tls, request, next)))
        .with_state(server)
}

/// Bounds the time of each request and the number of all, and counts them.
fn bounded(router: Router<Arc<Server>>, server: &Arc<Server>) -> Router<Arc<Server>> {
    router
        .layer(from_fn(bound_time))
        .layer(from_fn_with_state(Arc::clone(server), bound_requests))
        .layer(from_fn_with_state(Arc::clone(server), observe))
}

async fn no_such_route() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "NoSuchRoute", "there is nothing at this path")
        .hint("see /v1/openapi.json for all paths")
}

async fn no_such_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "NoSuchMethod", "this path does not support this method")
        .hint("see /v1/openapi.json for all paths")
}

async fn bound_requests(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let Ok(_permit) = server.try_serve() else {
        return ApiError::unavailable("Busy", "too many requests at one time").into_response();
    };
    next.run(request).await
}

async fn bound_reports(State(server): State<Arc<Server>>, request: Request, next: Next) -> Response {
    let Ok(_permit) = server.reports().requests.try_acquire() else {
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
    server.metrics().answered(&method, route, status, started.elapsed());
    debug!(%method, route, status, seconds = started.elapsed().as_secs_f64(), "Answered.");
    response
}
