//! Why a demand is not served.

use std::collections::BTreeMap;

use super::fits::{self, Misfit};
use super::market::Market;
use crate::demand::share_price;
use crate::offering::{MicrosPerHour, Offering};
/// Why a demand is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No offering and no room takes even one member.
    NoOffering(Misfits),
    /// All suitable machines together take fewer members than it has.
    Stock {
        /// How many it has.
        members: u32,
        /// How many there is room for if no other demand wanted it; if it must be together, at the best place.
        places: u64,
    },
    /// Alone it would cost more than it may.
    GangCeiling {
        /// What it may cost.
        ceiling: MicrosPerHour,
        /// What its shares cost at the least.
        cheapest: MicrosPerHour,
    },
    /// Earlier demands of its queue have taken the GPUs.
    QueueGpus {
        /// What the queue may get.
        limit: u64,
        /// What the earlier ones get.
        used: u64,
        /// What it asks for.
        asked: u64,
    },
    /// With it, the purchases cost more than may be spent.
    Budget {
        /// What may be spent.
        limit: MicrosPerHour,
        /// What the mix costs that was found with it.
        with_it: MicrosPerHour,
    },
    /// With the earlier demands served, no mix was found that leaves enough of the stock, or of its queue's budget.
    Taken {
        /// How many are served before it.
        served_before: usize,
    },
}

/// How many offerings are unfit, each counted under its first fault.
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

/// Why a demand could not be served even alone, as far as that is visible without packing.
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
            Misfit::MixCapacityType => &mut self.capacity_type,
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
