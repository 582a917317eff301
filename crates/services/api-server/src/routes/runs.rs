//! Runs: read from the cache within the caller's rights, written as the caller.

use std::sync::Arc;
use std::time::Duration;

use api_types::outlook::RunOutlook;
use api_types::rest::{Page, Problem, RunSummary, RunView, Why};
use api_types::run::Reason;
use api_types::{JobFile, Run, RunPhase};
use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use http::StatusCode;
use serde::Deserialize;
use store::ArchiveQuery;
use utoipa::IntoParams;

use super::Limit;
use crate::access::authentication::Caller;
use crate::access::authorization::Access;
use crate::access::identity::Identity;
use crate::archive::{self, Listed};
use crate::cache::run_index::{self, Position, Visible};
use crate::cost::ledger::Ledger;
use crate::http::page_bytes;
use crate::http::problem::{ApiError, LoginProblems};
use crate::names::{NamespaceName, ObjectName, SearchText, UserName};
use crate::server::Server;
use crate::views::{self, Readable};
use crate::writes;

/// How long an answer to a write waits for the cache to show it; a watch takes milliseconds.
pub(super) const READ_YOUR_WRITES_BOUND: Duration = Duration::from_secs(2);

/// Which runs.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunListQuery {
    /// Only runs of this namespace. Without it, runs of every namespace in which the caller may list them.
    #[serde(default)]
    #[param(value_type = Option<String>, max_length = 63)]
    namespace: Option<NamespaceName>,
    /// Only runs that are charged to this queue.
    #[serde(default)]
    #[param(value_type = Option<String>, max_length = 253)]
    queue: Option<ObjectName>,
    /// Only runs in this phase.
    #[serde(default)]
    #[param(inline)]
    phase: Option<RunPhase>,
    /// Only runs whose name contains this.
    #[serde(default)]
    #[param(value_type = Option<String>, max_length = 63)]
    search: Option<SearchText>,
    /// Only runs that this user submitted through this API.
    #[serde(default)]
    #[param(value_type = Option<String>, max_length = 253)]
    user: Option<UserName>,
    /// Also runs that were removed from the cluster after they ended.
    #[serde(default)]
    #[param(required = false)]
    archived: bool,
    /// The most runs on the page; a page has fewer when it would be larger than 50 KB.
    #[serde(default)]
    #[param(value_type = u16, minimum = 1, maximum = 500, required = false)]
    limit: Limit,
    /// The `continue` of the page before.
    #[serde(default, rename = "continue")]
    continue_token: Option<String>,
}

/// How to submit.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub struct SubmitQuery {
    /// Checks everything, and creates nothing.
    #[serde(default)]
    #[param(required = false)]
    dry_run: bool,
}

/// The namespace in a path.
#[derive(Deserialize, IntoParams, Debug)]
#[into_params(parameter_in = Path)]
pub struct NamespacePath {
    /// The tenant.
    #[param(value_type = String, max_length = 63)]
    namespace: NamespaceName,
}

/// The run in a path.
#[derive(Deserialize, IntoParams, Debug)]
#[into_params(parameter_in = Path)]
pub struct RunPath {
    /// The tenant.
    #[param(value_type = String, max_length = 63)]
    pub(super) namespace: NamespaceName,
    /// The run.
    #[param(value_type = String, max_length = 253)]
    pub(super) name: ObjectName,
}

