//! What members are worth, and with it the least that any mix can cost: the linear programme, by generating columns.
//!
//! That gang-mates must be together is ignored here, which can only make the bound lower.

use super::fill::{self, Candidate, float};
use super::master::{Column, Master};
use super::problem::Problem;

/// Micro-units are for people and ledgers. The linear programme counts in whole units, near one.
pub const UNIT: f64 = 1e6;

/// Prices under which no machine can be filled with more worth than it costs.
pub struct Worths {
    /// Of one member, by class.
    pub class: Vec<f64>,
    /// On top of a machine's price, by bin: what one more of a scarce machine would save.
    pub scarce: Vec<f64>,
    /// For each micro-unit of share that a side counts.
    pub side: Vec<f64>,
    /// No mix costs less, in micro-units.
    pub bound: u64,
}

impl Worths {
    /// What a member of this class is worth in this bin.
    pub fn member(&self, problem: &Problem, class: usize, bin: usize) -> f64 {
        let it = &problem.classes[class];
        let sides: f64 = it.sides.iter().map(|&side| self.side[side]).sum();
        self.class[class] - if it.sides.is_empty() { 0.0 } else { sides * float(it.shares[bin]) }
    }

    /// The bound without these items. The prices are also valid for fewer demands; only the worth of these items is
    /// not paid.
    pub fn bound_without(&self, problem: &Problem, items: &[usize]) -> u64 {
        let worth = |&item: &usize| {
            let it = &problem.items[item];
            self.class[it.class] * f64::from(it.count)
        };
        whole_above(float(self.bound) - items.iter().map(worth).sum::<f64>())
    }

    /// What one machine of this bin costs, in micro-units, with what its scarceness adds.
    pub fn machine(&self, problem: &Problem, bin: usize) -> f64 {
        float(problem.bins[bin].price) + self.scarce[bin]
    }
}

/// Solves the linear programme with at most this much work.
pub fn worths(problem: &Problem, work_max: u64) -> Worths {
    let mut programme = Programme::new(problem);
    programme.add_first_columns();
    let mut is_exact = false;
    // Each round adds a column that was not there, and costs work: the bound on work bounds the rounds.
    while programme.master.work < work_max {
        if !programme.master.solve(work_max) {
            break;
        }
        if !programme.add_better_columns(false) {
            is_exact = true;
            break;
        }
    }
    programme.into_worths(is_exact)
}

struct Programme<'a> {
    problem: &'a Problem,
    master: Master,
    /// By bin: the row of its stock.
    stock_row: Vec<Option<usize>>,
    first_side_row: usize,
    /// Bins by twin group.
    twins: Vec<Vec<usize>>,
    /// By twin group, from the last time that columns were looked for: the most that its machines can be filled with.
    most_worth: Vec<f64>,
}

/// A machine holds few members, so its best contents are found in hundreds of steps; more are rarely needed to prove
/// it.
const FILL_STEPS_MAX: u32 = 3_000;

impl<'a> Programme<'a> {
    fn new(problem: &'a Problem) -> Self {
        let classes = problem.classes.len();
        let mut bounds: Vec<f64> = problem.classes.iter().map(|class| f64::from(class.count)).collect();
        let mut stock_row = vec![None; problem.bins.len()];
        for (bin, row) in problem.bins.iter().zip(&mut stock_row) {
            if bin.is_scarce {
                *row = Some(bounds.len());
                bounds.push(f64::from(bin.stock));
            }
        }
        let first_side_row = bounds.len();
        bounds.extend(problem.sides.iter().map(|side| float(side.limit) / UNIT));
        let dearest = problem.bins.iter().map(|bin| bin.price).max().unwrap_or(0);
        // Far above what any chain of members that give way to each other could cost.
        let missing_price = 1_000.0 * (float(dearest) / UNIT + 1.0);
        let groups = problem.bins.iter().map(|bin| bin.twins + 1).max().unwrap_or(0);
        let mut twins = vec![Vec::new(); groups];
        for (index, bin) in problem.bins.iter().enumerate() {
            twins[bin.twins].push(index);
        }
        Self {
            problem,
            master: Master::new(classes, &bounds, missing_price),
            stock_row,
            first_side_row,
            most_worth: vec![f64::INFINITY; twins.len()],
            twins,
        }
    }

    fn add_column(&mut self, bin: usize, contents: &[(usize, u32)]) {
        let mut entries: Vec<(usize, f64)> =
            contents.iter().map(|&(class, count)| (class, f64::from(count))).collect();
        if let Some(row) = self.stock_row[bin] {
            entries.push((row, 1.0));
        }
        let mut sides = vec![0.0; self.problem.sides.len()];
        for &(class, count) in contents {
            let class = &self.problem.classes[class];
            for &side in &class.sides {
                sides[side] += float(class.shares[bin]) / UNIT * f64::from(count);
            }
        }
        let counted = sides.into_iter().enumerate().filter(|(_, amount)| *amount > 0.0);
        entries.extend(counted.map(|(side, amount)| (self.first_side_row + side, amount)));
        self.master.add(Column { cost: float(self.problem.bins[bin].price) / UNIT, entries });
    }

