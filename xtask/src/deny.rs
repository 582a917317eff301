//! Licences, bans and sources of dependencies, judged by `cargo deny` as `deny.toml` says.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use toolbox::checkout::repository_root;
use toolbox::{engine_bin, programs};

use crate::commands::{self, cargo};

const VERSION: &str = "0.20.2";

/// Builds the pinned `cargo deny` once, into the cache of the engine.
pub fn install() -> anyhow::Result<()> {
    if programs::is_executable(&binary()?) {
        return Ok(());
    }
    eprintln!("building cargo-deny {VERSION} (about a minute on two cores) …");
    let root = root()?;
    // Unoptimised: it runs for seconds.
    let install = ["install", "--debug", "cargo-deny", "--locked", "--quiet", "--version", VERSION, "--root"];
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
