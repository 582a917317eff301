//! Costs of one run, or sums over days, from the ledger in the caller's scope.

use std::sync::Arc;

use api_types::rest::{CostGrouping, CostReport, Problem, RunCostView};
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{OriginalUri, Path, Query, State};
use axum::response::{IntoResponse, Response};
use costing::Moment;
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use serde::Deserialize;
use store::{ReportQuery, RunCost, Scope};
use utoipa::IntoParams;

use super::runs::RunPath;
use crate::access::authentication::Caller;
use crate::access::authorization::Access;
use crate::cost::query::{DayName, Period, Position, RowLimit, UserName};
use crate::cost::scope::{self, Question};
use crate::cost::views;
use crate::http::problem::{ApiError, LoginProblems};
use crate::names::{NamespaceName, ObjectName};
use crate::server::Server;

/// What to sum, and by what.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CostQuery {
    /// What rows are summed by.
    #[serde(default)]
    #[param(inline, required = false)]
    by: CostGrouping,
    /// The first day, UTC. Without it, the first of the month of the last day.
    #[serde(default)]
    #[param(value_type = Option<String>, example = "2026-11-01", max_length = 10)]
    since: Option<DayName>,
    /// The last day, UTC. Without it, today. At most 400 days.
    #[serde(default)]
    #[param(value_type = Option<String>, example = "2026-11-15", max_length = 10)]
    until: Option<DayName>,
    /// Only this namespace. Without it, every namespace in which the caller may list runs; idle nodes are shown
    /// only to callers who may list runs everywhere.
    #[serde(default)]
    #[param(value_type = Option<String>, max_length = 63)]
    namespace: Option<NamespaceName>,
    /// Only this queue and those below it. A caller who may get the queue sees the sums of all its tenants by
    /// queue, day and class; sums by name also need the right to list runs in each of those namespaces.
    #[serde(default)]
    #[param(value_type = Option<String>, max_length = 253)]
    queue: Option<ObjectName>,
    /// Only work that this user submitted.
    #[serde(default)]
    #[param(value_type = Option<String>, max_length = 1024)]
    user: Option<UserName>,
    /// The most rows on the page.
    #[serde(default)]
    #[param(value_type = u16, minimum = 1, maximum = 1000, required = false)]
    limit: RowLimit,
    /// The `continue` of the page before. The pages of a report count until the same moment, for 15 minutes.
    #[serde(default, rename = "continue")]
    continue_token: Option<String>,
}

