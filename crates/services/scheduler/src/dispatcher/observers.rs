//! What the planning thread notes for those who ask why and when, and for operators. Cheap: what takes long is done
//! elsewhere, on a copy.

use std::time::Duration;

use cluster_apply::{BindReport, Outcome};
use cluster_model::Change;
use cluster_model::plan::Plan;
use tokio::time::Instant;

use super::Planner;

/// The state is measured once in this time, if it is planned at all: it costs O(nodes + queues).
const MEASURE_PACE: Duration = Duration::from_secs(1);

impl Planner {
    /// Before a change is applied.
    pub(super) fn observe_change(&mut self, change: &Change) {
        self.outputs.teller.changes(&self.state, change);
        if let Some(record) = &mut self.outputs.record {
            record.change(&self.state, change, self.state.now());
        }
        if let (Some(spans), Change::PodGone(pod)) = (&mut self.outputs.spans, change) {
            spans.gone(pod);
        }
        if let Some((pod, seconds)) = self.lag.seen(change, Instant::now()) {
            self.outputs.metrics.watch_lag_seconds.observe(seconds);
            if let Some(spans) = &mut self.outputs.spans {
                spans.seen(pod);
            }
        }
    }

    /// After a plan was made, before anything of it is carried out: the state is the one that it was made from.
    pub(super) fn observe_plan(&mut self, plan: &Plan, took: Duration) {
        if let Some(spans) = &mut self.outputs.spans {
            spans.planned(plan, took);
        }
        self.outputs.metrics.count_evictions(plan);
        self.outputs.teller.planned(&self.state, &self.policy, plan);
        if let Some(record) = &mut self.outputs.record {
            record.planned(&self.state);
        }
    }

    /// The loop ends.
    pub(super) fn observe_end(&mut self) {
        if let Some(record) = &mut self.outputs.record {
            record.end(&self.state, self.state.now());
        }
    }

    /// It is known what became of a bind. The watch may have shown the pod on its node before.
    pub(super) fn observe_bind(&mut self, report: &BindReport) {
        self.outputs.metrics.count_bind(report);
        let is_seen =
            self.state.pod_id(&report.pod).is_none_or(|pod| self.state.pod(pod).pod().node.is_some());
        let is_awaited = report.outcome == Outcome::Bound && !is_seen;
        if is_awaited {
            self.lag.bound(&report.pod, Instant::now());
        }
        if let Some(spans) = &mut self.outputs.spans {
            spans.settled(report, is_awaited);
        }
    }

    /// Shows operators what the state is, at a pace.
    pub(super) fn measure_if_due(&mut self, now: Instant, backlog: usize) {
        if self.measured.is_some_and(|at| at + MEASURE_PACE > now) {
            return;
        }
        self.measured = Some(now);
        self.outputs.metrics.watch_backlog.set(i64::try_from(backlog).unwrap_or(i64::MAX));
        self.outputs.metrics.show_state(&self.state);
    }
}
