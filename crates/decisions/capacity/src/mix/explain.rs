//! The result in words and numbers that people can check: who is where, why this offering, why nothing.

use std::collections::BTreeMap;

use super::admit::{self, Admitted};
use super::fits::{self, Misfit};
use super::problem::Source;
use super::{Assignment, Market, Mix, Place, Purchase, Refused};
use crate::demand::{Together, share_price};
use crate::offering::{MicrosPerHour, Offering};

/// Why a demand is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No offering and no room takes even one member.
    NoOffering(Misfits),
    /// All machines that would do, together, take fewer members than it has.
    Stock {
        /// How many it has.
        members: u32,
        /// How many there is room for, if nobody else wanted it: where it must be together, at the best place.
        places: u64,
    },
    /// Alone it would cost more than it may.
    GangCeiling {
        /// What it may cost.
        ceiling: MicrosPerHour,
        /// What its shares cost at the least.
        cheapest: MicrosPerHour,
    },
    /// Those before it in its queue have taken the GPUs.
    QueueGpus {
        /// What the queue may get.
        limit: u64,
        /// What those before it get.
        used: u64,
        /// What it asks for.
        asked: u64,
    },
    /// With it the purchases cost more than may be spent.
    Budget {
        /// What may be spent.
        limit: MicrosPerHour,
        /// What the mix costs that was found with it.
        with_it: MicrosPerHour,
    },
    /// With those before it served, no mix was found that leaves enough of the stock, or of its queue's budget.
    Taken {
        /// How many are served before it.
        served_before: usize,
    },
}

/// How many offerings were unfit, each counted by the first thing that was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misfits {
    /// Another GPU type.
    pub gpu_type: usize,
    /// Another zone.
    pub zone: usize,
    /// Another capacity type.
    pub capacity_type: usize,
    /// In no topology domain.
    pub domain: usize,
    /// Too small for one member.
    pub size: usize,
    /// Ready too late.
    pub boot_time: usize,
    /// Dearer than a machine may be.
    pub ceiling: usize,
    /// Sold out.
    pub stock: usize,
    /// The cheapest of those that are only too dear.
    pub cheapest_above_ceiling: Option<MicrosPerHour>,
}

/// Why a demand could not be served even alone, as far as that can be seen without packing.
pub fn never(market: &Market, index: usize) -> Option<Refusal> {
    let demand = market.demands[index];
    let has_no_end =
        |(at, it): (usize, &&Offering)| it.stock.is_none() && market.fits.misfit(index, at).is_none();
    if demand.gang_ceiling.is_none() && market.offerings.iter().enumerate().any(has_no_end) {
        return None;
    }
    let mut misfits = Misfits::default();
    // By place: the share of a member, and how many members there is room for.
    let mut places: BTreeMap<u32, Vec<(u64, u64)>> = BTreeMap::new();
    let together = fits::together(demand);
    let offerings = market
        .offerings
        .iter()
        .map(|it| (it.machine, Some(it.price_per_hour), it.stock.map_or(u64::MAX, u64::from)));
    let rooms = market.rooms.iter().map(|it| (it.free, None, 1));
    for (at, (machine, price, stock)) in offerings.chain(rooms).enumerate() {
        match market.fits.misfit(index, at) {
            None if stock == 0 => misfits.stock += 1,
            None => {
                let parts = machine.to_array().into_iter().zip(demand.member.to_array());
                let per_machine = parts.filter_map(|(has, need)| has.checked_div(need)).min();
                let room = per_machine.unwrap_or(u64::MAX).saturating_mul(stock);
                let counted = price.filter(|_| demand.gang_ceiling.is_some());
                let share = counted.map_or(0, |price| share_price(price, machine, demand.member));
                let key = market.fits.machines()[at].key(together).unwrap_or(u32::MAX);
                places.entry(key).or_default().push((share, room));
            }
            Some(misfit) => misfits.count(misfit, price),
        }
    }
    if places.is_empty() {
        return Some(Refusal::NoOffering(misfits));
    }
    let members = u64::from(demand.members);
    let room =
        |places: &Vec<(u64, u64)>| places.iter().fold(0, |sum: u64, (_, room)| sum.saturating_add(*room));
    let most = places.values().map(room).max().unwrap_or(0);
    if most < members {
        return Some(Refusal::Stock { members: demand.members, places: most });
    }
    let ceiling = demand.gang_ceiling?;
    let with_room = places.into_values().filter(|places| room(places) >= members);
    let cheapest = with_room.map(|places| cheapest_shares(places, members)).min().unwrap_or(0);
    (cheapest > ceiling).then_some(Refusal::GangCeiling { ceiling, cheapest })
}

fn cheapest_shares(mut places: Vec<(u64, u64)>, members: u64) -> u64 {
    places.sort_unstable();
    let (mut left, mut cost) = (members, 0_u64);
    for (share, room) in places {
        let taken = left.min(room);
        cost = cost.saturating_add(share.saturating_mul(taken));
        left -= taken;
    }
    cost
}

impl Misfits {
    fn count(&mut self, misfit: Misfit, price: Option<u64>) {
        let counter = match misfit {
            Misfit::GpuType => &mut self.gpu_type,
            Misfit::Zone => &mut self.zone,
            Misfit::CapacityType => &mut self.capacity_type,
            Misfit::Domain => &mut self.domain,
            Misfit::Size => &mut self.size,
            Misfit::BootTime => &mut self.boot_time,
            Misfit::Ceiling => {
                let known = self.cheapest_above_ceiling.into_iter();
                self.cheapest_above_ceiling = known.chain(price).min();
                &mut self.ceiling
            }
        };
        *counter += 1;
    }
}

