//! Data that the dispatcher's thread collects for questions of people, and for operators. It is cheap to
//! collect: long work is done elsewhere, on a copy.

use std::time::Duration;

use cluster_apply::{BindOutcome, BindReport};
use cluster_model::plan::Plan;
use cluster_model::{ClusterChange, ClusterState};
use placement::Policy;
use tokio::time::Instant;

use super::lag::Lag;
use crate::metrics::Metrics;
use crate::record::TraceFile;
use crate::spans::Spans;
use crate::tell::learned::Teller;

/// Time between two measurements of the state. One costs O(nodes + queues).
const MEASURE_PACE: Duration = Duration::from_secs(1);

/// The observers of the loop.
pub struct Observers {
    /// Numbers for operators.
    pub metrics: Metrics,
    /// For people who ask why and when.
    pub teller: Teller,
    /// The file that the history goes to, if there is one.
    pub record: Option<TraceFile>,
    /// Traces for a collector, if there is one.
    pub spans: Option<Spans>,
    /// The lag of the watch.
    pub lag: Lag,
    /// When the state was measured last.
    pub measured: Option<Instant>,
}

impl Observers {
    /// Before a change is applied.
    pub(super) fn change(&mut self, state: &ClusterState, change: &ClusterChange) {
        self.teller.changes(state, change);
        if let Some(record) = &mut self.record {
            record.change(state, change, state.now());
        }
        if let (Some(spans), ClusterChange::PodGone(pod)) = (&mut self.spans, change) {
            spans.gone(pod);
        }
        if let Some((pod, seconds)) = self.lag.seen(change, Instant::now()) {
            self.metrics.watch_lag_seconds.observe(seconds);
            if let Some(spans) = &mut self.spans {
                spans.seen(pod);
            }
        }
    }

    /// After a plan was made and before it is committed: `state` is the one that it was made from.
    pub(super) fn planned(&mut self, state: &ClusterState, policy: &Policy, plan: &Plan, took: Duration) {
        self.metrics.plan_seconds.observe(took.as_secs_f64());
        if let Some(spans) = &mut self.spans {
            spans.planned(plan, took);
        }
        self.metrics.count_evictions(plan);
        self.teller.planned(state, policy, plan);
        if let Some(record) = &mut self.record {
            record.planned(state);
        }
    }

    /// The loop ends.
    pub(super) fn end(&mut self, state: &ClusterState) {
        if let Some(record) = &mut self.record {
            record.end(state, state.now());
        }
    }

    /// The outcome of a bind is known. The watch may have shown the pod on its node before.
    pub(super) fn bound(&mut self, state: &ClusterState, report: &BindReport) {
        self.metrics.count_bind(report);
        let is_seen = state.pod_id(&report.pod).is_none_or(|pod| state.pod(pod).pod().node.is_some());
        let is_awaited = report.outcome == BindOutcome::Bound && !is_seen;
        if is_awaited {
            self.lag.bound(&report.pod, Instant::now());
        }
        if let Some(spans) = &mut self.spans {
            spans.settled(report, is_awaited);
        }
    }

    /// Updates the metrics of the state, if that is due.
    pub(super) fn measure_if_due(&mut self, state: &ClusterState, now: Instant, backlog: usize) {
        if self.measured.is_some_and(|at| at + MEASURE_PACE > now) {
            return;
        }
        self.measured = Some(now);
        self.metrics.watch_backlog.set(i64::try_from(backlog).unwrap_or(i64::MAX));
        self.metrics.show_state(state);
    }
}
