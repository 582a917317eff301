//! KAI's published suite (`test/e2e/scale` of its repository, results of 2026-07-03) on our scheduler: 500 KWOK nodes of
//! eight GPUs, 512 for the topology gang; pods end without grace. Each figure is printed with the API server's
//! time for the same writes alone, also with KWOK.
//!
//! Where KAI's tests stop the scheduler while they submit, ours is stopped too, and the clock runs from the start of its
//! process; so a figure includes its lease, its fence and the five seconds in which older writes end. The topology gang
//! is submitted to a running scheduler, and the clock runs from the first pod's creation.

mod consolidation;
mod fill;
mod reclaim;
mod scene;

use anyhow::bail;

use crate::scheduler::report::Report;

pub async fn run(case: &str, report: Report) -> anyhow::Result<()> {
    match case {
        "kai.fill" => fill::fill(report).await,
        "kai.gang512" => fill::topology_gang(report).await,
        "kai.reclaim1" => reclaim::one_by_one(report).await,
        "kai.reclaim4000" => reclaim::all_at_once(report).await,
        "kai.verdict" => reclaim::verdict(report).await,
        "kai.consolidation" => consolidation::run(report).await,
        _ => bail!("there is no case {case}"),
    }
}
