//! What people are told: why gangs wait, and what queues hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_types::queue::QueueStatus;
use cluster_apply::{Target, Value};
use cluster_model::GangKey;
use tokio::time::Instant;

use super::Planner;
use crate::explain;
use crate::unwind::is_in_part;

/// Reasons and queue numbers are looked at once in this time: people do not read faster, and it costs O(waiting).
pub(super) const EXPLAIN_PACE: Duration = Duration::from_millis(250);

/// For so long the condition of a gang of one waits for what is decided about machines: it is what pools go by, and two writes
/// for each of a thousand pods would keep them waiting longer than a decision does.
const DECIDED_WITHIN: Duration = Duration::from_secs(2);

/// What a waiting gang's objects were told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    run: Option<Target>,
    pod: Target,
    since: Instant,
}

impl Planner {
    /// Tells it, at a pace.
    pub(super) fn explain_if_due(&mut self, now: Instant) {
        if self.explain_at.is_none_or(|due| due > now) {
            return;
        }
        self.explain_at = None;
        self.explained = now;
        self.unwind(now);
        self.outputs.metrics.show_waiting(&self.waiting);
        self.outputs.metrics.gangs_in_part.set(self.gangs_in_part());
        self.tell_waiting(now);
        for (queue, usage) in self.state.queues() {
            let saved = self.state.saved_accounts(&queue.name);
            let accounts = saved.as_ref().map(explain::accounts);
            let status = QueueStatus { accounts, ..explain::queue_status(queue, usage) };
            self.outputs.status.submit(Target::Queue(queue.name.clone()), Value::Queue(status));
        }
    }

    /// Gangs of which some members have a node while others wait for theirs, or cannot be bound.
    pub(super) fn gangs_in_part(&self) -> i64 {
        let failing = self.failing_gangs();
        let keys: BTreeSet<&GangKey> = self.state.waiting_gangs().chain(&failing).collect();
        let gangs = keys.into_iter().filter_map(|key| self.state.gang(key));
        let in_part = gangs.filter(|gang| is_in_part(&self.state, gang)).count();
        i64::try_from(in_part).unwrap_or(i64::MAX)
    }

    fn tell_waiting(&mut self, now: Instant) {
        let mut told = BTreeMap::new();
        let mut is_incomplete = false;
        for gang in &self.waiting {
            let run = gang.run.as_ref().map(|run| Target::Run(gang.gang.namespace.clone(), run.clone()));
            let before = self.told.remove(&gang.gang);
            let since = before.as_ref().map_or(now, |before| before.since);
            let tells = Told { run, pod: Target::Pod(gang.first_pod.clone()), since };
            if let Some(run) = &tells.run {
                self.outputs.status.submit(run.clone(), Value::Waiting(Some(explain::waiting(gang))));
            }
            if now < since + DECIDED_WITHIN && self.awaits_decision(&gang.gang) {
                is_incomplete = true;
            } else {
                let condition = explain::condition(gang, self.is_from_pool(&gang.gang));
                self.outputs.status.submit(tells.pod.clone(), condition);
            }
            if let Some(before) = before.filter(|before| before.pod != tells.pod) {
                self.outputs.status.forget(&before.pod);
            }
            told.insert(gang.gang.clone(), tells);
        }
        if is_incomplete {
            self.explain_at = Some(now + EXPLAIN_PACE);
        }
        // What is left does not wait any more.
        let ended = std::mem::replace(&mut self.told, told);
        let waiting: BTreeSet<_> = self.told.values().filter_map(|told| told.run.as_ref()).collect();
        for told in ended.into_values() {
            // Another attempt of the same run may wait now.
            let run = told.run.filter(|run| !waiting.contains(run));
            self.take_back(&Told { run, ..told });
        }
        let left = self.taken_over.as_mut().map(|it| std::mem::take(&mut it.runs)).unwrap_or_default();
        for run in left.into_iter().filter(|run| !waiting.contains(run)) {
            self.outputs.status.submit(run, Value::Waiting(None));
        }
    }

    pub(super) fn take_back(&self, told: &Told) {
        self.outputs.status.forget(&told.pod);
        if let Some(run) = &told.run {
            self.outputs.status.clear_run(run);
        }
    }
}
