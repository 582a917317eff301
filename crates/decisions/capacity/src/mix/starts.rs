//! From many starts, if one search did not come to its end: each start has worths that are a little off, so that it
//! begins with other machines, and then improves by the true worths. The numbers come from fixed seeds: the same
//! market gives the same mix.

use seeded_random::Random;

use super::bound::Worths;
use super::problem::Problem;
use super::search::{self, Pass};
use super::state::Solution;

/// Some milliseconds each.
const STARTS: u64 = 60;
const BEGIN: &[Pass] = &[Pass::Few { choices: 1, nodes_max: 500 }];
const BETTER: &[Pass] = &[Pass::Again { nodes_each: 200, nodes_max: 3_000 }];

/// The cheapest that was found from any start, or what is known already.
pub fn search(
    problem: &Problem,
    worths: &Worths,
    known: Option<Solution>,
    cost_max: Option<u64>,
    good_enough: u64,
) -> Option<Solution> {
    let mut best = known;
    for start in 0..STARTS {
        if best.as_ref().is_some_and(|best| best.cost <= good_enough.max(worths.bound)) {
            break;
        }
        let found = search::search(problem, &off(worths, start), None, None, 0, BEGIN).solution;
        let better = |solution| search::search(problem, worths, Some(solution), None, 0, BETTER).solution;
        let within = |it: &Solution| cost_max.is_none_or(|most| it.cost <= most);
        let is_cheaper = |it: &Solution| best.as_ref().is_none_or(|best| it.cost < best.cost);
        if let Some(solution) = found.and_then(better).filter(|it| within(it) && is_cheaper(it)) {
            best = Some(solution);
        }
    }
    best
}

/// Each worth up to a quarter more or less. These bound nothing.
fn off(worths: &Worths, start: u64) -> Worths {
    let mut random = Random::new(start);
    let mut factor = || 0.75 + f64::from(u32::try_from(random.below(1_001)).unwrap_or(0)) / 2_000.0;
    Worths {
        class: worths.class.iter().map(|worth| worth * factor()).collect(),
        scarce: worths.scarce.clone(),
        side: worths.side.clone(),
        bound: 0,
    }
}
