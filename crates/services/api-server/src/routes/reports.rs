//! Reports of members; see [`crate::reports`].

use std::sync::Arc;

use api_types::report::Report;
use api_types::rest::Problem;
use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Path, State};
use http::StatusCode;
use jiff::Timestamp;

use super::runs::RunPath;
use crate::http::problem::{ApiError, LoginProblems};
use crate::reports::check::check;
use crate::reports::reporter::Reporter;
use crate::server::Server;

/// A member reports progress and checkpoints, with its pod's token for reports.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/runs/{name}/reports",
    operation_id = "reportProgress",
    tag = "runs",
    params(RunPath),
    request_body(content = Report, description = "At most 16 KiB."),
    responses(
        (status = 202, description = "Recorded. Reports may come late, twice and out of order."),
        (status = 400, description = "The name is not valid, or the body is not JSON.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "The body is not application/json.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The report is not possible.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many reports of the run at one time.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    ),
    security(("member" = []))
)]
pub async fn report(
    State(server): State<Arc<Server>>,
    reporter: Reporter,
    path: Result<Path<RunPath>, PathRejection>,
    body: Result<Json<Report>, JsonRejection>,
) -> Result<StatusCode, ApiError> {
    let RunPath { namespace, name } = path?.0;
    let (namespace, name) = (namespace.as_str(), name.as_str());
    let attempt = reporter.attempt_of(server.cache()?, namespace, name)?;
    let told = check(body?.0, name, attempt, Timestamp::now()).map_err(|wrong| {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "InvalidReport", wrong.to_string())
    })?;
    server.reports().writer.write(namespace, name, told).await?;
    Ok(StatusCode::ACCEPTED)
}
