//! `cargo xtask bugs`: checks that the judges notice bugs. Each patch puts one seeded bug into a scratch copy
//! of the judged crates, and random cases must find it: `plan-check` finds bugs of plans, the oracle bugs of
//! the rules on nodes, `effects-check` bugs of effects, the laws of buying bugs of what is bought. Bugs of decisions
//! about runs must fail a unit test. `findings` are patches that remove a fix, each with the test that must then fail.
//! The product itself has no switch for any of them.

mod copy;
mod findings;
pub mod patch;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;
use toolbox::checkout::{repository_root, target_folder};
use toolbox::{engine_bin, figures};

use self::copy::Copy;
use self::patch::{apply, patches};
use crate::engine;

/// The judge that must find the bugs of a folder.
struct Suite {
    /// Where the patches are.
    patches: &'static str,
    /// The id of the figure with the number of bugs found.
    figure: &'static str,
    /// The most cases until a bug must be found, unless told otherwise.
    cases: u64,
    /// The arguments of cargo, its verb first, for this many cases.
    command: fn(u64) -> anyhow::Result<Vec<String>>,
}

const SUITES: [Suite; 5] = [
    Suite {
        patches: "crates/decisions/placement/tests/bugs",
        figure: "judge.seeded_bugs_caught",
        cases: 1_000,
        command: |cases| {
            let words =
                ["run", "-p", "placement", "--example", "judge_cases", "--", &cases.to_string(), "0", "1"];
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
            let words =
                ["run", "-p", "filter-fuzz", "--", "--oracle", &oracle, "--cases", &cases.to_string()];
            let first_only = ["--no-shrink", "--disagreements-max", "1"];
            Ok(words.into_iter().chain(first_only).map(ToOwned::to_owned).collect())
        },
    },
    Suite {
        patches: "crates/testing/effects-check/tests/bugs",
        figure: "effects.seeded_bugs_caught",
        // Counted in plans: a case has about three.
        cases: 1_000,
        command: |cases| {
            let plans = cases.to_string();
            let words =
                ["run", "-p", "effects-check", "--example", "effects_cases", "--", &plans, "0", "each", "1"];
            Ok(words.map(ToOwned::to_owned).to_vec())
        },
    },
    Suite {
        patches: "crates/decisions/capacity/tests/bugs",
        figure: "buying.seeded_bugs_caught",
        // As many histories as a test lives.
        cases: 24,
        command: |cases| {
            let words = ["run", "-p", "capacity", "--example", "lies", "--", &cases.to_string(), "0", "1"];
            Ok(words.map(ToOwned::to_owned).to_vec())
        },
    },
    Suite {
        patches: "crates/services/controllers/tests/bugs",
        figure: "runs.seeded_bugs_caught",
        // The unit tests of decisions have no random cases.
        cases: 1,
        command: |_| {
            Ok(["test", "-p", "controllers", "--lib", "--", "run::", "cleanup::"]
                .map(ToOwned::to_owned)
                .to_vec())
        },
    },
];

/// Arguments of `cargo xtask bugs`.
#[derive(Args)]
pub struct BugsArgs {
    /// Run only patches whose name contains one of these.
    filters: Vec<String>,
    /// The most cases until a bug must be found; 1,000 for plans and effects, 2,000 for nodes, 24 for buying unless given. Runs have no
    /// random cases.
    #[arg(long)]
    cases: Option<u64>,
}

/// The result of the cases on a copy.
enum Outcome {
    /// No disagreement.
    Agrees,
    /// The judge disagrees: the first such case, and the finding.
    Disagrees { case: u64, found: String },
    /// The planner's own assertion failed.
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
    missed.extend(findings::run(&args.filters)?);
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

fn judge(scratch: &Path, command: &[String]) -> anyhow::Result<Outcome> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .arg("--quiet")
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
    // Of tests, cargo prints what they print.
    let mut panics = [&stderr, &stdout].into_iter().filter_map(|text| {
        let line = text.lines().position(|line| line.contains("panicked at"))?;
        Some(text.lines().skip(line).take(2).collect::<Vec<_>>().join(" "))
    });
    panics.next().map(Outcome::Panics).with_context(|| format!("the cases cannot be run: {stderr}"))
}