/// Runs that the caller may see, newest first.
#[utoipa::path(
    get,
    path = "/v1/runs",
    operation_id = "listRuns",
    tag = "runs",
    params(RunListQuery),
    responses(
        (status = 200, description = "One page.", body = Page<RunSummary>),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn list(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    query: Result<Query<RunListQuery>, QueryRejection>,
) -> Result<Json<Page<RunSummary>>, ApiError> {
    let Query(RunListQuery { namespace, queue, phase, search, user, archived, limit, continue_token }) =
        query?;
    // Without a ledger nothing is archived.
    let ledger = server.ledger().ok().filter(|_| archived);
    let visible = visible(&server, &identity, namespace, ledger).await?;
    let after = continue_token.as_deref().map(Position::from_token).transpose()?;
    let query = run_index::Query { visible, phase, after, limit: limit.get() };
    let archived = match ledger {
        None => Vec::new(),
        Some(ledger) => {
            let filters = ArchiveQuery {
                queue: queue.as_ref().map(|queue| queue.as_str().to_owned()),
                user: user.as_ref().map(|user| user.as_str().to_owned()),
                search: search.as_ref().map(|text| text.as_str().to_owned()),
                ..ArchiveQuery::default()
            };
            archive::page(ledger, &query, filters).await?
        }
    };

    let cache = server.cache()?;
    let queues = cache.queues();
    let is_wanted = |run: &Run| {
        search.as_ref().is_none_or(|text| text.is_in(run.metadata.name.as_deref().unwrap_or_default()))
            && user.as_ref().is_none_or(|user| run.submitted_by() == Some(user.as_str()))
            && queue
                .as_ref()
                .is_none_or(|queue| views::effective_queue(run, &queues).as_deref() == Some(queue.as_str()))
    };
    let (live, more_live) = cache.runs().page(&query, is_wanted);
    let (runs, more) = archive::merged(live, archived, query.limit);
    let items = page_bytes::fitting(runs.iter().map(|listed| listed.summary(&queues)).collect());
    let more = more || more_live || items.len() < runs.len();
    let last = items.len().checked_sub(1).map(|last| &runs[last]).filter(|_| more);
    Ok(Json(Page { items, continue_token: last.map(|listed| Position::of(&listed.run).to_token()) }))
}

/// Submits a job file.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/runs",
    operation_id = "submitRun",
    tag = "runs",
    params(NamespacePath, SubmitQuery),
    request_body(content = JobFile, description = "The job file as JSON; at most 256 KiB."),
    responses(
        (status = 200, description = "The run that would be created (dry run).", body = RunView),
        (status = 201, description = "The run.", body = RunView),
        (status = 400, description = "A parameter is wrong, or the body is not JSON.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such namespace.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "There is a run of this name.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large.", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "The body is not application/json.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The job file is not valid.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn submit(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    path: Result<Path<NamespacePath>, PathRejection>,
    query: Result<Query<SubmitQuery>, QueryRejection>,
    body: Result<Json<JobFile>, JsonRejection>,
) -> Result<(StatusCode, Json<RunView>), ApiError> {
    let namespace = path?.0.namespace;
    server.authorizer().require(&identity, Access::runs("create", Some(namespace.as_str()))).await?;
    let dry_run = query?.0.dry_run;
    let job_file = body?.0;

    let mut spec = job_file.compile(server.default_image()).map_err(|error| {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "InvalidJobFile", error.to_string())
    })?;
    // Stored, because the namespace's queue may change later, and a run is a record.
    if spec.queue.is_none() {
        spec.queue = server.cache()?.queues().of_namespace(namespace.as_str()).map(str::to_owned);
    }
    let name = job_file.name.as_deref();
    let run = writes::create_run(server.client(), &identity, namespace.as_str(), name, spec, dry_run).await?;
    if dry_run {
        return Ok((
            StatusCode::OK,
            Json(views::run_view(&run, &server.cache()?.queues(), &Readable::default())),
        ));
    }
    let (name, uid) = (run.metadata.name.clone().unwrap_or_default(), run.metadata.uid.clone());
    let cache = server.cache()?;
    cache
        .wait_for_run(namespace.as_str(), &name, READ_YOUR_WRITES_BOUND, |seen| seen.metadata.uid == uid)
        .await;
    // A new run has no reasons yet, so there is nothing to hide.
    Ok((StatusCode::CREATED, Json(views::run_view(&run, &cache.queues(), &Readable::default()))))
}

/// One run.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/runs/{name}",
    operation_id = "getRun",
    tag = "runs",
    params(RunPath),
    responses(
        (status = 200, description = "The run.", body = RunView),
        (status = 400, description = "The name is not valid.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn get(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    path: Result<Path<RunPath>, PathRejection>,
) -> Result<Json<RunView>, ApiError> {
    let Listed { run, is_archived } = known_run(&server, &identity, &path?.0).await?;
    let readable = readable(&server, &identity, views::reasons(&run)).await?;
    let mut view = views::run_view(&run, &server.cache()?.queues(), &readable);
    view.summary.archived = is_archived;
    Ok(Json(view))
}

/// Why a run waits: every reason, with numbers, its place in the line, and its expected start.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/runs/{name}/why",
    operation_id = "explainRun",
    tag = "runs",
    params(RunPath),
    responses(
        (status = 200, description = "Why.", body = Why),
        (status = 400, description = "The name is not valid.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn why(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    path: Result<Path<RunPath>, PathRejection>,
) -> Result<Json<Why>, ApiError> {
    let Listed { run, .. } = known_run(&server, &identity, &path?.0).await?;
    let told = told_by_leader(&server, &run).await;
    let reasons = told.as_ref().map_or_else(|| views::reasons(&run), |told| &told.reasons);
    let readable = readable(&server, &identity, reasons).await?;
    let mut why = views::why(&run, &server.cache()?.queues(), reasons, &readable);
    why.outlook = told.map(|told| told.outlook);
    Ok(Json(why))
}

/// The leader's outlook of a waiting run; without it, the reasons in the run's status are used.
async fn told_by_leader(server: &Server, run: &Run) -> Option<RunOutlook> {
    let phase = run.status.as_ref().map(|status| status.phase).unwrap_or_default();
    let (namespace, name) = (run.metadata.namespace.as_deref()?, run.metadata.name.as_deref()?);
    if phase != RunPhase::Pending {
        return None;
    }
    server.leader().run(namespace, name).await.ok().flatten()
}

/// What a list may show. A named namespace must be allowed; otherwise namespaces without the right are left
/// out.
pub(super) async fn visible(
    server: &Server,
    identity: &Identity,
    namespace: Option<NamespaceName>,
    archive: Option<&Ledger>,
) -> Result<Visible, ApiError> {
    if let Some(namespace) = namespace {
        server.authorizer().require(identity, Access::runs("list", Some(namespace.as_str()))).await?;
        return Ok(Visible::Namespaces(vec![namespace.as_str().to_owned()]));
    }
    if server.authorizer().allows(identity, &Access::runs("list", None)).await? {
        return Ok(Visible::Everything);
    }
    let mut namespaces = server.cache()?.runs().namespaces();
    if let Some(ledger) = archive {
        namespaces.extend(ledger.archived_namespaces().await?);
        namespaces.sort();
        namespaces.dedup();
    }
    Ok(Visible::Namespaces(server.authorizer().with_visible_runs(identity, namespaces).await?))
}

/// The run, if the caller may see it. Otherwise the answer does not reveal whether it exists.
pub(super) async fn visible_run(
    server: &Server,
    identity: &Identity,
    path: &RunPath,
) -> Result<Arc<Run>, ApiError> {
    in_cluster(server, identity, path).await?.ok_or_else(|| absent(path))
}

/// The same for a run that may have been removed from the cluster after it ended.
async fn known_run(server: &Server, identity: &Identity, path: &RunPath) -> Result<Listed, ApiError> {
    if let Some(run) = in_cluster(server, identity, path).await? {
        return Ok(Listed { run, is_archived: false });
    }
    // Without a ledger nothing is archived.
    let ledger = server.ledger().map_err(|_| absent(path))?;
    let archived = ledger.archived_run(path.namespace.as_str(), path.name.as_str()).await?;
    let run = archived.ok_or_else(|| absent(path))?;
    Ok(Listed { run: Arc::new(run), is_archived: true })
}

/// The run if the cluster has it; an error if the caller may not see it.
async fn in_cluster(
    server: &Server,
    identity: &Identity,
    path: &RunPath,
) -> Result<Option<Arc<Run>>, ApiError> {
    let (namespace, name) = (path.namespace.as_str(), path.name.as_str());
    server.authorizer().require(identity, Access::run("get", namespace, name)).await?;
    Ok(server.cache()?.runs().get(namespace, name))
}

fn absent(path: &RunPath) -> ApiError {
    ApiError::not_found("run", &format!("{}/{}", path.namespace.as_str(), path.name.as_str()))
}

/// The parts of a run's reasons that the caller may read: numbers of queues, and names of others' gangs.
pub(super) async fn readable(
    server: &Server,
    identity: &Identity,
    reasons: &[Reason],
) -> Result<Readable, ApiError> {
    let queues: Vec<String> = views::queues_in_reasons(reasons).into_iter().collect();
    let count = queues.len();
    let access = |queue: &String| Access::queue("get", Some(queue));
    let queues = server.authorizer().visible(identity, queues, count, access).await?;
    let namespaces = views::namespaces_in_reasons(reasons).into_iter().collect();
    let namespaces = server.authorizer().with_visible_runs(identity, namespaces).await?;
    Ok(Readable { queues: queues.into_iter().collect(), namespaces: namespaces.into_iter().collect() })
}
