//! Who the caller is, and what the API can do.

use std::sync::Arc;

use api_types::rest::WhoAmI;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use http::header;

use crate::access::authentication::Caller;
use crate::http::problem::LoginProblems;
use crate::server::Server;

/// Who the platform thinks you are.
#[utoipa::path(
    get,
    path = "/v1/whoami",
    operation_id = "whoAmI",
    tag = "identity",
    responses((status = 200, description = "You.", body = WhoAmI), LoginProblems)
)]
pub async fn whoami(Caller(identity): Caller) -> Json<WhoAmI> {
    Json(WhoAmI { username: identity.username().to_owned(), groups: identity.groups().to_vec() })
}

/// This API as an OpenAPI 3.1 document.
#[utoipa::path(
    get,
    path = "/v1/openapi.json",
    operation_id = "getOpenApi",
    tag = "identity",
    responses((status = 200, description = "The document.", body = serde_json::Value), LoginProblems)
)]
pub async fn openapi_document(
    State(server): State<Arc<Server>>,
) -> ([(header::HeaderName, &'static str); 1], Bytes) {
    ([(header::CONTENT_TYPE, "application/json")], server.openapi_document())
}
