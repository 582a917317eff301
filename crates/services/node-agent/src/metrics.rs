//! The agent's metrics.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use service_kit::metric_table::{MetricEntry, MetricKind, MetricTable};

use crate::source::Source;
use crate::xid::Action;

/// All metrics.
pub const TABLE: MetricTable = MetricTable {
    prefix: "warpyard_node_agent",
    entries: &[
        MetricEntry::new(
            "polls",
            MetricKind::Counter,
            "Polls of sources of notices and faults, by source and result",
        )
        .labels(&[
            (
                "source",
                "`AwsSpot`, `AwsRebalance`, `AwsScheduled`, `GcpPreempted`, `GcpMaintenance`, `Azure`, …",
            ),
            ("result", "`Ok`, `Error`"),
        ]),
        MetricEntry::new(
            "xids",
            MetricKind::Counter,
            "Errors of the NVIDIA driver in the kernel log, by the action that they need",
        )
        .labels(&[("action", "`Ignore`, `RestartApp`, `Help`, `Unknown`")]),
        MetricEntry::new("writes", MetricKind::Counter, "Writes to the Node by result")
            .labels(&[("result", "`Ok`, `Conflict`, `Error`")]),
    ],
};

/// The agent's metrics; clones share the numbers.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    polls: Family<PollLabels, Counter>,
    xids: Family<XidLabels, Counter>,
    writes: Family<WriteLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PollLabels {
    source: Source,
    result: PollResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum PollResult {
    Ok,
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct XidLabels {
    action: XidAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum XidAction {
    Ignore,
    RestartApp,
    Help,
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    result: WriteResult,
}

/// How a write to the Node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum WriteResult {
    /// It is written.
    Ok,
    /// Another writer wrote at the same time; the write is decided anew.
    Conflict,
    /// It failed, and is tried again later.
    Error,
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("warpyard_node_agent_polls", TABLE.help("polls"), metrics.polls.clone());
        registry.register("warpyard_node_agent_xids", TABLE.help("xids"), metrics.xids.clone());
        registry.register("warpyard_node_agent_writes", TABLE.help("writes"), metrics.writes.clone());
        metrics
    }

    pub(crate) fn polled(&self, source: Source, ok: bool) {
        let result = if ok { PollResult::Ok } else { PollResult::Error };
        self.polls.get_or_create(&PollLabels { source, result }).inc();
    }

    pub(crate) fn saw_xid(&self, action: Option<Action>) {
        let action = match action {
            Some(Action::Ignore) => XidAction::Ignore,
            Some(Action::RestartApp) => XidAction::RestartApp,
            Some(Action::Help(_) | Action::ByMessage) => XidAction::Help,
            None => XidAction::Unknown,
        };
        self.xids.get_or_create(&XidLabels { action }).inc();
    }

    pub(crate) fn wrote(&self, result: WriteResult) {
        self.writes.get_or_create(&WriteLabels { result }).inc();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::{Metrics, TABLE, WriteResult};
    use crate::source::Source;

    #[test]
    fn the_table_names_every_metric_of_the_registry_and_no_other() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.polled(Source::Dcgm, true);
        metrics.saw_xid(None);
        metrics.wrote(WriteResult::Ok);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
        assert_eq!(TABLE.differences(&text), Vec::<String>::new());
    }
}
