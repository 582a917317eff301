//! What the scheduler counts. Labels come from enums, never from names that users choose.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cluster_apply::BindReport;
use cluster_model::plan::WaitingGang;
use cluster_watch::Counters;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// All of them; clones share the numbers.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Time of one plan.
    pub plan_seconds: Histogram,
    /// Time from sending a bind to knowing what became of it.
    pub bind_seconds: Histogram,
    /// 1 while this process may write.
    pub is_leader: Gauge,
    /// The epoch this process published; 0 before.
    pub epoch: Gauge,
    /// What went wrong with the watches.
    pub watches: Arc<Counters>,
    /// Gangs of which some members have a node while others wait.
    pub gangs_in_part: Gauge,
    binds: Family<OutcomeLabel, Counter>,
    waiting: Family<ReasonLabel, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

impl Metrics {
    /// The metrics, and the registry that serves them.
    pub fn new() -> (Self, Arc<Registry>) {
        let metrics = Self {
            // From 100 µs to 3 s, and from 1 ms to 33 s.
            plan_seconds: Histogram::new(exponential_buckets(0.0001, 2.0, 16)),
            bind_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            is_leader: Gauge::default(),
            epoch: Gauge::default(),
            watches: Arc::default(),
            gangs_in_part: Gauge::default(),
            binds: Family::default(),
            waiting: Family::default(),
        };
        let mut registry = Registry::with_prefix("warpyard_scheduler");
        registry.register("plan_seconds", "Time of one plan", metrics.plan_seconds.clone());
        registry.register(
            "bind_seconds",
            "Time from sending a bind to its outcome",
            metrics.bind_seconds.clone(),
        );
        registry.register("is_leader", "1 while this process leads", metrics.is_leader.clone());
        registry.register("epoch", "The epoch this process published", metrics.epoch.clone());
        // The encoder adds `_total` to counters.
        registry.register("binds", "Binds by outcome", metrics.binds.clone());
        registry.register(
            "gangs_waiting",
            "Waiting gangs by their most binding reason",
            metrics.waiting.clone(),
        );
        registry.register(
            "gangs_in_part",
            "Gangs with some members on nodes and others waiting",
            metrics.gangs_in_part.clone(),
        );
        registry.register_collector(Box::new(WatchErrors(Arc::clone(&metrics.watches))));
        (metrics, Arc::new(registry))
    }

    /// Counts a bind.
    pub fn count_bind(&self, report: &BindReport) {
        self.binds.get_or_create(&OutcomeLabel { outcome: report.outcome.as_str() }).inc();
        self.bind_seconds.observe(report.took.as_secs_f64());
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
}

#[derive(Debug)]
struct WatchErrors(Arc<Counters>);

impl Collector for WatchErrors {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        for (name, help, count) in [
            ("watch_errors", "Lists or watches that failed or broke off", &self.0.errors),
            ("watch_decode_errors", "Objects that could not be decoded", &self.0.decode_errors),
        ] {
            let counter = ConstCounter::new(count.load(Ordering::Relaxed));
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    #[test]
    fn metrics_have_the_names_that_dashboards_use() {
        let (metrics, registry) = Metrics::new();
        metrics.is_leader.set(1);
        metrics.plan_seconds.observe(0.001);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
        for line in [
            "warpyard_scheduler_is_leader 1",
            "warpyard_scheduler_epoch 0",
            "warpyard_scheduler_gangs_in_part 0",
            "warpyard_scheduler_plan_seconds_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(text.contains("watch_errors_total 0"), "{text}");
    }
}
