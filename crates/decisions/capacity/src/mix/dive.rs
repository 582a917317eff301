//! Whole machines for very many gangs: each item once, on the most promising bins, filled with other waiting items.
//! Nothing is undone.
//!
//! An item costs a look at all bins and the filling of three of them, so the work grows with items times bins.

use std::collections::BTreeSet;

use super::bound::Worths;
use super::fill::{self, Candidate};
use super::least::Least;
use super::problem::{Problem, Source};
use super::state::{Filled, State};
use crate::demand::Together;

/// In which order items are placed.
#[derive(Clone, Copy, PartialEq)]
pub enum Order {
    /// Those with little choice first, then gangs that must be together, then those worth most: the cheapest.
    ByWorth,
    /// As they are numbered; an item that would bring the cost above the budget is left out.
    AsNumbered { budget: Option<u64> },
}

/// How many bins are filled to compare the result: this many by what they hold of the item alone, and one that is
/// there already and costs nothing.
const PROMISING: usize = 2;
/// Others that a machine may be filled up with; more than fit into any.
const OTHERS_MAX: usize = 16;
/// Others that are looked at to find those.
const LOOKED_AT_MAX: usize = 120;
const FILL_STEPS_MAX: u32 = 60;
/// The number of items after which those without members left are taken off the list of fillers.
const FORGET_AFTER: u32 = 16;

/// The result: everything that could be placed, and the items that could not be placed as a whole.
pub struct Dived<'a> {
    pub state: State<'a>,
    pub left_out: Vec<usize>,
}

/// Items in `first` go before all others, in the order of their numbers.
pub fn dive<'a>(
    problem: &'a Problem,
    worths: &'a Worths,
    order: Order,
    first: &BTreeSet<usize>,
) -> Dived<'a> {
    let mut dive = Dive::new(problem, worths);
    let mut items: Vec<usize> = (0..problem.items.len()).collect();
    if order == Order::ByWorth {
        let worth = |item: usize| worths.class[problem.items[item].class];
        let is_free = |item: usize| problem.items[item].together == Together::Anywhere;
        let is_first: Vec<bool> = items.iter().map(|item| first.contains(item)).collect();
        let has_choice: Vec<bool> = items.iter().map(|&item| dive.has_choice(item)).collect();
        items.sort_by(|&a, &b| {
            let rank = |item: usize| (!is_first[item], has_choice[item], is_free(item));
            if is_first[a] && is_first[b] {
                return a.cmp(&b);
            }
            rank(a).cmp(&rank(b)).then(worth(b).total_cmp(&worth(a))).then(a.cmp(&b))
        });
    }
    let mut left_out = Vec::new();
    for item in items {
        let budget = if let Order::AsNumbered { budget } = order { budget } else { None };
        let machines_before = dive.state.machines.len();
        if !dive.place(item, budget) {
            dive.leave_out(item, machines_before);
            left_out.push(item);
        }
    }
    Dived { state: dive.state, left_out }
}

struct Dive<'a> {
    state: State<'a>,
    /// Items that could fill up a machine, those worth most for a GPU first.
    fillers: Vec<usize>,
    /// All of them, for when members come back.
    all_fillers: Vec<usize>,
    placed_since: u32,
    is_out: Vec<bool>,
    /// No item needs less of a resource.
    least_need: [u64; 3],
    /// Zones and domains are numbered below this.
    keys: usize,
}

impl<'a> Dive<'a> {
    fn new(problem: &'a Problem, worths: &'a Worths) -> Self {
        let mut fillers: Vec<(f64, usize)> = (0..problem.items.len())
            .map(|item| {
                let class = problem.items[item].class;
                (worths.class[class] / fill::float(problem.classes[class].need[0].max(1)), item)
            })
            .collect();
        fillers.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let all_fillers: Vec<usize> = fillers.into_iter().map(|(_, item)| item).collect();
        let keys = problem.bins.iter().flat_map(|bin| [Some(bin.machine.zone), bin.machine.domain]).flatten();
        Self {
            state: State::new(problem, worths),
            fillers: all_fillers.clone(),
            all_fillers,
            placed_since: 0,
            is_out: vec![false; problem.items.len()],
            least_need: std::array::from_fn(|at| {
                problem.classes.iter().map(|class| class.need[at]).min().unwrap_or(0)
            }),
            keys: keys.max().map_or(0, |key| key as usize + 1),
        }
    }

    /// Whether there are machines that do not run out, and that it can pay for.
    fn has_choice(&self, item: usize) -> bool {
        let problem = self.state.problem;
        let it = &problem.items[item];
        let class = &problem.classes[it.class];
        let limit = class.sides.iter().map(|&side| problem.sides[side].limit).min();
        class.bins.iter().any(|&(bin, _)| {
            !problem.bins[bin].is_scarce
                && limit.is_none_or(|limit| class.shares[bin].saturating_mul(u64::from(it.count)) <= limit)
        })
    }

