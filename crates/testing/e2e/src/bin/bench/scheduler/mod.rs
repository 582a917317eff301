//! `cargo xtask bench scheduler`: the whole scheduler on the real API server, compared with kube-scheduler,
//! with bare calls, and with KAI's published figures for its own suite.
//!
//! ```text
//!   drain.n1k  drain.n5k                   8,000 one-GPU pods     ours | bare binds | kube-scheduler
//!   gang.250x8  gang.16x500  gang.1x8000   one-GPU pods in gangs  ours | bare binds
//!   spread                                 100 groups of 20       ours | kube-scheduler
//!   large                                  10,000 nodes, 100,000 pods: memory, and the time to the first plan
//!   profile                                where the time of a drain goes; only by its name, prints no figures
//!   kai.fill  .gang512  .reclaim1  .reclaim4000  .verdict  .consolidation
//! ```
//!
//! A name, or the beginning of names, selects cases; without names, all run. The servers' flags go to stderr,
//! figures to stdout.

mod bare;
mod contender;
mod contest;
mod drain;
mod gang;
mod kai;
mod large;
mod observer;
mod profile;
mod profiler;
mod report;
mod servers;
mod spread;
mod yard;

use anyhow::ensure;

use crate::scheduler::report::Report;
use crate::scheduler::yard::{IN_FLIGHT_MAX, KUBE_SCHEDULER_QPS, NODE_LEASE_SECONDS};

const CASES: [&str; 14] = [
    "drain.n1k",
    "drain.n5k",
    "gang.250x8",
    "gang.16x500",
    "gang.1x8000",
    "spread",
    "large",
    PROFILE,
    "kai.fill",
    "kai.gang512",
    "kai.reclaim1",
    "kai.reclaim4000",
    "kai.verdict",
    "kai.consolidation",
];
/// For people who optimise; not a part of the suite.
const PROFILE: &str = "profile";

/// The scheduler as a whole, on the real API server.
#[derive(clap::Args)]
pub struct Args {
    /// Which cases, for example `drain.n1k` or `kai`; all without one.
    cases: Vec<String>,
    /// A tenth of the size, to see that everything works; prints no figures.
    #[arg(long)]
    rehearse: bool,
}

pub async fn measure(args: Args) -> anyhow::Result<()> {
    let report = Report { is_rehearsal: args.rehearse };
    let chosen = chosen(&args.cases)?;
    println!(
        "{} cores; etcd without fsync; {IN_FLIGHT_MAX} calls in flight, ours and bare, without a limit per second; \
         kube-scheduler qps {KUBE_SCHEDULER_QPS}, burst twice that; node leases {NODE_LEASE_SECONDS} s where KWOK runs",
        std::thread::available_parallelism()?,
    );
    for case in chosen {
        eprintln!("{case} …");
        match case {
            "drain.n1k" => drain::run("n1k", 1_000, report).await?,
            "drain.n5k" => drain::run("n5k", 5_000, report).await?,
            "gang.250x8" => gang::run(250, 8, report).await?,
            "gang.16x500" => gang::run(16, 500, report).await?,
            "gang.1x8000" => gang::run(1, 8_000, report).await?,
            "spread" => spread::run(report).await?,
            "large" => large::run(report).await?,
            PROFILE => profile::run(report).await?,
            _ => kai::run(case, report).await?,
        }
    }
    Ok(())
}

/// The cases with these names, or with names that begin so.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static str>> {
    let is_meant = |case: &str, name: &String| {
        case.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    for name in names {
        let known = CASES.iter().any(|case| is_meant(case, name));
        ensure!(known, "there is no case {name}\n\nhint: there are {}", CASES.join(", "));
    }
    let is_chosen = |case: &&str| match names {
        [] => *case != PROFILE,
        names => names.iter().any(|name| is_meant(case, name)),
    };
    Ok(CASES.into_iter().filter(is_chosen).collect())
}
