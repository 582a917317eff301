//! `cargo xtask portal`: builds the portal into `portal/dist`, which the API server embeds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, ensure};
use toolbox::checkout::{repository_root, target_folder};

use crate::{commands, packages};

/// Flags for every call of npm: no funding notes, no audit over the network.
const QUIET: [&str; 3] = ["--no-fund", "--no-audit", "--loglevel=error"];

/// Builds it in any case.
pub fn build() -> anyhow::Result<()> {
    install()?;
    commands::run(&mut npm(&["run", "build"]))
}

/// Builds it if a source file is newer than the build.
pub fn build_if_stale() -> anyhow::Result<()> {
    let built = modified(&folder().join("dist/index.html"));
    let sources = ["src", "public", "index.html", "package-lock.json", "vite.config.ts"];
    let newest = sources.iter().filter_map(|name| newest(&folder().join(name))).max();
    if built.is_some() && built >= newest {
        return Ok(());
    }
    eprintln!("building the portal …");
    build()
}

/// Checks types, lints, unit tests, the size of the files that browsers load, and that the API's types match
/// the document.
pub fn check() -> anyhow::Result<()> {
    build()?;
    for script in ["lint", "test"] {
        commands::run(&mut npm(&["run", script]))?;
    }
    check_client()?;
    commands::run_and_keep_figures(&mut npm(&["run", "size"]))
}

/// The client's types must be those of the OpenAPI document.
fn check_client() -> anyhow::Result<()> {
    let fresh = target_folder().join("portal-schema.d.ts");
    let mut generate = npm(&["exec", "openapi-typescript", "--", "../openapi/warpyard.json", "-o"]);
    commands::run(generate.arg(&fresh))?;
    let read = |path: &Path| fs::read(path).with_context(|| format!("failed to read {}", path.display()));
    let is_fresh = read(&fresh)? == read(&folder().join("src/api/schema.d.ts"))?;
    ensure!(is_fresh, "portal/src/api/schema.d.ts is stale: run `npm run codegen` in portal/");
    Ok(())
}

/// The tests in a real browser on a mocked API: every page and state, accessibility, keyboard, scrolling.
pub fn browse_mocked() -> anyhow::Result<()> {
    commands::run_and_keep_figures(&mut npm(&["run", "e2e"]))
}

/// The folder of the portal.
pub fn folder() -> PathBuf {
    repository_root().join("portal")
}

/// Installs the packages that `package-lock.json` pins, unless that was done for the same lock file.
fn install() -> anyhow::Result<()> {
    packages::check_node()?;
    let lock = fs::read(folder().join("package-lock.json")).context("failed to read package-lock.json")?;
    let mark = folder().join("node_modules/.installed-lock.json");
    if fs::read(&mark).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    // Not `npm ci`: it refuses a lock file without the optional packages of other platforms, and a registry for
    // only this platform yields no others. `install` takes the pinned versions too, and changes no file of
    // ours.
    commands::run(npm(&["install", "--no-save"]).args(QUIET))?;
    fs::write(&mark, lock).with_context(|| format!("failed to write {}", mark.display()))
}

fn npm(arguments: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(arguments).current_dir(folder());
    npm
}

fn newest(path: &PathBuf) -> Option<SystemTime> {
    let Ok(entries) = fs::read_dir(path) else { return modified(path) };
    entries.flatten().filter_map(|entry| newest(&entry.path())).max()
}

fn modified(path: &PathBuf) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
