//! From worths to whole machines, if there are few enough: the first item that is not covered decides which machine
//! comes next, filled with other waiting items.
//!
//! First straight down, with the best machine each time; then with a few choices each time. Then two to four of the
//! machines found are thrown away and chosen again. Last, all choices that could still lead to a lower cost are
//! tried, which proves the best if it comes to its end. Each has a bound on its steps.

use std::collections::HashMap;

use super::bound::Worths;
use super::fill::{self, Candidate, Filling, float};
use super::problem::Problem;
use super::state::{Filled, Solution, State};
use crate::demand::Together;

/// The result of a search.
pub struct Found {
    pub solution: Option<Solution>,
    /// Nothing cheaper exists, or nothing at all.
    pub is_proven: bool,
}

/// One way to look, with a bound on its steps.
#[derive(Clone, Copy)]
pub enum Pass {
    /// This many choices each time, of the best filling of each bin; with one choice, as many equal machines at once
    /// as possible.
    Few { choices: usize, nodes_max: u32 },
    /// Parts of what was found are chosen again: a number of nodes for each part, and for all.
    Again { nodes_each: u32, nodes_max: u32 },
    /// All choices that could be better than what is known.
    All { nodes_max: u32 },
}

/// Looks for the cheapest machines that serve every item, for at most `cost_max`; stops at the first that costs at most
/// `good_enough`. It begins with what is known.
pub fn search(
    problem: &Problem,
    worths: &Worths,
    known: Option<Solution>,
    cost_max: Option<u64>,
    good_enough: u64,
    passes: &[Pass],
) -> Found {
    let mut search = Search::new(problem, worths, cost_max, good_enough);
    if let Some(known) = known {
        search.below = search.below.min(float(known.cost));
        search.best = Some(known);
    }
    let mut is_proven = false;
    for pass in passes {
        search.seen.clear();
        match *pass {
            Pass::Few { choices, nodes_max } => {
                search.nodes_left = nodes_max;
                search.go(Some(choices));
            }
            Pass::Again { nodes_each, nodes_max } => search.again(nodes_each, nodes_max),
            Pass::All { nodes_max } => {
                search.nodes_left = nodes_max;
                is_proven = search.go(None) && !search.is_done();
            }
        }
        if search.is_done() || is_proven {
            break;
        }
    }
    let is_at_bound = search.best.as_ref().is_some_and(|best| best.cost <= worths.bound);
    Found { is_proven: is_proven || is_at_bound, solution: search.best }
}

struct Search<'a> {
    state: State<'a>,
    good_enough: u64,
    /// Items, those worth most first: the hardest to place.
    order: Vec<usize>,
    best: Option<Solution>,
    /// The cost that a solution must be below.
    below: f64,
    nodes_left: u32,
    seen: HashMap<Vec<u32>, u64>,
}

struct FillingChoice {
    bin: usize,
    filling: Filling,
    loss: f64,
}

