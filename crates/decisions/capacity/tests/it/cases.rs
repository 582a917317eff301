//! Random markets from a seed: small ones that a solver can prove, and large ones. Shared with the benchmark.

use std::collections::BTreeMap;

use capacity::demand::{Demand, Limits, QueueLimit, Together};
use capacity::offering::{FreeRoom, Location, MixCapacityType, MixResources, Offering};
use seeded_random::Random;

/// All arguments of one decision.
#[derive(Clone, Debug)]
pub struct Case {
    pub demands: Vec<Demand>,
    pub offerings: Vec<Offering>,
    pub rooms: Vec<FreeRoom>,
    pub limits: Limits,
}

/// What a case is about; cases go through them in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    OneType,
    Zones,
    Domains,
    Shared,
    Rooms,
    Stock,
    Ceilings,
    Everything,
}

pub const KINDS: [Kind; 8] = [
    Kind::OneType,
    Kind::Zones,
    Kind::Domains,
    Kind::Shared,
    Kind::Rooms,
    Kind::Stock,
    Kind::Ceilings,
    Kind::Everything,
];

pub const GIBIBYTE: u64 = 1 << 30;

pub fn kind_of(seed: u64) -> Kind {
    KINDS[usize::try_from(seed % 8).unwrap_or(0)]
}

/// A market that a solver can mostly prove: up to 12 gangs and 8 offerings.
pub fn small(seed: u64) -> Case {
    let kind = kind_of(seed);
    let mut draw = Draw(Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x006d_6978));
    let is = |wanted: &[Kind]| kind == Kind::Everything || wanted.contains(&kind);
    let types: &[&str] = if kind == Kind::OneType { &["h100"] } else { &["a100", "h100", "l4"] };
    let zones = if is(&[Kind::Zones]) { 3 } else { 1 + draw.below(2) };
    let offerings: Vec<Offering> = (0..2 + draw.below(7))
        .map(|index| {
            let mut offering = draw.offering(index, types, zones, 2);
            if is(&[Kind::Stock]) && draw.one_in(2) {
                offering.stock = Some(u32::try_from(draw.below(4)).unwrap_or(0));
            }
            offering
        })
        .collect();
    let rooms = if is(&[Kind::Rooms]) {
        (0..=draw.below(4)).map(|i| draw.room(i, types, zones)).collect()
    } else {
        Vec::new()
    };
    let demands: Vec<Demand> = (0..=draw.below(12))
        .map(|index| {
            let mut demand = draw.demand(index, types, if kind == Kind::Shared { 1 } else { 5 });
            if is(&[Kind::Zones]) {
                draw.zone_wishes(&mut demand, zones);
            }
            if is(&[Kind::Domains]) && draw.one_in(2) {
                demand.together = Together::OneDomain;
            }
            if is(&[Kind::Ceilings]) {
                draw.ceilings(&mut demand);
            }
            demand
        })
        .collect();
    let mut limits = Limits::default();
    if is(&[Kind::Ceilings]) {
        if draw.one_in(3) {
            limits.budget = Some((10 + draw.below(150)) * 1_000_000);
        }
        if draw.one_in(3) {
            let budget = draw.one_in(2).then(|| (5 + draw.below(60)) * 1_000_000);
            let gpus = draw.one_in(2).then(|| 4 + draw.below(40));
            limits.queues = BTreeMap::from([("red".to_owned(), QueueLimit { gpus, budget })]);
        }
    }
    Case { demands, offerings, rooms, limits }
}

/// A market as large as a cloud's, with this many waiting gangs and offerings.
pub fn large(seed: u64, gangs: u64, offerings: u64) -> Case {
    let mut draw = Draw(Random::new(seed ^ 0x006c_6172_6765));
    let types = ["a100", "h100", "h200", "l4", "a10g", "b200"];
    let offerings = (0..offerings)
        .map(|index| {
            let mut offering = draw.offering(index, &types, 3, 8);
            if draw.one_in(3) {
                offering.stock = Some(u32::try_from(5 + draw.below(200)).unwrap_or(0));
            }
            offering
        })
        .collect();
    let demands = (0..gangs)
        .map(|index| {
            let mut demand = draw.demand(index, &types, 1);
            demand.members = draw.pick(&[1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32]);
            if demand.members > 1 {
                demand.together = draw.pick(&[
                    Together::Anywhere,
                    Together::Anywhere,
                    Together::OneZone,
                    Together::OneDomain,
                ]);
            }
            if draw.one_in(8) {
                demand.zones = vec![format!("zone-{}", draw.below(3))];
            }
            if draw.one_in(10) {
                draw.ceilings(&mut demand);
            }
            demand
        })
        .collect();
    let rooms = (0..50).map(|index| draw.room(index, &types, 3)).collect();
    Case { demands, offerings, rooms, limits: Limits::default() }
}

