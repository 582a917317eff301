//! Machines: which are being bought, for which gang and why, and which were bought. A caller needs the right to
//! list runs in a namespace to see names of its gangs, and the right to list nodes to see the sum of machines.

use std::sync::Arc;

use api_types::capacity::CapacityView;
use api_types::rest::Problem;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Limit;
use super::board::line_query;
use super::runs::visible;
use crate::access::authentication::Caller;
use crate::access::authorization::Access;
use crate::cache::run_index::Visible;
use crate::http::problem::{ApiError, LoginProblems};
use crate::server::Server;

/// The size of the answer.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CapacityQuery {
    /// The most launches and the most refusals in the answer.
    #[serde(default)]
    #[param(value_type = u16, minimum = 1, maximum = 500, required = false)]
    limit: Limit,
}

/// Machines that are being bought, gangs without machines and why, and machines that were bought.
#[utoipa::path(
    get,
    path = "/v1/capacity",
    operation_id = "getCapacity",
    tag = "cluster",
    params(CapacityQuery),
    responses(
        (status = 200, description = "What was decided last.", body = CapacityView),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        (status = 502, description = "The scheduler does not answer.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn get(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    query: Result<Query<CapacityQuery>, QueryRejection>,
) -> Result<Json<CapacityView>, ApiError> {
    let Query(CapacityQuery { limit }) = query?;
    let visible = visible(&server, &identity, None, None).await?;
    let with_machines = server.authorizer().allows(&identity, &Access::nodes("list")).await?;
    let answer = server.leader().capacity(&line_query(&visible, limit.get())).await;
    let silent = |message: String| {
        ApiError::new(http::StatusCode::BAD_GATEWAY, "SchedulerSilent", message)
            .hint("check that a scheduler runs, and read its log")
    };
    let told = answer.map_err(|error| silent(error.to_string()))?;
    let told =
        told.ok_or_else(|| silent("the scheduler's leader does not know about machines".to_owned()))?;
    Ok(Json(shown(&told, &visible, with_machines, limit.get())))
}

/// The view for the caller. The leader has limited it already; hiding what the caller may not see does not rely
/// on that.
fn shown(told: &CapacityView, visible: &Visible, with_machines: bool, limit: usize) -> CapacityView {
    let may_see = |namespace: &str| match visible {
        Visible::Everything => true,
        Visible::Namespaces(namespaces) => namespaces.iter().any(|it| it == namespace),
    };
    told.seen_by(may_see, with_machines, limit)
}

#[cfg(test)]
mod tests {
    use api_types::capacity::{CapacityView, GangName, RefusedView};

    use super::shown;
    use crate::cache::run_index::Visible;

    #[test]
    fn gangs_of_namespaces_that_the_caller_may_not_see_are_left_out_whatever_the_leader_says() {
        let refused = |namespace: &str| RefusedView {
            gang: GangName { namespace: namespace.to_owned(), name: "gang".to_owned(), run: None },
            why: "dear".to_owned(),
        };
        let told = CapacityView {
            enabled: true,
            refused: vec![refused("theirs"), refused("ours")],
            refused_in_all: 2,
            machines: Some(Vec::new()),
            ..CapacityView::default()
        };
        let ours = Visible::Namespaces(vec!["ours".to_owned()]);
        let seen = shown(&told, &ours, false, 10);
        assert_eq!((seen.refused, seen.refused_in_all, seen.machines), (vec![refused("ours")], 2, None));
        assert_eq!(shown(&told, &Visible::Everything, true, 10), told);
    }
}