/// The most steps in which contents of one machine are searched.
const BEST_STEPS_MAX: u32 = 400;
const ALL_STEPS_MAX: u32 = 20_000;
/// How many machines, those with the largest loss, have parts chosen again while nodes are left for it.
const AGAIN_MACHINES_MAX: usize = 40;

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, worths: &'a Worths, cost_max: Option<u64>, good_enough: u64) -> Self {
        let mut order: Vec<usize> = (0..problem.items.len()).collect();
        let worth = |item: usize| worths.class[problem.items[item].class];
        let is_free = |item: usize| problem.items[item].together == Together::Anywhere;
        order.sort_by(|&a, &b| {
            worth(b).total_cmp(&worth(a)).then(is_free(a).cmp(&is_free(b))).then(a.cmp(&b))
        });
        Self {
            state: State::new(problem, worths),
            good_enough,
            order,
            best: None,
            below: cost_max.map_or(f64::INFINITY, |most| float(most) + 1.0),
            nodes_left: 0,
            seen: HashMap::new(),
        }
    }

    fn is_done(&self) -> bool {
        let enough = self.good_enough.max(self.state.worths.bound);
        self.best.as_ref().is_some_and(|best| best.cost <= enough)
    }

    /// Returns whether everything that the choices leave open was searched.
    fn go(&mut self, few: Option<usize>) -> bool {
        if self.is_done() {
            return true;
        }
        if self.nodes_left == 0 {
            return false;
        }
        self.nodes_left -= 1;
        let Some(item) = self.order.iter().copied().find(|&item| self.state.left[item] > 0) else {
            if float(self.state.cost) < self.below {
                self.below = float(self.state.cost);
                self.best = Some(self.state.solution());
            }
            return true;
        };
        // Costs are whole: a cost must be lower by at least one.
        let slack = self.below - float(self.state.cost) - self.state.rest - 1.0 + 1e-3;
        if slack < 0.0 || (few.is_none() && self.was_here_for_less()) {
            return true;
        }
        let (mut choices, mut complete) = match few {
            Some(_) => (self.best_choices(item), true),
            None => self.all_choices(item, slack),
        };
        choices.sort_by(|a, b| {
            a.loss
                .total_cmp(&b.loss)
                .then(b.filling.worth.total_cmp(&a.filling.worth))
                .then(a.bin.cmp(&b.bin))
        });
        choices.truncate(few.unwrap_or(usize::MAX));
        for FillingChoice { bin, filling: Filling { contents, .. }, .. } in choices {
            let copies = if few == Some(1) { self.state.copies(bin, &contents) } else { 1 };
            self.state.apply(Filled { bin, contents, copies });
            complete &= self.go(few);
            self.state.take_out(self.state.machines.len() - 1);
            if self.is_done() {
                return true;
            }
        }
        complete
    }

    fn was_here_for_less(&mut self) -> bool {
        let state = &self.state;
        let mut key: Vec<u32> = state.left.clone();
        key.extend(state.key.iter().map(|key| key.map_or(0, |key| key + 1)));
        let scarce = state.problem.bins.iter().zip(&state.stock).filter(|(bin, _)| bin.is_scarce);
        key.extend(scarce.map(|(_, stock)| stock));
        for left in &state.side_left {
            key.extend(
                [u32::try_from(left >> 32), u32::try_from(left & 0xffff_ffff)].map(|half| half.unwrap_or(0)),
            );
        }
        let known = self.seen.entry(key).or_insert(u64::MAX);
        let was_here = *known <= state.cost;
        *known = state.cost.min(*known);
        was_here
    }

    /// The item first, then everything else that may be in that bin now.
    fn candidates(&self, item: usize, bin: usize) -> Vec<Candidate> {
        let others = self.order.iter().copied().filter(|&other| other != item);
        std::iter::once(item)
            .chain(others.filter(|&it| self.state.left[it] > 0 && self.state.may_be_in(it, bin)))
            .map(|it| self.state.candidate(it, bin))
            .collect()
    }

    fn bins_for(&self, item: usize) -> Vec<usize> {
        let bins = 0..self.state.problem.bins.len();
        bins.filter(|&bin| self.state.stock[bin] > 0 && self.state.may_be_in(item, bin)).collect()
    }

    /// The best filling of each bin that takes the item.
    fn best_choices(&self, item: usize) -> Vec<FillingChoice> {
        let mut choices = Vec::new();
        for bin in self.bins_for(item) {
            let candidates = self.candidates(item, bin);
            let filling =
                fill::best_with_first(self.state.problem.bins[bin].capacity, candidates, BEST_STEPS_MAX);
            self.add_choice(bin, filling, &mut choices);
        }
        choices
    }

    /// All fillings with the item that could lead to a lower cost, and whether these are all of them.
    fn all_choices(&self, item: usize, slack: f64) -> (Vec<FillingChoice>, bool) {
        let (mut choices, mut complete) = (Vec::new(), true);
        for bin in self.bins_for(item) {
            let candidates = self.candidates(item, bin);
            let worth_min = self.state.worths.machine(self.state.problem, bin) - slack - 1e-3;
            let is_full =
                |contents: &[(usize, u32)], room: [u64; 3]| self.is_full(&candidates, contents, room);
            let capacity = self.state.problem.bins[bin].capacity;
            let (fillings, all) = fill::all(capacity, &candidates, worth_min, ALL_STEPS_MAX, &is_full);
            complete &= all;
            for filling in fillings {
                self.add_choice(bin, filling, &mut choices);
            }
        }
        (choices, complete)
    }

    /// A member that could be here as well as elsewhere must be here: then there are fewer fillings, and none is
    /// missed. This does not hold for gangs that may yet be at another place, or if a ceiling counts what this
    /// machine costs.
    fn is_full(&self, candidates: &[Candidate], contents: &[(usize, u32)], room: [u64; 3]) -> bool {
        candidates.iter().all(|it| {
            let item = &self.state.problem.items[it.id];
            let is_settled = item.together == Together::Anywhere || self.state.key[it.id].is_some();
            if !is_settled || !self.state.problem.classes[item.class].sides.is_empty() {
                return true;
            }
            let here = contents.iter().find(|(id, _)| *id == it.id).map_or(0, |(_, count)| *count);
            here == it.most || fill::fitting(it.need, room) == 0
        })
    }

    fn add_choice(&self, bin: usize, filling: Filling, choices: &mut Vec<FillingChoice>) {
        if self.state.copies(bin, &filling.contents) > 0 {
            choices.push(FillingChoice { bin, loss: self.state.loss(bin, filling.worth), filling });
        }
    }

    /// Pairs of machines, then triples and fours, those with the largest loss first; from the beginning after each success.
    fn again(&mut self, nodes_each: u32, nodes_max: u32) {
        let mut nodes_left = nodes_max;
        while let Some(solution) = self.best.clone() {
            if self.is_done() || !self.again_once(&solution, nodes_each, &mut nodes_left) {
                break;
            }
        }
        self.state = State::new(self.state.problem, self.state.worths);
    }

    fn again_once(&mut self, solution: &Solution, nodes_each: u32, nodes_left: &mut u32) -> bool {
        self.state = State::new(self.state.problem, self.state.worths);
        let mut single: Vec<(f64, Filled)> = Vec::new();
        for filled in &solution.machines {
            for _ in 0..filled.copies {
                single.push((self.loss_of(filled), Filled { copies: 1, ..filled.clone() }));
            }
        }
        single.sort_by(|(left, a), (right, b)| left.total_cmp(right).then(a.bin.cmp(&b.bin)));
        for (_, filled) in &single {
            self.state.apply(filled.clone());
        }
        let last = single.len();
        let first = last.saturating_sub(AGAIN_MACHINES_MAX);
        for size in [2, 3, 4] {
            let mut places: Vec<usize> = (first..last).rev().take(size).collect();
            while places.len() == size {
                let loss: f64 = places.iter().map(|&place| single[place].0).sum();
                if *nodes_left == 0 {
                    return false;
                }
                // There is nothing to gain that is not lost now. What follows until the one before the last moves
                // loses even less.
                if loss < 1.0 {
                    places[size - 1] = first;
                } else if self.choose_anew(&places, nodes_each, nodes_left) {
                    return true;
                }
                next_places(&mut places, first);
            }
        }
        false
    }

    /// Places are given from the last to the first.
    fn choose_anew(&mut self, places: &[usize], nodes_each: u32, nodes_left: &mut u32) -> bool {
        let before = self.below;
        let taken: Vec<Filled> = places.iter().map(|&place| self.state.take_out(place)).collect();
        self.seen.clear();
        self.nodes_left = nodes_each.min(*nodes_left);
        let given = self.nodes_left;
        self.go(None);
        *nodes_left -= (given - self.nodes_left).max(1).min(*nodes_left);
        for (filled, &place) in taken.into_iter().zip(places).rev() {
            self.state.apply(filled);
            let end = self.state.machines.len() - 1;
            self.state.machines[place..=end].rotate_right(1);
        }
        self.below < before
    }

    fn loss_of(&self, filled: &Filled) -> f64 {
        let State { problem, worths, .. } = self.state;
        let worth = |&(item, count): &(usize, u32)| {
            worths.member(problem, problem.items[item].class, filled.bin) * f64::from(count)
        };
        worths.machine(problem, filled.bin) - filled.contents.iter().map(worth).sum::<f64>()
    }
}

/// The next choice of places, each below the one before it; none is left if there is none.
fn next_places(places: &mut Vec<usize>, first: usize) {
    let size = places.len();
    let lowest = |at: usize| first + (size - 1 - at);
    let Some(at) = (0..size).rev().find(|&at| places[at] > lowest(at)) else {
        places.clear();
        return;
    };
    places[at] -= 1;
    for after in at + 1..size {
        places[after] = places[after - 1] - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::next_places;

    #[test]
    fn every_choice_of_places_comes_once() {
        let mut places = vec![5, 4, 3];
        let mut seen = Vec::new();
        while !places.is_empty() {
            seen.push(places.clone());
            next_places(&mut places, 1);
        }
        // Three of the five from one to five.
        assert_eq!(seen.len(), 10);
        assert_eq!(seen.last(), Some(&vec![3, 2, 1]));
        seen.dedup();
        assert_eq!(seen.len(), 10);
    }
}
