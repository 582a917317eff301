//! `cargo xtask bench oracle`: compares our verdict on every node of random clusters with kube-scheduler's own
//! plugins.

use anyhow::Context;
use toolbox::checkout::repository_root;
use toolbox::engine_bin;

use crate::builds;
use crate::commands::{self, cargo};
use crate::engine::{self, EngineArgs};

const ORACLE: &str = "filter-oracle";
/// The full run.
pub const CASES: u64 = 100_000;
/// What CI compares.
const SHARD_CASES: u64 = 2_000;

/// Compares `cases` cases, from a seed on, and keeps the figures.
pub fn run(cases: u64, seed: u64) -> anyhow::Result<()> {
    commands::run_and_keep_figures(
        cargo(&["run", "--release", "-p", "filter-fuzz", "--"]).args(arguments(cases, seed)?),
    )
}

/// The part that CI runs, with the build of the tests. Its figures are not those of the full run, so none is
/// kept.
pub fn run_shard() -> anyhow::Result<()> {
    builds::build(&["--bin=filter-fuzz", "--test=named"])?;
    let mut compare = builds::program("filter-fuzz");
    commands::run(compare.args(arguments(SHARD_CASES, 0)?).current_dir(repository_root()))
}

fn arguments(cases: u64, seed: u64) -> anyhow::Result<[String; 6]> {
    engine::run(&EngineArgs { only: vec![ORACLE.to_owned()] })?;
    let oracle = engine_bin::find(ORACLE)?;
    let oracle = oracle.to_str().context("the path of the oracle is not text")?.to_owned();
    let words = ["--oracle", &oracle, "--cases", &cases.to_string(), "--seed", &seed.to_string()];
    Ok(words.map(ToOwned::to_owned))
}
