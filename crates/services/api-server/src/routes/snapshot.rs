//! The scheduler's snapshot, passed on from its leader. It names everything in the cluster, so it is for
//! administrators.

use std::sync::Arc;

use api_types::rest::Problem;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::header;

use crate::access::authentication::Caller;
use crate::access::authorization::Access;
use crate::http::problem::{ApiError, LoginProblems};
use crate::server::Server;

/// The state that the scheduler's last plan was made from, and the plan. For `warpyard simulate --snapshot`.
#[utoipa::path(
    get,
    path = "/v1/snapshot",
    operation_id = "getSnapshot",
    tag = "cluster",
    responses(
        (status = 200, description = "The snapshot, as JSON; its fields are those of this version.", body = Object),
        (status = 502, description = "The scheduler does not answer.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn get(State(server): State<Arc<Server>>, Caller(identity): Caller) -> Result<Response, ApiError> {
    server.authorizer().require(&identity, Access::snapshot()).await?;
    let answer = server.leader().snapshot().await.map_err(|error| {
        ApiError::new(http::StatusCode::BAD_GATEWAY, "SchedulerSilent", error.to_string())
            .hint("check that a scheduler runs, and read its log")
    })?;
    let chunks = stream::try_unfold(answer, |mut answer| async move {
        let chunk: Option<Bytes> = answer.chunk().await?;
        Ok::<_, reqwest::Error>(chunk.map(|chunk| (chunk, answer)))
    });
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(chunks)).into_response())
}
