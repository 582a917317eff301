//! `cargo xtask bench …`: measurements, each in one run against its reference.

mod placement;
mod placement_work;

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
    /// Pods bound per second: by us, by kube-scheduler, and by bare bind calls.
    Bind {
        /// Fake nodes with eight GPUs each.
        #[arg(long, default_value_t = 1_000)]
        nodes: usize,
        /// Waiting pods of one GPU each.
        #[arg(long, default_value_t = 4_000)]
        pods: usize,
    },
    /// The ledger: random histories against a naive model, kills on a real cluster, a million lines.
    Ledger,
    /// Plans: how long they take, how their cost grows, whether the judge agrees, how fair they are.
    Placement {
        /// The largest cluster whose plans are timed.
        #[arg(long, default_value_t = 100_000)]
        nodes_max: usize,
        /// The largest cluster for which instructions are counted (slow); as large as those timed unless given.
        #[arg(long)]
        counted_max: Option<usize>,
    },
    /// The portal: sizes, a real browser, 10,000 runs, 500 open pages.
    Portal,
}

/// Builds what is measured with optimisation, then measures.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match args.what {
        Bench::Bind { nodes, pods } => {
            let (nodes, pods) = (nodes.to_string(), pods.to_string());
            measure("bench-bind", &["--nodes", &nodes, "--pods", &pods])
        }
        Bench::Ledger => {
            packages::install()?;
            let histories = ["test", "-p", "costing", "--test", "it", "histories", "--", "--nocapture"];
            commands::run_and_keep_figures(&mut cargo(&histories))?;
            e2e::run(&e2e::E2eArgs::only("ledger::"))?;
            measure("bench-ledger", &[])
        }
        Bench::Placement { nodes_max, counted_max } => placement::run(nodes_max, counted_max),
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
    commands::run(&mut cargo(&["build", "--release", "--workspace", "--bins"]))?;
    let mut bench = Command::new(target_folder().join("release").join(name));
    commands::run(bench.args(arguments).current_dir(repository_root()))
}
