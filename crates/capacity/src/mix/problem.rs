//! The demands that are to be served, the offerings and the rooms, as numbers: what is alike is counted, not listed.

use std::collections::BTreeMap;

use crate::demand::{Demand, Limits, Together, share_price};
use crate::offering::{Location, Offering, Resources, Room};

/// Machines of one kind: of one offering, or rooms that are alike.
pub struct Bin {
    pub capacity: [u64; 3],
    pub price: u64,
    /// How many there are; for an offering without a bound, as many as there are members.
    pub stock: u32,
    /// Whether the stock may run out at all.
    pub is_scarce: bool,
    pub zone: u32,
    pub domain: Option<u32>,
    pub source: Source,
    /// Bins of one twin group have the same room, and take the same members for the same share.
    pub twins: usize,
}

pub enum Source {
    /// Its index.
    Offering(usize),
    /// Their indices.
    Rooms(Vec<usize>),
}

/// Members that are alike but for where their gang-mates are.
pub struct Class {
    pub need: [u64; 3],
    /// By bin.
    pub allowed: Vec<bool>,
    /// Ceilings and budgets that count its members.
    pub sides: Vec<usize>,
    /// By bin; empty without sides.
    pub shares: Vec<u64>,
    pub count: u32,
}

/// Members that are alike in everything: all of their class that may be anywhere, or one gang that must be together.
pub struct Item {
    pub class: usize,
    pub count: u32,
    pub together: Together,
    /// Indices of demands, in the order of service.
    pub demands: Vec<usize>,
}

/// A bound on the shares of some members together.
pub struct Side {
    pub limit: u64,
}

pub struct Problem {
    pub bins: Vec<Bin>,
    pub classes: Vec<Class>,
    pub items: Vec<Item>,
    pub sides: Vec<Side>,
    pub budget: Option<u64>,
}

impl Bin {
    /// What must be the same for gang-mates; `None` if this bin cannot hold a gang that is to be together so.
    pub fn key(&self, together: Together) -> Option<u32> {
        match together {
            Together::Anywhere => Some(0),
            Together::OneZone => Some(self.zone),
            Together::OneDomain => self.domain,
        }
    }
}

/// A gang of one is together with itself.
pub fn together(demand: &Demand) -> Together {
    if demand.members == 1 { Together::Anywhere } else { demand.together }
}

/// Why a member cannot be on a machine, the first that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfit {
    GpuType,
    Zone,
    CapacityType,
    Domain,
    Size,
    BootTime,
    Ceiling,
}

/// Whether a member of this gang may be there at all; `price` is `None` for a room.
pub fn misfit(
    demand: &Demand,
    location: &Location,
    machine: Resources,
    boot_seconds: u32,
    price: Option<u64>,
) -> Option<Misfit> {
    let may_be = |wanted: &[String], is: &str| wanted.is_empty() || wanted.iter().any(|it| it == is);
    let wrong_type = demand.member.gpus > 0
        && !location.gpu_type.as_deref().is_some_and(|gpu_type| may_be(&demand.gpu_types, gpu_type));
    if wrong_type {
        Some(Misfit::GpuType)
    } else if !may_be(&demand.zones, &location.zone) {
        Some(Misfit::Zone)
    } else if !demand.capacity_types.is_empty() && !demand.capacity_types.contains(&location.capacity_type) {
        Some(Misfit::CapacityType)
    } else if together(demand) == Together::OneDomain && location.domain.is_none() {
        Some(Misfit::Domain)
    } else if !demand.member.fits(machine) {
        Some(Misfit::Size)
    } else if demand.boot_seconds_max.is_some_and(|most| boot_seconds > most) {
        Some(Misfit::BootTime)
    } else if price.is_some_and(|price| demand.machine_ceiling.is_some_and(|ceiling| price > ceiling)) {
        Some(Misfit::Ceiling)
    } else {
        None
    }
}

