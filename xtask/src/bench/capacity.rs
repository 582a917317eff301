//! `cargo xtask bench capacity`: measures decisions about machines, part by part.
//!
//! One part needs no cluster. The others buy machines through real Karpenter, in the program `bench`.

use super::measure::measure_with;
use super::parts;
use crate::commands::{self, cargo};

/// A part that is measured by itself and prints its figures.
struct Part {
    name: &'static str,
    /// For `cargo`.
    arguments: &'static [&'static str],
}

const PARTS: &[Part] = &[
    // Random markets against a solver, and large ones against the clock.
    Part { name: "mix", arguments: &["run", "--release", "-p", "capacity", "--example", "mix"] },
];

/// The parts of the binary, in its order.
const ON_A_CLUSTER: &[&str] = &["gangs", "scaleup", "kills", "notices"];

/// Runs these parts, or all; a rehearsal prints no figures.
pub fn run(names: &[String], rehearse: bool, seed: Option<u64>) -> anyhow::Result<()> {
    let (alone, on_a_cluster) = chosen(names)?;
    for part in alone {
        commands::run_and_keep_figures(&mut cargo(part.arguments))?;
    }
    if on_a_cluster.is_empty() {
        return Ok(());
    }
    let rehearse = rehearse.then_some("--rehearse");
    let seed = seed.map(|seed| format!("--seed={seed}"));
    let arguments: Vec<_> = on_a_cluster.into_iter().chain(rehearse).chain(seed.as_deref()).collect();
    // The scheduler stops at the points at which it is killed.
    measure_with("capacity", &arguments, &["--features", "scheduler/failpoints"])
}

/// In the order of the tables, however they were asked for.
fn chosen(names: &[String]) -> anyhow::Result<(Vec<&'static Part>, Vec<&'static str>)> {
    let all: Vec<_> = PARTS.iter().map(|part| part.name).chain(ON_A_CLUSTER.iter().copied()).collect();
    parts::check(names, &all)?;
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|it| it == name);
    let alone = PARTS.iter().filter(|part| is_wanted(part.name)).collect();
    let on_a_cluster = ON_A_CLUSTER.iter().copied().filter(|name| is_wanted(name)).collect();
    Ok((alone, on_a_cluster))
}

#[cfg(test)]
mod tests {
    use super::{ON_A_CLUSTER, PARTS, chosen};

    #[test]
    fn parts_are_chosen_by_name_or_all() {
        let (alone, on_a_cluster) = chosen(&[]).unwrap();
        assert_eq!((alone.len(), on_a_cluster.len()), (PARTS.len(), ON_A_CLUSTER.len()));
        let (alone, on_a_cluster) = chosen(&["mix".to_owned(), "gangs".to_owned()]).unwrap();
        assert_eq!((alone[0].name, on_a_cluster), ("mix", vec!["gangs"]));
        let error = chosen(&["mox".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("\"mox\"") && error.contains("mix"), "{error}");
    }
}