    /// Places all members that are left, or returns that it could not.
    fn place(&mut self, item: usize, budget: Option<u64>) -> bool {
        let together = self.state.problem.items[item].together;
        let mut bins = self.bins_for(item);
        if together != Together::Anywhere && self.state.key[item].is_none() {
            self.keep_affordable(item, &mut bins);
            let Some(key) = self.best_key(item, &bins) else { return false };
            bins.retain(|&(bin, _)| self.state.problem.bins[bin].machine.key(together) == Some(key));
        }
        self.keep_affordable(item, &mut bins);
        let mut promising = self.promising(item, &bins);
        while self.state.left[item] > 0 {
            if promising.iter().any(|&bin| self.state.stock[bin] == 0) {
                bins.retain(|&(bin, _)| self.state.stock[bin] > 0);
                promising = self.promising(item, &bins);
            }
            let Some(filled) = self.best_machine(item, &promising) else { return false };
            self.state.apply(filled);
            if budget.is_some_and(|budget| self.state.cost > budget) {
                return false;
            }
        }
        self.placed_since += 1;
        if self.placed_since == FORGET_AFTER {
            self.placed_since = 0;
            let left = &self.state.left;
            self.fillers.retain(|&it| left[it] > 0);
        }
        true
    }

    /// Bins that are left for it, each with how many members one machine takes.
    fn bins_for(&self, item: usize) -> Vec<(usize, u32)> {
        let State { problem, stock, key, .. } = &self.state;
        let it = &problem.items[item];
        let bins = problem.classes[it.class].bins.iter().copied();
        let is_there = |bin: usize| match key[item] {
            Some(chosen) => problem.bins[bin].machine.key(it.together) == Some(chosen),
            None => true,
        };
        let mut left = Vec::with_capacity(bins.len());
        left.extend(bins.filter(|&(bin, _)| stock[bin] > 0 && is_there(bin)));
        left
    }

    /// Under a ceiling, keeps only machines of which each member may have its part, if they take all: then no order
    /// of buying breaks it.
    fn keep_affordable(&self, item: usize, bins: &mut Vec<(usize, u32)>) {
        let State { problem, stock, left, side_left, .. } = &self.state;
        let class = &problem.classes[problem.items[item].class];
        let Some(limit) = class.sides.iter().map(|&side| side_left[side]).min() else { return };
        let is_affordable = |bin: usize| class.shares[bin].saturating_mul(u64::from(left[item])) <= limit;
        let places = |&(bin, fitting): &(usize, u32)| u64::from(fitting) * u64::from(stock[bin]);
        let affordable: Vec<_> = bins.iter().copied().filter(|&(bin, _)| is_affordable(bin)).collect();
        if affordable.iter().map(places).sum::<u64>() >= u64::from(left[item]) {
            *bins = affordable;
        }
    }

    /// The place where the gang alone would cost least, with scarceness added.
    fn best_key(&self, item: usize, bins: &[(usize, u32)]) -> Option<u32> {
        let State { problem, worths, stock, left, .. } = &self.state;
        let it = &problem.items[item];
        let mut by_key: Vec<Vec<(f64, u64)>> = vec![Vec::new(); self.keys];
        for &(bin, fitting) in bins {
            let Some(key) = problem.bins[bin].machine.key(it.together) else { continue };
            let fitting = fitting.min(left[item]);
            // What is left of a machine can be filled up, so it is counted by its GPUs.
            let price = worths.machine(problem, bin) / f64::from(fitting.max(1));
            by_key[key as usize].push((price, u64::from(fitting) * u64::from(stock[bin])));
        }
        let mut best: Option<(f64, u32)> = None;
        for (key, places) in (0..).zip(by_key) {
            let cost = cost_of_places(places, left[item]);
            if let Some(cost) = cost.filter(|cost| best.is_none_or(|(least, _)| *cost < least)) {
                best = Some((cost, key));
            }
        }
        best.map(|(_, key)| key)
    }

    /// The machine with the least loss, and as many like it as there can be.
    fn best_machine(&self, item: usize, bins: &[usize]) -> Option<Filled> {
        let mut best: Option<(f64, Filled)> = None;
        for &bin in bins {
            let capacity = self.state.problem.bins[bin].capacity;
            let mut filling = fill::best_with_first(capacity, self.candidates(item, bin), FILL_STEPS_MAX);
            let mut copies = self.state.copies(bin, &filling.contents);
            if copies == 0 {
                // Some ceiling is too low for that: the item alone.
                let alone = vec![self.state.candidate(item, bin)];
                filling = fill::best_with_first(capacity, alone, FILL_STEPS_MAX);
                while copies == 0 && filling.contents[0].1 > 1 {
                    filling.contents[0].1 -= 1;
                    copies = self.state.copies(bin, &filling.contents);
                }
                copies = self.state.copies(bin, &filling.contents);
            }
            let loss = self.state.loss(bin, filling.worth);
            if copies > 0 && best.as_ref().is_none_or(|(least, _)| loss < *least) {
                best = Some((loss, Filled { bin, contents: filling.contents, copies }));
            }
        }
        best.map(|(_, filled)| filled)
    }