/// The problem of serving all of these demands (indices, in the order of service).
pub fn build(
    served: &[usize],
    demands: &[&Demand],
    offerings: &[&Offering],
    rooms: &[&Room],
    limits: &Limits,
) -> Problem {
    let members: u32 = served.iter().map(|&index| demands[index].members).fold(0, u32::saturating_add);
    let mut bins = bins_of(offerings, rooms, members);
    let mut sides = Vec::new();
    let mut queue_sides = BTreeMap::new();
    let mut classes: Vec<Class> = Vec::new();
    let mut class_by_key = BTreeMap::new();
    let mut items: Vec<Item> = Vec::new();
    let mut free_item_by_class = BTreeMap::new();
    for &index in served {
        let demand = demands[index];
        let allowed = allowed_bins(demand, &bins, offerings, rooms);
        let shares: Vec<u64> = bins.iter().map(|bin| share(demand, bin)).collect();
        let dearest = bins.iter().enumerate().filter(|&(bin, _)| allowed[bin]).map(|(bin, _)| shares[bin]).max();
        let at_most = dearest.unwrap_or(0).saturating_mul(u64::from(demand.members));
        let mut own_sides = Vec::new();
        // A ceiling that no placement can reach is none.
        if let Some(limit) = demand.gang_ceiling.filter(|&ceiling| at_most > ceiling) {
            own_sides.push(sides.len());
            sides.push(Side { limit });
        }
        if let Some(limit) = limits.queues.get(&demand.queue).and_then(|limit| limit.budget) {
            own_sides.push(*queue_sides.entry(&demand.queue).or_insert_with(|| {
                sides.push(Side { limit });
                sides.len() - 1
            }));
        }
        let need = demand.member.to_array();
        let class = *class_by_key.entry((need, allowed, own_sides)).or_insert_with_key(|key| {
            let shares = if key.2.is_empty() { Vec::new() } else { shares };
            classes.push(Class { need, allowed: key.1.clone(), sides: key.2.clone(), shares, count: 0 });
            classes.len() - 1
        });
        classes[class].count += demand.members;
        let together = together(demand);
        if together == Together::Anywhere
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
    mark_twins(&mut bins, &classes);
    Problem { bins, classes, items, sides, budget: limits.budget }
}

fn share(demand: &Demand, bin: &Bin) -> u64 {
    let [gpus, cpu_milli, memory_bytes] = bin.capacity;
    share_price(bin.price, Resources { gpus, cpu_milli, memory_bytes }, demand.member)
}

fn bins_of(offerings: &[&Offering], rooms: &[&Room], members: u32) -> Vec<Bin> {
    let mut zones = BTreeMap::new();
    let mut domains = BTreeMap::new();
    fn number<'a>(numbers: &mut BTreeMap<&'a str, u32>, name: &'a str) -> u32 {
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        *numbers.entry(name).or_insert(next)
    }
    let mut bins: Vec<Bin> = Vec::new();
    let mut alike: BTreeMap<(&Location, Resources, u32), usize> = BTreeMap::new();
    for (index, room) in rooms.iter().enumerate() {
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
            zone: number(&mut zones, &room.location.zone),
            domain: room.location.domain.as_deref().map(|domain| number(&mut domains, domain)),
            source: Source::Rooms(vec![index]),
            twins: 0,
        });
    }
    for (index, offering) in offerings.iter().enumerate() {
        let stock = offering.stock.unwrap_or(members).min(members);
        bins.push(Bin {
            capacity: offering.machine.to_array(),
            price: offering.price_per_hour,
            stock,
            is_scarce: offering.stock.is_some_and(|stock| stock < members),
            zone: number(&mut zones, &offering.location.zone),
            domain: offering.location.domain.as_deref().map(|domain| number(&mut domains, domain)),
            source: Source::Offering(index),
            twins: 0,
        });
    }
    bins
}

fn allowed_bins(demand: &Demand, bins: &[Bin], offerings: &[&Offering], rooms: &[&Room]) -> Vec<bool> {
    let fits = |bin: &Bin| match &bin.source {
        Source::Offering(index) => {
            let it = offerings[*index];
            misfit(demand, &it.location, it.machine, it.boot_seconds, Some(it.price_per_hour)).is_none()
        }
        Source::Rooms(same) => {
            let it = rooms[same[0]];
            misfit(demand, &it.location, it.free, it.ready_in_seconds, None).is_none()
        }
    };
    bins.iter().map(|bin| bin.stock > 0 && fits(bin)).collect()
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
