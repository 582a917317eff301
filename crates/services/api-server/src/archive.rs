//! Runs that were removed from the cluster after they ended, in lists and by name.
//!
//! ```text
//!   cache  ─► page ─┐
//!                   ├─► merged by position ─► one page: continue tokens are the same with and without the archive
//!   ledger ─► page ─┘
//! ```

use std::sync::Arc;

use api_types::Run;
use api_types::rest::RunSummary;
use store::{ArchiveQuery, Scope};

use crate::cache::queue_index::QueueIndex;
use crate::cache::run_index::{Position, Query, Visible};
use crate::cost::ledger::Ledger;
use crate::http::problem::ApiError;
use crate::views;

/// A run in a list, from the cluster or from the archive.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The run.
    pub run: Arc<Run>,
    /// Whether the cluster does not have it any more.
    pub is_archived: bool,
}

impl Listed {
    /// As lists show it.
    pub fn summary(&self, queues: &QueueIndex) -> RunSummary {
        RunSummary { archived: self.is_archived, ..views::run_summary(&self.run, queues) }
    }
}

/// A page of archived runs, and one more, which tells that another page follows. `filters` has what the cache's index
/// does not know.
pub async fn page(ledger: &Ledger, query: &Query, filters: ArchiveQuery) -> Result<Vec<Arc<Run>>, ApiError> {
    let (scope, namespaces) = match &query.visible {
        Visible::Everything => (Scope::Everything, None),
        Visible::Namespaces(names) => (Scope::Namespaces(names.clone()), Some(names.clone())),
    };
    let asked = ArchiveQuery {
        namespaces,
        phase: query.phase.map(|phase| phase.as_str().to_owned()),
        after: query.after.as_ref().map(Position::place),
        limit: u32::try_from(query.limit).unwrap_or(u32::MAX).saturating_add(1),
        ..filters
    };
    Ok(ledger.archived_runs(&scope, &asked).await?.into_iter().map(Arc::new).collect())
}

/// The first `limit` runs of both pages, and whether there are more. A run that is in both is being removed.
pub fn merged(live: Vec<Arc<Run>>, archived: Vec<Arc<Run>>, limit: usize) -> (Vec<Listed>, bool) {
    let listed = |is_archived| move |run: Arc<Run>| (Position::of(&run), Listed { run, is_archived });
    let mut all: Vec<_> = live.into_iter().map(listed(false)).collect();
    all.extend(archived.into_iter().map(listed(true)));
    // Stable, so that of two with the same position the live one stays.
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all.dedup_by(|(later, _), (first, _)| later == first);
    let more = all.len() > limit;
    all.truncate(limit);
    (all.into_iter().map(|(_, listed)| listed).collect(), more)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api_types::{Run, RunSpec};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::merged;

    fn run(second: i64, name: &str) -> Arc<Run> {
        let mut run = Run::new(name, RunSpec::default());
        run.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
        Arc::new(run)
    }

    #[test]
    fn runs_of_both_are_one_list_and_a_run_that_is_in_both_is_there_once() {
        let live = || vec![run(90, "new"), run(50, "leaving"), run(10, "old")];
        let archived = || vec![run(70, "gone"), run(50, "leaving")];
        let names = |limit| {
            let (runs, more) = merged(live(), archived(), limit);
            let name = |listed: &super::Listed| {
                format!(
                    "{}{}",
                    listed.run.metadata.name.clone().unwrap(),
                    if listed.is_archived { "*" } else { "" }
                )
            };
            (runs.iter().map(name).collect::<Vec<_>>().join(" "), more)
        };
        assert_eq!(names(9), ("new gone* leaving old".to_owned(), false));
        assert_eq!(names(4), ("new gone* leaving old".to_owned(), false));
        assert_eq!(names(2), ("new gone*".to_owned(), true));
    }
}
