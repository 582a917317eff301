//! From worths to whole machines: the first item that is not covered decides which machine comes next, filled with what else
//! still waits.
//!
//! First straight down, with the best machine each time; then with a few choices each time; then with all choices that
//! could still lead to something cheaper, which proves the best if it comes to its end. Each has a bound on its steps.

use std::collections::HashMap;

use super::bound::Worths;
use super::fill::{self, Candidate, Filling, float};
use super::problem::Problem;
use crate::demand::Together;

/// Machines of one bin with the same contents.
#[derive(Clone, Debug)]
pub struct Filled {
    pub bin: usize,
    /// Items and how many of each, in every one of them.
    pub contents: Vec<(usize, u32)>,
    pub copies: u32,
}

/// Machines that serve every item.
#[derive(Clone, Debug)]
pub struct Solution {
    pub machines: Vec<Filled>,
    pub cost: u64,
}

/// What a search came to.
pub struct Found {
    pub solution: Option<Solution>,
    /// Nothing cheaper exists, or nothing at all.
    pub is_proven: bool,
}

/// How long to look.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Choices at each step, and how many steps there may be; in this order.
    pub passes: &'static [Pass],
    /// Stops at the first solution that costs at most this.
    pub good_enough: u64,
}

#[derive(Clone, Copy)]
pub struct Pass {
    pub choices: Choices,
    pub nodes_max: u32,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Choices {
    /// This many, of the best filling of each bin; as many machines at once as can be alike if it is one.
    Best(usize),
    /// All that could be better than what is known.
    All,
}

/// Looks for the cheapest machines that serve every item, for at most `cost_max`.
pub fn search(problem: &Problem, worths: &Worths, cost_max: Option<u64>, effort: &Effort) -> Found {
    let mut search = Search::new(problem, worths, cost_max, effort.good_enough);
    let mut is_proven = false;
    for pass in effort.passes {
        search.nodes_left = pass.nodes_max;
        search.seen.clear();
        let complete = search.go(pass.choices);
        is_proven = search.is_done() || (complete && pass.choices == Choices::All);
        if is_proven {
            break;
        }
    }
    let is_best = search.best.as_ref().is_none_or(|best| best.cost <= worths.bound);
    // A search that was only to find something good enough proves the best only by the bound.
    let is_proven = is_proven && (is_best || !search.is_done());
    Found { solution: search.best, is_proven }
}

struct Search<'a> {
    problem: &'a Problem,
    worths: &'a Worths,
    good_enough: u64,
    /// Items, those worth most first: the hardest to place.
    order: Vec<usize>,
    left: Vec<u32>,
    /// Where an item's gang is, once one of its members is somewhere.
    key: Vec<Option<u32>>,
    stock: Vec<u32>,
    side_left: Vec<u64>,
    cost: u64,
    /// The least that what is left still costs.
    rest: f64,
    machines: Vec<Filled>,
    best: Option<Solution>,
    /// Costs of the best, and of what must not be passed.
    below: f64,
    nodes_left: u32,
    seen: HashMap<Vec<u32>, u64>,
}

struct Option_ {
    bin: usize,
    filling: Filling,
    /// How much worse than the bound, relative to what it is good for.
    loss: f64,
}

