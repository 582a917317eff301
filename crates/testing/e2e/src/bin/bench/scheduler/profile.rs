//! `cargo xtask bench scheduler profile`: where the time of a drain goes, for our scheduler and for bare calls.
//! The API server profiles itself; `perf` profiles all processes.
//!
//! Profiling slows the processes, so these drains give no figures.

use crate::scheduler::contender::Contender;
use crate::scheduler::contest::Load;
use crate::scheduler::report::Report;
use crate::scheduler::yard::{NAMESPACE, gangs, nodes};

const PODS: usize = 8_000;
const NODES: usize = 1_000;

pub async fn run(report: Report) -> anyhow::Result<()> {
    let pods = gangs("pod", NAMESPACE, report.size(PODS), 1, 1);
    let load = Load { nodes: nodes(report.size(NODES), 1), pods, is_profiled: true };
    for contender in [Contender::Bare, Contender::FencedBare, Contender::Ours] {
        load.drain(contender).await?;
    }
    Ok(())
}