struct Draw(Random);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let index = self.below(from.len() as u64);
        from[usize::try_from(index).unwrap_or(0)].clone()
    }

    fn location(&mut self, types: &[&str], zones: u64, domains: u64) -> Location {
        let zone = self.below(zones);
        let domain = self.below(domains + 1);
        Location {
            zone: format!("zone-{zone}"),
            domain: (domain > 0).then(|| format!("rack-{zone}-{domain}")),
            capacity_type: self.pick(&[MixCapacityType::Spot, MixCapacityType::OnDemand]),
            gpu_type: Some((*self.pick(types)).to_owned()),
        }
    }

    /// Larger machines are a little cheaper for each GPU, spot is a third to two thirds, and prices vary.
    fn offering(&mut self, index: u64, types: &[&str], zones: u64, domains: u64) -> Offering {
        let location = self.location(types, zones, domains);
        let gpus = self.pick(&[1, 2, 4, 8, 8]);
        let gpu_price = match location.gpu_type.as_deref() {
            Some("l4") => 700_000,
            Some("a10g") => 1_000_000,
            Some("a100") => 2_500_000,
            Some("h100") => 4_500_000,
            Some("h200") => 6_000_000,
            _ => 9_000_000,
        };
        let percent = match location.capacity_type {
            MixCapacityType::Spot => 30 + self.below(35),
            MixCapacityType::OnDemand => 90 + self.below(25),
        };
        let price = gpu_price * gpus * percent / 100 * (110 - gpus) / 100 + self.below(10_000);
        Offering {
            id: format!("offering-{index:04}"),
            instance_type: format!("{}-{gpus}x", location.gpu_type.as_deref().unwrap_or("cpu")),
            machine: MixResources {
                gpus,
                cpu_milli: gpus * self.pick(&[8_000, 12_000, 24_000]),
                memory_bytes: gpus * self.pick(&[64, 128, 256]) * GIBIBYTE,
            },
            price_per_hour: price,
            boot_seconds: u32::try_from(60 + self.below(300)).unwrap_or(60),
            stock: None,
            location,
        }
    }

    fn room(&mut self, index: u64, types: &[&str], zones: u64) -> FreeRoom {
        let gpus = 1 + self.below(8);
        FreeRoom {
            id: format!("room-{index:04}"),
            location: self.location(types, zones, 2),
            free: MixResources {
                gpus,
                cpu_milli: gpus * self.pick(&[4_000, 12_000]),
                memory_bytes: gpus * self.pick(&[32, 128]) * GIBIBYTE,
            },
            ready_in_seconds: 0,
        }
    }

    fn demand(&mut self, index: u64, types: &[&str], members_max: u64) -> Demand {
        let gpus = self.pick(&[1, 1, 1, 2, 2, 3, 4, 8]);
        let gpu_types = match self.below(3) {
            0 => Vec::new(),
            1 => vec![(*self.pick(types)).to_owned()],
            _ => vec![types[0].to_owned(), (*self.pick(types)).to_owned()],
        };
        Demand {
            id: format!("gang-{index:04}"),
            queue: (*self.pick(&["red", "blue"])).to_owned(),
            order: self.below(1_000),
            members: u32::try_from(1 + self.below(members_max)).unwrap_or(1),
            member: MixResources {
                gpus,
                cpu_milli: gpus * self.pick(&[2_000, 6_000, 8_000, 16_000]),
                memory_bytes: gpus * self.pick(&[16, 48, 100]) * GIBIBYTE,
            },
            gpu_types,
            zones: Vec::new(),
            capacity_types: if self.one_in(4) { vec![MixCapacityType::OnDemand] } else { Vec::new() },
            together: Together::Anywhere,
            machine_ceiling: None,
            gang_ceiling: None,
            boot_seconds_max: self.one_in(6).then(|| u32::try_from(100 + self.below(300)).unwrap_or(300)),
        }
    }

    fn zone_wishes(&mut self, demand: &mut Demand, zones: u64) {
        if self.one_in(3) {
            demand.zones = vec![format!("zone-{}", self.below(zones))];
        } else if self.one_in(2) {
            demand.together = Together::OneZone;
        }
    }

    fn ceilings(&mut self, demand: &mut Demand) {
        if self.one_in(3) {
            demand.machine_ceiling = Some(demand.member.gpus * (2 + self.below(60)) * 500_000);
        }
        if self.one_in(3) {
            let gpus = demand.member.gpus * u64::from(demand.members);
            demand.gang_ceiling = Some(gpus * (1 + self.below(12)) * 500_000);
        }
    }
}