/// Contents of one machine are looked at in at most so many steps.
const BEST_STEPS_MAX: u32 = 400;
const ALL_STEPS_MAX: u32 = 20_000;

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, worths: &'a Worths, cost_max: Option<u64>, good_enough: u64) -> Self {
        let mut order: Vec<usize> = (0..problem.items.len()).collect();
        let worth = |item: usize| worths.class[problem.items[item].class];
        let is_free = |item: usize| problem.items[item].together == Together::Anywhere;
        order.sort_by(|&a, &b| {
            worth(b).total_cmp(&worth(a)).then(is_free(a).cmp(&is_free(b))).then(a.cmp(&b))
        });
        let mut rest = 0.0;
        for item in &problem.items {
            rest += f64::from(item.count) * worths.class[item.class];
        }
        for (bin, worth) in problem.bins.iter().zip(&worths.scarce) {
            rest -= f64::from(bin.stock) * worth;
        }
        for (side, worth) in problem.sides.iter().zip(&worths.side) {
            rest -= float(side.limit) * worth;
        }
        Self {
            problem,
            worths,
            good_enough,
            order,
            left: problem.items.iter().map(|item| item.count).collect(),
            key: vec![None; problem.items.len()],
            stock: problem.bins.iter().map(|bin| bin.stock).collect(),
            side_left: problem.sides.iter().map(|side| side.limit).collect(),
            cost: 0,
            rest,
            machines: Vec::new(),
            best: None,
            below: cost_max.map_or(f64::INFINITY, |most| float(most) + 1.0),
            nodes_left: 0,
            seen: HashMap::new(),
        }
    }

    fn is_done(&self) -> bool {
        let enough = self.good_enough.max(self.worths.bound);
        self.best.as_ref().is_some_and(|best| best.cost <= enough)
    }

    /// Says whether everything that the choices leave open was looked at.
    fn go(&mut self, choices: Choices) -> bool {
        if self.is_done() {
            return true;
        }
        if self.nodes_left == 0 {
            return false;
        }
        self.nodes_left -= 1;
        let Some(item) = self.order.iter().copied().find(|&item| self.left[item] > 0) else {
            if float(self.cost) < self.below {
                self.below = float(self.cost);
                self.best = Some(Solution { machines: self.machines.clone(), cost: self.cost });
            }
            return true;
        };
        // Costs are whole: what is not lower by one is not lower.
        let slack = self.below - float(self.cost) - self.rest - 1.0 + 1e-3;
        if slack < 0.0 || (choices == Choices::All && self.was_here_for_less()) {
            return true;
        }
        let (mut options, mut complete) = match choices {
            Choices::Best(_) => (self.best_options(item), true),
            Choices::All => self.all_options(item, slack),
        };
        options.sort_by(|a, b| {
            a.loss.total_cmp(&b.loss).then(b.filling.worth.total_cmp(&a.filling.worth)).then(a.bin.cmp(&b.bin))
        });
        if let Choices::Best(count) = choices {
            options.truncate(count);
        }
        for option in options {
            let copies = if choices == Choices::Best(1) { self.copies(&option) } else { 1 };
            if copies == 0 {
                continue;
            }
            let undo = self.apply(option.bin, option.filling.contents, copies);
            complete &= self.go(choices);
            self.undo(undo);
            if self.is_done() {
                return true;
            }
        }
        complete
    }

    fn was_here_for_less(&mut self) -> bool {
        let mut state: Vec<u32> = self.left.clone();
        state.extend(self.key.iter().map(|key| key.map_or(0, |key| key + 1)));
        let scarce = self.problem.bins.iter().zip(&self.stock).filter(|(bin, _)| bin.is_scarce);
        state.extend(scarce.map(|(_, stock)| stock));
        for left in &self.side_left {
            state.extend([(left >> 32) as u32, (left & u64::from(u32::MAX)) as u32]);
        }
        let cost = self.cost;
        let known = self.seen.entry(state).or_insert(u64::MAX);
        let was_here = *known <= cost;
        *known = cost.min(*known);
        was_here
    }

    /// The item first, then everything else that may be in that bin now.
    fn candidates(&self, item: usize, bin: usize) -> Vec<Candidate> {
        let others = self.order.iter().copied().filter(|&other| other != item);
        std::iter::once(item)
            .chain(others)
            .filter(|&it| self.left[it] > 0 && self.may_be_in(it, bin))
            .map(|it| {
                let class = self.problem.items[it].class;
                let worth = self.worths.member(self.problem, class, bin);
                Candidate { id: it, need: self.problem.classes[class].need, most: self.left[it], worth }
            })
            .collect()
    }

    fn may_be_in(&self, item: usize, bin: usize) -> bool {
        let it = &self.problem.items[item];
        if !self.problem.classes[it.class].allowed[bin] {
            return false;
        }
        let Some(key) = self.problem.bins[bin].key(it.together) else { return false };
        match self.key[item] {
            _ if it.together == Together::Anywhere => true,
            Some(chosen) => chosen == key,
            None => self.has_room_for_all(item, key),
        }
    }

    /// Whether the machines there could hold the whole gang, if nobody else wanted them.
    fn has_room_for_all(&self, item: usize, key: u32) -> bool {
        let it = &self.problem.items[item];
        let class = &self.problem.classes[it.class];
        let member = Candidate { id: item, need: class.need, most: it.count, worth: 0.0 };
        let mut places = 0_u64;
        for (index, bin) in self.problem.bins.iter().enumerate() {
            if class.allowed[index] && bin.key(it.together) == Some(key) {
                places += u64::from(self.stock[index]) * u64::from(fill::fitting(&member, bin.capacity));
            }
        }
        places >= u64::from(self.left[item])
    }

    /// The best filling of each bin that takes the item.
    fn best_options(&self, item: usize) -> Vec<Option_> {
        let class = self.problem.items[item].class;
        let need = self.problem.classes[class].need;
        let mut options = Vec::new();
        for bin in 0..self.problem.bins.len() {
            if self.stock[bin] == 0 || !self.may_be_in(item, bin) {
                continue;
            }
            let mut candidates = self.candidates(item, bin);
            let own_worth = candidates[0].worth;
            candidates[0].most -= 1;
            let room = fill::less(self.problem.bins[bin].capacity, need, 1);
            let mut filling = fill::best(room, &mut candidates, BEST_STEPS_MAX).filling;
            filling.worth += own_worth;
            match filling.contents.iter_mut().find(|(it, _)| *it == item) {
                Some((_, count)) => *count += 1,
                None => filling.contents.push((item, 1)),
            }
            self.add_option(bin, filling, &mut options);
        }
        options
    }

    /// All fillings with the item that could lead to something cheaper, and whether these are all of them.
    fn all_options(&self, item: usize, slack: f64) -> (Vec<Option_>, bool) {
        let (mut options, mut complete) = (Vec::new(), true);
        for bin in 0..self.problem.bins.len() {
            if self.stock[bin] == 0 || !self.may_be_in(item, bin) {
                continue;
            }
            let candidates = self.candidates(item, bin);
            let worth_min = self.worths.machine(self.problem, bin) - slack - 1e-3;
            let is_full = |contents: &[(usize, u32)], room: [u64; 3]| self.is_full(&candidates, contents, room);
            let capacity = self.problem.bins[bin].capacity;
            let (fillings, all) = fill::all(capacity, &candidates, worth_min, ALL_STEPS_MAX, &is_full);
            complete &= all;
            for filling in fillings {
                self.add_option(bin, filling, &mut options);
            }
        }
        (options, complete)
    }

    /// Whoever could as well be here as elsewhere must be here: without such, fewer fillings are left and none is missed. Not so
    /// for gangs that may yet be at another place, and where a ceiling counts what this machine costs.
    fn is_full(&self, candidates: &[Candidate], contents: &[(usize, u32)], room: [u64; 3]) -> bool {
        candidates.iter().all(|it| {
            let item = &self.problem.items[it.id];
            let is_settled = item.together == Together::Anywhere || self.key[it.id].is_some();
            if !is_settled || !self.problem.classes[item.class].sides.is_empty() {
                return true;
            }
            let here = contents.iter().find(|(id, _)| *id == it.id).map_or(0, |(_, count)| *count);
            here == it.most || fill::fitting(it, room) == 0
        })
    }

    fn add_option(&self, bin: usize, filling: Filling, options: &mut Vec<Option_>) {
        let option = Option_ { bin, loss: 0.0, filling };
        if self.copies(&option) == 0 {
            return;
        }
        let price = self.worths.machine(self.problem, bin);
        let loss = (price - option.filling.worth) / option.filling.worth.max(1e-3);
        options.push(Option_ { loss, ..option });
    }

    /// How many such machines can be had and filled.
    fn copies(&self, option: &Option_) -> u32 {
        let by_items = option.filling.contents.iter().map(|&(item, count)| self.left[item] / count).min();
        let mut copies = by_items.unwrap_or(0).min(self.stock[option.bin]);
        for (side, taken) in self.side_use(option.bin, &option.filling.contents) {
            if let Some(most) = self.side_left[side].checked_div(taken) {
                copies = copies.min(u32::try_from(most).unwrap_or(u32::MAX));
            }
        }
        copies
    }

    fn side_use(&self, bin: usize, contents: &[(usize, u32)]) -> Vec<(usize, u64)> {
        let mut used: Vec<(usize, u64)> = Vec::new();
        for &(item, count) in contents {
            let class = &self.problem.classes[self.problem.items[item].class];
            for &side in &class.sides {
                let share = class.shares[bin].saturating_mul(u64::from(count));
                match used.iter_mut().find(|(it, _)| *it == side) {
                    Some((_, sum)) => *sum += share,
                    None => used.push((side, share)),
                }
            }
        }
        used
    }

    fn apply(&mut self, bin: usize, contents: Vec<(usize, u32)>, copies: u32) -> Undo {
        let undo = Undo { cost: self.cost, rest: self.rest, settled: self.unsettled_in(&contents) };
        let problem = self.problem;
        for (side, taken) in self.side_use(bin, &contents) {
            let taken = taken * u64::from(copies);
            self.side_left[side] -= taken;
            self.rest += float(taken) * self.worths.side[side];
        }
        for &(item, count) in &contents {
            self.left[item] -= count * copies;
            let it = &problem.items[item];
            self.rest -= f64::from(count * copies) * self.worths.class[it.class];
        }
        for &item in &undo.settled {
            self.key[item] = problem.bins[bin].key(problem.items[item].together);
        }
        self.stock[bin] -= copies;
        self.rest += f64::from(copies) * self.worths.scarce[bin];
        self.cost += problem.bins[bin].price * u64::from(copies);
        self.machines.push(Filled { bin, contents, copies });
        undo
    }

    fn unsettled_in(&self, contents: &[(usize, u32)]) -> Vec<usize> {
        let is_unsettled = |item: &usize| {
            self.problem.items[*item].together != Together::Anywhere && self.key[*item].is_none()
        };
        contents.iter().map(|(item, _)| *item).filter(is_unsettled).collect()
    }

    fn undo(&mut self, undo: Undo) {
        let Some(Filled { bin, contents, copies }) = self.machines.pop() else { return };
        for (side, taken) in self.side_use(bin, &contents) {
            self.side_left[side] += taken * u64::from(copies);
        }
        for (item, count) in contents {
            self.left[item] += count * copies;
        }
        for item in undo.settled {
            self.key[item] = None;
        }
        self.stock[bin] += copies;
        self.cost = undo.cost;
        self.rest = undo.rest;
    }
}

struct Undo {
    cost: u64,
    rest: f64,
    settled: Vec<usize>,
}
