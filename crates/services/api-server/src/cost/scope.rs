//! Whose cost a caller may see. Kubernetes decides, and the database enforces the scope.
//!
//! ```text
//!   names a namespace ──► may list runs there? ──────────────► rows of that namespace, else 403
//!   may list runs everywhere ────────────────────────────────► everything, idle nodes included
//!   names a queue ──► may not get it ────────────────────────► 403
//!                 ├─► by queue, day, class ──────────────────► rows of the queue and those below it
//!                 └─► by run, user, namespace, or for one user: the same rows, if the caller may list runs in every
//!                     namespace that has any; else 403 with a hint
//!   otherwise ───────────────────────────────────────────────► rows of the namespaces in which they may list runs
//! ```
//!
//! So a report's total never depends on how it is summed.

use std::collections::{BTreeMap, BTreeSet};

use api_types::rest::CostGrouping;
use costing::Moment;
use http::StatusCode;
use store::{Grouping, ReportQuery, Scope};

use crate::access::authorization::Access;
use crate::access::identity::Identity;
use crate::cache::queue_index::QueueIndex;
use crate::http::problem::ApiError;
use crate::server::Server;

/// Namespaces that are checked for one report: 2,000 at 16 at a time and 5 ms each take 0.6 s.
const NAMESPACES_MAX: usize = 2_000;
/// Namespaces with use in one queue that are checked before names are shown.
const NAMESPACES_OF_QUEUE_MAX: u32 = 1_000;

/// The part of a question that decides who may ask it.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Only of this namespace.
    pub namespace: Option<&'a str>,
    /// Only of this queue; and the same with those below it, for the ledger.
    pub queue: Option<(&'a str, &'a [String])>,
    /// Whether names of runs, users or namespaces are asked for, or the sum of a named user.
    pub with_names: bool,
}

/// Whether a report by `by` shows names of runs, users or namespaces.
pub fn shows_names(by: CostGrouping) -> bool {
    match by {
        CostGrouping::Run | CostGrouping::User | CostGrouping::Namespace => true,
        CostGrouping::Queue | CostGrouping::Day | CostGrouping::Class => false,
    }
}

/// The scope of the caller for `question`. `query` is the question to the ledger.
pub async fn of_caller(
    server: &Server,
    identity: &Identity,
    question: Question<'_>,
    query: &ReportQuery,
    now: Moment,
) -> Result<Scope, ApiError> {
    let authorizer = server.authorizer();
    if let Some(namespace) = question.namespace {
        authorizer.require(identity, Access::runs("list", Some(namespace))).await?;
        return Ok(Scope::Namespaces(vec![namespace.to_owned()]));
    }
    if authorizer.allows(identity, &Access::runs("list", None)).await? {
        return Ok(Scope::Everything);
    }
    if let Some((queue, with_those_below)) = question.queue {
        // Without this right, a sum of the caller's own namespaces would look like the queue's.
        authorizer.require(identity, Access::queue("get", Some(queue))).await?;
        let scope = Scope::Queues(with_those_below.to_vec());
        if question.with_names {
            require_names(server, identity, queue, &scope, query, now).await?;
        }
        return Ok(scope);
    }
    Ok(Scope::Namespaces(authorizer.with_visible_runs(identity, namespaces(server)?).await?))
}

/// The queue and every queue below it, by name. A deleted queue is only itself.
pub fn with_those_below(queues: &QueueIndex, root: &str) -> Vec<String> {
    let all = queues.after(None);
    let mut below: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for queue in &all {
        if let (Some(parent), Some(name)) = (queue.spec.parent.as_deref(), queue.metadata.name.as_deref()) {
            below.entry(parent).or_default().push(name);
        }
    }
    let mut found = BTreeSet::from([root]);
    let mut open = vec![root];
    // Also ends if parents form a circle: each queue is opened once.
    while let Some(queue) = open.pop() {
        let new = below.get(queue).into_iter().flatten().filter(|name| found.insert(**name));
        open.extend(new.copied().collect::<Vec<_>>());
    }
    found.into_iter().map(str::to_owned).collect()
}

/// Names are shown only to callers who may list runs in every namespace that the names come from.
async fn require_names(
    server: &Server,
    identity: &Identity,
    queue: &str,
    scope: &Scope,
    query: &ReportQuery,
    now: Moment,
) -> Result<(), ApiError> {
    let of_namespaces = ReportQuery {
        by: Grouping::Namespace,
        user: None,
        after: None,
        limit: NAMESPACES_OF_QUEUE_MAX,
        ..query.clone()
    };
    let report = server.ledger()?.report(scope, &of_namespaces, now).await?;
    let namespaces: Vec<String> = report.rows.into_iter().filter_map(|row| row.key).collect();
    let count = namespaces.len();
    let visible = server.authorizer().with_visible_runs(identity, namespaces).await?;
    if visible.len() == count && !report.more {
        return Ok(());
    }
    let detail = format!(
        "`{}` may see the sums of queue `{queue}`, but not the names behind them: it may not list runs in every \
         namespace that used the queue",
        identity.username()
    );
    Err(ApiError::new(StatusCode::FORBIDDEN, "NamesHidden", detail)
        .hint("ask by queue, day or class, or only for a namespace of yours"))
}

/// Namespaces that may have a cost: those with runs, and those that queues list, whose runs may be gone.
fn namespaces(server: &Server) -> Result<Vec<String>, ApiError> {
    let cache = server.cache()?;
    let mut namespaces: BTreeSet<String> = cache.runs().namespaces().into_iter().collect();
    namespaces.extend(cache.queues().after(None).iter().flat_map(|queue| queue.spec.namespaces.clone()));
    if namespaces.len() > NAMESPACES_MAX {
        return Err(ApiError::bad_request(
            "TooManyNamespaces",
            format!("there are more than {NAMESPACES_MAX} namespaces to ask about"),
        )
        .hint("name one with `namespace`"));
    }
    Ok(namespaces.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api_types::{Queue, QueueSpec};

    use super::with_those_below;
    use crate::cache::queue_index::QueueIndex;

    fn tree(edges: &[(&str, Option<&str>)]) -> QueueIndex {
        let mut index = QueueIndex::default();
        for (name, parent) in edges {
            let spec = QueueSpec { parent: parent.map(str::to_owned), ..QueueSpec::default() };
            index.apply(Arc::new(Queue::new(name, spec)));
        }
        index
    }

    #[test]
    fn a_queue_stands_for_those_below_it() {
        let queues = tree(&[
            ("all", None),
            ("research", Some("all")),
            ("nlp", Some("research")),
            ("vision", Some("research")),
            ("prod", Some("all")),
        ]);
        assert_eq!(with_those_below(&queues, "research"), ["nlp", "research", "vision"]);
        assert_eq!(with_those_below(&queues, "prod"), ["prod"]);
        assert_eq!(with_those_below(&queues, "gone"), ["gone"], "its cost is still its own");
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let queues = tree(&[("a", Some("c")), ("b", Some("a")), ("c", Some("b")), ("self", Some("self"))]);
        assert_eq!(with_those_below(&queues, "b"), ["a", "b", "c"]);
        assert_eq!(with_those_below(&queues, "self"), ["self"]);
    }
}
