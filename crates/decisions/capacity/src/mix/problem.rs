//! The demands to serve, the offerings and the rooms, as numbers: equal ones are counted, not listed.

use std::collections::BTreeMap;

use super::fill;
use super::fits::{NumberedMachine, together};
use super::market::Market;
use crate::demand::{Demand, Together, share_price};
use crate::offering::{Location, MixResources};

/// Machines of one kind: of one offering, or rooms that are alike.
#[derive(Clone)]
pub struct Bin {
    pub capacity: [u64; 3],
    pub price: u64,
    /// How many there are; for an offering without a bound, as many as there are members.
    pub stock: u32,
    /// Whether the stock may run out at all.
    pub is_scarce: bool,
    /// Where they are.
    pub machine: NumberedMachine,
    pub source: Source,
    /// Bins of one twin group have the same room, and take the same members for the same share.
    pub twins: usize,
}

#[derive(Clone)]
pub enum Source {
    /// Its index.
    Offering(usize),
    /// Their indices.
    Rooms(Vec<usize>),
}

/// Members that differ at most in where their gang-mates are.
#[derive(Clone)]
pub struct Class {
    pub need: [u64; 3],
    /// By bin.
    pub allowed: Vec<bool>,
    /// The bins that are allowed, each with how many members one machine takes.
    pub bins: Vec<(usize, u32)>,
    /// Ceilings and budgets that count its members.
    pub sides: Vec<usize>,
    /// By bin, zero where it is not allowed; empty without sides.
    pub shares: Vec<u64>,
    pub count: u32,
}

/// Members that are alike in everything: all of their class that may be anywhere, or one gang that must be together.
#[derive(Clone)]
pub struct Item {
    pub class: usize,
    pub count: u32,
    pub together: Together,
    /// Indices of demands, in the order of service.
    pub demands: Vec<usize>,
}

/// A bound on the shares of some members together.
#[derive(Clone)]
pub struct Side {
    pub limit: u64,
}

#[derive(Clone)]
pub struct Problem {
    pub bins: Vec<Bin>,
    pub classes: Vec<Class>,
    pub items: Vec<Item>,
    pub sides: Vec<Side>,
    pub budget: Option<u64>,
}

/// The problem of serving all of these demands (indices, in the order of service). Without `merge` each is an item of its own.
pub fn build(market: &Market, served: &[usize], merge: bool) -> Problem {
    let Market { demands, limits, .. } = market;
    let members: u32 = served.iter().map(|&index| demands[index].members).fold(0, u32::saturating_add);
    let mut bins = bins_of(market, members);
    // Few machines have a size of their own, and divisions are slow.
    let mut capacities: BTreeMap<[u64; 3], usize> = bins.iter().map(|bin| (bin.capacity, 0)).collect();
    for (number, capacity) in capacities.values_mut().enumerate() {
        *capacity = number;
    }
    let capacity_of: Vec<usize> = bins.iter().map(|bin| capacities[&bin.capacity]).collect();
    let mut sides = Vec::new();
    let mut queue_sides = BTreeMap::new();
    let mut classes: Vec<Class> = Vec::new();
    let mut class_by_key = BTreeMap::new();
    let mut items: Vec<Item> = Vec::new();
    let mut free_item_by_class = BTreeMap::new();
    for &index in served {
        let demand = demands[index];
        let allowed = allowed_bins(market, index, &bins);
        let queue_budget = limits.queues.get(&demand.queue).and_then(|limit| limit.budget);
        let are_counted = demand.gang_ceiling.is_some() || queue_budget.is_some();
        let share_of = |(bin, allowed): (&Bin, &bool)| if *allowed { share(demand, bin) } else { 0 };
        let shares: Vec<u64> =
            if are_counted { bins.iter().zip(&allowed).map(share_of).collect() } else { Vec::new() };
        let dearest = shares.iter().max().copied().unwrap_or(0);
        let at_most = dearest.saturating_mul(u64::from(demand.members));
        let mut own_sides = Vec::new();
        // A ceiling that no placement can reach does not count.
        if let Some(limit) = demand.gang_ceiling.filter(|&ceiling| at_most > ceiling) {
            own_sides.push(sides.len());
            sides.push(Side { limit });
        }
        if let Some(limit) = queue_budget {
            own_sides.push(*queue_sides.entry(&demand.queue).or_insert_with(|| {
                sides.push(Side { limit });
                sides.len() - 1
            }));
        }
        let need = demand.member.to_array();
        let key = (need, packed(&allowed), own_sides);
        let class = *class_by_key.entry(key).or_insert_with_key(|(_, _, sides)| {
            let shares = if sides.is_empty() { Vec::new() } else { shares };
            let sides = sides.clone();
            let takes: Vec<u32> = capacities.keys().map(|capacity| fill::fitting(need, *capacity)).collect();
            let allowed_bins = (0..bins.len()).filter(|&bin| allowed[bin]);
            let bins = allowed_bins.map(|bin| (bin, takes[capacity_of[bin]])).collect();
            classes.push(Class { need, allowed, bins, sides, shares, count: 0 });
            classes.len() - 1
        });
        classes[class].count += demand.members;
        let together = together(demand);
        if together == Together::Anywhere
            && merge
            && let Some(&item) = free_item_by_class.get(&class)
        {
            let item: &mut Item = &mut items[item];
            item.count += demand.members;
            item.demands.push(index);
            continue;
        }
        if together == Together::Anywhere {
            free_item_by_class.insert(class, items.len());
        }
        items.push(Item { class, count: demand.members, together, demands: vec![index] });
    }
    // Only the linear programme needs twins, and without merging there is no such programme.
    if merge {
        mark_twins(&mut bins, &classes);
    }
    Problem { bins, classes, items, sides, budget: limits.budget }
}

