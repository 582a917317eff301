//! Counts and gauges of cleaning up.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use service_kit::metric_table::{MetricEntry, MetricKind, MetricTable};

/// All metrics.
pub const TABLE: MetricTable = MetricTable {
    prefix: "warpyard_cleanup",
    entries: &[
        MetricEntry::new(
            "runs_due",
            MetricKind::Gauge,
            "Ended Runs that are too old or too many, and are still in the cluster",
        ),
        MetricEntry::new(
            "runs_archived",
            MetricKind::Counter,
            "Ended Runs that were archived and deleted from the cluster",
        ),
        MetricEntry::new("failures", MetricKind::Counter, "Failed tries to archive or delete ended Runs"),
    ],
};

/// Counts and gauges of cleaning up.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    runs_due: Gauge,
    runs_archived: Counter,
    failures: Counter,
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let area = registry.sub_registry_with_prefix(TABLE.prefix);
        area.register("runs_due", TABLE.help("runs_due"), metrics.runs_due.clone());
        area.register("runs_archived", TABLE.help("runs_archived"), metrics.runs_archived.clone());
        area.register("failures", TABLE.help("failures"), metrics.failures.clone());
        metrics
    }

    pub(super) fn due(&self, runs: usize) {
        self.runs_due.set(i64::try_from(runs).unwrap_or(i64::MAX));
    }

    pub(super) fn archived(&self, runs: usize) {
        self.runs_archived.inc_by(runs as u64);
    }

    pub(super) fn failed(&self) {
        self.failures.inc();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::{Metrics, TABLE};

    #[test]
    fn the_table_names_every_metric_of_the_registry_and_no_other() {
        let mut registry = Registry::default();
        Metrics::register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
        assert_eq!(TABLE.differences(&text), Vec::<String>::new());
    }

    #[test]
    fn alerts_name_metrics_that_there_are() {
        let alerts = include_str!("../../../../../deploy/prometheus/alerts.yaml");
        let named: Vec<&str> = alerts
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| word.starts_with(TABLE.prefix))
            .collect();
        assert!(!named.is_empty());
        let there: Vec<String> = TABLE.entries.iter().map(|entry| TABLE.full_name(entry)).collect();
        assert!(named.iter().all(|name| there.iter().any(|it| it == name)), "{named:?}");
    }
}
