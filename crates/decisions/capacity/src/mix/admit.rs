//! Which demands are served: in order, each if it can be together with all before it.
//!
//! With few gangs and offerings each question is answered by a search that mostly proves its answer. With many, all
//! are tried at once; only if some are left out are they placed one after the other, in order, to see which.

use std::collections::{BTreeMap, BTreeSet};

use super::bound::{self, Worths};
use super::dive::{self, Dived, Order};
use super::keys;
use super::market::Market;
use super::prices;
use super::problem::{self, Problem};
use super::refusal::{self, Refusal};
use super::search::{self, Found, Pass};
use super::starts;
use super::state::Solution;

/// The demands that are served, how, and those that are not.
pub struct Admitted {
    pub problem: Problem,
    pub solution: Solution,
    pub bound: u64,
    pub is_best: bool,
    /// By index of the demand.
    pub refused: BTreeMap<usize, Refusal>,
}

/// Items times bins: below this the search takes milliseconds.
const SMALL_MAX: usize = 1_000;
/// Multiplications: some twenty milliseconds.
const LINEAR_WORK_MAX: u64 = 20_000_000;

const FIRST: &[Pass] = &[
    Pass::Few { choices: 1, nodes_max: 1_000 },
    Pass::Few { choices: 3, nodes_max: 1_000 },
    Pass::Again { nodes_each: 100, nodes_max: 10_000 },
    Pass::All { nodes_max: 2_000 },
];
const MORE: &[Pass] = &[
    Pass::Again { nodes_each: 1_000, nodes_max: 40_000 },
    Pass::All { nodes_max: 40_000 },
    Pass::Again { nodes_each: 3_000, nodes_max: 60_000 },
];

/// Decides which demands are served.
pub fn admit(market: &Market) -> Admitted {
    let mut refused: BTreeMap<usize, Refusal> = BTreeMap::new();
    for index in 0..market.demands.len() {
        if let Some(reason) = refusal::never(market, index) {
            refused.insert(index, reason);
        }
    }
    if market.demands.len() * market.fits.machines().len() > SMALL_MAX {
        return admit_many(market, refused);
    }
    // Each round refuses one more, so there are at most as many as demands.
    loop {
        let served = within_gpu_limits(market, &mut refused);
        let problem = problem::build(market, &served, true);
        let worths = bound::worths(&problem, LINEAR_WORK_MAX);
        let Found { solution, is_proven } = search_all_ways(&problem, &worths, problem.budget, 0);
        if let Some(solution) = solution {
            return admitted(problem, &worths, solution, is_proven, refused);
        }
        let (fits, first_out) = first_that_does_not_fit(market, &served);
        refused.insert(first_out, out_of_room(market, &fits, first_out));
    }
}

fn search_all_ways(problem: &Problem, worths: &Worths, cost_max: Option<u64>, good_enough: u64) -> Found {
    let first = search::search(problem, worths, None, cost_max, good_enough, FIRST);
    if first.is_proven || first.solution.as_ref().is_some_and(|it| it.cost <= good_enough) {
        return first;
    }
    let mut known = first.solution;
    if keys::are_open(problem) {
        let found = keys::search(problem, known, cost_max, good_enough);
        if found.is_proven {
            return found;
        }
        known = found.solution;
    }
    known = starts::search(problem, worths, known, cost_max, good_enough);
    search::search(problem, worths, known, cost_max, good_enough, MORE)
}

fn admitted(
    problem: Problem,
    worths: &Worths,
    solution: Solution,
    is_best: bool,
    refused: BTreeMap<usize, Refusal>,
) -> Admitted {
    let bound = if is_best { solution.cost } else { worths.bound.min(solution.cost) };
    Admitted { problem, solution, bound, is_best, refused }
}

