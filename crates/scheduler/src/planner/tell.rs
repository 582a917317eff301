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

/// What a waiting gang's objects were told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    run: Option<Target>,
    pod: Target,
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
        self.tell_waiting();
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

    fn tell_waiting(&mut self) {
        let mut told = BTreeMap::new();
        for gang in &self.waiting {
            let run = gang.run.as_ref().map(|run| Target::Run(gang.gang.namespace.clone(), run.clone()));
            let now = Told { run, pod: Target::Pod(gang.first_pod.clone()) };
            if let Some(run) = &now.run {
                self.outputs.status.submit(run.clone(), Value::Waiting(Some(explain::waiting(gang))));
            }
            let condition = explain::condition(gang, self.is_from_pool(&gang.gang));
            self.outputs.status.submit(now.pod.clone(), condition);
            if let Some(before) = self.told.remove(&gang.gang)
                && before.pod != now.pod
            {
                self.outputs.status.forget(&before.pod);
            }
            told.insert(gang.gang.clone(), now);
        }
        // What is left does not wait any more.
        let ended = std::mem::replace(&mut self.told, told);
        let waiting: BTreeSet<_> = self.told.values().filter_map(|told| told.run.as_ref()).collect();
        for told in ended.into_values() {
            // Another attempt of the same run may wait now.
            let run = told.run.filter(|run| !waiting.contains(run));
            self.take_back(&Told { run, pod: told.pod });
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
