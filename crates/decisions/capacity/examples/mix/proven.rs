//! Random small markets: is every mix possible, are the right demands served, and how much dearer is it than the
//! proven best?

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;
use std::time::{Duration, Instant};

use capacity::mix::decide;

use crate::verdict::{Verdict, judge as ask_solver};
use crate::{cases, judge};

/// For each question to the solver. Answers that it cannot prove in this time are counted and not claimed.
const SOLVER_SECONDS_MAX: u64 = 1;

#[derive(Default)]
struct Tally {
    cases: u64,
    proven: u64,
    best: u64,
    refused: usize,
    worst_percent: f64,
    percent_sum: f64,
    slowest: Duration,
}

pub fn random_markets(seeds: Range<u64>) -> Result<(), Box<dyn Error>> {
    let count = seeds.end - seeds.start;
    let mut tallies: BTreeMap<cases::Kind, Tally> = BTreeMap::new();
    let mut wrong = Vec::new();
    for seed in seeds {
        let case = cases::small(seed);
        let tally = tallies.entry(cases::kind_of(seed)).or_default();
        let begin = Instant::now();
        let mix = decide(&case.demands, &case.offerings, &case.rooms, &case.limits);
        let took = begin.elapsed();
        tally.slowest = tally.slowest.max(took);
        tally.cases += 1;
        tally.refused += mix.refused.len();
        wrong.extend(judge::faults(&case, &mix).into_iter().map(|fault| format!("seed {seed}: {fault}")));
        match ask_solver(&case, &mix, Duration::from_secs(SOLVER_SECONDS_MAX)) {
            Verdict::Over(percent) => {
                tally.proven += 1;
                tally.best += u64::from(percent == 0.0);
                tally.percent_sum += percent;
                tally.worst_percent = tally.worst_percent.max(percent);
                if percent > 0.0 {
                    println!("seed {seed} ({:?}): {percent:.3} percent above the best", cases::kind_of(seed));
                }
                if percent > 0.0 && mix.is_best {
                    wrong.push(format!("seed {seed}: told to be the best, and is not"));
                }
            }
            Verdict::Unproven => {}
            Verdict::RefusedInVain(what) => wrong.push(format!("seed {seed}: refused in vain: {what}")),
            Verdict::Contradiction(what) => wrong.push(format!("seed {seed}: {what}")),
        }
    }
    for (kind, tally) in &tallies {
        println!(
            "{kind:?}: {} cases, {} proven, of these {} at the best, worst {:.3} percent above; {} refused; slowest {:?}",
            tally.cases, tally.proven, tally.best, tally.worst_percent, tally.refused, tally.slowest
        );
    }
    for line in &wrong {
        println!("WRONG {line}");
    }
    let sum = |of: fn(&Tally) -> u64| tallies.values().map(of).sum::<u64>();
    let (proven, best) = (sum(|it| it.proven), sum(|it| it.best));
    let worst = tallies.values().map(|it| it.worst_percent).fold(0.0, f64::max);
    println!(
        "figure capacity.cost_over_best_percent {worst:.3} percent  (bar: 2, worst of {proven} mixes whose best was proven, {best} \
         of them at it; {} of {count} random demands not proven in {SOLVER_SECONDS_MAX} s each)",
        count - proven
    );
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} things are wrong", wrong.len()).into()) }
}
