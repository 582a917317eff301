//! 8,000 waiting pods of one GPU each, drained.

use crate::contest::{Contender, Load};
use crate::report::Report;
use crate::yard::{NAMESPACE, gangs, nodes};

const PODS: usize = 8_000;
/// kube-scheduler's, measured before; see `shared/engine.md` of the project's notes.
const KUBE_SCHEDULER_CPU_MILLIS: f64 = 6.6;

pub async fn run(size: &str, node_count: usize, report: Report) -> anyhow::Result<()> {
    let pods = gangs("pod", NAMESPACE, report.size(PODS), 1, 1);
    let load = Load { nodes: nodes(report.size(node_count), 1), pods, is_profiled: false };
    let fenced = load.drain(Contender::FencedBare).await?;
    let in_turns = [Contender::KubeScheduler, Contender::Bare, Contender::Ours];
    let [theirs, bare, ours] = load.contest(in_turns, report.rounds()).await?;
    let reference = format!(
        "{:.0} pods/s, {:.0} % stolen by the host; bare {:.0}, {:.0} % stolen, behind the fence {:.0}, kube-scheduler {:.0}; \
         {} pods, {} nodes",
        ours.per_second,
        100.0 * ours.stolen,
        bare.per_second,
        100.0 * bare.stolen,
        fenced.per_second,
        theirs.per_second,
        load.pods.len(),
        load.nodes.count
    );
    report.figure(
        &format!("drain.{size}.ours_over_bare"),
        ours.per_second / bare.per_second,
        "ratio",
        &format!("{reference}; bar: 0.9"),
    );
    report.figure(
        &format!("drain.{size}.ours_over_kube_scheduler"),
        ours.per_second / theirs.per_second,
        "ratio",
        &format!("{reference}; bar: 4"),
    );
    // One figure for both sizes: the larger one is measured last, and is the harder one.
    report.figure(
        "drain.cpu_ms_per_pod",
        ours.cpu_millis_per_pod,
        "ms",
        &format!(
            "kube-scheduler {:.2} in the same run, {KUBE_SCHEDULER_CPU_MILLIS} before; {} nodes; since the start of each",
            theirs.cpu_millis_per_pod, load.nodes.count
        ),
    );
    report.figure(
        "drain.planning_percent",
        ours.planning_percent,
        "%",
        &format!("all plans over the time of the drain; {} nodes; bar: 5", load.nodes.count),
    );
    Ok(())
}