/// Why a demand cannot be served after these.
pub fn out_of_room(market: &Market, before: &[usize], demand: usize) -> Refusal {
    let together: Vec<usize> = before.iter().copied().chain([demand]).collect();
    if let Some(limit) = market.limits.budget
        && let Some(with_it) = admit::cost_to_serve(market, &together, None)
    {
        return Refusal::Budget { limit, with_it };
    }
    Refusal::Taken { served_before: before.len() }
}

/// Members by demand instead of by item, machines by name instead of by bin.
pub fn explain(market: &Market, admitted: Admitted) -> Mix {
    let Admitted { problem, solution, bound, is_best, refused } = admitted;
    // By item: demands that still get members, with how many.
    let mut open: Vec<std::collections::VecDeque<(usize, u32)>> = problem
        .items
        .iter()
        .map(|item| item.demands.iter().map(|&demand| (demand, market.demands[demand].members)).collect())
        .collect();
    let mut bought: Vec<u32> = vec![0; market.offerings.len()];
    let mut rooms_used: Vec<usize> = vec![0; problem.bins.len()];
    let mut machines_of: BTreeMap<usize, Vec<(Place, u32)>> =
        (0..market.demands.len()).filter(|it| !refused.contains_key(it)).map(|it| (it, Vec::new())).collect();
    // By offering and who is on the machine.
    let mut alike: BTreeMap<(usize, Vec<(usize, u32)>), u32> = BTreeMap::new();
    for filled in &solution.machines {
        for _ in 0..filled.copies {
            let place = match &problem.bins[filled.bin].source {
                Source::Offering(offering) => {
                    let number = bought[*offering];
                    bought[*offering] += 1;
                    Place::Bought { offering: market.offerings[*offering].id.clone(), number }
                }
                Source::Rooms(rooms) => {
                    let room = rooms[rooms_used[filled.bin]];
                    rooms_used[filled.bin] += 1;
                    Place::Room(market.rooms[room].id.clone())
                }
            };
            let mut here: BTreeMap<usize, u32> = BTreeMap::new();
            for &(item, count) in &filled.contents {
                take(&mut open[item], count, &mut here);
            }
            for (&demand, &count) in &here {
                machines_of.entry(demand).or_default().push((place.clone(), count));
            }
            if let Source::Offering(offering) = problem.bins[filled.bin].source {
                *alike.entry((offering, here.into_iter().collect())).or_default() += 1;
            }
        }
    }
    let purchases: Vec<Purchase> = alike
        .into_iter()
        .map(|((offering, here), count)| purchase(market, &bought, offering, &here, count))
        .collect();
    let name = |index: usize| market.demands[index].id.clone();
    Mix {
        cost_per_hour: purchases.iter().map(|it| it.cost_per_hour).sum(),
        purchases,
        assignments: machines_of
            .into_iter()
            .map(|(demand, machines)| Assignment { demand: name(demand), machines })
            .collect(),
        refused: refused
            .into_iter()
            .map(|(demand, reason)| Refused { demand: name(demand), reason })
            .collect(),
        bound,
        is_best,
    }
}

/// Members are taken from the demands in order, so that a gang is on few machines.
fn take(
    open: &mut std::collections::VecDeque<(usize, u32)>,
    mut count: u32,
    here: &mut BTreeMap<usize, u32>,
) {
    while count > 0 {
        let Some((demand, left)) = open.front_mut() else { return };
        let taken = count.min(*left);
        *here.entry(*demand).or_default() += taken;
        *left -= taken;
        count -= taken;
        if *left == 0 {
            open.pop_front();
        }
    }
}

fn purchase(market: &Market, bought: &[u32], offering: usize, here: &[(usize, u32)], count: u32) -> Purchase {
    let chosen = market.offerings[offering];
    let machines = market.fits.machines();
    // The quickest to see, for almost all of them.
    let mut takes_all = vec![true; market.offerings.len()];
    for &(index, _) in here {
        for (takes_all, misfit) in takes_all.iter_mut().zip(market.fits.misfits(index)) {
            *takes_all &= misfit.is_none();
        }
    }
    let mut needs = [0_u64; 3];
    let mut ties: Vec<Together> = Vec::new();
    for &(index, members) in here {
        let demand = market.demands[index];
        for (sum, need) in needs.iter_mut().zip(demand.member.to_array()) {
            *sum = sum.saturating_add(need.saturating_mul(u64::from(members)));
        }
        let together = fits::together(demand);
        if !ties.contains(&together) {
            ties.push(together);
        }
    }
    let could_hold = |other: usize| {
        let it = market.offerings[other];
        it.stock.is_none_or(|stock| stock.saturating_sub(bought[other]) >= count)
            && needs.iter().zip(it.machine.to_array()).all(|(need, has)| *need <= has)
            && ties.iter().all(|&tie| machines[other].key(tie) == machines[offering].key(tie))
    };
    let (mut possible_offerings, mut next_best) = (1, None);
    let others = (0..market.offerings.len()).filter(|&other| takes_all[other] && other != offering);
    for other in others.filter(|&other| could_hold(other)) {
        possible_offerings += 1;
        let price = market.offerings[other].price_per_hour;
        // Of equal prices the lower id.
        if next_best.is_none_or(|(least, _)| price < least) {
            next_best = Some((price, other));
        }
    }
    let cost = |index: usize| market.offerings[index].price_per_hour * u64::from(count);
    Purchase {
        offering: chosen.id.clone(),
        count,
        cost_per_hour: cost(offering),
        serves: here.iter().map(|&(demand, members)| (market.demands[demand].id.clone(), members)).collect(),
        possible_offerings,
        next_best: next_best.map(|(_, other)| (market.offerings[other].id.clone(), cost(other))),
    }
}
