//! Where gangs that must be together go. This is decided first if it keeps the bound low: the linear programme
//! spreads such a gang over many places, so each of its places is tried, the one with the lowest bound first.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::bound::{self, Worths};
use super::problem::{self, Problem};
use super::search::{self, Found, Pass};
use super::state::Solution;
use crate::demand::Together;

/// Linear programmes of some tenths of a millisecond each.
const PROGRAMMES_MAX: u32 = 300;
const LINEAR_WORK_MAX: u64 = 5_000_000;

const ON_THE_WAY: &[Pass] =
    &[Pass::Few { choices: 1, nodes_max: 200 }, Pass::Again { nodes_each: 50, nodes_max: 500 }];
const AT_THE_END: &[Pass] = &[
    Pass::Few { choices: 1, nodes_max: 200 },
    Pass::Again { nodes_each: 50, nodes_max: 1_000 },
    Pass::All { nodes_max: 3_000 },
];

/// Some gangs have their place, the others may still be anywhere.
struct Node {
    bound: u64,
    number: u32,
    problem: Problem,
    worths: Worths,
}

/// Whether there is a gang whose place is open.
pub fn are_open(problem: &Problem) -> bool {
    problem.items.iter().any(|item| item.together != Together::Anywhere)
}

/// Looks for a mix cheaper than what is known, or than `cost_max`.
pub fn search(problem: &Problem, known: Option<Solution>, cost_max: Option<u64>, good_enough: u64) -> Found {
    let worths = bound::worths(problem, LINEAR_WORK_MAX);
    let mut best = known;
    let mut number = 0;
    let mut is_proven = true;
    let mut open = BinaryHeap::new();
    open.push(Reverse(Node { bound: worths.bound, number, problem: problem.clone(), worths }));
    while let Some(Reverse(node)) = open.pop() {
        let below = best.as_ref().map(|best| best.cost.saturating_sub(1)).into_iter().chain(cost_max).min();
        if below.is_some_and(|below| node.bound > below) {
            break;
        }
        let item = widest_open(&node);
        let passes = if item.is_some() { ON_THE_WAY } else { AT_THE_END };
        let found = search::search(&node.problem, &node.worths, None, below, good_enough, passes);
        best = found.solution.or(best);
        if best.as_ref().is_some_and(|best| best.cost <= good_enough) {
            return Found { solution: best, is_proven: false };
        }
        let Some(item) = item else {
            is_proven &= found.is_proven;
            continue;
        };
        if number >= PROGRAMMES_MAX {
            is_proven = false;
            break;
        }
        for key in keys_of(&node.problem, item) {
            number += 1;
            let problem = problem::with_place(&node.problem, item, key);
            let worths = bound::worths(&problem, LINEAR_WORK_MAX);
            let bound = worths.bound.max(node.bound);
            open.push(Reverse(Node { bound, number, problem, worths }));
        }
    }
    Found { solution: best, is_proven }
}

/// The open gang that is worth most as a whole; of equal ones the first.
fn widest_open(node: &Node) -> Option<usize> {
    let worth = |item: usize| {
        let it = &node.problem.items[item];
        node.worths.class[it.class] * f64::from(it.count)
    };
    (0..node.problem.items.len())
        .filter(|&item| node.problem.items[item].together != Together::Anywhere)
        .max_by(|&a, &b| worth(a).total_cmp(&worth(b)).then(b.cmp(&a)))
}

/// Places with room for the whole gang, if no other demand wanted it.
fn keys_of(problem: &Problem, item: usize) -> Vec<u32> {
    let it = &problem.items[item];
    let class = &problem.classes[it.class];
    let bins = || class.bins.iter().map(|&(bin, fitting)| (&problem.bins[bin], fitting));
    let keys: BTreeSet<u32> = bins().filter_map(|(bin, _)| bin.machine.key(it.together)).collect();
    let room = |key: u32| -> u64 {
        let there = bins().filter(|(bin, _)| bin.machine.key(it.together) == Some(key));
        there.map(|(bin, fitting)| u64::from(fitting.min(it.count)) * u64::from(bin.stock)).sum()
    };
    keys.into_iter().filter(|&key| room(key) >= u64::from(it.count)).collect()
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Node {}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Node {
    /// By bound; of equal ones the newer, which has more gangs at their place.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bound.cmp(&other.bound).then(other.number.cmp(&self.number))
    }
}
