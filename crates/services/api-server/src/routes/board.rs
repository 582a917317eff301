//! The board: what queues hold, and the waiting runs in the scheduler's order.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::RunPhase;
use api_types::outlook::{Line, LineQuery, QueueShare};
use api_types::rest::{Board, BoardQueue, BoardRun, Problem, QueueView};
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Limit;
use super::runs::visible;
use crate::access::authentication::Caller;
use crate::access::authorization::Access;
use crate::access::identity::Identity;
use crate::cache::run_index::{self, Visible};
use crate::http::problem::{ApiError, LoginProblems};
use crate::server::Server;
use crate::views;

/// Queues on a board; more queues need the paged list.
const QUEUES_MAX: usize = 500;

/// The size of the board.
#[derive(Deserialize, IntoParams, Debug)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BoardQuery {
    /// The most runs on the board.
    #[serde(default)]
    #[param(value_type = u16, minimum = 1, maximum = 500, required = false)]
    limit: Limit,
}

/// Queues as a tree, with what each holds and its share, and waiting runs in order.
#[utoipa::path(
    get,
    path = "/v1/board",
    operation_id = "getBoard",
    tag = "queues",
    params(BoardQuery),
    responses(
        (status = 200, description = "The board.", body = Board),
        (status = 400, description = "A parameter is wrong.", body = Problem, content_type = "application/problem+json"),
        LoginProblems,
    )
)]
pub async fn get(
    State(server): State<Arc<Server>>,
    Caller(identity): Caller,
    query: Result<Query<BoardQuery>, QueryRejection>,
) -> Result<Json<Board>, ApiError> {
    let Query(BoardQuery { limit }) = query?;
    let queues = visible_queues(&server, &identity).await?;
    let visible = visible(&server, &identity, None, None).await?;
    // Without the scheduler's answer there is no order; the rest is shown.
    let line = server.leader().line(&line_query(&visible, limit.get())).await.ok().flatten();
    let shares = line.as_ref().map(|line| line.queues.clone()).unwrap_or_default();
    let runs = match &line {
        Some(line) => in_order(line, &visible, limit.get()),
        None => by_age(&server, visible, limit.get())?,
    };
    Ok(Json(Board {
        jobs_waiting: line.as_ref().map_or_else(|| count(runs.len()), |line| line.jobs_waiting),
        planned_at: line.map(|line| line.planned_at),
        queues: tree(queues, shares),
        runs,
    }))
}

/// The leader limits the line, so it must know which runs the caller may see.
pub(super) fn line_query(visible: &Visible, limit: usize) -> LineQuery {
    let namespaces = match visible {
        Visible::Everything => None,
        Visible::Namespaces(namespaces) => Some(namespaces.iter().cloned().collect()),
    };
    LineQuery { namespaces, limit }
}

async fn visible_queues(server: &Server, identity: &Identity) -> Result<Vec<QueueView>, ApiError> {
    let queues = server.cache()?.queues().after(None);
    let queues: Vec<_> = if server.authorizer().allows(identity, &Access::queue("get", None)).await? {
        queues.into_iter().take(QUEUES_MAX).collect()
    } else {
        let access = |queue: &Arc<api_types::Queue>| Access::queue("get", queue.metadata.name.as_deref());
        server.authorizer().visible(identity, queues, QUEUES_MAX, access).await?
    };
    Ok(queues.iter().map(|queue| views::queue_view(queue)).collect())
}

/// Each queue after its parent, if that is shown; siblings by name.
fn tree(queues: Vec<QueueView>, shares: Vec<QueueShare>) -> Vec<BoardQueue> {
    let mut shares: BTreeMap<String, QueueShare> =
        shares.into_iter().map(|share| (share.name.clone(), share)).collect();
    let mut left: BTreeMap<String, QueueView> =
        queues.into_iter().map(|queue| (queue.name.clone(), queue)).collect();
    let mut below: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for queue in left.values() {
        let parent = queue.parent.clone().filter(|parent| left.contains_key(parent));
        below.entry(parent).or_default().push(queue.name.clone());
    }
    let mut next: Vec<(u32, String)> =
        below.remove(&None).unwrap_or_default().into_iter().rev().map(|name| (0, name)).collect();
    let mut board = Vec::new();
    while let Some((depth, name)) = next.pop() {
        let children = below.remove(&Some(name.clone())).unwrap_or_default();
        next.extend(children.into_iter().rev().map(|child| (depth + 1, child)));
        let share = shares.remove(&name);
        board.extend(left.remove(&name).map(|queue| BoardQueue { queue, depth, share }));
    }
    // Queues whose parents form a ring are shown without a parent.
    board.extend(left.into_values().map(|queue| BoardQueue { depth: 0, share: None, queue }));
    board
}

