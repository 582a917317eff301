//! `cargo xtask bugs`: are the judges awake? Each patch puts one bug into a scratch copy of the pure crates; random cases
//! must find it. Bugs of plans are found by `plan-check`, bugs of the rules on nodes by the oracle. The product itself has no
//! switch for any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, bail, ensure};
use clap::Args;
use test_cluster::engine_bin;
use test_cluster::figures::{self, target_folder};

use crate::commands::repository_root;
use crate::engine;

/// Who must find the bugs of a folder.
struct Suite {
    /// Where the patches are.
    patches: &'static str,
    /// Under which id the number of bugs found is printed.
    figure: &'static str,
    /// The most cases until a bug must be found, unless told otherwise.
    cases: u64,
    /// What is run: arguments of cargo for so many cases.
    command: fn(u64) -> anyhow::Result<Vec<String>>,
}

const SUITES: [Suite; 2] = [
    Suite {
        patches: "crates/decisions/placement/tests/bugs",
        figure: "judge.seeded_bugs_caught",
        cases: 1_000,
        command: |cases| {
            let words = ["-p", "placement", "--example", "judge_cases", "--", &cases.to_string(), "0", "1"];
            Ok(words.map(ToOwned::to_owned).to_vec())
        },
    },
    Suite {
        patches: "crates/testing/filter-fuzz/tests/bugs",
        figure: "oracle.seeded_bugs_caught",
        // As many as CI compares.
        cases: 2_000,
        command: |cases| {
            let oracle = engine_bin::find("filter-oracle")?.display().to_string();
            let words = ["-p", "filter-fuzz", "--", "--oracle", &oracle, "--cases", &cases.to_string()];
            let first_only = ["--no-shrink", "--disagreements-max", "1"];
            Ok(words.into_iter().chain(first_only).map(ToOwned::to_owned).collect())
        },
    },
];
/// What both need is copied, …
const PACKAGES: [&str; 2] = ["placement", "filter-fuzz"];
/// … but these, which no case needs.
const SLOW: [&str; 2] = ["criterion", "proptest"];

/// Arguments of `cargo xtask bugs`.
#[derive(Args)]
pub struct BugsArgs {
    /// Run only patches whose name contains one of these.
    filters: Vec<String>,
    /// The most cases until a bug must be found; 1,000 for plans and 2,000 for nodes unless given.
    #[arg(long)]
    cases: Option<u64>,
}

/// What the cases say about a copy.
enum Outcome {
    /// No disagreement.
    Agrees,
    /// The judge disagrees, first in this case, and this is what it found.
    Disagrees { case: u64, found: String },
    /// It stopped by itself, at an assertion of its own.
    Panics(String),
}

/// Applies each patch to a scratch copy, and runs the cases there.
pub fn run(args: &BugsArgs) -> anyhow::Result<()> {
    let scratch = target_folder().join("bugs");
    let copy = Copy::new(&repository_root(), &scratch)?;
    engine::run(&engine::EngineArgs { only: vec!["filter-oracle".to_owned()] })?;
    let mut missed = Vec::new();
    for suite in &SUITES {
        let patches = patches(suite.patches, &args.filters)?;
        if !patches.is_empty() {
            missed.extend(run_suite(suite, &patches, args.cases.unwrap_or(suite.cases), &copy)?);
        }
    }
    copy.refresh()?;
    ensure!(missed.is_empty(), "{} bugs were missed: {}", missed.len(), missed.join(", "));
    Ok(())
}

/// Runs the patches of one suite, and returns the names of those that were missed.
fn run_suite(suite: &Suite, patches: &[PathBuf], cases: u64, copy: &Copy) -> anyhow::Result<Vec<String>> {
    let command = (suite.command)(cases)?;
    copy.refresh()?;
    if let Outcome::Disagrees { found, .. } | Outcome::Panics(found) = judge(&copy.scratch, &command)? {
        bail!("without any patch, the judge disagrees: {found}");
    }
    let mut missed = Vec::new();
    for patch in patches {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy();
        copy.refresh()?;
        apply(&copy.scratch, patch)?;
        match judge(&copy.scratch, &command)? {
            Outcome::Agrees => {
                println!("missed  {name}");
                missed.push(name.into_owned());
            }
            Outcome::Disagrees { case, found } => println!("caught  {name}: in case {case}: {found}"),
            Outcome::Panics(message) => println!("caught  {name}: {message}"),
        }
    }
    let reference = format!("of {}, each within {cases} cases", patches.len());
    let caught = figures::count(patches.len() - missed.len());
    figures::print(suite.figure, caught, "bugs", &reference);
    Ok(missed)
}

