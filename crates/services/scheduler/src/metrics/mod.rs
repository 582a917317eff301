//! The scheduler's metrics. Labels come from enums, or from a bounded number of names.

mod gauges;
pub mod machines;
pub mod table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cluster_apply::BindReport;
use cluster_model::ClusterState;
use cluster_model::plan::{EvictionRule, Plan, WaitingGang};
use cluster_watch::Counters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use self::table::{TABLE, register};

/// All metrics; clones share the numbers.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Time of one plan.
    pub plan_seconds: Histogram,
    /// Time from sending a bind to knowing its outcome.
    pub bind_seconds: Histogram,
    /// Time from then until the watch shows it.
    pub watch_lag_seconds: Histogram,
    /// Changes that wait for the planner.
    pub watch_backlog: Gauge,
    /// 1 while this process may write.
    pub is_leader: Gauge,
    /// The epoch this process published; 0 before.
    pub epoch: Gauge,
    /// Errors of the watches.
    pub watches: Arc<Counters>,
    /// Questions that made the forecast thread panic.
    pub forecast_panics: Counter,
    /// Plans that the independent judge looked at.
    pub plans_judged: Counter,
    /// Plans that it found wrong.
    pub plans_wrong: Counter,
    /// Gangs with some members on a node while others wait.
    pub gangs_in_part: Gauge,
    holds: Gauge,
    binds: Family<OutcomeLabel, Counter>,
    waiting: Family<ReasonLabel, Gauge>,
    evictions: Family<ReasonLabel, Counter>,
    evicted_gpu_seconds: Family<ReasonLabel, Counter>,
    gpus: Family<GpuTypeLabel, Gauge>,
    gpus_used: Family<GpuTypeLabel, Gauge>,
    gpus_free_in_part: Family<GpuTypeLabel, Gauge>,
    queue_gpus_used: Family<QueueLabel, Gauge>,
    queue_gpus_due: Family<QueueLabel, Gauge>,
    /// Of machines that are bought.
    pub machines: machines::MachineMetrics,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GpuTypeLabel {
    gpu_type: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: String,
}

impl Metrics {
    /// The metrics, and the registry that serves them.
    pub fn new() -> (Self, Arc<Registry>) {
        let metrics = Self {
            // From 100 µs to 3 s, and from 1 ms to 33 s.
            plan_seconds: Histogram::new(exponential_buckets(0.0001, 2.0, 16)),
            bind_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            watch_lag_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            watch_backlog: Gauge::default(),
            is_leader: Gauge::default(),
            epoch: Gauge::default(),
            watches: Arc::default(),
            forecast_panics: Counter::default(),
            plans_judged: Counter::default(),
            plans_wrong: Counter::default(),
            gangs_in_part: Gauge::default(),
            holds: Gauge::default(),
            binds: Family::default(),
            waiting: Family::default(),
            evictions: Family::default(),
            evicted_gpu_seconds: Family::default(),
            gpus: Family::default(),
            gpus_used: Family::default(),
            gpus_free_in_part: Family::default(),
            queue_gpus_used: Family::default(),
            queue_gpus_due: Family::default(),
            machines: machines::MachineMetrics::default(),
        };
        let mut registry = Registry::with_prefix(table::PREFIX);
        metrics.register(&mut registry);
        (metrics, Arc::new(registry))
    }

