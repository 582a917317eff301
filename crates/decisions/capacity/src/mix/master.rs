//! The linear programme over columns, each the contents of one machine: the revised simplex method, with a dense inverse.
//!
//! ```text
//!   minimise   Σ price · machines           (and a large price on members that no machine takes)
//!   class:     Σ members in it · machines   ≥ members that wait
//!   scarce:    Σ machines                   ≤ stock
//!   side:      Σ shares of members          ≤ ceiling or budget
//! ```
//!
//! Only its prices (duals) are used, and every user checks them: a numerical slip costs quality, not truth.

/// One way to fill one machine: entries by row.
pub struct Column {
    pub cost: f64,
    pub entries: Vec<(usize, f64)>,
}

/// Rows below `covers` must be reached, the others must not be passed.
pub struct Master {
    rows: usize,
    covers: usize,
    columns: Vec<Column>,
    in_basis: Vec<bool>,
    /// By row: a column, or the row's own slack.
    basis: Vec<Basic>,
    /// The amount of each entry of the basis.
    level: Vec<f64>,
    /// Row by row.
    inverse: Vec<f64>,
    prices: Vec<f64>,
    /// Multiplications done, the measure of work.
    pub work: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Basic {
    Column(usize),
    /// What is missing in a row that must be reached, or left in one that must not be passed.
    Gap,
    /// What is too much in a row that must be reached.
    Surplus(usize),
}

const TINY: f64 = 1e-9;

impl Master {
    /// Without any column: all is missing, at this price for each.
    pub fn new(covers: usize, bounds: &[f64], missing_price: f64) -> Self {
        let rows = bounds.len();
        let mut inverse = vec![0.0; rows * rows];
        let mut prices = vec![0.0; rows];
        let mut level = bounds.to_vec();
        let mut shift = 1e-6;
        for row in 0..rows {
            inverse[row * rows + row] = 1.0;
            if row < covers {
                prices[row] = missing_price;
            }
            // Ties between rows make the method go in circles; different small shifts break them. Prices stay right.
            shift = (shift * 1.618) % 1e-5 + 1e-7;
            level[row] += shift;
        }
        Self {
            rows,
            covers,
            columns: Vec::new(),
            in_basis: Vec::new(),
            basis: vec![Basic::Gap; rows],
            level,
            inverse,
            prices,
            work: 0,
        }
    }

    /// Adds another way to fill a machine.
    pub fn add(&mut self, column: Column) {
        self.columns.push(column);
        self.in_basis.push(false);
    }

    /// What a member of a class is worth (≥ 0), then what one more of a stock or a limit would save, negated (≤ 0).
    pub fn prices(&self) -> &[f64] {
        &self.prices
    }

    /// Improves until no known column helps, or the work exceeds the bound; returns whether it came to an end.
    pub fn solve(&mut self, work_max: u64) -> bool {
        while self.work < work_max {
            let Some((entering, reduced)) = self.entering() else { return true };
            let direction = self.direction(entering);
            let Some(leaving) = self.leaving(&direction) else { return true };
            self.pivot(entering, reduced, &direction, leaving);
        }
        false
    }

    fn reduced_cost(&self, column: &Column) -> f64 {
        column.cost - column.entries.iter().map(|&(row, amount)| self.prices[row] * amount).sum::<f64>()
    }

    fn entering(&mut self) -> Option<(Basic, f64)> {
        let mut best = (Basic::Gap, -TINY);
        for (index, column) in self.columns.iter().enumerate() {
            self.work += column.entries.len() as u64;
            if !self.in_basis[index] {
                let reduced = self.reduced_cost(column);
                if reduced < best.1 {
                    best = (Basic::Column(index), reduced);
                }
            }
        }
        for row in 0..self.rows {
            // A row's own slack: too much of a class is worth nothing, and what is left of a stock costs nothing.
            let reduced = if row < self.covers { self.prices[row] } else { -self.prices[row] };
            if reduced < best.1 {
                best = (Basic::Surplus(row), reduced);
            }
        }
        (best.0 != Basic::Gap).then_some(best)
    }