fn patches(folder: &str, filters: &[String]) -> anyhow::Result<Vec<PathBuf>> {
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

fn apply(scratch: &Path, patch: &Path) -> anyhow::Result<()> {
    let mut git = Command::new("git");
    // One line of context must match: patches outlive changes around them.
    git.args(["apply", "-p1", "-C1", "--recount", "--whitespace=nowarn"]).arg(patch).current_dir(scratch);
    // The copy lies within a checkout, and is none of its files.
    git.env("GIT_CEILING_DIRECTORIES", scratch.parent().unwrap_or(scratch));
    let output = git.output().context("failed to start git")?;
    if !output.status.success() {
        bail!("{} does not apply: {}", patch.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn judge(scratch: &Path, command: &[String]) -> anyhow::Result<Outcome> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["run", "--quiet"])
        .args(command)
        .env("CARGO_TARGET_DIR", scratch.join("target"))
        // A thousand cases of a build without any optimisation take longer than optimising a little.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .current_dir(scratch);
    let output = cargo.output().context("failed to start cargo")?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(Outcome::Agrees);
    }
    if let Some(line) = stdout.lines().find_map(|line| line.strip_prefix("disagreement in case ")) {
        let (case, found) = line.split_once(' ').context("a disagreement without a case")?;
        return Ok(Outcome::Disagrees { case: case.parse()?, found: found.to_owned() });
    }
    match stderr.lines().position(|line| line.contains("panicked at")) {
        Some(line) => Ok(Outcome::Panics(stderr.lines().skip(line).take(2).collect::<Vec<_>>().join(" "))),
        None => bail!("the cases cannot be run: {stderr}"),
    }
}

/// The crates that the cases need, and where they are copied.
struct Copy {
    root: PathBuf,
    scratch: PathBuf,
    /// Where each crate is, below the root.
    crates: BTreeMap<String, PathBuf>,
}

impl Copy {
    fn new(root: &Path, scratch: &Path) -> anyhow::Result<Self> {
        let workspace = fs::read_to_string(root.join("Cargo.toml")).context("failed to read Cargo.toml")?;
        let mut crates = BTreeMap::new();
        let mut open = PACKAGES.map(ToOwned::to_owned).to_vec();
        while let Some(name) = open.pop() {
            let folder = folder_of(&workspace, &name).with_context(|| format!("Cargo.toml has no {name}"))?;
            let manifest = root.join(&folder).join("Cargo.toml");
            let manifest = fs::read_to_string(&manifest)
                .with_context(|| format!("failed to read {}", manifest.display()))?;
            let named = manifest.lines().filter_map(|line| line.split_once(".workspace").map(|it| it.0));
            let ours = named.filter(|name| folder_of(&workspace, name).is_some());
            open.extend(ours.map(ToOwned::to_owned).filter(|name| !crates.contains_key(name)));
            crates.insert(name, folder);
        }
        Ok(Self { root: root.to_owned(), scratch: scratch.to_owned(), crates })
    }

    /// Makes the copy like the checkout again. Only files that differ are written, so that little is built again.
    fn refresh(&self) -> anyhow::Result<()> {
        let workspace = fs::read_to_string(self.root.join("Cargo.toml"))?;
        let rest = workspace.find("[workspace.package]").context("Cargo.toml has no [workspace.package]")?;
        let members: Vec<String> =
            self.crates.values().map(|folder| format!("\"{}\"", folder.display())).collect();
        let manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n{}",
            members.join(", "),
            &workspace[rest..]
        );
        write(&self.scratch.join("Cargo.toml"), manifest.as_bytes())?;
        if !self.scratch.join("Cargo.lock").exists() {
            write(&self.scratch.join("Cargo.lock"), &fs::read(self.root.join("Cargo.lock"))?)?;
        }
        for part in self.crates.values() {
            for folder in ["src", "tests", "examples", "cases"] {
                let folder = part.join(folder);
                if self.root.join(&folder).exists() {
                    mirror(&self.root.join(&folder), &self.scratch.join(&folder))?;
                }
            }
            let manifest = fs::read_to_string(self.root.join(part).join("Cargo.toml"))?;
            write(&self.scratch.join(part).join("Cargo.toml"), Self::manifest(&manifest).as_bytes())?;
        }
        Ok(())
    }

    /// Without what only tests and benchmarks need: it would take longer to build than all the rest.
    fn manifest(manifest: &str) -> String {
        let mut section = "";
        let mut kept = String::new();
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let is_slow = SLOW.iter().any(|name| line.starts_with(&format!("{name}.workspace")));
            if section != "[[bench]]" && !is_slow {
                kept.push_str(line);
                kept.push('\n');
            }
        }
        kept
    }
}

/// Where a crate of ours is, by the workspace's table of dependencies.
fn folder_of(workspace: &str, name: &str) -> Option<PathBuf> {
    let (_, rest) = workspace.split_once(&format!("\n{name} = {{ path = \""))?;
    Some(PathBuf::from(rest.split_once('"')?.0))
}

/// Copies a folder, and removes what is not in it.
fn mirror(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to).with_context(|| format!("failed to create {}", to.display()))?;
    let names = |folder: &Path| -> anyhow::Result<BTreeSet<_>> {
        let entries = fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?;
        Ok(entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?)
    };
    let wanted = names(from)?;
    for name in names(to)?.difference(&wanted) {
        let stale = to.join(name);
        if stale.is_dir() { fs::remove_dir_all(&stale) } else { fs::remove_file(&stale) }
            .with_context(|| format!("failed to remove {}", stale.display()))?;
    }
    for name in &wanted {
        let (from, to) = (from.join(name), to.join(name));
        if from.is_dir() {
            mirror(&from, &to)?;
        } else {
            write(&to, &fs::read(&from).with_context(|| format!("failed to read {}", from.display()))?)?;
        }
    }
    Ok(())
}

fn write(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|old| old == contents) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    }
    fs::write(path, contents).with_context(|| format!("failed to write {}", path.display()))
}