fn in_order(line: &Line, visible: &Visible, limit: usize) -> Vec<BoardRun> {
    let is_visible = |namespace: &str| match visible {
        Visible::Everything => true,
        Visible::Namespaces(namespaces) => namespaces.iter().any(|it| it == namespace),
    };
    let shown = line.waiting.iter().filter(|job| is_visible(&job.namespace)).filter_map(|job| {
        Some(BoardRun {
            namespace: job.namespace.clone(),
            name: job.run.clone()?,
            queue: job.queue.clone(),
            gpus: job.gpus,
            created_at: job.waiting_since.clone(),
            reason: job.reason.as_ref().map(|reason| reason.code.clone()),
            topic: job.reason.as_ref().and_then(|reason| reason.topic.clone()),
            outlook: Some(job.outlook.clone()),
        })
    });
    shown.take(limit).collect()
}

/// Without the leader: the newest waiting runs in the cache, the oldest of them first.
fn by_age(server: &Server, visible: Visible, limit: usize) -> Result<Vec<BoardRun>, ApiError> {
    let cache = server.cache()?;
    let queues = cache.queues();
    let query = run_index::Query { visible, phase: Some(RunPhase::Pending), after: None, limit };
    let (runs, _) = cache.runs().page(&query, |_| true);
    let shown = runs.iter().rev().map(|run| {
        let summary = views::run_summary(run, &queues);
        BoardRun {
            gpus: u64::from(summary.members) * u64::from(summary.gpus_per_member),
            namespace: summary.namespace,
            name: summary.name,
            queue: summary.queue,
            created_at: summary.created_at,
            reason: summary.reason,
            topic: views::reasons(run).first().and_then(|reason| reason.topic.clone()),
            outlook: None,
        }
    });
    Ok(shown.collect())
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api_types::outlook::{Line, Outlook, WaitingJob};
    use api_types::rest::QueueView;

    use super::{in_order, line_query, tree};
    use crate::cache::run_index::Visible;

    fn queue(name: &str, parent: Option<&str>) -> QueueView {
        QueueView {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            weight: 1,
            quota_gpus: None,
            limit_gpus: None,
            used_gpus: BTreeMap::new(),
            borrowed_gpus: BTreeMap::new(),
            gangs_running: 0,
            gangs_waiting: 0,
            spend: None,
            namespaces: Vec::new(),
        }
    }

    #[test]
    fn queues_stand_below_the_ones_above_them_if_those_are_shown() {
        let queues = vec![
            queue("b", Some("z")),
            queue("a", Some("z")),
            queue("c", Some("hidden")),
            queue("ring1", Some("ring2")),
            queue("ring2", Some("ring1")),
            queue("z", None),
        ];
        let found: Vec<_> =
            tree(queues, Vec::new()).into_iter().map(|it| (it.depth, it.queue.name)).collect();
        let expect = [(0, "c"), (0, "z"), (1, "a"), (1, "b"), (0, "ring1"), (0, "ring2")];
        assert_eq!(found, expect.map(|(depth, name)| (depth, name.to_owned())));
    }

    #[test]
    fn only_what_the_caller_may_see_is_shown_with_its_place_among_all() {
        let job = |namespace: &str, run: Option<&str>, jobs_ahead| WaitingJob {
            namespace: namespace.to_owned(),
            run: run.map(str::to_owned),
            gang: "gang".to_owned(),
            queue: None,
            gpus: 8,
            waiting_since: String::new(),
            reason: None,
            outlook: Outlook {
                jobs_ahead,
                gpus_ahead: 0,
                jobs_waiting: 3,
                planned_at: String::new(),
                forecast: None,
            },
        };
        let line = Line {
            planned_at: String::new(),
            queues: Vec::new(),
            waiting: vec![job("theirs", Some("x"), 0), job("ours", None, 1), job("ours", Some("y"), 2)],
            jobs_waiting: 3,
        };
        let ours = Visible::Namespaces(vec!["ours".to_owned()]);
        let shown = in_order(&line, &ours, 10);
        assert_eq!(shown.len(), 1);
        assert_eq!(
            (shown[0].name.as_str(), shown[0].outlook.as_ref().map(|it| it.jobs_ahead)),
            ("y", Some(2))
        );
        assert_eq!(in_order(&line, &Visible::Everything, 1)[0].name, "x");
        assert_eq!(line_query(&ours, 10).namespaces, Some(["ours".to_owned()].into()));
        assert_eq!(line_query(&Visible::Everything, 10).namespaces, None);
    }
}
