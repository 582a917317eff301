//! 8,000 waiting pods of one GPU each, drained.

use crate::scheduler::contender::Contender;
use crate::scheduler::contest::{Load, Result};
use crate::scheduler::report::Report;
use crate::scheduler::yard::{NAMESPACE, gangs, nodes};

const PODS: usize = 8_000;

pub async fn run(size: &str, node_count: usize, report: Report) -> anyhow::Result<()> {
    let pods = gangs("pod", NAMESPACE, report.size(PODS), 1, 1);
    let load = Load { nodes: nodes(report.size(node_count), 1), pods, is_profiled: false };
    // So far from any bar that once is enough.
    let theirs = load.drain(Contender::KubeScheduler).await?;
    let rounds = load.contest([Contender::Bare, Contender::FencedBare, Contender::Ours], report).await?;
    let rates = [0, 1, 2].map(|contender| rounds.each(|of| of[contender].per_second).median);
    let of = format!(
        "ours {:.0} pods/s, behind the fence {:.0}, bare {:.0}, kube-scheduler {:.0}; {} pods, {} nodes",
        rates[2],
        rates[1],
        rates[0],
        theirs.per_second,
        load.pods.len(),
        load.nodes.count
    );
    let figure = |id: &str, unit: &str, bar: &str, of_round: &dyn Fn(&[Result; 3]) -> f64| {
        let number = rounds.each(of_round);
        report.figure(id, number.median, unit, &format!("{number}; {of}; {bar}"));
    };
    figure(&format!("drain.{size}.ours_over_fenced"), "ratio", "bar: 0.92", &|[_, fenced, ours]| {
        ours.per_second / fenced.per_second
    });
    figure(&format!("drain.{size}.ours_over_bare"), "ratio", "beside", &|[bare, _, ours]| {
        ours.per_second / bare.per_second
    });
    figure(&format!("drain.{size}.ours_over_kube_scheduler"), "ratio", "bar: 4", &|[_, _, ours]| {
        ours.per_second / theirs.per_second
    });
    // One figure for both sizes: the larger one is measured last, and is the harder one.
    figure("drain.apiserver_cpu_over_fenced", "ratio", "bar: 1.05", &|[_, fenced, ours]| {
        ours.api_server_millis_per_pod / fenced.api_server_millis_per_pod
    });
    figure("drain.cpu_ms_per_pod", "ms", "since the start of the process; bar: 0.2", &|[_, _, ours]| {
        ours.cpu_millis_per_pod
    });
    figure("drain.planning_percent", "%", "all plans over the time of the drain; bar: 5", &|[_, _, ours]| {
        ours.planning_percent
    });
    figure("fence.cost_percent", "%", "of the rate of bare binds", &|[bare, fenced, _]| {
        100.0 * (1.0 - fenced.per_second / bare.per_second)
    });
    Ok(())
}
