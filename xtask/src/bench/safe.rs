//! `cargo xtask bench safe [PART…]`: what a careful admin asks before switching it on, part by part.
//!
//! `buying` and `priority` are simulations; the parts on real servers are of the binary `bench`; `release` runs end-to-end
//! tests on the binaries that ship.

use toolbox::figures;

use super::measure::measure;
use super::parts;
use crate::commands::{self, cargo};
use crate::{e2e, packages};

/// A part that is measured by itself and prints its figures.
struct Part {
    name: &'static str,
    /// For `cargo`.
    arguments: &'static [&'static str],
}

const PARTS: &[Part] = &[
    // Machine types that promise too much, and caps.
    Part {
        name: "buying",
        arguments: &["run", "--release", "-p", "capacity", "--example", "lies", "--", "1000"],
    },
    // Priority against what others own, in random clusters.
    Part {
        name: "priority",
        arguments: &["run", "--release", "-p", "placement", "--example", "judge_cases", "--", "100000"],
    },
];

/// The parts on a cluster: ended runs, which leave it and are listed among a million.
const ON_A_CLUSTER: &[&str] = &["cleanup"];

/// End-to-end tests on the release build.
const RELEASE: &str = "release";

/// Runs these parts, or all.
pub fn run(names: &[String]) -> anyhow::Result<()> {
    let parts = PARTS.iter().map(|part| part.name);
    let all: Vec<_> = parts.chain(ON_A_CLUSTER.iter().copied()).chain([RELEASE]).collect();
    parts::check(names, &all)?;
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    for part in PARTS.iter().filter(|part| is_wanted(part.name)) {
        eprintln!("{} …", part.name);
        commands::run_and_keep_figures(&mut cargo(part.arguments))?;
    }
    for part in ON_A_CLUSTER.iter().filter(|part| is_wanted(part)) {
        packages::install()?;
        measure(part, &[])?;
    }
    if is_wanted(RELEASE) {
        let args = e2e::E2eArgs::release();
        e2e::build(&args)?;
        let passed = commands::run_and_count_tests(&mut e2e::test(&args))?;
        let reference = "end-to-end tests on the binaries that ship, none failed";
        figures::print("safe.release_tests_passed", figures::count(passed), "tests", reference);
    }
    Ok(())
}
