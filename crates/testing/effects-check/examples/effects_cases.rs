//! Runs random cases on the store in memory, and prints the number of plans and of mismatches between cluster
//! and state.
//!
//! ```text
//! cargo run --release -p effects-check --example effects_cases -- \
//!     [plans] [first seed] [tampering] [stop after this many mismatches]
//! ```
//!
//! Without the name of a [`Tampering`], effects are not tampered with; with `each`, the seeds take all
//! tamperings in turn.

use std::process::ExitCode;

use anyhow::{Context, bail};
use effects_check::{Case, Tally, Tampering, memory};

/// The project's bar: this many plans without a mismatch.
const PLANS: u64 = 100_000;

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let number = |text: Option<String>| text.map(|text| text.parse::<u64>()).transpose().context("a number");
    let plans = number(arguments.next())?.unwrap_or(PLANS);
    let first = number(arguments.next())?.unwrap_or(0);
    let name = arguments.next().unwrap_or_else(|| "none".to_owned());
    let disagreements_max = number(arguments.next())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let (mut all, mut disagreements) = (Tally::default(), 0_u64);
    let mut seed = first;
    // Also ends if every case disagrees.
    while all.plans < plans && seed - first < plans {
        let tampering = match (name.as_str(), Tampering::named(&name)) {
            ("each", _) => Tampering::of_turn(seed),
            (_, Some(tampering)) => tampering,
            (_, None) => bail!("there is no tampering {name}"),
        };
        let ran = runtime.block_on(async { Case::run(seed, memory::server(), tampering).await })?;
        match ran {
            Ok(tally) => all.add(&tally),
            Err(disagreement) => {
                disagreements += 1;
                eprintln!("{}", disagreement.log.join("\n"));
                println!("disagreement in case {} {disagreement}", seed - first + 1);
                if disagreements_max == Some(disagreements) {
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        seed += 1;
    }
    println!("{all:?}");
    let reference = format!("{} plans in memory, seeds {first} to {}", all.plans, seed - 1);
    if name == "none" {
        println!("figure house.effects_mismatches_in_memory {disagreements} plans  (of {reference}; bar: 0)");
    } else {
        println!(
            "figure house.effects_tampering_missed {disagreements} cases  ({} caught in {reference}; bar: 0)",
            all.caught
        );
    }
    Ok(if disagreements == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
