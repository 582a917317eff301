//! Notices for people: why gangs wait, and what queues hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_types::queue::QueueStatus;
use cluster_apply::{Target, Value};
use cluster_model::plan::{Plan, WaitingGang};
use cluster_model::{ClusterState, GangKey};
use tokio::time::Instant;

use super::machines::Machines;
use super::outbox::Notice;
use crate::explain;

/// Time between two looks at reasons and queue numbers: people do not read faster, and a look costs O(waiting).
const PACE: Duration = Duration::from_millis(250);

/// The condition of a gang of one waits this long for a decision about machines. Karpenter's pools act on the
/// condition, and two writes for each of a thousand pods would delay them longer than the decision does.
const DECIDED_WITHIN: Duration = Duration::from_secs(2);

/// The reasons that waiting gangs were given, and when to look again.
#[derive(Debug)]
pub(super) struct Notices {
    told: BTreeMap<GangKey, Told>,
    due: Option<Instant>,
    last: Instant,
    /// Runs that the former leader marked as waiting.
    left: Vec<Target>,
}

/// The notices on a waiting gang's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    run: Option<Target>,
    pod: Target,
    since: Instant,
}

impl Notices {
    /// No notice was given yet.
    pub fn new(now: Instant) -> Self {
        Self { told: BTreeMap::new(), due: None, last: now, left: Vec::new() }
    }

    /// Takes up runs that the former leader marked as waiting; the mark is removed unless the next look agrees.
    pub fn take_up(&mut self, runs: Vec<Target>) {
        self.left = runs;
    }

    /// When the next notices are due.
    pub fn next(&self) -> Option<Instant> {
        self.due
    }

    /// Takes back the reasons of gangs that start, before they are bound.
    pub fn planned(&mut self, plan: &Plan) -> Vec<Notice> {
        self.due.get_or_insert(self.last + PACE);
        let told = plan.placements.iter().filter_map(|placement| self.told.remove(&placement.gang));
        told.flat_map(Told::take_back).collect()
    }

    /// The notices to send now.
    pub fn tell(
        &mut self,
        state: &ClusterState,
        waiting: &[WaitingGang],
        machines: &Machines,
        now: Instant,
    ) -> Vec<Notice> {
        (self.due, self.last) = (None, now);
        let mut notices = self.tell_waiting(state, waiting, machines, now);
        for (queue, usage) in state.queues() {
            let saved = state.saved_accounts(&queue.name);
            let accounts = saved.as_ref().map(explain::accounts);
            let status = QueueStatus { accounts, ..explain::queue_status(queue, usage) };
            notices.push(Notice::Say(Target::Queue(queue.name.clone()), Value::Queue(status)));
        }
        notices
    }

    fn tell_waiting(
        &mut self,
        state: &ClusterState,
        waiting: &[WaitingGang],
        machines: &Machines,
        now: Instant,
    ) -> Vec<Notice> {
        let (mut notices, mut told) = (Vec::new(), BTreeMap::new());
        for gang in waiting {
            let run = gang.run.as_ref().map(|run| Target::Run(gang.gang.namespace.clone(), run.clone()));
            let before = self.told.remove(&gang.gang);
            let since = before.as_ref().map_or(now, |before| before.since);
            let tells = Told { run, pod: Target::Pod(gang.first_pod.clone()), since };
            if let Some(run) = &tells.run {
                notices.push(Notice::Say(run.clone(), Value::Waiting(Some(explain::waiting(gang)))));
            }
            if now < since + DECIDED_WITHIN && machines.awaits_decision(state, &gang.gang) {
                self.due = Some(now + PACE);
            } else {
                let condition = explain::condition(gang, machines.is_from_pool(&gang.gang));
                notices.push(Notice::Say(tells.pod.clone(), condition));
            }
            if let Some(before) = before.filter(|before| before.pod != tells.pod) {
                notices.push(Notice::Forget(before.pod));
            }
            told.insert(gang.gang.clone(), tells);
        }
        // The gangs that remain do not wait any more.
        let ended = std::mem::replace(&mut self.told, told);
        let waiting: BTreeSet<_> = self.told.values().filter_map(|told| told.run.as_ref()).collect();
        for told in ended.into_values() {
            // Another attempt of the same run may wait now.
            let run = told.run.filter(|run| !waiting.contains(run));
            notices.extend(Told { run, ..told }.take_back());
        }
        let left = std::mem::take(&mut self.left).into_iter().filter(|run| !waiting.contains(run));
        notices.extend(left.map(|run| Notice::Say(run, Value::Waiting(None))));
        notices
    }
}

impl Told {
    fn take_back(self) -> impl Iterator<Item = Notice> {
        [Some(Notice::Forget(self.pod)), self.run.map(Notice::Clear)].into_iter().flatten()
    }
}
