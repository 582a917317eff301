//! The outcome as a table, and as data.

use serde::Serialize;
use simulator::report::{Title, duration, duration_mean, thousands};
use simulator::{Outcome, Percentiles, QueueSummary, Summary};

use crate::render;

/// Queues that the table shows; the data has all.
const QUEUES_SHOWN: usize = 20;

/// The outcome of a simulation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct View {
    workload: String,
    policy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    summary: Summary,
    queues: Vec<QueueSummary>,
}

impl View {
    pub fn new(title: &Title, outcome: &Outcome) -> Self {
        Self {
            workload: title.workload.clone(),
            policy: title.policy.clone(),
            seed: title.seed,
            summary: outcome.summary.clone(),
            queues: outcome.queues(),
        }
    }
}

/// For people.
pub(super) fn table(view: &View) -> String {
    let summary = &view.summary;
    let seed = view.seed.map_or(String::new(), |seed| format!(", seed {seed}"));
    let facts = [
        ("Workload", format!("{}{seed}", view.workload)),
        ("Policy", view.policy.clone()),
        ("Jobs", jobs(summary)),
        ("Utilisation", format!("{:.1} %", summary.utilisation_percent)),
        ("Wait", spread(&summary.wait)),
        ("Completion", spread(&summary.completion)),
        ("Interrupted", interrupted(summary)),
        ("Nodes in use", format!("{:.0} node-hours", summary.powered_node_hours)),
        ("Makespan", duration(summary.makespan_seconds)),
    ];
    let facts = facts.map(|(name, value)| format!("{name:<14}{value}\n")).concat();
    let rows = view.queues.iter().take(QUEUES_SHOWN).map(|queue| {
        vec![
            queue.name.clone(),
            thousands(queue.jobs),
            format!("{:.1} %", queue.useful_percent),
            duration_mean(queue.wait.mean_seconds),
            duration(u64::from(queue.wait.p90_seconds)),
            duration(u64::from(queue.wait.max_seconds)),
        ]
    });
    let header = vec!["QUEUE", "JOBS", "GPU-TIME", "WAIT-MEAN", "WAIT-P90", "WAIT-MAX"];
    let hidden = view.queues.len().saturating_sub(QUEUES_SHOWN);
    let more = if hidden > 0 { format!("… and {hidden} more; -o json has all\n") } else { String::new() };
    format!("{facts}\n{}{more}", render::table(header, rows))
}

fn jobs(summary: &Summary) -> String {
    let mut text = format!("{}, {} ended", thousands(summary.jobs), thousands(summary.jobs_ended));
    if summary.jobs_never_started > 0 {
        text = format!("{text}, {} never started", thousands(summary.jobs_never_started));
    }
    if summary.deadlines_missed > 0 {
        text = format!("{text}, {} missed their deadline", thousands(summary.deadlines_missed));
    }
    text
}

fn spread(spread: &Percentiles) -> String {
    let [p50, p90, p99, max] =
        [spread.p50_seconds, spread.p90_seconds, spread.p99_seconds, spread.max_seconds]
            .map(|seconds| duration(u64::from(seconds)));
    format!("mean {}, p50 {p50}, p90 {p90}, p99 {p99}, max {max}", duration_mean(spread.mean_seconds))
}

fn interrupted(summary: &Summary) -> String {
    format!(
        "{} preemptions, {} by failed nodes; {:.2} % of GPU time lost, {:.2} % by preemption",
        thousands(summary.preemptions),
        thousands(summary.failures),
        summary.lost_percent,
        summary.preempted_percent
    )
}
