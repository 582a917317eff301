//! Every metric, by name. The registry, the reference and the dashboard use this one list, and tests check
//! that.

use prometheus_client::registry::{Metric, Registry};
use service_kit::metric_table::{MetricEntry, MetricKind, MetricTable};

/// The prefix of all names.
pub const PREFIX: &str = "warpyard_scheduler";

type Labels = &'static [(&'static str, &'static str)];

const fn entry(name: &'static str, kind: MetricKind, labels: Labels, help: &'static str) -> MetricEntry {
    MetricEntry::new(name, kind, help).labels(labels)
}

const REASON: Labels = &[("reason", "the code of the most binding reason")];
const GPU_TYPE: Labels = &[("gpu_type", "the 32 types with the most GPUs, and `other`")];
const MACHINE: Labels =
    &[("machine_type", "the MachineType"), ("capacity_type", "on-demand, spot or reserved")];
const QUEUE: Labels = &[("queue", "the 200 queues that hold most, and `other`")];

/// All metrics.
pub const TABLE: MetricTable = MetricTable {
    prefix: PREFIX,
    entries: &[
        entry("is_leader", MetricKind::Gauge, &[], "1 while this process leads"),
        entry("epoch", MetricKind::Gauge, &[], "The epoch this process published"),
        entry("plan_seconds", MetricKind::Histogram, &[], "Time of one plan"),
        entry("bind_seconds", MetricKind::Histogram, &[], "Time from sending a bind to its outcome"),
        entry("binds", MetricKind::Counter, &[("outcome", "bound, gone, refused, …")], "Binds by outcome"),
        entry(
            "watch_lag_seconds",
            MetricKind::Histogram,
            &[],
            "Time from the answer to a bind until the watch shows the pod on its node",
        ),
        entry("watch_backlog", MetricKind::Gauge, &[], "Changes from the watches that wait for the planner"),
        entry("watch_errors", MetricKind::Counter, &[], "Lists or watches that failed or broke off"),
        entry("watch_decode_errors", MetricKind::Counter, &[], "Objects that could not be decoded"),
        entry(
            "forecast_panics",
            MetricKind::Counter,
            &[],
            "Gangs whose forecast made its thread panic: a defect, please report it with a snapshot",
        ),
        entry(
            "plans_judged",
            MetricKind::Counter,
            &[],
            "Plans that an independent judge looked at; one every two minutes",
        ),
        entry(
            "plans_wrong",
            MetricKind::Counter,
            &[],
            "Plans that the judge found wrong: a defect, please report it with the snapshot that the log names",
        ),
        entry("gangs_waiting", MetricKind::Gauge, REASON, "Waiting gangs by their most binding reason"),
        entry("gangs_in_part", MetricKind::Gauge, &[], "Gangs with some members on nodes and others waiting"),
        entry("holds", MetricKind::Gauge, &[], "Gangs for which nodes are held until others have left them"),
        entry(
            "evictions",
            MetricKind::Counter,
            &[("reason", "the rule: priority, reclaim, expected-work, consolidation")],
            "Gangs that were evicted for others",
        ),
        entry(
            "evicted_gpu_seconds",
            MetricKind::Counter,
            &[("reason", "the rule: priority, reclaim, expected-work, consolidation")],
            "GPU time that evicted gangs lost: since their start, or since their last checkpoint",
        ),
        entry("gpus", MetricKind::Gauge, GPU_TYPE, "GPUs that nodes offer"),
        entry(
            "gpus_used",
            MetricKind::Gauge,
            GPU_TYPE,
            "GPUs in use, or promised to a pod that is being bound",
        ),
        entry(
            "gpus_free_in_part",
            MetricKind::Gauge,
            GPU_TYPE,
            "Free GPUs on partly used nodes: no gang that needs whole nodes can use them",
        ),
        entry("queue_gpus_used", MetricKind::Gauge, QUEUE, "GPUs that a queue and those below it hold"),
        entry(
            "queue_gpus_due",
            MetricKind::Gauge,
            QUEUE,
            "GPUs that a queue is due by the weights of the tree",
        ),
        entry("machines", MetricKind::Gauge, MACHINE, "Machines that were bought and are not gone"),
        entry("machines_most", MetricKind::Gauge, &[], "How many of them the BuyingPolicy allows"),
        entry(
            "machines_per_hour",
            MetricKind::Gauge,
            MACHINE,
            "What they cost per hour, in the currency of the price sheets",
        ),
        entry("machines_per_hour_most", MetricKind::Gauge, &[], "What the BuyingPolicy allows per hour"),
        entry(
            "launches",
            MetricKind::Counter,
            &[("outcome", "decided, failed, in-vain (paid for and not used), refused (beyond a cap)")],
            "Launches of machines by outcome",
        ),
    ],
};

/// Registers a metric, with the help text from the table.
pub(super) fn register(registry: &mut Registry, name: &'static str, metric: impl Metric) {
    registry.register(name, TABLE.help(name), metric);
}
