//! Queues, for callers who may `get` the Queue.

use std::sync::Arc;

use api_types::rest::{Page, Problem, QueueView};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};

use super::PageQuery;
use crate::access::authentication::Caller;
use crate::access::authorization::Access;
use crate::http::page_bytes;
use crate::http::page_token;
use crate::http::problem::{ApiError, LoginProblems};
use crate::names::ObjectName;
use crate::server::Server;
use crate::views;

/// Every queue that the caller may see, by name.
#[utoipa::path(
    get,
    path = "/v1/queues",
    operation_id = "listQueues",
    tag = "queues",
    params(PageQuery),
    responses(
        (status = 200, description = "One page.", body = Page<QueueView>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn list(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<Page<QueueView>>, ApiError> {
    let Query(PageQuery { limit, continue_token }) = query?;
    let after = continue_token.as_deref().map(page_token::decode::<1>).transpose()?.map(|[name]| name);
    let queues = server.cache()?.queues().after(after.as_deref());
    // One more than the page holds tells whether another page follows.
    let enough = limit.get() + 1;
    let mut queues = if server.authorizer().allows(&identity, &Access::queue("get", None)).await? {
        queues.into_iter().take(enough).collect()
    } else {
        let access = |queue: &Arc<api_types::Queue>| Access::queue("get", queue.metadata.name.as_deref());
        server.authorizer().visible(&identity, queues, enough, access).await?
    };
    let found = queues.len();
    queues.truncate(limit.get());
    let items = page_bytes::fitting(queues.iter().map(|queue| views::queue_view(queue)).collect());
    let last = items.last().filter(|_| items.len() < found);
    let continue_token = last.map(|queue| page_token::encode(&[&queue.name]));
    Ok(Json(Page { items, continue_token }))
}

/// One queue.
#[utoipa::path(
    get,
    path = "/v1/queues/{name}",
    operation_id = "getQueue",
    tag = "queues",
    params(("name" = String, Path, description = "The queue.", max_length = 253)),
    responses(
        (status = 200, description = "The queue.", body = QueueView),
        (status = 400, description = "The name is not valid.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such queue.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn get(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    path: Result<Path<ObjectName>, PathRejection>,
) -> Result<Json<QueueView>, ApiError> {
    let Path(name) = path?;
    server.authorizer().require(&identity, Access::queue("get", Some(name.as_str()))).await?;
    let queue = server.cache()?.queues().get(name.as_str());
    let queue = queue.ok_or_else(|| ApiError::not_found("queue", name.as_str()))?;
    Ok(Json(views::queue_view(&queue)))
}
