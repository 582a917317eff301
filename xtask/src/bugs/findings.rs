//! Patches that each remove one fix, or break one promise. Each names the test that must then fail:
//!
//! ```text
//!   A node that failed three gangs is used again at once.      what the patch breaks, in a sentence
//!   shows: safe.finding.6                                      the finding or the bar that it is about
//!   test: -p controllers --lib avoid::tests::a_node_is_…       for `cargo test`; it must select one test at least
//!
//!   --- a/crates/…                                             the patch
//! ```
//!
//! They may touch any crate, so the copy is the whole checkout. The test may not be one on a cluster: those start
//! programs that are not built here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, bail, ensure};
use toolbox::checkout::{repository_root, target_folder};
use toolbox::figures;

use super::copy::write;
use super::patch::{apply, patches};
use crate::commands;

const PATCHES: &str = "xtask/tests/bugs";

/// Findings of the review before the first release, as patches name them.
const FINDING: &str = "safe.finding.";
const FINDINGS: usize = 17;

/// What the lines before a patch say.
struct Heading {
    shows: String,
    /// For `cargo test`.
    test: Vec<String>,
}

/// Tries these patches. Returns the names of those that no test noticed.
pub fn run(filters: &[String]) -> anyhow::Result<Vec<String>> {
    let patches = patches(PATCHES, filters)?;
    if patches.is_empty() {
        return Ok(Vec::new());
    }
    let scratch = target_folder().join("findings");
    let mut missed = Vec::new();
    let mut is_closed: BTreeMap<String, bool> = BTreeMap::new();
    for patch in &patches {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let heading = heading(&fs::read_to_string(patch)?)
            .with_context(|| format!("cannot read the head of {}", patch.display()))?;
        mirror_checkout(&scratch)?;
        ensure!(
            test_passes(&scratch, &heading.test)?,
            "without any patch, the test of {name} fails: {}",
            heading.test.join(" ")
        );
        apply(&scratch, patch)?;
        let is_caught = !test_passes(&scratch, &heading.test)?;
        println!("{}  {name} ({})", if is_caught { "caught" } else { "missed" }, heading.shows);
        *is_closed.entry(heading.shows).or_insert(true) &= is_caught;
        if !is_caught {
            missed.push(name);
        }
    }
    if filters.is_empty() {
        let closed = is_closed.iter().filter(|(shows, is_closed)| shows.starts_with(FINDING) && **is_closed);
        let reference = format!("of {FINDINGS}; {} patches, {} of them missed", patches.len(), missed.len());
        figures::print("safe.findings_closed", figures::count(closed.count()), "findings", &reference);
    }
    Ok(missed)
}

/// Reads the lines before the patch itself.
fn heading(patch: &str) -> anyhow::Result<Heading> {
    let lines = || patch.lines().take_while(|line| !line.starts_with("--- ") && !line.starts_with("diff "));
    let value = |key: &str| {
        let found = lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        found.filter(|value| !value.is_empty()).with_context(|| format!("there is no line `{key} …`"))
    };
    let test = value("test:")?.split_whitespace().map(ToOwned::to_owned).collect();
    Ok(Heading { shows: value("shows:")?.to_owned(), test })
}

/// Whether the test passes on the copy. That it does not compile is an error: it would prove nothing.
fn test_passes(scratch: &Path, test: &[String]) -> anyhow::Result<bool> {
    let cargo = |verb: &[&str]| {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.arg("--quiet").args(verb).current_dir(scratch);
        cargo.env("CARGO_TARGET_DIR", scratch.join("target")).env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo
    };
    // What follows `--` is for the test binary.
    let selection = test.split(|word| word == "--").next().unwrap_or_default();
    commands::run(cargo(&["test", "--no-run"]).args(selection))
        .with_context(|| format!("{} does not compile", test.join(" ")))?;
    let output = cargo(&["test"]).args(test).output().context("failed to start cargo")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && !printed.lines().any(|line| commands::tests_passed(line) > 0) {
        bail!("`cargo test {}` selects no test", test.join(" "));
    }
    Ok(output.status.success())
}

/// Makes the copy equal to the checkout. Only files that differ are written, so that little is built again.
fn mirror_checkout(scratch: &Path) -> anyhow::Result<()> {
    let root = repository_root();
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(&root);
    let output = list.output().context("failed to start git")?;
    ensure!(output.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&output.stderr));
    let paths = String::from_utf8(output.stdout).context("a path is no text")?;
    let paths: Vec<PathBuf> = paths.split_terminator('\0').map(PathBuf::from).collect();
    // A patch may have added files. They are few, and only in folders of code.
    for stale in files_below(&scratch.join("crates"))? {
        if !root.join(stale.strip_prefix(scratch)?).exists() {
            fs::remove_file(&stale)?;
        }
    }
    // A file that was removed is listed until the removal is staged.
    for path in paths.iter().filter(|path| root.join(path).is_file()) {
        write(&scratch.join(path), &fs::read(root.join(path))?)?;
    }
    // The API server embeds the portal's build; no patch is about it.
    let (built, embedded) = (root.join("portal/dist"), scratch.join("portal/dist"));
    if built.exists() && !embedded.exists() {
        std::os::unix::fs::symlink(built, embedded).context("failed to link the portal's build")?;
    }
    Ok(())
}

fn files_below(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop().filter(|folder| folder.exists()) {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::heading;

    #[test]
    fn the_lines_before_a_patch_name_what_it_shows_and_its_test() {
        let patch =
            "A sentence.\nshows: safe.finding.6\ntest: -p a --lib b::c -- --exact\n\n--- a/x\n+++ b/x\n";
        let heading = heading(patch).unwrap();
        assert_eq!(heading.shows, "safe.finding.6");
        assert_eq!(heading.test, ["-p", "a", "--lib", "b::c", "--", "--exact"]);
    }

    #[test]
    fn a_patch_without_a_test_is_refused_also_if_its_lines_look_like_one() {
        assert!(heading("A sentence.\nshows: a\n--- a/x\n+++ b/x\ntest: -p a\n").is_err());
        assert!(heading("test: -p a\nshows:\n").is_err());
    }
}
