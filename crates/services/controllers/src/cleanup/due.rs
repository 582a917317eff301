//! Which ended Runs go. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_types::Run;
use jiff::Timestamp;
use kube::ResourceExt;

use crate::run::rest::is_at_rest;

/// How many ended Runs stay in the cluster, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For how long after their end.
    pub keep_for: Duration,
    /// How many of each namespace.
    pub keep_most: usize,
}

/// The Runs that go: those that ended too long ago, and all but the last ones of each namespace. Who ended first
/// comes first.
pub fn due(runs: Vec<Arc<Run>>, limits: &Limits, now: Timestamp) -> Vec<Arc<Run>> {
    let mut of_namespaces: BTreeMap<String, Vec<(Timestamp, Arc<Run>)>> = BTreeMap::new();
    for run in runs.into_iter().filter(|run| is_at_rest(run)) {
        let Some(ended) = ended_at(&run) else { continue };
        of_namespaces.entry(run.namespace().unwrap_or_default()).or_default().push((ended, run));
    }
    let too_old = now.checked_sub(limits.keep_for).unwrap_or(Timestamp::MIN);
    let mut due = Vec::new();
    for mut ended in of_namespaces.into_values() {
        ended.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.metadata.name.cmp(&y.metadata.name)));
        let last = ended.into_iter().enumerate();
        let goes = last.filter(|(index, (ended, _))| *index >= limits.keep_most || *ended <= too_old);
        due.extend(goes.map(|(_, run)| run));
    }
    due.sort_by(|(a, x), (b, y)| {
        (a, &x.metadata.namespace, &x.metadata.name).cmp(&(b, &y.metadata.namespace, &y.metadata.name))
    });
    due.into_iter().map(|(_, run)| run).collect()
}

/// When it ended; a Run that never began has no other time than its creation.
fn ended_at(run: &Run) -> Option<Timestamp> {
    let finished = run.status.as_ref().and_then(|status| status.finished_at.as_ref());
    finished.or(run.metadata.creation_timestamp.as_ref()).map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use api_types::{Run, RunPhase, RunSpec, RunStatus};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::{Limits, due};

    fn ended(namespace: &str, name: &str, phase: RunPhase, second: i64) -> Run {
        let mut run = Run::new(name, RunSpec::default());
        run.metadata.namespace = Some(namespace.to_owned());
        run.metadata.generation = Some(1);
        let finished_at = Some(Time(Timestamp::from_second(second).unwrap()));
        run.status =
            Some(RunStatus { phase, observed_generation: Some(1), finished_at, ..RunStatus::default() });
        run
    }

    fn names(runs: Vec<Run>, keep_for: u64, keep_most: usize) -> Vec<String> {
        let limits = Limits { keep_for: Duration::from_secs(keep_for), keep_most };
        let now = Timestamp::from_second(1_000).unwrap();
        let due = due(runs.into_iter().map(Arc::new).collect(), &limits, now);
        due.iter().map(|run| run.metadata.name.clone().unwrap()).collect()
    }

    fn five() -> Vec<Run> {
        vec![
            ended("a", "a-new", RunPhase::Succeeded, 900),
            ended("a", "a-mid", RunPhase::Stopped, 500),
            ended("a", "a-old", RunPhase::Failed, 100),
            ended("b", "b-old", RunPhase::Succeeded, 200),
            ended("a", "a-running", RunPhase::Running, 50),
        ]
    }

    #[test]
    fn the_last_of_each_namespace_stay_and_the_oldest_go_first() {
        assert_eq!(names(five(), 10_000, 2), ["a-old"]);
        assert_eq!(names(five(), 10_000, 1), ["a-old", "a-mid"]);
        assert_eq!(names(five(), 10_000, 0), ["a-old", "b-old", "a-mid", "a-new"]);
        assert_eq!(names(five(), 10_000, 9), [""; 0]);
    }

    #[test]
    fn who_ended_too_long_ago_goes() {
        assert_eq!(names(five(), 600, 9), ["a-old", "b-old"]);
        assert_eq!(names(five(), 0, 9).len(), 4);
    }

    #[test]
    fn a_run_stays_while_something_is_asked_of_it_or_it_is_deleted() {
        let mut retried = ended("a", "retried", RunPhase::Failed, 1);
        (retried.spec.restarts, retried.metadata.generation) = (1, Some(2));
        // Its controller has looked at it, and the next attempt waits for the pods of the last.
        let mut waits = retried.clone();
        waits.status.as_mut().unwrap().observed_generation = Some(2);
        let mut leaving = ended("a", "leaving", RunPhase::Failed, 1);
        leaving.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(names(vec![retried, waits, leaving], 1, 0), [""; 0]);
    }
}
