//! The stream of changes, as server-sent events.

use std::sync::Arc;

use api_types::rest::{NodeView, ObjectName as Name, Problem, QueueView, RunName, RunSummary};
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::access::authentication::Caller;
use crate::access::authorization::Access;
use crate::events::changes::RunKey;
use crate::events::filter::{Filter, Runs, Topics};
use crate::events::stream::open;
use crate::http::problem::{ApiError, LoginProblems};
use crate::names::{NamespaceName, ObjectName};
use crate::server::Server;

/// Tells nginx and similar proxies to pass on every line at once.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The filter of the stream.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Some of `runs`, `queues` and `nodes`, separated by commas; the default is all. What the caller may not
    /// see is left out.
    #[serde(default)]
    #[param(max_length = 32)]
    topics: Option<String>,
    /// Only runs of this namespace. Without it, runs of every namespace in which the caller may list them.
    #[serde(default)]
    #[param(value_type = Option<String>, max_length = 63)]
    namespace: Option<NamespaceName>,
    /// Only this run of the namespace, with changes of its members.
    #[serde(default)]
    #[param(value_type = Option<String>, max_length = 253)]
    run: Option<ObjectName>,
}

/// The `data` of an event; its `event` says which.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum EventData {
    /// `run`: a run is new or different.
    Run(RunSummary),
    /// `run-gone`: a run is gone.
    RunGone(RunName),
    /// `queue`: a queue is new or different.
    Queue(QueueView),
    /// `node`: a node is new or different, or the occupants of its GPUs are.
    Node(NodeView),
    /// `queue-gone`, `node-gone`: it is gone.
    Gone(Name),
    /// `hello`: from here on nothing is missed, so fetch lists now. `reload`: something was missed, fetch lists anew.
    Empty {},
}

/// Changes as they happen: server-sent events.
///
/// The first event is `hello`. Then come `run`, `run-gone`, `queue`, `queue-gone`, `node`, `node-gone`, and `reload`
/// when something was missed. Changes of one object within a quarter of a second are one event. The stream ends
/// after at most 15 minutes; then connect again, and fetch lists after the `hello`.
#[utoipa::path(
    get,
    path = "/v1/events",
    operation_id = "streamEvents",
    tag = "events",
    params(EventQuery),
    responses(
        (status = 200, description = "The stream.", body = EventData, content_type = "text/event-stream"),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "The caller has too many streams open.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn stream(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    query: Result<Query<EventQuery>, QueryRejection>,
) -> Result<Response<Body>, ApiError> {
    let Query(EventQuery { topics, namespace, run }) = query?;
    let topics = topics.as_deref().map_or(Ok(Topics::ALL), Topics::parse);
    let topics = topics.map_err(|error| ApiError::bad_request("InvalidQuery", error.to_string()))?;
    let (runs, access) = match (namespace, run) {
        (None, None) => (Runs::Visible, None),
        (Some(namespace), None) => {
            let access = Access::runs("list", Some(namespace.as_str()));
            (Runs::OfNamespace(namespace.as_str().to_owned()), Some(access))
        }
        (Some(namespace), Some(run)) => {
            let access = Access::run("get", namespace.as_str(), run.as_str());
            (Runs::One(RunKey::new(namespace.as_str(), run.as_str())), Some(access))
        }
        (None, Some(_)) => {
            return Err(ApiError::bad_request("InvalidQuery", "a run is named together with its namespace")
                .hint("add `namespace=` to the query"));
        }
    };
    // A caller needs the right to what they name; what they do not name is filtered by their rights.
    if let Some(access) = access {
        server.authorizer().require(&identity, access).await?;
    }
    server.cache()?;
    let slot = server.events().slots().take(identity.username())?;
    let body = open(Arc::clone(&server), identity, Filter { topics, runs }, slot);
    Ok(Response::builder()
        .header(CONTENT_TYPE, "text/event-stream")
        .header(CACHE_CONTROL, "no-store")
        .header(X_ACCEL_BUFFERING, "no")
        .body(body)
        .expect("constant headers are valid"))
}
