//! Health: routes without a login that reveal only whether the server works.

use std::sync::Arc;

use axum::extract::State;

use crate::http::problem::ApiError;
use crate::server::Server;

/// Whether the process is alive.
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "getHealth",
    tag = "health",
    security(()),
    responses((status = 200, description = "It is.", body = String, content_type = "text/plain"))
)]
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the server knows all runs and queues, so that its answers are complete.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "getReadiness",
    tag = "health",
    security(()),
    responses(
        (status = 200, description = "It does.", body = String, content_type = "text/plain"),
        (status = 503, description = "Not yet.", body = api_types::rest::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn readyz(State(server): State<Arc<Server>>) -> Result<&'static str, ApiError> {
    server.cache().map(|_| "ok\n")
}
