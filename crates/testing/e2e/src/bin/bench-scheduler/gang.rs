//! One-GPU pods in gangs: all members or none.

use crate::contest::{Contender, Load};
use crate::report::Report;
use crate::yard::{NAMESPACE, gangs, nodes};

const NODES: usize = 1_000;

pub async fn run(count: usize, members: u32, report: Report) -> anyhow::Result<()> {
    let id = format!("gang.{count}x{members}.ours_over_bare");
    // A rehearsal has fewer gangs; where there is one, it has fewer members.
    let (count, members) = match (report.is_rehearsal, count) {
        (true, 1) => (1, members / 10),
        (true, count) => (count.div_ceil(10), members),
        (false, count) => (count, members),
    };
    let pods = gangs("gang", NAMESPACE, count, members, 1);
    // All fit, also when there are fewer gangs and fewer nodes.
    let load =
        Load { nodes: nodes(report.size(NODES).max(pods.len().div_ceil(8)), 1), pods, is_profiled: false };
    let fenced = load.drain(Contender::FencedBare).await?;
    let [bare, ours] = load.contest([Contender::Bare, Contender::Ours], report.rounds()).await?;
    let reference = format!(
        "{:.0} pods/s, {:.0} % stolen by the host; bare {:.0}, {:.0} % stolen, behind the fence {:.0}; {count} gangs × \
         {members}, {} nodes; bar: 0.8",
        ours.per_second,
        100.0 * ours.stolen,
        bare.per_second,
        100.0 * bare.stolen,
        fenced.per_second,
        load.nodes.count
    );
    report.figure(&id, ours.per_second / bare.per_second, "ratio", &reference);
    Ok(())
}
