//! The work that attempts of Runs lost and that the ledger may not have yet. Pure.
//!
//! A Run's status says how many seconds of an attempt were lost, counted back from its end. Known losses are
//! kept until the Run is deleted, so that they are not written again with each event: about 100 bytes for each
//! attempt with a loss.

use std::collections::BTreeMap;

use api_types::Run;
use api_types::run::Attempt;
use costing::Moment;
use kube::runtime::watcher::Event;
use store::LostUse;

/// A Run, by namespace and name.
type Key = (String, String);

/// Losses in the statuses of Runs, known and new.
#[derive(Debug, Default)]
pub struct Lost {
    /// By attempt: from which moment on its work was lost.
    known: BTreeMap<Key, BTreeMap<u32, Moment>>,
    news: BTreeMap<(Key, u32), Moment>,
}

impl Lost {
    /// Takes in an event of the watch of Runs.
    pub fn run_event(&mut self, event: &Event<Run>) {
        match event {
            // All losses are written again, which does not harm the ledger.
            Event::Init => self.known.clear(),
            Event::InitApply(run) | Event::Apply(run) => self.see(run),
            Event::InitDone => {}
            Event::Delete(run) => {
                self.see(run);
                self.known.remove(&key(run));
            }
        }
    }

    /// Whether the ledger may lack a loss.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Some of the losses that the ledger may lack.
    pub fn batch(&self, max: usize) -> Vec<LostUse> {
        let lost = |((key, attempt), from): (&(Key, u32), &Moment)| LostUse {
            namespace: key.0.clone(),
            run: key.1.clone(),
            attempt: *attempt,
            from: *from,
        };
        self.news.iter().take(max).map(lost).collect()
    }

    /// The ledger has these.
    pub fn recorded(&mut self, batch: &[LostUse]) {
        for lost in batch {
            let key = ((lost.namespace.clone(), lost.run.clone()), lost.attempt);
            // More may have been lost since the batch was taken.
            if self.news.get(&key) == Some(&lost.from) {
                self.news.remove(&key);
            }
        }
    }

    fn see(&mut self, run: &Run) {
        let attempts = run.status.iter().flat_map(|status| &status.attempts);
        let lost: BTreeMap<u32, Moment> =
            attempts.filter_map(|attempt| Some((attempt.number, lost_from(attempt)?))).collect();
        if lost.is_empty() {
            return;
        }
        let key = key(run);
        let known = self.known.entry(key.clone()).or_default();
        for (attempt, from) in lost {
            if known.insert(attempt, from) != Some(from) {
                self.news.insert((key.clone(), attempt), from);
            }
        }
    }
}

/// From which moment on an attempt's use was lost: that many seconds before its end.
fn lost_from(attempt: &Attempt) -> Option<Moment> {
    let seconds = i64::try_from(attempt.lost?.seconds).ok().filter(|seconds| *seconds > 0)?;
    let ended = attempt.ended_at.as_ref()?.0.as_second();
    Some(Moment(ended.saturating_sub(seconds)))
}

fn key(run: &Run) -> Key {
    (run.metadata.namespace.clone().unwrap_or_default(), run.metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use api_types::Run;
    use api_types::run::{Attempt, LostWork};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube::runtime::watcher::Event;

    use super::Lost;
    use crate::run::testing::{at, run};

    /// A Run whose attempts lost these numbers of seconds before second 100.
    fn lost(seconds: &[u64]) -> Run {
        let attempt = |(number, seconds): (u32, &u64)| Attempt {
            number,
            ended_at: Some(Time(at(100))),
            lost: Some(LostWork { steps: 1, seconds: *seconds }),
            ..Attempt::default()
        };
        let mut run = run();
        run.status.get_or_insert_default().attempts = (1..).zip(seconds).map(attempt).collect();
        run
    }

    /// Attempt and second of each new loss.
    fn news(lost: &Lost) -> Vec<(u32, i64)> {
        let second = |from: costing::Moment| from.0 - at(0).as_second();
        lost.batch(10).into_iter().map(|it| (it.attempt, second(it.from))).collect()
    }

    #[test]
    fn an_attempt_lost_what_it_did_so_long_before_its_end() {
        let mut state = Lost::default();
        state.run_event(&Event::Apply(lost(&[17, 0, 100])));
        assert_eq!(news(&state), [(1, 83), (3, 0)]);
        assert!(state.has_news());
    }

    #[test]
    fn what_is_recorded_is_no_news_until_more_was_lost() {
        let mut state = Lost::default();
        state.run_event(&Event::Apply(lost(&[17])));
        let batch = state.batch(10);
        state.run_event(&Event::Apply(lost(&[20])));
        state.recorded(&batch);
        assert_eq!(news(&state), [(1, 80)], "it was more than the batch said");
        state.recorded(&state.batch(10));
        state.run_event(&Event::Apply(lost(&[20])));
        assert!(!state.has_news());
    }

    #[test]
    fn a_run_that_goes_is_forgotten_but_not_what_it_lost() {
        let mut state = Lost::default();
        state.run_event(&Event::Delete(lost(&[17])));
        assert_eq!(news(&state), [(1, 83)]);
        assert!(state.known.is_empty());
    }

    #[test]
    fn a_new_list_tells_all_again() {
        let mut state = Lost::default();
        state.run_event(&Event::InitApply(lost(&[17])));
        state.recorded(&state.batch(10));
        state.run_event(&Event::Init);
        state.run_event(&Event::InitApply(lost(&[17])));
        assert_eq!(news(&state), [(1, 83)]);
    }
}
