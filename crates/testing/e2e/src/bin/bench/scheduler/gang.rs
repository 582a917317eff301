//! One-GPU pods in gangs: all members or none.

use crate::scheduler::contender::Contender;
use crate::scheduler::contest::Load;
use crate::scheduler::report::Report;
use crate::scheduler::yard::{NAMESPACE, gangs, nodes};

const NODES: usize = 1_000;

pub async fn run(count: usize, members: u32, report: Report) -> anyhow::Result<()> {
    let id = format!("gang.{count}x{members}");
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
    let rounds = load.contest([Contender::Bare, Contender::FencedBare, Contender::Ours], report).await?;
    let rates = [0, 1, 2].map(|contender| rounds.each(|of| of[contender].per_second).median);
    let of = format!(
        "ours {:.0} pods/s, behind the fence {:.0}, bare {:.0}; {count} gangs × {members}, {} nodes",
        rates[2], rates[1], rates[0], load.nodes.count
    );
    let over_fenced = rounds.each(|[_, fenced, ours]| ours.per_second / fenced.per_second);
    report.figure(
        &format!("{id}.ours_over_fenced"),
        over_fenced.median,
        "ratio",
        &format!("{over_fenced}; {of}; bar: 0.88"),
    );
    let over_bare = rounds.each(|[bare, _, ours]| ours.per_second / bare.per_second);
    report.figure(
        &format!("{id}.ours_over_bare"),
        over_bare.median,
        "ratio",
        &format!("{over_bare}; {of}; bar: 0.8"),
    );
    Ok(())
}