/// The cost of one run so far, even if the run is deleted.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/runs/{name}/cost",
    operation_id = "getRunCost",
    tag = "cost",
    params(RunPath),
    responses(
        (status = 200, description = "Its cost.", body = RunCostView),
        (status = 400, description = "The name is not valid.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such run, and none with a cost.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn of_run(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    path: Result<Path<RunPath>, PathRejection>,
) -> Result<Json<RunCostView>, ApiError> {
    let RunPath { namespace, name } = path?.0;
    let (namespace, name) = (namespace.as_str(), name.as_str());
    server.authorizer().require(&identity, Access::run("get", namespace, name)).await?;
    let now = now();
    let scope = Scope::Namespaces(vec![namespace.to_owned()]);
    let cost = server.ledger()?.run_cost(&scope, namespace, name, now).await?;
    if is_nothing(&cost) && server.cache()?.runs().get(namespace, name).is_none() {
        return Err(ApiError::not_found("run", &format!("{namespace}/{name}")));
    }
    Ok(Json(views::run_cost(namespace, name, &cost, now)))
}

/// Cost over days, summed by run, user, queue, namespace, day or class.
#[utoipa::path(
    get,
    path = "/v1/cost",
    operation_id = "reportCost",
    tag = "cost",
    params(CostQuery),
    responses(
        (
            status = 200,
            description = "One page. As CSV: a header and the rows of this page; a header `Link` with `rel=\"next\"` leads to the next. Names that begin like a formula have an apostrophe in front.",
            content((CostReport = "application/json"), (String = "text/csv")),
        ),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn report(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    query: Result<Query<CostQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(CostQuery { by, since, until, namespace, queue, user, limit, continue_token }) = query?;
    let position = continue_token.map(|token| Position::from_token(&token, by, now())).transpose()?;
    let now = position.as_ref().map_or_else(now, |position| position.as_of);
    let period = Period::new(since, until, now.day())?;
    let queues = queue.as_ref().map(|queue| in_tree(&server, queue.as_str())).transpose()?;
    let question = Question {
        namespace: namespace.as_ref().map(NamespaceName::as_str),
        queue: queue.as_ref().map(ObjectName::as_str).zip(queues.as_deref()),
        with_names: scope::shows_names(by) || user.is_some(),
    };
    let query = ReportQuery {
        by: views::grouping(by),
        since: period.since,
        until: period.until.next(),
        namespace: question.namespace.map(str::to_owned),
        queues: queues.clone(),
        user: user.as_ref().map(|user| user.as_str().to_owned()),
        after: position.map(|position| position.key),
        limit: limit.get(),
    };
    let scope = scope::of_caller(&server, &identity, question, &query, now).await?;
    let report = server.ledger()?.report(&scope, &query, now).await?;

    let last = report.rows.last().filter(|_| report.more);
    let next = last.map(|row| Position { by, as_of: now, key: row.key.clone() }.to_token());
    let view = views::report(by, period, &report, now, next);
    Ok(if prefers_csv(&headers) { csv_page(&view, uri.query()) } else { json_page(view) })
}

fn in_tree(server: &Server, queue: &str) -> Result<Vec<String>, ApiError> {
    Ok(scope::with_those_below(&server.cache()?.queues(), queue))
}

fn is_nothing(cost: &RunCost) -> bool {
    let total = &cost.total;
    total.amount.0 == 0 && total.rate.0 == 0 && total.gpu_seconds == 0 && cost.attempts.is_empty()
}

fn now() -> Moment {
    Moment::of(Timestamp::now())
}

fn json_page(view: CostReport) -> Response {
    ([(header::VARY, "accept")], Json(view)).into_response()
}

fn csv_page(view: &CostReport, query: Option<&str>) -> Response {
    let fixed = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"cost.csv\""),
        (header::VARY, "accept"),
    ];
    let mut response = (fixed, views::csv(view)).into_response();
    if let Some(token) = &view.continue_token {
        let link = HeaderValue::from_str(&next_link(query.unwrap_or_default(), token));
        response.headers_mut().extend(link.ok().map(|link| (header::LINK, link)));
    }
    response
}

/// The same query, continued. The link is relative, so that it works behind any proxy.
fn next_link(query: &str, token: &str) -> String {
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("continue="));
    let next = format!("continue={token}");
    let query = kept.chain([next.as_str()]).collect::<Vec<_>>().join("&");
    format!("<?{query}>; rel=\"next\"")
}

/// Whether the caller accepts CSV, and prefers no type that JSON matches better.
fn prefers_csv(headers: &HeaderMap) -> bool {
    let accepted: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let accepted = accepted.join(",");
    let weight = |wanted: &[&str]| {
        let ranges = accepted.split(',').map(|range| range.split(';').map(str::trim));
        ranges
            .filter_map(|mut parts| {
                let kind = parts.next()?.to_ascii_lowercase();
                let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
                wanted.contains(&kind.as_str()).then(|| weight.unwrap_or(1.0))
            })
            .fold(0.0_f32, f32::max)
    };
    let csv = weight(&["text/csv"]);
    csv > 0.0 && csv >= weight(&["application/json", "application/*", "*/*"])
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};

    use super::{next_link, prefers_csv};

    #[test]
    fn csv_is_for_those_who_name_it() {
        for (accept, expect) in [
            ("", false),
            ("*/*", false),
            ("application/json", false),
            ("text/html,application/xhtml+xml,*/*;q=0.8", false),
            ("text/csv", true),
            ("Text/CSV; header=present", true),
            ("text/csv, */*;q=0.1", true),
            ("text/csv;q=0.5, application/json", false),
            ("text/csv;q=0", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_str(accept).expect("a header"));
            assert_eq!(prefers_csv(&headers), expect, "{accept}");
        }
        assert!(!prefers_csv(&HeaderMap::new()));
    }

    #[test]
    fn the_next_page_asks_the_same_question() {
        assert_eq!(
            next_link("by=user&continue=aa&limit=2", "bb"),
            "<?by=user&limit=2&continue=bb>; rel=\"next\""
        );
        assert_eq!(next_link("", "bb"), "<?continue=bb>; rel=\"next\"");
    }
}