    /// For each class, three kinds of machines that take it alone at the lowest price.
    fn add_first_columns(&mut self) {
        for (index, class) in self.problem.classes.iter().enumerate() {
            let alone = class.bins.iter().map(|&(bin, fitting)| {
                let count = class.count.min(fitting);
                (float(self.problem.bins[bin].price) / f64::from(count.max(1)), bin, count)
            });
            let mut alone: Vec<(f64, usize, u32)> = alone.collect();
            alone.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
            for &(_, bin, count) in alone.iter().take(3) {
                self.add_column(bin, &[(index, count)]);
            }
        }
    }

    /// Looks for fillings that are worth more than their machine; returns whether there are any.
    fn add_better_columns(&mut self, only_look: bool) -> bool {
        let prices: Vec<f64> = self.master.prices().to_vec();
        let machine_price = |bin: usize, rows: &[Option<usize>], problem: &Problem| {
            float(problem.bins[bin].price) / UNIT - rows[bin].map_or(0.0, |row| prices[row])
        };
        let mut any = false;
        for group in 0..self.twins.len() {
            let Some(bin) = self.twins[group].iter().copied().min_by(|&left, &right| {
                machine_price(left, &self.stock_row, self.problem).total_cmp(&machine_price(
                    right,
                    &self.stock_row,
                    self.problem,
                ))
            }) else {
                continue;
            };
            let candidates: Vec<Candidate> = (0..self.problem.classes.len())
                .filter(|&class| self.problem.classes[class].allowed[bin])
                .map(|class| self.candidate(class, bin, &prices))
                .collect();
            self.master.work += 4 * candidates.len() as u64;
            let best = fill::best(self.problem.bins[bin].capacity, candidates, FILL_STEPS_MAX);
            self.most_worth[group] = best.worth_at_most;
            let price = machine_price(bin, &self.stock_row, self.problem);
            if best.filling.worth > price + 1e-7 * (1.0 + price.abs()) && !only_look {
                self.add_column(bin, &best.filling.contents);
                any = true;
            }
        }
        any
    }

    fn candidate(&self, class: usize, bin: usize, prices: &[f64]) -> Candidate {
        let it = &self.problem.classes[class];
        let side_price: f64 = it.sides.iter().map(|&side| prices[self.first_side_row + side]).sum();
        let share = if it.sides.is_empty() { 0.0 } else { float(it.shares[bin]) / UNIT };
        Candidate { id: class, need: it.need, most: it.count, worth: prices[class] + side_price * share }
    }

    /// Scales the prices down until no machine can be filled with more worth than it costs.
    fn into_worths(mut self, is_exact: bool) -> Worths {
        if !is_exact {
            self.add_better_columns(true);
        }
        let prices = self.master.prices();
        let classes = self.problem.classes.len();
        let mut scarce: Vec<f64> =
            self.stock_row.iter().map(|row| row.map_or(0.0, |row| -prices[row].min(0.0))).collect();
        let mut scale = 1.0_f64;
        for (bin, it) in self.problem.bins.iter().enumerate() {
            let most = self.most_worth[it.twins];
            let price = float(it.price) / UNIT + scarce[bin];
            if it.price == 0 && it.is_scarce {
                // Existing room costs nothing, so no scale would help: the room itself is worth more.
                scarce[bin] = scarce[bin].max(most);
            } else if most > price {
                scale = scale.max(most / price.max(1e-12));
            }
        }
        let class: Vec<f64> = (0..classes).map(|row| prices[row].max(0.0) * UNIT / scale).collect();
        let side: Vec<f64> = (0..self.problem.sides.len())
            .map(|side| -prices[self.first_side_row + side].min(0.0) / scale)
            .collect();
        let scarce: Vec<f64> = scarce.into_iter().map(|price| price * UNIT).collect();
        let mut bound = 0.0;
        for (it, worth) in self.problem.classes.iter().zip(&class) {
            bound += f64::from(it.count) * worth;
        }
        for (it, worth) in self.problem.bins.iter().zip(&scarce) {
            bound -= f64::from(it.stock) * worth;
        }
        for (it, worth) in self.problem.sides.iter().zip(&side) {
            bound -= float(it.limit) * worth;
        }
        Worths { class, scarce, side, bound: whole_above(bound) }
    }
}

/// The next whole micro-unit, apart from what rounding may have added.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and far below 2^63"
)]
pub fn whole_above(bound: f64) -> u64 {
    (bound - 1e-9 * bound.abs() - 1e-3).max(0.0).ceil() as u64
}
