//! `cargo xtask python` and `cargo xtask sdk`: the SDK's pinned environment, and its tests in it.
//!
//! ```text
//!   sdk/python/requirements.txt ──hash──► <cache>/python/<hash>/complete there? ── yes ─► done
//!                                                │ no
//!                  lock ─► python3 -m venv ─► pip install ─► import torch ─► `complete`
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use toolbox::checkout::repository_root;
use toolbox::python;

use crate::commands;

/// How much of the SDK's tests to run.
#[derive(clap::Args, Debug, Default)]
pub struct SdkArgs {
    /// Test every crash point and all interruptions: about twenty minutes.
    #[arg(long)]
    pub full: bool,
}

/// The oldest Python that the SDK runs on.
const PYTHON_MIN: (u32, u32) = (3, 11);

/// Installs the environment if it is missing, and prints its path.
pub fn install() -> anyhow::Result<()> {
    let target = environment()?;
    if !target.join(python::COMPLETE).exists() {
        build(&target)?;
    }
    println!("python {}", python::interpreter(&target).display());
    Ok(())
}

/// Lints, types and tests; without `--full`, in a few minutes.
pub fn check(args: &SdkArgs) -> anyhow::Result<()> {
    install()?;
    let environment = environment()?;
    let examples = repository_root().join("examples/training");
    commands::run(&mut python(&environment, &["ruff", "check", "--no-cache", "--quiet", "src", "tests"]))?;
    // For the examples the SDK is a third-party package.
    let mut foreign = python(&environment, &["ruff", "check", "--no-cache", "--quiet", "--isolated"]);
    foreign.args(["--line-length=120", "--select=E,F,I"]);
    foreign.args(["--config", "lint.isort.known-third-party=[\"warpyard\"]"]);
    commands::run(foreign.arg(examples))?;
    commands::run(python(&environment, &["mypy", "--cache-dir"]).arg(environment.join("mypy-cache")))?;
    let pytest = ["pytest", "--quiet", "-p", "no:cacheprovider"];
    commands::run_and_keep_figures(&mut python(&environment, &pytest))?;
    commands::run(&mut python(&environment, &["tests.resharding"]))?;
    for arguments in if args.full { FULL } else { SHORT } {
        // Figures are not kept here: `cargo xtask bench runs` measures interruptions on real nodes.
        commands::run(&mut python(&environment, arguments))?;
    }
    Ok(())
}

const SHORT: &[&[&str]] =
    &[&["tests.crash_points", "--points", "24"], &["tests.interruptions", "--notices", "1", "--kills", "1"]];
const FULL: &[&[&str]] = &[&["tests.crash_points"], &["tests.interruptions"]];

/// A program or test of the SDK, in the environment; `-m` goes before the arguments.
pub fn module(arguments: &[&str]) -> anyhow::Result<Command> {
    Ok(python(&environment()?, arguments))
}

/// `python -m` with these arguments, in the SDK's folder, with the checkout's SDK.
fn python(environment: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(python::interpreter(environment));
    command
        .current_dir(python::sdk())
        .env("PYTHONPATH", "src")
        // One thread per rank: results are the same on every machine, and four ranks are enough for two cores.
        .env("OMP_NUM_THREADS", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // Without a process group, each save warns about that.
        .env("PYTHONWARNINGS", "ignore::UserWarning:torch.distributed.checkpoint.utils")
        .arg("-m")
        .args(arguments);
    command
}

/// The folder of the environment: its name covers the content.
fn environment() -> anyhow::Result<PathBuf> {
    Ok(python::place()?)
}

fn requirements() -> PathBuf {
    python::sdk().join("requirements.txt")
}

fn build(target: &Path) -> anyhow::Result<()> {
    check_version()?;
    let cache = target.parent().context("the environment has no parent")?;
    fs::create_dir_all(cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let lock = File::create(cache.join("lock")).context("cannot create the lock of the environments")?;
    lock.lock().context("cannot lock the environments")?;
    // Another process may have built it while we waited for the lock.
    if target.join(python::COMPLETE).exists() {
        return Ok(());
    }
    eprintln!("installing PyTorch and what else the SDK is tested on (about 4 GB, three minutes) …");
    // An environment contains its own path, so it is made in its final place; the file at the end marks it as
    // complete.
    if target.exists() {
        fs::remove_dir_all(target).with_context(|| format!("cannot remove {}", target.display()))?;
    }
    commands::run(Command::new("python3").args(["-m", "venv"]).arg(target))?;
    let mut pip = Command::new(python::interpreter(target));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]);
    // The file has all transitive dependencies, except those that only GPUs need.
    commands::run(pip.args(["--no-deps", "--requirement"]).arg(requirements()))?;
    commands::run(Command::new(python::interpreter(target)).args(["-c", "import torch"]))?;
    fs::write(target.join(python::COMPLETE), "").context("cannot complete the environment")
}

fn check_version() -> anyhow::Result<()> {
    let hint = format!("install Python {}.{} or newer, with venv", PYTHON_MIN.0, PYTHON_MIN.1);
    let output = Command::new("python3").arg("--version").output().with_context(|| hint.clone())?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    ensure!(is_new_enough(&text), "this machine has {text:?}, which is too old: {hint}");
    Ok(())
}

/// Reads `Python 3.11.7`.
fn is_new_enough(text: &str) -> bool {
    let mut numbers = text.trim_start_matches("Python ").split('.').map(str::parse::<u32>);
    let version = (numbers.next(), numbers.next());
    matches!(version, (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= PYTHON_MIN)
}

#[cfg(test)]
mod tests {
    use super::is_new_enough;

    #[test]
    fn an_old_python_is_refused() {
        for (version, expected) in [
            ("Python 3.11.7", true),
            ("Python 3.14.0rc1", true),
            ("Python 4.0", true),
            ("Python 3.9.2", false),
            ("Python 2.7.18", false),
            ("", false),
        ] {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }
}
