//! Patches: found in a folder, and applied to a copy.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, bail};
use toolbox::checkout::repository_root;

/// The patches of a folder whose path contains one of the filters; all without one.
pub(super) fn patches(folder: &str, filters: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let folder = repository_root().join(folder);
    let entries = fs::read_dir(&folder).with_context(|| format!("failed to list {}", folder.display()))?;
    let mut patches: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    let wanted = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".patch")
            && (filters.is_empty() || filters.iter().any(|it| name.contains(it.as_str())))
    };
    patches.retain(wanted);
    patches.sort();
    Ok(patches)
}

/// The command that applies a patch to the files below the folder. With `--check`, it only tests whether it could.
pub fn git_apply(folder: &Path, patch: &Path) -> Command {
    let mut git = Command::new("git");
    // One line of context must match: patches outlive changes around them.
    git.args(["apply", "-p1", "-C1", "--recount", "--whitespace=nowarn"]).arg(patch).current_dir(folder);
    // A copy inside a checkout does not belong to it: there, git would skip files in silence.
    git.env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap_or(folder));
    git
}

pub(super) fn apply(scratch: &Path, patch: &Path) -> anyhow::Result<()> {
    let output = git_apply(scratch, patch).output().context("failed to start git")?;
    if !output.status.success() {
        bail!("{} does not apply: {}", patch.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
