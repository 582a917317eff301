//! `cargo xtask bench oracle`: do we agree with kube-scheduler's own plugins about every node of random clusters?

use anyhow::Context;
use test_cluster::engine_bin;

use crate::commands::{self, cargo};
use crate::engine::{self, EngineArgs};

const ORACLE: &str = "filter-oracle";
/// The full run.
pub const CASES: u64 = 100_000;
/// What CI compares.
const SHARD_CASES: u64 = 2_000;

/// Compares so many cases, from a seed on, and keeps the figures.
pub fn run(cases: u64, seed: u64) -> anyhow::Result<()> {
    commands::run_and_keep_figures(
        cargo(&["run", "--release", "-p", "filter-fuzz", "--"]).args(arguments(cases, seed)?),
    )
}

/// The part that CI runs, with what `cargo test` has built. Its figures are not those of the full run, so none is kept.
pub fn run_shard() -> anyhow::Result<()> {
    commands::run(cargo(&["run", "-p", "filter-fuzz", "--"]).args(arguments(SHARD_CASES, 0)?))
}

fn arguments(cases: u64, seed: u64) -> anyhow::Result<[String; 6]> {
    engine::run(&EngineArgs { only: vec![ORACLE.to_owned()] })?;
    let oracle = engine_bin::find(ORACLE)?;
    let oracle = oracle.to_str().context("the path of the oracle is not text")?.to_owned();
    let words = ["--oracle", &oracle, "--cases", &cases.to_string(), "--seed", &seed.to_string()];
    Ok(words.map(ToOwned::to_owned))
}
