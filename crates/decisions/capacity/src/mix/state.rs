//! The machines chosen so far, and what is left: for searches, which put machines in and take them out again.

use super::bound::Worths;
use super::fill::{Candidate, float};
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

pub struct State<'a> {
    pub problem: &'a Problem,
    pub worths: &'a Worths,
    /// Members that are nowhere, by item.
    pub left: Vec<u32>,
    /// Where an item's gang is, as long as one of its members has a machine.
    pub key: Vec<Option<u32>>,
    pub stock: Vec<u32>,
    pub side_left: Vec<u64>,
    pub cost: u64,
    /// The least that what is left still costs.
    pub rest: f64,
    pub machines: Vec<Filled>,
}

impl<'a> State<'a> {
    pub fn new(problem: &'a Problem, worths: &'a Worths) -> Self {
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
            left: problem.items.iter().map(|item| item.count).collect(),
            key: vec![None; problem.items.len()],
            stock: problem.bins.iter().map(|bin| bin.stock).collect(),
            side_left: problem.sides.iter().map(|side| side.limit).collect(),
            cost: 0,
            rest,
            machines: Vec::new(),
        }
    }

    pub fn solution(&self) -> Solution {
        Solution { machines: self.machines.clone(), cost: self.cost }
    }

    /// Puts these machines in.
    pub fn apply(&mut self, filled: Filled) {
        let Filled { bin, contents, copies } = &filled;
        for (side, taken) in self.side_use(*bin, contents) {
            let taken = taken * u64::from(*copies);
            self.side_left[side] -= taken;
            self.rest += float(taken) * self.worths.side[side];
        }
        for &(item, count) in contents {
            self.left[item] -= count * copies;
            let it = &self.problem.items[item];
            self.rest -= f64::from(count * copies) * self.worths.class[it.class];
            if it.together != Together::Anywhere {
                self.key[item] = self.problem.bins[*bin].machine.key(it.together);
            }
        }
        self.stock[*bin] -= copies;
        self.rest += f64::from(*copies) * self.worths.scarce[*bin];
        self.cost += self.problem.bins[*bin].price * u64::from(*copies);
        self.machines.push(filled);
    }

    /// Takes the machines at this place out again.
    pub fn take_out(&mut self, place: usize) -> Filled {
        let filled = self.machines.remove(place);
        let Filled { bin, contents, copies } = &filled;
        for (side, taken) in self.side_use(*bin, contents) {
            let taken = taken * u64::from(*copies);
            self.side_left[side] += taken;
            self.rest -= float(taken) * self.worths.side[side];
        }
        for &(item, count) in contents {
            self.left[item] += count * copies;
            let it = &self.problem.items[item];
            self.rest += f64::from(count * copies) * self.worths.class[it.class];
            if self.left[item] == it.count {
                self.key[item] = None;
            }
        }
        self.stock[*bin] += copies;
        self.rest -= f64::from(*copies) * self.worths.scarce[*bin];
        self.cost -= self.problem.bins[*bin].price * u64::from(*copies);
        filled
    }

    /// Whether a member of this item may be in this bin, with its gang-mates where they are.
    pub fn may_be_in(&self, item: usize, bin: usize) -> bool {
        let it = &self.problem.items[item];
        if !self.problem.classes[it.class].allowed[bin] {
            return false;
        }
        let Some(key) = self.problem.bins[bin].machine.key(it.together) else { return false };
        match self.key[item] {
            _ if it.together == Together::Anywhere => true,
            Some(chosen) => chosen == key,
            None => self.places(item, key) >= u64::from(self.left[item]),
        }
    }

    /// How many members the machines there could hold, if no other demand wanted them.
    pub fn places(&self, item: usize, key: u32) -> u64 {
        let it = &self.problem.items[item];
        let class = &self.problem.classes[it.class];
        let mut places = 0_u64;
        for &(bin, fitting) in &class.bins {
            if self.problem.bins[bin].machine.key(it.together) == Some(key) {
                places += u64::from(self.stock[bin]) * u64::from(fitting.min(self.left[item]));
            }
        }
        places
    }

    /// An item's members as they could be put into this bin.
    pub fn candidate(&self, item: usize, bin: usize) -> Candidate {
        let class = self.problem.items[item].class;
        Candidate {
            id: item,
            need: self.problem.classes[class].need,
            most: self.left[item],
            worth: self.worths.member(self.problem, class, bin),
        }
    }

    /// How many such machines can be bought and filled.
    pub fn copies(&self, bin: usize, contents: &[(usize, u32)]) -> u32 {
        let by_items = contents.iter().map(|&(item, count)| self.left[item] / count).min();
        let mut copies = by_items.unwrap_or(0).min(self.stock[bin]);
        for (side, taken) in self.side_use(bin, contents) {
            if let Some(most) = self.side_left[side].checked_div(taken) {
                copies = copies.min(u32::try_from(most).unwrap_or(u32::MAX));
            }
        }
        copies
    }

    /// How much more such machines cost than the bound says, for each unit that they hold.
    pub fn loss(&self, bin: usize, worth: f64) -> f64 {
        (self.worths.machine(self.problem, bin) - worth) / worth.max(1e-3)
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
}
