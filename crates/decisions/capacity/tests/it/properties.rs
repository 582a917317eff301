//! What holds for every mix, on random markets.

use std::time::Duration;

use capacity::mix::decide;
use seeded_random::Random;

use super::cases::{Case, large, small};
use super::judge::faults;
use super::verdict::{Verdict, judge};

/// Of the solver, for each question. Answers that it cannot prove in this time are not counted.
const SOLVER_TIME_MAX: Duration = Duration::from_millis(500);

#[test]
fn no_mix_is_more_than_two_percent_above_the_proven_best() {
    let seeds = 20_000..20_300;
    let mut proven = 0;
    for seed in seeds {
        let case = small(seed);
        // What a debug build could not prove in the time is left to the benchmark.
        if case.demands.len() > 7 {
            continue;
        }
        let mix = decide(&case.demands, &case.offerings, &case.rooms, &case.limits);
        match judge(&case, &mix, SOLVER_TIME_MAX) {
            Verdict::Over(percent) => {
                assert!(percent <= 2.0, "seed {seed}: {percent} percent above the best");
                assert!(percent == 0.0 || !mix.is_best, "seed {seed}: told to be the best, and is not");
                proven += 1;
            }
            Verdict::Unproven => {}
            wrong => panic!("seed {seed}: {wrong:?}"),
        }
    }
    assert!(proven > 100, "only {proven} cases were proven");
}

#[test]
fn every_mix_is_possible_and_tells_what_is_true_of_it() {
    for seed in 30_000..30_200 {
        let case = small(seed);
        let mix = decide(&case.demands, &case.offerings, &case.rooms, &case.limits);
        assert_eq!(faults(&case, &mix), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn mixes_of_large_markets_are_possible_too() {
    for seed in 0..4 {
        let mut case = large(seed, 150, 80);
        if seed % 2 == 1 {
            case.limits.budget = Some(900_000_000);
        }
        let mix = decide(&case.demands, &case.offerings, &case.rooms, &case.limits);
        assert_eq!(faults(&case, &mix), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn the_mix_does_not_depend_on_the_order_of_the_arguments() {
    let cases = (40_000..40_060).map(small).chain([large(7, 120, 60)]);
    for (number, case) in cases.enumerate() {
        let mix = decide(&case.demands, &case.offerings, &case.rooms, &case.limits);
        let Case { demands, offerings, rooms, limits } = shuffled(&case, number as u64);
        assert_eq!(decide(&demands, &offerings, &rooms, &limits), mix, "case {number}");
    }
}

fn shuffled(case: &Case, seed: u64) -> Case {
    let mut random = Random::new(seed);
    let mut case = case.clone();
    shuffle(&mut case.demands, &mut random);
    shuffle(&mut case.offerings, &mut random);
    shuffle(&mut case.rooms, &mut random);
    case
}

fn shuffle<T>(list: &mut [T], random: &mut Random) {
    for end in (1..list.len()).rev() {
        let other = random.below(end as u64 + 1);
        list.swap(end, usize::try_from(other).unwrap_or(0));
    }
}
