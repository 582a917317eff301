//! The meter's metrics.

use costing::Moment;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use service_kit::metric_table::{MetricEntry, MetricKind, MetricTable};
use store::Posted;

/// All metrics.
pub const TABLE: MetricTable = MetricTable {
    prefix: "warpyard_meter",
    entries: &[
        MetricEntry::new(
            "dirty_records",
            MetricKind::Gauge,
            "Records of pods and nodes that the ledger may not have",
        ),
        MetricEntry::new("posted_lines", MetricKind::Counter, "Lines posted to the ledger")
            .labels(&[("kind", "`Charge`, `Reversal`")]),
        MetricEntry::new("problems", MetricKind::Counter, "Problems that folding accounts found"),
        MetricEntry::new("failures", MetricKind::Counter, "Failed tries to write to the ledger"),
        MetricEntry::new(
            "last_flush_timestamp_seconds",
            MetricKind::Gauge,
            "The time up to which the ledger has everything that was seen",
        ),
        MetricEntry::new(
            "price_sheets_left_out",
            MetricKind::Gauge,
            "Price sheets that are left out because a part of them cannot be read",
        ),
    ],
};

/// Counts and gauges of the meter.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    dirty_records: Gauge,
    posted_lines: Family<Labels, Counter>,
    problems: Counter,
    failures: Counter,
    last_flush: Gauge,
    sheets_left_out: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Kind {
    Charge,
    Reversal,
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let area = registry.sub_registry_with_prefix(TABLE.prefix);
        area.register("dirty_records", TABLE.help("dirty_records"), metrics.dirty_records.clone());
        area.register("posted_lines", TABLE.help("posted_lines"), metrics.posted_lines.clone());
        area.register("problems", TABLE.help("problems"), metrics.problems.clone());
        area.register("failures", TABLE.help("failures"), metrics.failures.clone());
        let last_flush = "last_flush_timestamp_seconds";
        area.register(last_flush, TABLE.help(last_flush), metrics.last_flush.clone());
        let left_out = "price_sheets_left_out";
        area.register(left_out, TABLE.help(left_out), metrics.sheets_left_out.clone());
        metrics
    }

    pub(super) fn dirty(&self, records: usize) {
        self.dirty_records.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    pub(super) fn posted(&self, posted: &Posted) {
        self.posted_lines.get_or_create(&Labels { kind: Kind::Charge }).inc_by(posted.charges);
        self.posted_lines.get_or_create(&Labels { kind: Kind::Reversal }).inc_by(posted.reversals);
        self.problems.inc_by(posted.problems);
    }

    pub(super) fn failed(&self) {
        self.failures.inc();
    }

    pub(super) fn flushed(&self, now: Moment) {
        self.last_flush.set(now.0);
    }

    pub(super) fn left_out(&self, sheets: usize) {
        self.sheets_left_out.set(i64::try_from(sheets).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use store::Posted;

    use super::{Metrics, TABLE};

    #[test]
    fn the_table_names_every_metric_of_the_registry_and_no_other() {
        let mut registry = Registry::default();
        Metrics::register(&mut registry).posted(&Posted::default());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
        assert_eq!(TABLE.differences(&text), Vec::<String>::new());
    }
}
