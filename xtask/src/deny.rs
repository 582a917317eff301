//! Licences, bans and sources of dependencies, judged by `cargo deny` as `deny.toml` says.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use test_cluster::engine_bin;

use crate::commands::{self, cargo, repository_root};

const VERSION: &str = "0.20.2";

/// Makes sure that the pinned `cargo deny` is there: it is built once, into the cache beside the engine.
pub fn install() -> anyhow::Result<()> {
    if engine_bin::is_executable(&binary()?) {
        return Ok(());
    }
    eprintln!("building cargo-deny {VERSION} (about three minutes on two cores) …");
    let root = root()?;
    let install = ["install", "cargo-deny", "--locked", "--quiet", "--version", VERSION, "--root"];
    commands::run(cargo(&install).arg(root))
}

/// Checks everything but advisories, whose database only a hosted workflow can fetch.
pub fn check() -> anyhow::Result<()> {
    install()?;
    let mut deny = Command::new(binary()?);
    deny.current_dir(repository_root());
    commands::run(deny.args(["--log-level", "error", "check", "bans", "licenses", "sources"]))
}

fn binary() -> anyhow::Result<PathBuf> {
    Ok(root()?.join("bin/cargo-deny"))
}

fn root() -> anyhow::Result<PathBuf> {
    let engine = engine_bin::cache_dir()?;
    let cache = engine.parent().context("the engine's cache has no parent")?;
    Ok(cache.join(format!("tools/cargo-deny-{VERSION}")))
}
