//! The project's only scripts: `cargo xtask <verb>`.

use clap::{Parser, Subcommand};

use xtask::{
    bench, bugs, ci, codegen, deny, dev, e2e, engine, experiments, packages, portal, python, quickstart,
};

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
    /// Install programs of the distribution that tests need (PostgreSQL, Chromium, …), if they are missing.
    Packages,
    /// Install the pinned Python environment for the SDK's tests, into a cache.
    Python,
    /// Build the pinned tools that CI needs beside the servers, into a cache.
    Tools,
    /// Lint, type-check and test the Python SDK and its examples.
    Sdk(python::SdkArgs),
    /// Build the portal, which the API server embeds.
    Portal,
    /// Write the generated files: CRDs, OpenAPI document, schema, CLI reference.
    Codegen,
    /// Run everything that CI runs, and print how long each step took.
    Ci,
    /// Run the end-to-end tests on the real servers; names filter them.
    E2e(e2e::E2eArgs),
    /// Run the README's quickstart as it is written.
    Quickstart,
    /// Put seeded bugs into a scratch copy, one after the other, and check that the judge finds each.
    Bugs(bugs::BugsArgs),
    /// Measure.
    Bench(bench::BenchArgs),
    /// Run the trace experiments, and print our results next to the published ones.
    Experiments(experiments::ExperimentsArgs),
    /// Start the whole platform on this machine, with fake GPU nodes, three teams and their jobs.
    Dev(dev::DevArgs),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().verb {
        Verb::Engine(args) => engine::run(&args),
        Verb::Packages => packages::install(),
        Verb::Python => python::install(),
        Verb::Tools => deny::install(),
        Verb::Sdk(args) => python::check(&args),
        Verb::Portal => portal::build(),
        Verb::Codegen => codegen::write_all(),
        Verb::Ci => ci::run(),
        Verb::E2e(args) => e2e::run(&args),
        Verb::Quickstart => quickstart::run(),
        Verb::Bugs(args) => bugs::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Experiments(args) => experiments::run(&args),
        Verb::Dev(args) => dev::run(&args),
    }
}
