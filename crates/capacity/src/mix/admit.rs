//! Who is served: in order, each if it can be together with all before it.

use std::collections::BTreeMap;

use super::Market;
use super::bound::{self, Worths};
use super::explain::{self, Refusal};
use super::problem::{self, Problem};
use super::search::{self, Found, Pass};
use super::state::Solution;

/// Those who are served, how, and those who are not.
pub struct Admitted {
    pub problem: Problem,
    pub solution: Solution,
    pub bound: u64,
    pub is_best: bool,
    /// By index of the demand.
    pub refused: BTreeMap<usize, Refusal>,
}

/// Decides who is served.
pub fn admit(market: &Market) -> Admitted {
    let mut refused: BTreeMap<usize, Refusal> = BTreeMap::new();
    for index in 0..market.demands.len() {
        if let Some(reason) = explain::never(market, index) {
            refused.insert(index, reason);
        }
    }
    // Each round refuses one more, so there are at most as many as demands.
    loop {
        let served = within_gpu_limits(market, &mut refused);
        if let Some(admitted) = serve(market, &served, &refused) {
            return admitted;
        }
        let (fits, first_out) = first_that_does_not_fit(market, &served);
        refused.insert(first_out, explain::out_of_room(market, &fits, first_out));
    }
}

/// All who are not refused and whose queue has GPUs left for them, those before counted first; the others are refused.
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

fn serve(market: &Market, served: &[usize], refused: &BTreeMap<usize, Refusal>) -> Option<Admitted> {
    let problem = build(market, served);
    let worths = bound::worths(&problem, LINEAR_WORK_MAX);
    let Found { solution, is_proven } =
        search::search(&problem, &worths, problem.budget, 0, SMALL);
    let solution = solution?;
    Some(Admitted { bound: worths.bound.min(solution.cost), problem, is_best: is_proven, solution, refused: refused.clone() })
}

/// The longest beginning that can be served, and who comes after it. More never fit where fewer do not, so it is found by halving.
fn first_that_does_not_fit(market: &Market, served: &[usize]) -> (Vec<usize>, usize) {
    let (mut fits, mut fails) = (0, served.len());
    while fits + 1 < fails {
        let middle = usize::midpoint(fits, fails);
        if can_serve(market, &served[..middle]) { fits = middle } else { fails = middle }
    }
    (served[..fits].to_vec(), served[fails - 1])
}

/// Whether there is any mix for them.
pub fn can_serve(market: &Market, served: &[usize]) -> bool {
    cost_to_serve(market, served, market.limits.budget).is_some()
}

/// What the first mix costs that is within the budget; any budget of queues is as it is in the market.
pub fn cost_to_serve(market: &Market, served: &[usize], budget: Option<u64>) -> Option<u64> {
    let problem = build(market, served);
    let worths: Worths = bound::worths(&problem, LINEAR_WORK_MAX);
    let good_enough = budget.unwrap_or(u64::MAX);
    let found = search::search(&problem, &worths, budget, good_enough, SMALL);
    found.solution.map(|solution| solution.cost)
}

fn build(market: &Market, served: &[usize]) -> Problem {
    problem::build(market, served)
}

/// Multiplications: some twenty milliseconds.
const LINEAR_WORK_MAX: u64 = 20_000_000;

const SMALL: &[Pass] = &[
    Pass::Few { choices: 1, nodes_max: 1_000 },
    Pass::Few { choices: 3, nodes_max: 1_000 },
    Pass::Again { nodes_each: 100, nodes_max: 10_000 },
    Pass::All { nodes_max: 20_000 },
    Pass::Again { nodes_each: 1_000, nodes_max: 20_000 },
];
