//! The caller's identity, and the API's description.

use api_types::rest::WhoAmI;
use axum::body::Bytes;
use axum::{Extension, Json};
use http::header;

use crate::access::authentication::Caller;
use crate::http::problem::LoginProblems;

/// The API's description, as JSON.
#[derive(Clone, Debug)]
pub struct OpenApiDocument(pub Bytes);

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
    Extension(OpenApiDocument(document)): Extension<OpenApiDocument>,
) -> ([(header::HeaderName, &'static str); 1], Bytes) {
    ([(header::CONTENT_TYPE, "application/json")], document)
}
