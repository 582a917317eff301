//! What the meter says about itself.

use costing::Moment;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use store::Posted;

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
    /// Metrics that are served with the registry's others.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let area = registry.sub_registry_with_prefix("warpyard_meter");
        area.register(
            "dirty_records",
            "Records of pods and nodes that the ledger may not have",
            metrics.dirty_records.clone(),
        );
        area.register("posted_lines", "Lines posted to the ledger", metrics.posted_lines.clone());
        area.register("problems", "Problems that folding accounts found", metrics.problems.clone());
        area.register("failures", "Tries to write to the ledger that failed", metrics.failures.clone());
        area.register(
            "last_flush_timestamp_seconds",
            "When the ledger last had everything that was seen; seconds since then are how far it lags",
            metrics.last_flush.clone(),
        );
        area.register(
            "price_sheets_left_out",
            "Price sheets that do not count, because they cannot be read whole",
            metrics.sheets_left_out.clone(),
        );
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
