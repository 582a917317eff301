//! Nodes, for callers who may `list` nodes in Kubernetes. Occupants of their GPUs are named for callers who may
//! list runs in the occupant's namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use api_types::rest::{NodeView, Page, Problem};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::LimitOf;
use crate::access::authentication::Caller;
use crate::access::authorization::Access;
use crate::access::identity::Identity;
use crate::http::page_bytes;
use crate::http::page_token;
use crate::http::problem::{ApiError, LoginProblems};
use crate::server::Server;
use crate::views::cluster;

/// Nodes on a page by default, and at most. A node that one run holds is ~200 bytes, so 250 of them are 50 KB.
type NodeLimit = LimitOf<200, 250>;

/// Which page of nodes.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct NodeListQuery {
    /// The most nodes on the page, 200 by default; a page has fewer if it would be larger than 50 KB.
    #[serde(default)]
    #[param(value_type = u16, minimum = 1, maximum = 250, required = false)]
    limit: NodeLimit,
    /// The `continue` of the page before.
    #[serde(default, rename = "continue")]
    continue_token: Option<String>,
}

/// Nodes with the occupants of their GPUs, by name. Occupants are not named in namespaces where the caller may
/// not list runs.
#[utoipa::path(
    get,
    path = "/v1/nodes",
    operation_id = "listNodes",
    tag = "nodes",
    params(NodeListQuery),
    responses(
        (status = 200, description = "One page.", body = Page<NodeView>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn list(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    query: Result<Query<NodeListQuery>, QueryRejection>,
) -> Result<Json<Page<NodeView>>, ApiError> {
    server.authorizer().require(&identity, Access::nodes("list")).await?;
    let Query(NodeListQuery { limit, continue_token }) = query?;
    let after = continue_token.as_deref().map(page_token::decode::<1>).transpose()?.map(|[name]| name);

    // One more than the page holds tells whether another page follows.
    let mut views = views(&server, after.as_deref(), limit.get() + 1)?;
    let found = views.len();
    views.truncate(limit.get());
    let namespaces = views.iter().flat_map(cluster::namespaces).collect();
    let visible = visible(&server, &identity, namespaces).await?;
    let masked = views.into_iter().map(|view| cluster::masked(view, &visible)).collect();
    let items: Vec<NodeView> = page_bytes::fitting(masked);
    let last = items.last().filter(|_| items.len() < found);
    let continue_token = last.map(|node| page_token::encode(&[&node.name]));
    Ok(Json(Page { items, continue_token }))
}

fn views(server: &Server, after: Option<&str>, most: usize) -> Result<Vec<NodeView>, ApiError> {
    let cache = server.cache()?;
    // In the cache's order of locks.
    let (queues, nodes, pods) = (cache.queues(), cache.nodes(), cache.pods());
    Ok(nodes.after(after).take(most).map(|node| cluster::node_view(node, &pods, &queues)).collect())
}

/// The namespaces in which the caller may list runs.
async fn visible(
    server: &Server,
    identity: &Identity,
    namespaces: BTreeSet<String>,
) -> Result<BTreeSet<String>, ApiError> {
    if server.authorizer().allows(identity, &Access::runs("list", None)).await? {
        return Ok(namespaces);
    }
    let namespaces = namespaces.into_iter().collect();
    Ok(server.authorizer().with_visible_runs(identity, namespaces).await?.into_iter().collect())
}
