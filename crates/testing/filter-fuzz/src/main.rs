//! `filter-fuzz`: compares random cases with the oracle, and prints the verdicts and the disagreements.
//!
//! A disagreement is shrunk, printed, and written to a file that can become a named case.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Parser;
use filter_fuzz::case::{Answer, Case, Judged};
use filter_fuzz::generate::generate;
use filter_fuzz::named::{self, Named};
use filter_fuzz::oracle::Oracle;
use filter_fuzz::ours::{disagreements, is_ours_to_place};
use filter_fuzz::shrink::shrink;
use filter_fuzz::tally::Tally;

/// From this many cases on, shares of verdicts are checked.
const CASES_FOR_SHARES: u64 = 1_000;

/// Compares our verdicts on nodes with those of kube-scheduler's plugins.
#[derive(Parser)]
struct Args {
    /// The program `filter-oracle`, which `cargo xtask engine` builds.
    #[arg(long)]
    oracle: PathBuf,
    /// The number of valid cases.
    #[arg(long, default_value_t = 100_000)]
    cases: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Stop after this many disagreements.
    #[arg(long, default_value_t = 5)]
    disagreements_max: u64,
    /// Where disagreements are written.
    #[arg(long, default_value = "target/filter-fuzz")]
    out: PathBuf,
    /// Do not shrink disagreements.
    #[arg(long)]
    no_shrink: bool,
    /// Only rewrite the named cases with the oracle's present verdicts.
    #[arg(long)]
    refresh: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    ask_about_named_cases(&args)?;
    if args.refresh {
        return Ok(ExitCode::SUCCESS);
    }
    let (tally, found) = compare(&args)?;
    print!("{tally}");
    println!("figure oracle.cases {} cases  (seeds from {}, valid ones)", tally.cases, args.seed);
    println!(
        "figure oracle.disagreements {found} cases  (with kube-scheduler 1.36.3's plugins, on any node)"
    );
    let too_rare = tally.too_rare();
    if tally.cases >= CASES_FOR_SHARES && !too_rare.is_empty() {
        bail!("this proves too little: {}", too_rare.join("; "));
    }
    Ok(if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares until enough cases were valid, or too many disagreements were found.
fn compare(args: &Args) -> anyhow::Result<(Tally, u64)> {
    let mut oracle = Oracle::start(&args.oracle)?;
    let mut helper = Oracle::start(&args.oracle)?;
    let (mut tally, mut found, mut next) = (Tally::default(), 0, args.seed);
    while tally.cases < args.cases && found < args.disagreements_max {
        // In parts, because cases that are not valid do not count.
        let part = next..next + (args.cases - tally.cases).min(1_000);
        next = part.end;
        oracle.ask_all(part, generate, |seed, answer| {
            let judged = match answer {
                Answer::Judged(judged) => judged,
                Answer::Invalid { invalid } => {
                    tally.add_invalid(&invalid);
                    return Ok(());
                }
            };
            tally.add(&judged);
            let differences = disagreements(&judged)?;
            if !differences.is_empty() && found < args.disagreements_max {
                found += 1;
                println!("disagreement in case {} seed {seed}: {}", tally.cases, differences.join("; "));
                if !args.no_shrink {
                    keep(args, &mut helper, seed, &generate(seed))?;
                }
            }
            Ok(())
        })?;
    }
    Ok((tally, found))
}

fn keep(args: &Args, oracle: &mut Oracle, seed: u64, case: &Case) -> anyhow::Result<()> {
    let smallest = shrink(case, |candidate| Ok(judge_again(oracle, candidate)?.is_some()))?;
    let Some((judged, differences)) = judge_again(oracle, &smallest)? else {
        bail!("seed {seed} shows no disagreement when it is asked about again");
    };
    let why = differences.join("; ");
    let path = args.out.join(format!("seed-{seed}.json"));
    println!("  smallest: {why}\n  {}\n  written to {}", serde_json::to_string(&smallest)?, path.display());
    Named { why, given: smallest, judged }.write(&path)
}

/// The oracle's answer and our differences, if there are any. A pod that is not ours to place has none.
fn judge_again(oracle: &mut Oracle, case: &Case) -> anyhow::Result<Option<(Judged, Vec<String>)>> {
    if !is_ours_to_place(case) {
        return Ok(None);
    }
    let Answer::Judged(judged) = oracle.ask(case)? else { return Ok(None) };
    let differences = disagreements(&judged)?;
    Ok((!differences.is_empty()).then_some((judged, differences)))
}

/// Checks that the verdicts in the named cases are still upstream's.
fn ask_about_named_cases(args: &Args) -> anyhow::Result<()> {
    let mut oracle = Oracle::start(&args.oracle)?;
    for path in named::files()? {
        let mut case = Named::read(&path)?;
        let judged = match oracle.ask(&case.given)? {
            Answer::Judged(judged) => judged,
            Answer::Invalid { invalid } => bail!("{} is not valid: {}", path.display(), invalid.join("; ")),
        };
        if args.refresh {
            case.judged = judged;
            case.write(&path)?;
        } else if case.judged != judged {
            bail!("{} is stale\n\nhint: run with --refresh", path.display());
        }
    }
    Ok(())
}