    fn register(&self, registry: &mut Registry) {
        register(registry, "is_leader", self.is_leader.clone());
        register(registry, "epoch", self.epoch.clone());
        register(registry, "plan_seconds", self.plan_seconds.clone());
        register(registry, "bind_seconds", self.bind_seconds.clone());
        register(registry, "binds", self.binds.clone());
        register(registry, "watch_lag_seconds", self.watch_lag_seconds.clone());
        register(registry, "watch_backlog", self.watch_backlog.clone());
        registry.register_collector(Box::new(WatchErrors(Arc::clone(&self.watches))));
        register(registry, "forecast_panics", self.forecast_panics.clone());
        register(registry, "plans_judged", self.plans_judged.clone());
        register(registry, "plans_wrong", self.plans_wrong.clone());
        register(registry, "gangs_waiting", self.waiting.clone());
        register(registry, "gangs_in_part", self.gangs_in_part.clone());
        register(registry, "holds", self.holds.clone());
        register(registry, "evictions", self.evictions.clone());
        register(registry, "evicted_gpu_seconds", self.evicted_gpu_seconds.clone());
        register(registry, "gpus", self.gpus.clone());
        register(registry, "gpus_used", self.gpus_used.clone());
        register(registry, "gpus_free_in_part", self.gpus_free_in_part.clone());
        register(registry, "queue_gpus_used", self.queue_gpus_used.clone());
        register(registry, "queue_gpus_due", self.queue_gpus_due.clone());
        self.machines.register(registry);
    }

    /// Counts a bind.
    pub fn count_bind(&self, report: &BindReport) {
        self.binds.get_or_create(&OutcomeLabel { outcome: report.outcome.as_str() }).inc();
        self.bind_seconds.observe(report.took.as_secs_f64());
    }

    /// Counts the gangs that a carried-out plan evicts.
    pub fn count_evictions(&self, plan: &Plan) {
        for eviction in &plan.evictions {
            let label = ReasonLabel { reason: rule(eviction.why) };
            self.evictions.get_or_create(&label).inc();
            self.evicted_gpu_seconds.get_or_create(&label).inc_by(eviction.lost_gpu_seconds);
        }
    }

    /// Shows the gangs that wait, each under its first reason.
    pub fn show_waiting(&self, gangs: &[WaitingGang]) {
        let mut counts: BTreeMap<&'static str, i64> = BTreeMap::new();
        for reason in gangs.iter().filter_map(|gang| gang.reasons.first()) {
            *counts.entry(reason.code()).or_default() += 1;
        }
        self.waiting.clear();
        for (reason, count) in counts {
            self.waiting.get_or_create(&ReasonLabel { reason }).set(count);
        }
    }

    /// Shows what queues and GPU types hold. O(nodes + queues): some milliseconds at 10,000 nodes; call it once
    /// a second.
    pub fn show_state(&self, state: &ClusterState) {
        self.holds.set(i64::try_from(state.held_gangs().len()).unwrap_or(i64::MAX));
        for family in [&self.gpus, &self.gpus_used, &self.gpus_free_in_part] {
            family.clear();
        }
        for (gpu_type, gpus) in gauges::gpus_by_type(state) {
            let label = GpuTypeLabel { gpu_type };
            self.gpus.get_or_create(&label).set(gpus.all);
            self.gpus_used.get_or_create(&label).set(gpus.used);
            self.gpus_free_in_part.get_or_create(&label).set(gpus.free_in_part);
        }
        self.queue_gpus_used.clear();
        self.queue_gpus_due.clear();
        for (queue, used, due) in gauges::queues(state) {
            let label = QueueLabel { queue };
            self.queue_gpus_used.get_or_create(&label).set(used);
            self.queue_gpus_due.get_or_create(&label).set(due);
        }
    }
}

/// The rule, as a label.
fn rule(reason: EvictionRule) -> &'static str {
    match reason {
        EvictionRule::Priority => "priority",
        EvictionRule::Reclaim => "reclaim",
        EvictionRule::ExpectedWork => "expected-work",
        EvictionRule::Consolidation => "consolidation",
    }
}

#[derive(Debug)]
struct WatchErrors(Arc<Counters>);

impl Collector for WatchErrors {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        for (name, count) in
            [("watch_errors", &self.0.errors), ("watch_decode_errors", &self.0.decode_errors)]
        {
            let counter = ConstCounter::new(count.load(Ordering::Relaxed));
            counter.encode(encoder.encode_descriptor(
                name,
                TABLE.help(name),
                None,
                counter.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