/// The same, except that the place of one gang is decided now.
pub fn with_place(problem: &Problem, item: usize, key: u32) -> Problem {
    let mut problem = problem.clone();
    let Item { class, count, together, .. } = problem.items[item];
    let mut own = Class { count, ..problem.classes[class].clone() };
    for (bin, allowed) in problem.bins.iter().zip(&mut own.allowed) {
        *allowed &= bin.machine.key(together) == Some(key);
    }
    own.bins.retain(|&(bin, _)| own.allowed[bin]);
    problem.classes[class].count -= count;
    problem.items[item].class = problem.classes.len();
    problem.items[item].together = Together::Anywhere;
    problem.classes.push(own);
    mark_twins(&mut problem.bins, &problem.classes);
    problem
}

fn share(demand: &Demand, bin: &Bin) -> u64 {
    let [gpus, cpu_milli, memory_bytes] = bin.capacity;
    share_price(bin.price, MixResources { gpus, cpu_milli, memory_bytes }, demand.member)
}

fn bins_of(market: &Market, members: u32) -> Vec<Bin> {
    let machines = market.fits.machines();
    let mut bins: Vec<Bin> = Vec::new();
    let mut alike: BTreeMap<(&Location, MixResources, u32), usize> = BTreeMap::new();
    for (index, room) in market.rooms.iter().enumerate() {
        let bin = *alike.entry((&room.location, room.free, room.ready_in_seconds)).or_insert(bins.len());
        if let Some(Bin { source: Source::Rooms(rooms), stock, .. }) = bins.get_mut(bin) {
            rooms.push(index);
            *stock += 1;
            continue;
        }
        bins.push(Bin {
            capacity: room.free.to_array(),
            price: 0,
            stock: 1,
            is_scarce: true,
            machine: machines[market.offerings.len() + index],
            source: Source::Rooms(vec![index]),
            twins: 0,
        });
    }
    for (index, offering) in market.offerings.iter().enumerate() {
        bins.push(Bin {
            capacity: offering.machine.to_array(),
            price: offering.price_per_hour,
            stock: offering.stock.unwrap_or(members).min(members),
            is_scarce: offering.stock.is_some_and(|stock| stock < members),
            machine: machines[index],
            source: Source::Offering(index),
            twins: 0,
        });
    }
    bins
}

fn allowed_bins(market: &Market, demand: usize, bins: &[Bin]) -> Vec<bool> {
    let machine = |bin: &Bin| match &bin.source {
        Source::Offering(index) => *index,
        Source::Rooms(same) => market.offerings.len() + same[0],
    };
    bins.iter().map(|bin| bin.stock > 0 && market.fits.misfit(demand, machine(bin)).is_none()).collect()
}

/// The same in few words, which are quick to compare.
fn packed(allowed: &[bool]) -> Vec<u64> {
    allowed.chunks(64).map(|bits| bits.iter().fold(0, |word, &bit| word << 1 | u64::from(bit))).collect()
}

fn mark_twins(bins: &mut [Bin], classes: &[Class]) {
    let mut groups = BTreeMap::new();
    for (index, bin) in bins.iter_mut().enumerate() {
        let takes: Vec<bool> = classes.iter().map(|class| class.allowed[index]).collect();
        // Shares differ by price.
        let counts_shares = classes.iter().any(|class| class.allowed[index] && !class.sides.is_empty());
        let next = groups.len();
        let key = (bin.capacity, takes, counts_shares.then_some(index));
        bin.twins = *groups.entry(key).or_insert(next);
    }
}
