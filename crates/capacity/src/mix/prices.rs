//! What members are worth where there are too many kinds of them for the linear programme over fillings: machines are taken as
//! divisible, and each kind has a price for each resource, which rises where more is wanted than there is.
//!
//! ```text
//!   each class goes where it costs least ─► what is used up of which machine ─► its scarce resource is priced higher,
//!          ▲                                                                    and the machine itself if it is sold out
//!          └──────────────────────────────── so many rounds ◄───────────────────────────────┘
//! ```
//!
//! Whatever the prices are, they give a bound: the resources of a machine together are priced as the machine, so no contents are
//! worth more. The best bound of all rounds is kept, with its prices.

use super::bound::{Worths, whole_above};
use super::fill::float;
use super::problem::Problem;

/// Enough to come within a few tenths of a percent of where a thousand rounds come.
const ROUNDS: u32 = 24;

struct Prices {
    /// Price of one machine's resources, as parts of its whole price; they sum to one.
    parts: Vec<[f64; 3]>,
    scarce: Vec<f64>,
}

/// Prices from so many rounds; ceilings of gangs and budgets of queues are left out, which can only make the bound lower.
pub fn worths(problem: &Problem) -> Worths {
    let mut prices = Prices {
        parts: problem.bins.iter().map(|bin| if bin.capacity[0] > 0 { [1.0, 0.0, 0.0] } else { [0.0, 1.0, 0.0] }).collect(),
        scarce: vec![0.0; problem.bins.len()],
    };
    let allowed: Vec<Vec<usize>> = problem
        .classes
        .iter()
        .map(|class| (0..problem.bins.len()).filter(|&bin| class.allowed[bin]).collect())
        .collect();
    let mut best: Option<(f64, Worths)> = None;
    for round in 1..=ROUNDS {
        let unit = prices.of_units(problem);
        let mut used = vec![[0.0; 3]; problem.bins.len()];
        let mut worth = Vec::with_capacity(problem.classes.len());
        let mut bound = 0.0;
        for (class, bins) in problem.classes.iter().zip(&allowed) {
            let need = class.need.map(float);
            let mut least = (f64::INFINITY, 0);
            for &bin in bins {
                let price = &unit[bin];
                let cost = price[0] * need[0] + price[1] * need[1] + price[2] * need[2];
                if cost < least.0 {
                    least = (cost, bin);
                }
            }
            let (cost, bin) = if bins.is_empty() { (0.0, 0) } else { least };
            worth.push(cost);
            bound += cost * f64::from(class.count);
            for (used, need) in used[bin].iter_mut().zip(need) {
                *used += need * f64::from(class.count);
            }
        }
        for (bin, scarce) in problem.bins.iter().zip(&prices.scarce) {
            bound -= scarce * f64::from(bin.stock);
        }
        if best.as_ref().is_none_or(|(most, _)| bound > *most) {
            let fullest =
                problem.bins.iter().zip(&prices.scarce).map(|(bin, scarce)| float(bin.price) + scarce).collect();
            let side = vec![0.0; problem.sides.len()];
            let scarce = prices.scarce.clone();
            best = Some((bound, Worths { class: worth, scarce, side, fullest, bound: whole_above(bound) }));
        }
        prices.follow(problem, &used, f64::from(round));
    }
    best.map_or_else(
        || Worths { class: Vec::new(), scarce: Vec::new(), side: Vec::new(), fullest: Vec::new(), bound: 0 },
        |(_, worths)| worths,
    )
}

impl Prices {
    fn of_units(&self, problem: &Problem) -> Vec<[f64; 3]> {
        let bins = problem.bins.iter().zip(self.parts.iter().zip(&self.scarce));
        bins.map(|(bin, (parts, scarce))| {
            let price = float(bin.price) + scarce;
            std::array::from_fn(|at| if bin.capacity[at] == 0 { 0.0 } else { parts[at] * price / float(bin.capacity[at]) })
        })
        .collect()
    }

    fn follow(&mut self, problem: &Problem, used: &[[f64; 3]], round: f64) {
        // Steps that become smaller, but whose sum has no bound, come to the best prices.
        let step = 1.0 / (1.0 + round.sqrt());
        let dearest = problem.bins.iter().map(|bin| bin.price).max().unwrap_or(0);
        for (index, bin) in problem.bins.iter().enumerate() {
            let machines: [f64; 3] = std::array::from_fn(|at| used[index][at] / float(bin.capacity[at].max(1)));
            let most = (0..3).max_by(|&a, &b| machines[a].total_cmp(&machines[b])).unwrap_or(0);
            if machines[most] > 0.0 {
                for (at, part) in self.parts[index].iter_mut().enumerate() {
                    *part = *part * (1.0 - 0.3 * step) + if at == most { 0.3 * step } else { 0.0 };
                }
            }
            if bin.is_scarce {
                // Room has no price of its own to go by: what its GPUs would cost elsewhere is of the order of this.
                let scale = if bin.price > 0 { float(bin.price) } else { float(dearest) / 4.0 };
                let wanted = (machines[most] / f64::from(bin.stock.max(1)) - 1.0).clamp(-1.0, 1.0);
                self.scarce[index] = (self.scarce[index] + 0.5 * step * scale * wanted).max(0.0);
            }
        }
    }
}
