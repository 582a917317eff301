//! Members of a run, for callers who may `get` the run.

use std::sync::Arc;

use api_types::rest::{MemberView, Page, Problem};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};

use super::PageQuery;
use super::runs::{RunPath, visible_run};
use crate::access::authentication::Caller;
use crate::http::page_bytes;
use crate::http::page_token;
use crate::http::problem::{ApiError, LoginProblems};
use crate::server::Server;
use crate::views::cluster;

/// Members of a run's newest attempt, by rank: the node and the state of each.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/runs/{name}/members",
    operation_id = "listMembers",
    tag = "runs",
    params(RunPath, PageQuery),
    responses(
        (status = 200, description = "One page.", body = Page<MemberView>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn list(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    path: Result<Path<RunPath>, PathRejection>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<Page<MemberView>>, ApiError> {
    let path = path?.0;
    let run = visible_run(&server, &identity, &path).await?;
    let Query(PageQuery { limit, continue_token }) = query?;
    let after = continue_token.as_deref().map(rank).transpose()?;

    let attempts = run.status.as_ref().map(|status| status.attempts.as_slice()).unwrap_or_default();
    let newest = attempts.iter().map(|attempt| attempt.number).max().unwrap_or(0);
    let members = server.cache()?.pods().members(path.namespace.as_str(), path.name.as_str(), newest);
    let mut rest = members.iter().filter(|pod| after.is_none_or(|after| pod.index > after));
    let page = rest.by_ref().take(limit.get()).map(|pod| cluster::member_view(pod)).collect::<Vec<_>>();
    let asked = page.len();
    let items = page_bytes::fitting(page);
    let more = items.len() < asked || rest.next().is_some();
    let last = items.last().filter(|_| more);
    let continue_token = last.map(|member| page_token::encode(&[&member.index.to_string()]));
    Ok(Json(Page { items, continue_token }))
}

fn rank(token: &str) -> Result<u32, page_token::Error> {
    let [rank] = page_token::decode(token)?;
    rank.parse().map_err(|_| page_token::Error)
}
