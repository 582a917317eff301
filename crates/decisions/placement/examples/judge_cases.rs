//! Has the judge check random cases, and prints how many there were and how often it disagreed.
//!
//! Without a limit every disagreement is one line; with one, each is printed in full.
//!
//! ```text
//! cargo run --release -p placement --example judge_cases -- \
//!     [cases] [first seed] [stop after this many] [1: plain gangs only]
//! ```

#[path = "../tests/it/cases/mod.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod cases;

use std::process::ExitCode;

use cases::{Case, Did};

/// In a finding of the judge: a queue has lost what it owns.
const TAKES_QUOTA: &str = "would hold less than it owns";

/// The bar of the project: this many cases without disagreement.
const CASES: u64 = 100_000;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse::<u64>().expect("numbers are expected"));
    let cases = arguments.next().unwrap_or(CASES);
    let first = arguments.next().unwrap_or(0);
    let disagreements_max = arguments.next().filter(|it| *it > 0);
    let plain = arguments.next().is_some_and(|it| it > 0);
    let (mut all, mut disagreements, mut taken) = (Did::default(), 0_u64, 0_u64);
    for seed in first..first + cases {
        let case = if plain { Case::plain(seed) } else { Case::random(seed) };
        match case.run() {
            Ok(did) => all.add(&did),
            Err(disagreement) => {
                disagreements += 1;
                if disagreements_max.is_some() {
                    println!("{disagreement}\n");
                }
                taken += u64::from(disagreement.found.iter().any(|it| it.contains(TAKES_QUOTA)));
                let (case, found) = (seed - first + 1, disagreement.found.join("; "));
                println!("disagreement in case {case} seed {seed}: {found}");
                if disagreements_max == Some(disagreements) {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!("{all:?}");
    println!("figure judge.cases {cases} cases  (seeds {first} to {})", first + cases - 1);
    let at = all.attacked_at;
    println!(
        "figure priority.attacks {} cases  (of {cases}; on quota of roots, their children, below: {at:?})",
        all.attacked
    );
    println!("figure priority.quota_taken {taken} cases  (of {cases}; bar: 0)");
    println!("figure judge.disagreements {disagreements} cases  (of {cases})");
    if disagreements == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
