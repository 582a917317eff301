//! Runs, newest first, as a whole and by namespace, so that a page's cost depends only on what it shows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api_types::{Run, RunPhase};

use crate::events::changes::{ChangedObject, RunKey};
use crate::http::page_token;

/// The position of a run in lists: newest first, then by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    created_second: Reverse<i64>,
    namespace: String,
    name: String,
}

/// Which runs a page may show.
#[derive(Clone, Debug)]
pub enum Visible {
    /// Those of every namespace.
    Everything,
    /// Those of these namespaces.
    Namespaces(Vec<String>),
}

/// The question for a page.
#[derive(Clone, Debug)]
pub struct Query {
    /// What the caller may see.
    pub visible: Visible,
    /// Only runs that are in this phase.
    pub phase: Option<RunPhase>,
    /// The page starts after this run.
    pub after: Option<Position>,
    /// The most runs on the page.
    pub limit: usize,
}

/// All runs of the cluster.
#[derive(Debug, Default)]
pub struct RunIndex {
    by_position: BTreeMap<Position, Arc<Run>>,
    namespaces: BTreeMap<String, Namespace>,
}

#[derive(Debug, Default)]
struct Namespace {
    by_name: HashMap<String, Arc<Run>>,
    positions: BTreeSet<Position>,
}

impl Position {
    /// The position of the run.
    pub fn of(run: &Run) -> Self {
        let metadata = &run.metadata;
        Self {
            created_second: Reverse(
                metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            ),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    /// The same for the archive.
    pub fn place(&self) -> store::Place {
        store::Place {
            created_second: self.created_second.0,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// As a continue token.
    pub fn to_token(&self) -> String {
        page_token::encode(&[&self.created_second.0.to_string(), &self.namespace, &self.name])
    }

    /// From a continue token.
    pub fn from_token(token: &str) -> Result<Self, page_token::Error> {
        let [second, namespace, name] = page_token::decode(token)?;
        let created_second = Reverse(second.parse().map_err(|_| page_token::Error)?);
        Ok(Self { created_second, namespace, name })
    }
}

impl RunIndex {
    /// Adds a run or replaces its former version.
    pub fn apply(&mut self, run: Arc<Run>) {
        self.remove(&run);
        let position = Position::of(&run);
        let namespace = self.namespaces.entry(position.namespace.clone()).or_default();
        namespace.by_name.insert(position.name.clone(), Arc::clone(&run));
        namespace.positions.insert(position.clone());
        self.by_position.insert(position, run);
    }

    /// Forgets a run.
    pub fn remove(&mut self, run: &Run) {
        let Position { namespace: namespace_name, name, .. } = Position::of(run);
        let Some(namespace) = self.namespaces.get_mut(&namespace_name) else { return };
        let Some(old) = namespace.by_name.remove(&name) else { return };
        // A run of the same name that was created at another time has another position.
        let position = Position::of(&old);
        namespace.positions.remove(&position);
        self.by_position.remove(&position);
        if namespace.by_name.is_empty() {
            self.namespaces.remove(&namespace_name);
        }
    }

    /// The differences to a new index, from a new list.
    pub fn differences(&self, new: &Self) -> Vec<ChangedObject> {
        let version = |run: &Run| run.metadata.resource_version.clone();
        let newer = new.by_position.iter().filter(|(position, run)| {
            let old = self.by_position.get(*position);
            old.is_none_or(|old| old.metadata.uid != run.metadata.uid || version(old) != version(run))
        });
        let gone = self.by_position.iter().filter(|(position, _)| !new.by_position.contains_key(*position));
        gone.chain(newer).map(|(_, run)| change(run)).collect()
    }

    /// The run of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Run>> {
        self.namespaces.get(namespace)?.by_name.get(name).cloned()
    }

    /// Every namespace that has runs.
    pub fn namespaces(&self) -> Vec<String> {
        self.namespaces.keys().cloned().collect()
    }

    /// One page, and whether another follows. `matches` is the part of the question that the index cannot answer.
    pub fn page(&self, query: &Query, matches: impl Fn(&Run) -> bool) -> (Vec<Arc<Run>>, bool) {
        let from = match &query.after {
            Some(after) => std::ops::Bound::Excluded(after),
            None => std::ops::Bound::Unbounded,
        };
        let bounds = (from, std::ops::Bound::Unbounded);
        let wanted = |run: &&Arc<Run>| {
            let phase = run.status.as_ref().map(|status| status.phase).unwrap_or_default();
            query.phase.is_none_or(|wanted| wanted == phase) && matches(run)
        };
        // One more than the page holds tells whether another page follows.
        let enough = query.limit + 1;
        let mut runs: Vec<Arc<Run>> = match &query.visible {
            Visible::Everything => self
                .by_position
                .range(bounds)
                .map(|(_, run)| run)
                .filter(wanted)
                .take(enough)
                .cloned()
                .collect(),
            Visible::Namespaces(names) => {
                let mut runs: Vec<Arc<Run>> = names
                    .iter()
                    .filter_map(|name| self.namespaces.get(name))
                    .flat_map(|namespace| {
                        namespace
                            .positions
                            .range(bounds)
                            .filter_map(|position| namespace.by_name.get(&position.name))
                            .filter(wanted)
                            .take(enough)
                    })
                    .cloned()
                    .collect();
                runs.sort_by_cached_key(|run| Position::of(run));
                runs
            }
        };
        let more = runs.len() > query.limit;
        runs.truncate(query.limit);
        (runs, more)
    }
}

/// The change of a run.
pub fn change(run: &Run) -> ChangedObject {
    let name = |name: &Option<String>| Arc::from(name.as_deref().unwrap_or_default());
    ChangedObject::Run(RunKey { namespace: name(&run.metadata.namespace), name: name(&run.metadata.name) })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api_types::{Run, RunPhase, RunSpec, RunStatus};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::{Position, Query, RunIndex, Visible};
    use crate::events::changes::{ChangedObject, RunKey};

    fn run(second: i64, namespace: &str, name: &str, phase: RunPhase) -> Arc<Run> {
        let mut run = Run::new(name, RunSpec::default());
        run.metadata.namespace = Some(namespace.to_owned());
        run.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).expect("in range")));
        run.status = Some(RunStatus { phase, ..RunStatus::default() });
        Arc::new(run)
    }

