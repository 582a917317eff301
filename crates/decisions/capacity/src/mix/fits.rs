//! Which member may be on which machine, for all of them at once: names become numbers first, so that a thousand gangs and five
//! hundred offerings take a millisecond.

use std::collections::BTreeMap;

use crate::demand::{Demand, Together};
use crate::offering::{FreeRoom, Location, MixCapacityType, MixResources, Offering};

/// Why a member cannot be on a machine, the first that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfit {
    GpuType,
    Zone,
    MixCapacityType,
    Domain,
    Size,
    BootTime,
    Ceiling,
}

/// The verdicts: offerings first, then rooms.
pub struct Fits {
    machines: Vec<NumberedMachine>,
    verdicts: Vec<Option<Misfit>>,
}

/// Where a machine is, in numbers.
#[derive(Clone, Copy)]
pub struct NumberedMachine {
    pub zone: u32,
    pub domain: Option<u32>,
    gpu_type: Option<u32>,
    capacity_type: MixCapacityType,
    room: MixResources,
    boot_seconds: u32,
    /// `None` for a room.
    price: Option<u64>,
}

impl Fits {
    pub fn new(demands: &[&Demand], offerings: &[&Offering], rooms: &[&FreeRoom]) -> Self {
        let mut names = Names::default();
        let offerings =
            offerings.iter().map(|it| (&it.location, it.machine, it.boot_seconds, Some(it.price_per_hour)));
        let rooms = rooms.iter().map(|it| (&it.location, it.free, it.ready_in_seconds, None));
        let machines: Vec<NumberedMachine> = offerings
            .chain(rooms)
            .map(|(location, room, boot_seconds, price)| names.machine(location, room, boot_seconds, price))
            .collect();
        let mut verdicts = Vec::with_capacity(demands.len() * machines.len());
        for demand in demands {
            let types = chosen(&names.gpu_types, &demand.gpu_types);
            let zones = chosen(&names.zones, &demand.zones);
            let capacity_types = [MixCapacityType::Spot, MixCapacityType::OnDemand]
                .map(|it| demand.capacity_types.is_empty() || demand.capacity_types.contains(&it));
            verdicts.extend(machines.iter().map(|machine| {
                let type_fits = demand.member.gpus == 0
                    || machine.gpu_type.is_some_and(|gpu_type| types[gpu_type as usize]);
                if !type_fits {
                    Some(Misfit::GpuType)
                } else if !zones[machine.zone as usize] {
                    Some(Misfit::Zone)
                } else if !capacity_types[machine.capacity_type as usize] {
                    Some(Misfit::MixCapacityType)
                } else if together(demand) == Together::OneDomain && machine.domain.is_none() {
                    Some(Misfit::Domain)
                } else if !demand.member.fits(machine.room) {
                    Some(Misfit::Size)
                } else if demand.boot_seconds_max.is_some_and(|most| machine.boot_seconds > most) {
                    Some(Misfit::BootTime)
                } else if demand.machine_ceiling.is_some_and(|most| machine.price.is_some_and(|it| it > most))
                {
                    Some(Misfit::Ceiling)
                } else {
                    None
                }
            }));
        }
        Self { machines, verdicts }
    }

    /// All machines: offerings first, then rooms.
    pub fn machines(&self) -> &[NumberedMachine] {
        &self.machines
    }

    /// Why a member of this demand cannot be on this machine.
    pub fn misfit(&self, demand: usize, machine: usize) -> Option<Misfit> {
        self.misfits(demand)[machine]
    }

    /// The same for all machines.
    pub fn misfits(&self, demand: usize) -> &[Option<Misfit>] {
        &self.verdicts[demand * self.machines.len()..][..self.machines.len()]
    }
}

impl NumberedMachine {
    /// What must be the same for gang-mates; `None` if no gang that must be together in this way can be here.
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

#[derive(Default)]
struct Names<'a> {
    zones: BTreeMap<&'a str, u32>,
    domains: BTreeMap<&'a str, u32>,
    gpu_types: BTreeMap<&'a str, u32>,
}

impl<'a> Names<'a> {
    fn machine(
        &mut self,
        location: &'a Location,
        room: MixResources,
        boot_seconds: u32,
        price: Option<u64>,
    ) -> NumberedMachine {
        NumberedMachine {
            zone: number(&mut self.zones, &location.zone),
            domain: location.domain.as_deref().map(|domain| number(&mut self.domains, domain)),
            gpu_type: location.gpu_type.as_deref().map(|gpu_type| number(&mut self.gpu_types, gpu_type)),
            capacity_type: location.capacity_type,
            room,
            boot_seconds,
            price,
        }
    }
}

fn number<'a>(numbers: &mut BTreeMap<&'a str, u32>, name: &'a str) -> u32 {
    let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    *numbers.entry(name).or_insert(next)
}

/// By number: whether that name is acceptable. Any is if none is wished for.
fn chosen(numbers: &BTreeMap<&str, u32>, wished: &[String]) -> Vec<bool> {
    let mut chosen = vec![wished.is_empty(); numbers.len()];
    for name in wished {
        if let Some(&number) = numbers.get(name.as_str()) {
            chosen[number as usize] = true;
        }
    }
    chosen
}
