//! Running other programs from the repository's root.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

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