    fn promising(&self, item: usize, bins: &[(usize, u32)]) -> Vec<usize> {
        let State { problem, worths, left, .. } = &self.state;
        let class = problem.items[item].class;
        let left = left[item];
        let alone = bins.iter().map(|&(bin, fitting)| {
            let worth = worths.member(problem, class, bin) * f64::from(fitting.min(left));
            (self.state.loss(bin, worth), bin)
        });
        let mut promising: Vec<usize> = Least::<PROMISING>::of(alone).bins().collect();
        let is_room = |bin: usize| matches!(problem.bins[bin].source, Source::Rooms(_));
        let room = bins.iter().map(|&(bin, _)| bin).find(|&bin| is_room(bin));
        promising.extend(room.filter(|room| !promising.contains(room)));
        promising
    }

    /// The item, and others that may be in that bin and fit together with one of its members.
    fn candidates(&self, item: usize, bin: usize) -> Vec<Candidate> {
        let State { problem, left, .. } = &self.state;
        let first = self.state.candidate(item, bin);
        let room = fill::less(problem.bins[bin].capacity, first.need, 1);
        let mut candidates = Vec::with_capacity(OTHERS_MAX + 1);
        candidates.push(first);
        if room.iter().zip(self.least_need).any(|(room, least)| *room < least) {
            return candidates;
        }
        let waiting =
            self.fillers.iter().copied().filter(|&it| it != item && left[it] > 0 && !self.is_out[it]);
        for other in waiting.take(LOOKED_AT_MAX) {
            let class = &problem.classes[problem.items[other].class];
            if !class.sides.is_empty() || !fill::fits(class.need, 1, room) || !class.allowed[bin] {
                continue;
            }
            // A gang without a place is not drawn to one by room for a part of it, or to one that may be sold out.
            let is_open =
                problem.items[other].together != Together::Anywhere && self.state.key[other].is_none();
            let may_be_here = if is_open {
                !problem.bins[bin].is_scarce && fill::fits(class.need, left[other], room)
            } else {
                self.state.may_be_in(other, bin)
            };
            if may_be_here {
                candidates.push(self.state.candidate(other, bin));
                if candidates.len() > OTHERS_MAX {
                    break;
                }
            }
        }
        candidates
    }

    /// Takes out the machines that were chosen for this item, and its members that only filled others up.
    fn leave_out(&mut self, item: usize, machines_before: usize) {
        self.is_out[item] = true;
        self.fillers.clone_from(&self.all_fillers);
        while self.state.machines.len() > machines_before {
            self.state.take_out(self.state.machines.len() - 1);
        }
        let holds = |filled: &Filled| filled.contents.iter().any(|(it, _)| *it == item);
        while let Some(place) = self.state.machines.iter().position(holds) {
            let mut filled = self.state.take_out(place);
            filled.contents.retain(|(it, _)| *it != item);
            self.state.apply(filled);
        }
    }
}

/// What this many members cost at the cheapest of some places, each with a price and room; `None` if there is no room
/// for all.
fn cost_of_places(mut places: Vec<(f64, u64)>, members: u32) -> Option<f64> {
    let by_price = |a: &(f64, u64), b: &(f64, u64)| a.0.total_cmp(&b.0);
    let mut wanted = u64::from(members);
    // Mostly one place has room for all.
    let (price, room) = places.iter().copied().min_by(by_price)?;
    if room >= wanted {
        return Some(fill::float(wanted) * price);
    }
    places.sort_by(by_price);
    let mut cost = 0.0;
    for (price, room) in places {
        let taken = wanted.min(room);
        cost += fill::float(taken) * price;
        wanted -= taken;
    }
    (wanted == 0).then_some(cost)
}

#[cfg(test)]
mod tests {
    use super::cost_of_places;

    #[test]
    fn members_go_where_they_cost_least_and_nowhere_if_there_is_no_room_for_all() {
        let places = || vec![(3.0, 2), (1.0, 1), (2.0, 4), (1.0, 1)];
        let cost = |members: u32| cost_of_places(places(), members);
        assert_eq!([0, 1, 2, 5, 7, 8].map(cost), [0.0, 1.0, 2.0, 8.0, 13.0, 16.0].map(Some));
        assert_eq!(cost(9), None);
    }
}
