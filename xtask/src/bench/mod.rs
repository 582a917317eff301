//! `cargo xtask bench …`: measurements, each in one run against its reference.

mod capacity;
mod ci_load;
mod house;
mod measure;
pub mod oracle;
mod parts;
mod placement;
mod placement_work;
mod runs;
mod safe;

use clap::{Args, Subcommand};

use self::measure::{measure, measure_with};
use crate::commands::{self, cargo};
use crate::{e2e, packages, portal};

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Machines to buy: the distance from the cheapest mix, and the time of a decision.
    Capacity {
        /// Which parts, for example `mix` or `gangs`; all without one.
        parts: Vec<String>,
        /// A tenth of what needs a cluster; prints no figures.
        #[arg(long)]
        rehearse: bool,
        /// The seed that a failing run printed.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Faults on real servers: kills, stops, restarts, storms; judged over every revision of the store. Without a case
    /// the oracle comes first.
    Faults {
        /// Which cases, for example `kills`; all without one.
        cases: Vec<String>,
        /// A tenth of everything; prints no figures.
        #[arg(long)]
        rehearse: bool,
        /// The seed that a failing run printed.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// The code itself: how soon a newcomer starts, what a release build costs, whether effects do what the
    /// plan says.
    House {
        /// Which parts, for example `xtask_seconds`; all without one.
        parts: Vec<String>,
    },
    /// The ledger: random histories against a naive model, kills on a real cluster, a million lines.
    Ledger,
    /// Verdicts on nodes: random clusters, judged by us and by kube-scheduler's own plugins.
    Oracle {
        /// How many clusters, each with one waiting pod.
        #[arg(long, default_value_t = oracle::CASES)]
        cases: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Plans: how long they take, how their cost grows, whether the judge agrees, how fair they are.
    Placement {
        /// The largest cluster whose plans are timed.
        #[arg(long, default_value_t = 100_000)]
        nodes_max: usize,
        /// The largest cluster for which instructions are counted (slow); the default is the largest timed one.
        #[arg(long)]
        counted_max: Option<usize>,
    },
    /// Runs that survive interruptions: changes to a script, the chosen interval, crashes in a save, and real
    /// training on real kubelets.
    Runs {
        /// Which parts, for example `interval` or `plain`; all without one.
        parts: Vec<String>,
        /// A tenth of the interruptions; prints no figures.
        #[arg(long)]
        rehearse: bool,
        /// The seed that a failing run printed.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// What a careful admin asks before switching it on: whether buying runs away, priority robs, and runs that ended
    /// stay for ever.
    Safe {
        /// Which parts, for example `buying`; all without one.
        parts: Vec<String>,
    },
    /// The scheduler on the real API server: against bare calls, kube-scheduler and KAI's published suite.
    Scheduler {
        /// Which cases, for example `drain.n1k` or `kai`; all without one.
        cases: Vec<String>,
        /// A tenth of the size, to see that everything works; prints no figures.
        #[arg(long)]
        rehearse: bool,
    },
    /// The portal: sizes, a real browser, 10,000 runs, 500 open pages.
    Portal,
}

/// Builds the measured programs with optimisation, then measures.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match &args.what {
        Bench::Capacity { parts, rehearse, seed } => capacity::run(parts, *rehearse, *seed),
        Bench::Safe { parts } => safe::run(parts),
        Bench::Faults { cases, rehearse, seed } => {
            if cases.is_empty() && !rehearse {
                oracle::run(oracle::CASES, 0)?;
            }
            let rehearse = rehearse.then_some("--rehearse");
            let seed = seed.map(|seed| format!("--seed={seed}"));
            let arguments: Vec<_> =
                cases.iter().map(String::as_str).chain(rehearse).chain(seed.as_deref()).collect();
            measure_with("faults", &arguments, &["--features", "scheduler/failpoints"])
        }
        Bench::House { parts } => house::run(parts),
        Bench::Ledger => {
            packages::install()?;
            let histories = ["test", "-p", "costing", "--test", "it", "histories", "--", "--nocapture"];
            commands::run_and_keep_figures(&mut cargo(&histories))?;
            e2e::run(&e2e::E2eArgs::only("ledger::"))?;
            measure("ledger", &[])
        }
        Bench::Placement { nodes_max, counted_max } => placement::run(*nodes_max, *counted_max),
        Bench::Runs { parts, rehearse, seed } => runs::run(parts, *rehearse, *seed),
        Bench::Scheduler { cases, rehearse } => {
            let rehearse = rehearse.then_some("--rehearse");
            let arguments: Vec<_> = cases.iter().map(String::as_str).chain(rehearse).collect();
            measure("scheduler", &arguments)
        }
        Bench::Oracle { cases, seed } => oracle::run(*cases, *seed),
        Bench::Portal => {
            packages::install()?;
            portal::check()?;
            portal::browse_mocked()?;
            e2e::run(&e2e::E2eArgs::only("portal::"))?;
            measure("portal", &[])
        }
    }
}
