//! The project's only scripts: `cargo xtask <verb>`.

use clap::{Parser, Subcommand};

use xtask::{bench, ci, codegen, dev, e2e, engine};

/// Warpyard's developer commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build the real servers (API server, etcd, KWOK, …) from their pins, into a cache.
    Engine(engine::EngineArgs),
    /// Write the generated files: CRDs, OpenAPI document, schema, CLI reference.
    Codegen,
    /// Run everything that CI runs, and print how long each step took.
    Ci,
    /// Run the end-to-end tests on the real servers; names filter them.
    E2e(e2e::E2eArgs),
    /// Measure.
    Bench(bench::BenchArgs),
    /// Bring the whole platform up on this machine, with fake GPU nodes and three teams.
    Dev(dev::DevArgs),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().verb {
        Verb::Engine(args) => engine::run(&args),
        Verb::Codegen => codegen::write_all(),
        Verb::Ci => ci::run(),
        Verb::E2e(args) => e2e::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Dev(args) => dev::run(&args),
    }
}
