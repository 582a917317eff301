//! `cargo xtask bench runs`: measures how runs survive interruptions.
//!
//! Three parts are the Python SDK's, and need no cluster. The others are real training on real kubelets, in the binary
//! `bench runs`, which needs root.

use super::measure::measure;
use super::parts;
use crate::{commands, packages, python};

/// A part that the SDK measures alone.
struct Part {
    name: &'static str,
    /// For Python's `-m`.
    arguments: &'static [&'static str],
}

const PARTS: &[Part] = &[
    Part {
        name: "script",
        arguments: &[
            "pytest",
            "--quiet",
            "-p",
            "no:cacheprovider",
            "tests/test_examples.py",
            "-k",
            "difference",
        ],
    },
    Part { name: "interval", arguments: &["tests.interval_waste"] },
    Part { name: "crashes", arguments: &["tests.crash_points"] },
];

/// The parts of the binary, in its order.
const ON_A_CLUSTER: &[&str] = &["plain", "huggingface", "lightning", "elastic", "away"];

/// Runs these parts, or all; a rehearsal prints no figures.
pub fn run(names: &[String], rehearse: bool, seed: Option<u64>) -> anyhow::Result<()> {
    let (alone, on_a_cluster) = chosen(names)?;
    packages::install()?;
    python::install()?;
    for part in alone {
        let mut command = python::module(part.arguments)?;
        if rehearse { commands::run(&mut command)? } else { commands::run_and_keep_figures(&mut command)? }
    }
    if on_a_cluster.is_empty() {
        return Ok(());
    }
    let rehearse = rehearse.then_some("--rehearse");
    let seed = seed.map(|seed| format!("--seed={seed}"));
    let arguments: Vec<_> = on_a_cluster.into_iter().chain(rehearse).chain(seed.as_deref()).collect();
    measure("runs", &arguments)
}

/// In the order of the tables, however they were asked for.
fn chosen(names: &[String]) -> anyhow::Result<(Vec<&'static Part>, Vec<&'static str>)> {
    let all: Vec<_> = PARTS.iter().map(|part| part.name).chain(ON_A_CLUSTER.iter().copied()).collect();
    parts::check(names, &all)?;
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    Ok((
        PARTS.iter().filter(|part| is_wanted(part.name)).collect(),
        ON_A_CLUSTER.iter().copied().filter(|name| is_wanted(name)).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::{ON_A_CLUSTER, PARTS, chosen};

    fn names_of(asked: &[&str]) -> anyhow::Result<Vec<&'static str>> {
        let asked: Vec<_> = asked.iter().map(ToString::to_string).collect();
        let (alone, on_a_cluster) = chosen(&asked)?;
        Ok(alone.iter().map(|part| part.name).chain(on_a_cluster).collect())
    }

    #[test]
    fn parts_are_chosen_by_name_or_all() {
        assert_eq!(names_of(&["away", "script", "plain"]).unwrap(), ["script", "plain", "away"]);
        assert_eq!(names_of(&["interval"]).unwrap(), ["interval"]);
        assert_eq!(names_of(&[]).unwrap().len(), PARTS.len() + ON_A_CLUSTER.len());
    }

    #[test]
    fn a_part_that_is_not_there_is_told_with_those_that_are() {
        let error = names_of(&["script", "intervall"]).unwrap_err().to_string();
        assert!(error.contains("\"intervall\"") && error.contains("script, interval"), "{error}");
    }
}