    fn index() -> RunIndex {
        let mut index = RunIndex::default();
        for (second, namespace, name, phase) in [
            (10, "a", "old", RunPhase::Failed),
            (30, "b", "new", RunPhase::Pending),
            (20, "a", "mid", RunPhase::Pending),
            (20, "c", "mid", RunPhase::Pending),
        ] {
            index.apply(run(second, namespace, name, phase));
        }
        index
    }

    fn all(visible: Visible, phase: Option<RunPhase>, limit: usize) -> Vec<String> {
        let index = index();
        let mut query = Query { visible, phase, after: None, limit };
        let mut names = Vec::new();
        for _ in 0..10 {
            let (runs, more) = index.page(&query, |_| true);
            names.extend(runs.iter().map(|run| {
                let position = Position::of(run);
                format!("{}/{}", position.namespace, position.name)
            }));
            if !more {
                return names;
            }
            let token = Position::of(runs.last().expect("a page before another is not empty")).to_token();
            query.after = Some(Position::from_token(&token).expect("our own token"));
        }
        panic!("the pages do not end");
    }

    #[test]
    fn pages_of_any_size_give_the_same_list_newest_first() {
        for limit in 1..6 {
            assert_eq!(
                all(Visible::Everything, None, limit),
                ["b/new", "a/mid", "c/mid", "a/old"],
                "limit {limit}"
            );
            let visible = Visible::Namespaces(vec!["c".to_owned(), "a".to_owned(), "none".to_owned()]);
            assert_eq!(all(visible, None, limit), ["a/mid", "c/mid", "a/old"], "limit {limit}");
            assert_eq!(all(Visible::Everything, Some(RunPhase::Failed), limit), ["a/old"], "limit {limit}");
        }
    }

    #[test]
    fn nothing_is_visible_without_a_namespace() {
        assert_eq!(all(Visible::Namespaces(vec![]), None, 10), Vec::<String>::new());
    }

    #[test]
    fn a_run_created_again_under_its_name_is_listed_once() {
        let mut index = index();
        index.apply(run(99, "a", "mid", RunPhase::Running));
        let query = Query { visible: Visible::Everything, phase: None, after: None, limit: 10 };
        assert_eq!(index.page(&query, |_| true).0.len(), 4);
        assert_eq!(Position::of(&index.page(&query, |_| true).0[0]).name, "mid");
    }

    #[test]
    fn a_new_list_changes_what_differs_and_nothing_else() {
        let mut new = index();
        new.remove(&run(30, "b", "new", RunPhase::Pending));
        new.apply(run(40, "d", "come", RunPhase::Pending));
        let mut changed = Run::clone(&run(10, "a", "old", RunPhase::Stopped));
        changed.metadata.resource_version = Some("2".to_owned());
        new.apply(Arc::new(changed));
        let change = |namespace, name| ChangedObject::Run(RunKey::new(namespace, name));
        assert_eq!(index().differences(&new), [change("b", "new"), change("d", "come"), change("a", "old")]);
        assert_eq!(index().differences(&index()), []);
    }

    #[test]
    fn a_namespace_is_forgotten_with_its_last_run() {
        let mut index = index();
        index.remove(&run(30, "b", "new", RunPhase::Pending));
        assert_eq!(index.namespaces(), ["a", "c"]);
        assert!(index.get("b", "new").is_none());
    }
}
