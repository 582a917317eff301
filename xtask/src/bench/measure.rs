//! The program `bench` of crate `e2e`, which measures on real servers. It starts our binaries of the same build.

use std::process::Command;

use toolbox::checkout::{repository_root, target_folder};

use crate::{builds, commands};

/// Builds with optimisation, then runs a part of the program.
pub fn measure(part: &str, arguments: &[&str]) -> anyhow::Result<()> {
    measure_with(part, arguments, &[])
}

/// The same, with features that only some measurements need.
pub fn measure_with(part: &str, arguments: &[&str], features: &[&str]) -> anyhow::Result<()> {
    commands::run(builds::measured().args(features))?;
    let mut bench = Command::new(target_folder().join("release/bench"));
    commands::run(bench.arg(part).args(arguments).current_dir(repository_root()))
}
