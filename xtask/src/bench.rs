//! `cargo xtask bench …`: measurements, each in one run against its reference.

use clap::{Args, Subcommand};

use crate::commands::{self, cargo};

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
}

/// Builds what is measured with optimisation, then measures.
pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    match args.what {
        Bench::Bind { nodes, pods } => {
            commands::run(&mut cargo(&["build", "--release", "--bins", "-p", "scheduler", "-p", "e2e"]))?;
            let (nodes, pods) = (nodes.to_string(), pods.to_string());
            let bench = [
                "run",
                "--release",
                "-p",
                "e2e",
                "--bin",
                "bench-bind",
                "--",
                "--nodes",
                &nodes,
                "--pods",
                &pods,
            ];
            commands::run(&mut cargo(&bench))
        }
    }
}
