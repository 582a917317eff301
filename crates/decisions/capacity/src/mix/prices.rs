//! What members are worth if there are too many kinds of them for the linear programme over fillings. Machines are
//! taken as divisible, and each kind has a price for each resource, which rises if more is wanted than there is.
//!
//! ```text
//!   each class goes where it costs least ─► what is used up of which machine ─► its scarce resource is priced higher,
//!          ▲                                                                    and the machine itself if it is sold out
//!          └──────────────────────────────── several rounds ◄──────────────────────────────┘
//! ```
//!
//! Any prices give a bound: the resources of a machine together cost as much as the machine, so no contents are worth
//! more. The best bound of all rounds is kept, with its prices.

use super::bound::{Worths, whole_above};
use super::fill::float;
use super::problem::{Class, Problem};

/// Rounds in which every bin is considered, and rounds after each of them with only the bins that were cheapest then.
const WIDE_ROUNDS: u32 = 6;
const NARROW_ROUNDS: u32 = 14;
const CHEAPEST: usize = 12;

struct Prices {
    /// Price of one machine's resources, as parts of its whole price; they sum to one.
    parts: Vec<[f64; 3]>,
    scarce: Vec<f64>,
}

/// Where each class would go at some prices.
struct Choices {
    /// What one member costs there, by class.
    worth: Vec<f64>,
    /// By bin and resource.
    used: Vec<[f64; 3]>,
}

/// Ceilings of gangs and budgets of queues are ignored, which can only make the bound lower.
pub fn worths(problem: &Problem) -> Worths {
    let only = |at: usize| std::array::from_fn(|other| if other == at { 1.0 } else { 0.0 });
    let mut prices = Prices {
        parts: problem.bins.iter().map(|bin| only(usize::from(bin.capacity[0] == 0))).collect(),
        scarce: vec![0.0; problem.bins.len()],
    };
    let mut best: Option<(f64, Worths)> = None;
    let mut round = 0.0;
    for _ in 0..WIDE_ROUNDS {
        let unit = prices.of_units(problem);
        let near: Vec<Vec<usize>> = problem.classes.iter().map(|class| cheapest(class, &unit)).collect();
        let chosen = choose(problem, &unit, &near);
        let bound = prices.bound(problem, &chosen.worth);
        if best.as_ref().is_none_or(|(most, _)| bound > *most) {
            best = Some((bound, prices.to_worths(problem, chosen.worth, bound)));
        }
        for _ in 0..NARROW_ROUNDS {
            round += 1.0;
            let chosen = choose(problem, &prices.of_units(problem), &near);
            prices.follow(problem, &chosen.used, round);
        }
    }
    let nothing = || prices.to_worths(problem, vec![0.0; problem.classes.len()], 0.0);
    best.map_or_else(nothing, |(_, worths)| worths)
}

fn cost(need: [f64; 3], unit: &[f64; 3]) -> f64 {
    need[0] * unit[0] + need[1] * unit[1] + need[2] * unit[2]
}

fn cheapest(class: &Class, unit: &[[f64; 3]]) -> Vec<usize> {
    let need = class.need.map(float);
    // Costs are not negative, so their bits have the same order, and compare faster.
    let bits = |bin: usize| cost(need, &unit[bin]).to_bits();
    let mut costs: Vec<(u64, usize)> = class.bins.iter().map(|&(bin, _)| (bits(bin), bin)).collect();
    if costs.len() > CHEAPEST {
        costs.select_nth_unstable(CHEAPEST);
        costs.truncate(CHEAPEST);
    }
    // In the order found, and not sorted: if twins cost the same, classes should not all choose the same one.
    costs.into_iter().map(|(_, bin)| bin).collect()
}

fn choose(problem: &Problem, unit: &[[f64; 3]], bins: &[Vec<usize>]) -> Choices {
    let mut chosen =
        Choices { worth: Vec::with_capacity(bins.len()), used: vec![[0.0; 3]; problem.bins.len()] };
    for (class, bins) in problem.classes.iter().zip(bins) {
        let need = class.need.map(float);
        let mut least: Option<(f64, usize)> = None;
        for &bin in bins {
            let cost = cost(need, &unit[bin]);
            if least.is_none_or(|(least, _)| cost < least) {
                least = Some((cost, bin));
            }
        }
        chosen.worth.push(least.map_or(0.0, |(cost, _)| cost));
        if let Some((_, bin)) = least {
            for (used, need) in chosen.used[bin].iter_mut().zip(need) {
                *used += need * f64::from(class.count);
            }
        }
    }
    chosen
}

impl Prices {
    fn of_units(&self, problem: &Problem) -> Vec<[f64; 3]> {
        let bins = problem.bins.iter().zip(self.parts.iter().zip(&self.scarce));
        bins.map(|(bin, (parts, scarce))| {
            let price = float(bin.price) + scarce;
            std::array::from_fn(|at| {
                if bin.capacity[at] == 0 { 0.0 } else { parts[at] * price / float(bin.capacity[at]) }
            })
        })
        .collect()
    }

    fn bound(&self, problem: &Problem, worth: &[f64]) -> f64 {
        let members: f64 =
            problem.classes.iter().zip(worth).map(|(class, worth)| f64::from(class.count) * worth).sum();
        let scarce: f64 =
            problem.bins.iter().zip(&self.scarce).map(|(bin, price)| f64::from(bin.stock) * price).sum();
        members - scarce
    }

    fn to_worths(&self, problem: &Problem, class: Vec<f64>, bound: f64) -> Worths {
        let side = vec![0.0; problem.sides.len()];
        Worths { class, scarce: self.scarce.clone(), side, bound: whole_above(bound) }
    }

    fn follow(&mut self, problem: &Problem, used: &[[f64; 3]], round: f64) {
        // Steps that become smaller, with an unbounded sum, converge to the best prices.
        let step = 0.5 / (1.0 + (3.0 * round).sqrt());
        let dearest = problem.bins.iter().map(|bin| bin.price).max().unwrap_or(0);
        for (index, bin) in problem.bins.iter().enumerate() {
            let machines: [f64; 3] =
                std::array::from_fn(|at| used[index][at] / float(bin.capacity[at].max(1)));
            let most = (0..3).max_by(|&a, &b| machines[a].total_cmp(&machines[b])).unwrap_or(0);
            if machines[most] > 0.0 {
                for (at, part) in self.parts[index].iter_mut().enumerate() {
                    *part = *part * (1.0 - 0.3 * step) + if at == most { 0.3 * step } else { 0.0 };
                }
            }
            if bin.is_scarce {
                // Existing room has no price of its own. What its GPUs would cost elsewhere is of this order.
                let scale = if bin.price > 0 { float(bin.price) } else { float(dearest) / 4.0 };
                let wanted = (machines[most] / f64::from(bin.stock.max(1)) - 1.0).clamp(-1.0, 1.0);
                self.scarce[index] = (self.scarce[index] + 0.5 * step * scale * wanted).max(0.0);
            }
        }
    }
}
