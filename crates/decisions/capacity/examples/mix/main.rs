//! The mixes of random markets against what a solver proves, and how long a large decision takes:
//! `cargo xtask bench capacity mix`. Prints `figure` lines.
//!
//! ```text
//! cargo run --release -p capacity --example mix -- --cases 10000
//! ```

#![allow(clippy::disallowed_methods, reason = "measures time and reads arguments; the decision does neither")]

#[path = "../../tests/it/cases.rs"]
mod cases;
#[path = "../../tests/it/judge.rs"]
mod judge;
mod proven;
#[path = "../../tests/it/solver.rs"]
mod solver;
mod timed;
#[path = "../../tests/it/verdict.rs"]
mod verdict;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut count, mut seed, mut only) = (10_000, 0, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().ok_or(format!("{argument} needs a number"));
        match argument.as_str() {
            "--cases" => count = number()?.parse()?,
            "--seed" => seed = number()?.parse()?,
            "proven" | "timed" => only = Some(argument),
            _ => return Err(format!("there is no argument `{argument}`").into()),
        }
    }
    let is_wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if is_wanted("timed") {
        timed::large_decisions()?;
    }
    if is_wanted("proven") {
        proven::random_markets(seed..seed + count)?;
    }
    Ok(())
}
