//! `cargo xtask e2e`: the end-to-end tests, one binary, on the real servers.

use clap::Args;

use crate::commands::{self, cargo};

/// Arguments of `cargo xtask e2e`.
#[derive(Args, Default)]
pub struct E2eArgs {
    /// Run only tests whose name contains one of these.
    filters: Vec<String>,
}

/// Builds our binaries with their failpoints, then runs the tests against them.
pub fn run(args: &E2eArgs) -> anyhow::Result<()> {
    let packages = ["-p", "scheduler", "-p", "controllers", "-p", "api-server", "-p", "cli"];
    commands::run(cargo(&["build", "--bins", "--features", "scheduler/failpoints"]).args(packages))?;
    let mut test = cargo(&["test", "-p", "e2e", "--test", "e2e", "--", "--nocapture", "--test-threads=1"]);
    commands::run(test.args(&args.filters))
}