/// All demands that are not refused and whose queue has GPUs left for them, earlier ones counted first; the others
/// are refused.
fn within_gpu_limits(market: &Market, refused: &mut BTreeMap<usize, Refusal>) -> Vec<usize> {
    refused.retain(|_, reason| !matches!(reason, Refusal::QueueGpus { .. }));
    let mut used: BTreeMap<&str, u64> = BTreeMap::new();
    let mut served = Vec::new();
    for (index, demand) in market.demands.iter().enumerate() {
        if refused.contains_key(&index) {
            continue;
        }
        let asked = demand.member.gpus.saturating_mul(u64::from(demand.members));
        let used = used.entry(&demand.queue).or_default();
        match market.limits.queues.get(&demand.queue).and_then(|limit| limit.gpus) {
            Some(limit) if used.saturating_add(asked) > limit => {
                refused.insert(index, Refusal::QueueGpus { limit, used: *used, asked });
            }
            _ => {
                *used += asked;
                served.push(index);
            }
        }
    }
    served
}

/// The longest beginning that can be served, and the demand after it. If fewer do not fit, more never do, so it is
/// found by halving.
fn first_that_does_not_fit(market: &Market, served: &[usize]) -> (Vec<usize>, usize) {
    let (mut fits, mut fails) = (0, served.len());
    while fits + 1 < fails {
        let middle = usize::midpoint(fits, fails);
        if cost_to_serve(market, &served[..middle], market.limits.budget).is_some() {
            fits = middle;
        } else {
            fails = middle;
        }
    }
    (served[..fits].to_vec(), served[fails - 1])
}

/// The cost of the first mix within the budget; budgets of queues are as they are in the market.
fn cost_to_serve(market: &Market, served: &[usize], budget: Option<u64>) -> Option<u64> {
    let problem = problem::build(market, served, true);
    let worths = bound::worths(&problem, LINEAR_WORK_MAX);
    let good_enough = budget.unwrap_or(u64::MAX);
    search_all_ways(&problem, &worths, budget, good_enough).solution.map(|solution| solution.cost)
}

/// How many dives are made until no demand is left out that was not among the first.
const DIVES_MAX: u32 = 3;

fn admit_many(market: &Market, mut refused: BTreeMap<usize, Refusal>) -> Admitted {
    let served = within_gpu_limits(market, &mut refused);
    let problem = problem::build(market, &served, false);
    let worths = prices::worths(&problem);
    // Demands that are left out go before all others the next time, in order: then only those before a demand can
    // leave it out. GPUs of a queue that one of them was counted with are not given to another demand in this
    // decision; the next decision does that.
    let mut first = BTreeSet::new();
    let mut dived = dive::dive(&problem, &worths, Order::ByWorth, &first);
    for _ in 1..DIVES_MAX {
        let before = first.len();
        first.extend(dived.left_out.iter().copied());
        if first.len() == before {
            break;
        }
        dived = dive::dive(&problem, &worths, Order::ByWorth, &first);
    }
    if problem.budget.is_some_and(|budget| dived.state.cost > budget) {
        dived = dive::dive(&problem, &worths, Order::AsNumbered { budget: problem.budget }, &BTreeSet::new());
    }
    let Dived { state, left_out } = dived;
    let solution = state.solution();
    if left_out.is_empty() {
        let is_best = solution.cost <= worths.bound;
        return admitted(problem, &worths, solution, is_best, refused);
    }
    for &item in &left_out {
        let demand = problem.items[item].demands[0];
        let before = served.iter().filter(|&&other| other < demand && !refused.contains_key(&other)).count();
        refused.insert(demand, Refusal::Taken { served_before: before });
    }
    let bound = worths.bound_without(&problem, &left_out);
    Admitted { is_best: solution.cost <= bound, bound: bound.min(solution.cost), problem, solution, refused }
}

/// Why a demand cannot be served after these.
fn out_of_room(market: &Market, before: &[usize], demand: usize) -> Refusal {
    let together: Vec<usize> = before.iter().copied().chain([demand]).collect();
    if let Some(limit) = market.limits.budget
        && let Some(with_it) = cost_to_serve(market, &together, None)
    {
        return Refusal::Budget { limit, with_it };
    }
    Refusal::Taken { served_before: before.len() }
}