    fn direction(&mut self, entering: Basic) -> Vec<f64> {
        let mut direction = vec![0.0; self.rows];
        let mut add = |row: usize, amount: f64, work: &mut u64| {
            for (at, value) in direction.iter_mut().enumerate() {
                *value += self.inverse[at * self.rows + row] * amount;
            }
            *work += self.rows as u64;
        };
        match entering {
            Basic::Column(index) => {
                for &(row, amount) in &self.columns[index].entries {
                    add(row, amount, &mut self.work);
                }
            }
            Basic::Surplus(row) => add(row, if row < self.covers { -1.0 } else { 1.0 }, &mut self.work),
            Basic::Gap => {}
        }
        direction
    }

    fn leaving(&self, direction: &[f64]) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for (row, &slope) in direction.iter().enumerate() {
            if slope > TINY {
                let ratio = self.level[row].max(0.0) / slope;
                // Of equal ones the steeper: the more stable pivot.
                let better = best.is_none_or(|(other, least)| {
                    ratio < least - 1e-12 || (ratio < least + 1e-12 && slope > direction[other])
                });
                if better {
                    best = Some((row, ratio));
                }
            }
        }
        best.map(|(row, _)| row)
    }

    fn pivot(&mut self, entering: Basic, reduced: f64, direction: &[f64], leaving: usize) {
        let rows = self.rows;
        let slope = direction[leaving];
        let step = self.level[leaving].max(0.0) / slope;
        let pivot_row: Vec<(usize, f64)> = (0..rows)
            .map(|at| (at, self.inverse[leaving * rows + at]))
            .filter(|(_, value)| value.abs() > 1e-13)
            .map(|(at, value)| (at, value / slope))
            .collect();
        for &(at, value) in &pivot_row {
            self.prices[at] += reduced * value;
        }
        for (row, &along) in direction.iter().enumerate() {
            if row == leaving || along.abs() < 1e-13 {
                continue;
            }
            self.level[row] -= step * along;
            let target = &mut self.inverse[row * rows..(row + 1) * rows];
            for &(at, value) in &pivot_row {
                target[at] -= along * value;
            }
            self.work += pivot_row.len() as u64;
        }
        for at in 0..rows {
            self.inverse[leaving * rows + at] /= slope;
        }
        self.work += 3 * rows as u64;
        self.level[leaving] = step;
        if let Basic::Column(index) = self.basis[leaving] {
            self.in_basis[index] = false;
        }
        if let Basic::Column(index) = entering {
            self.in_basis[index] = true;
        }
        self.basis[leaving] = entering;
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, Master};

    #[test]
    fn prices_of_a_cutting_problem_are_those_of_the_book() {
        // Three kinds on machines of price 1: 44 of which two fit, 3 of which one and a half by mixing, 48 alone.
        let mut master = Master::new(2, &[10.0, 6.0], 1_000.0);
        for entries in [vec![(0, 2.0)], vec![(1, 3.0)], vec![(0, 1.0), (1, 2.0)]] {
            master.add(Column { cost: 1.0, entries });
        }
        assert!(master.solve(1_000_000));
        // The mixed column is worth 1/2 + 2/3 > 1, so it enters: prices are 1/2 and 1/4 then.
        let prices = master.prices();
        assert!((prices[0] - 0.5).abs() < 1e-9 && (prices[1] - 0.25).abs() < 1e-9, "{prices:?}");
    }

    #[test]
    fn a_scarce_machine_gets_a_price_of_its_own() {
        // Ten members; the cheap machine takes one of them and there are four, the dear one costs three.
        let mut master = Master::new(1, &[10.0, 4.0], 1_000.0);
        master.add(Column { cost: 1.0, entries: vec![(0, 1.0), (1, 1.0)] });
        master.add(Column { cost: 3.0, entries: vec![(0, 1.0)] });
        assert!(master.solve(1_000_000));
        assert!((master.prices()[0] - 3.0).abs() < 1e-9 && (master.prices()[1] + 2.0).abs() < 1e-9);
    }
}
