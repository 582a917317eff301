//! Running other programs from the repository's root.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use test_cluster::figures;

/// The checkout this xtask was built from.
pub fn repository_root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask lies in the repository").to_owned()
}

/// `cargo` with these arguments, in the repository's root.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(repository_root());
    command
}

/// Runs the command; anything but success is an error that names it.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = format!("{command:?}");
    let status = command.status().with_context(|| format!("failed to start {name}"))?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok(())
}

/// Like [`run`]; figures that the command prints are kept too.
pub fn run_and_keep_figures(command: &mut Command) -> anyhow::Result<()> {
    let name = format!("{command:?}");
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("failed to start {name}"))?;
    let stdout = child.stdout.take().context("the command has no output to read")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.with_context(|| format!("failed to read what {name} prints"))?;
        if !figures::keep(&line) {
            println!("{line}");
        }
    }
    let status = child.wait().with_context(|| format!("failed to wait for {name}"))?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok(())
}
