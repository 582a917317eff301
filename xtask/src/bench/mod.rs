//! `cargo xtask bench …`: measurements, each in one run against its reference.

mod capacity;
pub mod oracle;
mod placement;
mod placement_work;
mod runs;

use std::process::Command;

use clap::{Args, Subcommand};
use test_cluster::figures::target_folder;

use crate::commands::{self, cargo, repository_root};
use crate::{e2e, packages, portal};

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Machines to buy: how far from the cheapest mix, and how long a decision takes.
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
    /// Faults on real servers: kills, stops, restarts, storms; judged over every revision of the store. Without a scenario
    /// the oracle comes first.
    Faults {
        /// Which scenarios, for example `kills`; all without one.
        scenarios: Vec<String>,
        /// A tenth of everything; prints no figures.
        #[arg(long)]
        rehearse: bool,
        /// The seed that a failing run printed.
        #[arg(long)]
        seed: Option<u64>,
    },
    /// The ledger: random histories against a naive model, kills on a real cluster, a million lines.
    Ledger,
    /// Verdicts on nodes: random clusters, judged by us and by kube-scheduler's own plugins.
    Oracle {
        /// How many clusters, each with one pod that waits.
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
        /// The largest cluster for which instructions are counted (slow); as large as those timed unless given.
        #[arg(long)]
        counted_max: Option<usize>,
    },
    /// Runs that survive: what a script must change, the chosen interval, crashes in a save; and real training on real
    /// kubelets, interrupted.
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
    /// The scheduler on the real API server: against bare calls, kube-scheduler and KAI's published suite.
    Scheduler {
        /// Which scenarios, for example `drain.n1k` or `kai`; all without one.
        scenarios: Vec<String>,
        /// A tenth of the size, to see that everything works; prints no figures.
        #[arg(long)]
        rehearse: bool,
    },
    /// The portal: sizes, a real browser, 10,000 runs, 500 open pages.
    Portal,
}

/// Builds what is measured with optimisation, then measures.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match &args.what {
        Bench::Capacity { parts, rehearse, seed } => capacity::run(parts, *rehearse, *seed),
        Bench::Faults { scenarios, rehearse, seed } => {
            if scenarios.is_empty() && !rehearse {
                oracle::run(oracle::CASES, 0)?;
            }
            let rehearse = rehearse.then_some("--rehearse");
            let seed = seed.map(|seed| format!("--seed={seed}"));
            let arguments: Vec<_> =
                scenarios.iter().map(String::as_str).chain(rehearse).chain(seed.as_deref()).collect();
            measure_with("bench-faults", &arguments, &["--features", "scheduler/failpoints"])
        }
        Bench::Ledger => {
            packages::install()?;
            let histories = ["test", "-p", "costing", "--test", "it", "histories", "--", "--nocapture"];
            commands::run_and_keep_figures(&mut cargo(&histories))?;
            e2e::run(&e2e::E2eArgs::only("ledger::"))?;
            measure("bench-ledger", &[])
        }
        Bench::Placement { nodes_max, counted_max } => placement::run(*nodes_max, *counted_max),
        Bench::Runs { parts, rehearse, seed } => runs::run(parts, *rehearse, *seed),
        Bench::Scheduler { scenarios, rehearse } => {
            let rehearse = rehearse.then_some("--rehearse");
            let arguments: Vec<_> = scenarios.iter().map(String::as_str).chain(rehearse).collect();
            measure("bench-scheduler", &arguments)
        }
        Bench::Oracle { cases, seed } => oracle::run(*cases, *seed),
        Bench::Portal => {
            packages::install()?;
            portal::check()?;
            portal::browse_mocked()?;
            e2e::run(&e2e::E2eArgs::only("portal::"))?;
            measure("bench-portal", &[])
        }
    }
}

/// Runs a benchmark of crate `e2e`; it starts our binaries of the same build.
fn measure(name: &str, arguments: &[&str]) -> anyhow::Result<()> {
    measure_with(name, arguments, &[])
}

/// The same, with features that only some measurements need.
fn measure_with(name: &str, arguments: &[&str], features: &[&str]) -> anyhow::Result<()> {
    commands::run(cargo(&["build", "--release", "--workspace", "--bins"]).args(features))?;
    let mut bench = Command::new(target_folder().join("release").join(name));
    commands::run(bench.args(arguments).current_dir(repository_root()))
}
