//! The builds that verbs share.
//!
//! Cargo builds a dependency again for every set of its features. The features depend on the selected packages,
//! and on whether a test or an example is built, because only then development dependencies count. So every
//! build that is not measured selects the whole workspace with the failpoints, and also builds a test or an
//! example. Then each step of CI can use the builds of the steps before.

use std::process::Command;

use toolbox::checkout::target_folder;

use crate::commands::{self, cargo};

/// For every `cargo` that builds without optimisation.
pub const WHOLE_WORKSPACE: [&str; 3] = ["--workspace", "--features", "scheduler/failpoints"];

/// Our programs on a cluster, and the program that starts a cluster on this machine.
const PLATFORM: [&str; 7] = [
    "--bin=warpyard",
    "--bin=warpyard-api-server",
    "--bin=warpyard-controllers",
    "--bin=warpyard-node-agent",
    "--bin=warpyard-scheduler",
    "--bin=dev-platform",
    "--example=up",
];

/// The measured packages: the services and the benchmarks. No other package affects their features.
const MEASURED: [&str; 6] = ["api-server", "cli", "controllers", "e2e", "node-agent", "scheduler"];

/// Builds the programs that run on a cluster, without optimisation.
pub fn build_platform() -> anyhow::Result<()> {
    build(&PLATFORM)
}

/// Builds these targets without optimisation. One of them must be a test or an example; see the head of this file.
pub fn build(targets: &[&str]) -> anyhow::Result<()> {
    commands::run(cargo(&["build"]).args(WHOLE_WORKSPACE).args(targets))
}

/// A program that was built without optimisation.
pub fn program(name: &str) -> Command {
    Command::new(target_folder().join("debug").join(name))
}

/// `cargo build` of the measured packages, with optimisation.
pub fn measured() -> Command {
    let mut command = cargo(&["build", "--release", "--bins"]);
    for package in MEASURED {
        command.args(["--package", package]);
    }
    command
}
