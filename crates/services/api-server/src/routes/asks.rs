//! Requests to change a run: stop, pause, resume, retry. Each is a change of its spec, written as the caller.

use std::sync::Arc;

use api_types::Run;
use api_types::rest::{Problem, RunView};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::runs::{READ_YOUR_WRITES_BOUND, RunPath, readable};
use crate::access::authentication::Caller;
use crate::access::authorization::Access;
use crate::access::identity::Identity;
use crate::http::problem::{ApiError, LoginProblems};
use crate::intent::{Intent, Step};
use crate::server::Server;
use crate::{views, writes};

/// Tries if the run changes meanwhile. A report of progress in between is likely once, but hardly three times.
const TRIES: u32 = 3;

/// Where to go on from.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ResumeQuery {
    /// The step to begin from; 0 is the beginning. A run that goes on saves, and begins again from there.
    #[serde(default)]
    #[param(value_type = Option<i64>, minimum = 0, maximum = 9_007_199_254_740_991_i64)]
    from: Option<Step>,
}

/// Stops a run; its record stays. It is no error if the run is stopped or over already.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/runs/{name}/stop",
    operation_id = "stopRun",
    tag = "runs",
    params(RunPath),
    responses(
        (status = 200, description = "The run, which will stop.", body = RunView),
        (status = 400, description = "The name is not valid.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn stop(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    path: Result<Path<RunPath>, PathRejection>,
) -> Result<Json<RunView>, ApiError> {
    let RunPath { namespace, name } = path?.0;
    let (namespace, name) = (namespace.as_str(), name.as_str());
    server.authorizer().require(&identity, Access::run("patch", namespace, name)).await?;
    let stopped = serde_json::json!({ "spec": { "stop": true } });
    let run = writes::patch_run(server.client(), &identity, namespace, name, &stopped).await?;
    shown(&server, &identity, &run).await
}

/// Pauses a run: its members save and leave, and it goes on when it is resumed. It is no error if the run is
/// paused already.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/runs/{name}/pause",
    operation_id = "pauseRun",
    tag = "runs",
    params(RunPath),
    responses(
        (status = 200, description = "The run, which will pause.", body = RunView),
        (status = 400, description = "The name is not valid.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The run is over.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn pause(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    path: Result<Path<RunPath>, PathRejection>,
) -> Result<Json<RunView>, ApiError> {
    ask(&server, &identity, path?.0, || Ok(Intent::Pause)).await
}

/// Resumes a paused run. With a step, begins another attempt from there, also for a run that is not paused or
/// that failed.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/runs/{name}/resume",
    operation_id = "resumeRun",
    tag = "runs",
    params(RunPath, ResumeQuery),
    responses(
        (status = 200, description = "The run, which will go on.", body = RunView),
        (status = 400, description = "The name or the step is not valid.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The run is not paused, is over for good, keeps no checkpoints, or changed meanwhile.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn resume(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    path: Result<Path<RunPath>, PathRejection>,
    query: Result<Query<ResumeQuery>, QueryRejection>,
) -> Result<Json<RunView>, ApiError> {
    ask(&server, &identity, path?.0, || Ok(Intent::Resume { from: query?.0.from })).await
}

/// Tries a failed run again, from its newest checkpoint. Other runs are refused, with a hint.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/runs/{name}/retry",
    operation_id = "retryRun",
    tag = "runs",
    params(RunPath),
    responses(
        (status = 200, description = "The run, which will begin another attempt.", body = RunView),
        (status = 400, description = "The name is not valid.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The run did not fail, or changed meanwhile.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn retry(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    path: Result<Path<RunPath>, PathRejection>,
) -> Result<Json<RunView>, ApiError> {
    ask(&server, &identity, path?.0, || Ok(Intent::Retry)).await
}

/// The query is read only after the caller's rights are checked.
async fn ask(
    server: &Server,
    identity: &Identity,
    RunPath { namespace, name }: RunPath,
    intent: impl FnOnce() -> Result<Intent, ApiError>,
) -> Result<Json<RunView>, ApiError> {
    let (namespace, name) = (namespace.as_str(), name.as_str());
    server.authorizer().require(identity, Access::run("patch", namespace, name)).await?;
    let run = written(server, identity, namespace, name, intent()?).await?;
    shown(server, identity, &run).await
}

/// Decides from the cache and writes; after a conflict it decides anew.
async fn written(
    server: &Server,
    identity: &Identity,
    namespace: &str,
    name: &str,
    intent: Intent,
) -> Result<Arc<Run>, ApiError> {
    let cache = server.cache()?;
    for _ in 0..TRIES {
        let run = cache.runs().get(namespace, name);
        let run = run.ok_or_else(|| ApiError::not_found("run", &format!("{namespace}/{name}")))?;
        let Some(patch) = intent.patch(&run)? else { return Ok(run) };
        match writes::patch_run(server.client(), identity, namespace, name, &patch).await {
            Ok(run) => return Ok(Arc::new(run)),
            Err(error) if error.0.code == "Conflict" => {
                let old = &run.metadata.resource_version;
                let is_newer = |seen: &Run| seen.metadata.resource_version != *old;
                cache.wait_for_run(namespace, name, READ_YOUR_WRITES_BOUND, is_newer).await;
            }
            Err(error) => return Err(error),
        }
    }
    Err(ApiError::new(StatusCode::CONFLICT, "Conflict", "the run changed too often meanwhile")
        .hint("try again"))
}

/// The run, once the cache shows the write, so that the next reader sees it.
async fn shown(server: &Server, identity: &Identity, run: &Run) -> Result<Json<RunView>, ApiError> {
    let cache = server.cache()?;
    let (namespace, name) = (run.metadata.namespace.as_deref(), run.metadata.name.as_deref());
    let is_there = |seen: &Run| seen.metadata.generation >= run.metadata.generation;
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    cache.wait_for_run(namespace, name, READ_YOUR_WRITES_BOUND, is_there).await;
    let readable = readable(server, identity, views::reasons(run)).await?;
    Ok(Json(views::run_view(run, &cache.queues(), &readable)))
}

#[cfg(test)]
mod tests;
