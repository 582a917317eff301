//! Counts of what the agent did and saw.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::probe::Source;
use crate::xid::Action;

/// See the module. Clones count together.
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
    /// Somebody else wrote at the same time; it is decided anew.
    Conflict,
    /// It is tried again later.
    Error,
}

impl Metrics {
    /// Metrics that are served with the registry's others.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "warpyard_node_agent_polls",
            "Looks at sources of notices and faults, by source and result",
            metrics.polls.clone(),
        );
        registry.register(
            "warpyard_node_agent_xids",
            "Errors of the NVIDIA driver in the kernel log, by what they ask for",
            metrics.xids.clone(),
        );
        registry.register(
            "warpyard_node_agent_writes",
            "Writes to the Node by result",
            metrics.writes.clone(),
        );
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
