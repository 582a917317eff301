//! Whether a mix is possible, and whether what it says is true. Written without the crate's own checks; shared with
//! the benchmark.

use std::collections::{BTreeMap, BTreeSet};

use capacity::demand::{Demand, Together};
use capacity::mix::{AssignedPlace, Mix};
use capacity::offering::{Location, MixResources};

use super::cases::Case;

/// Everything that is wrong with the mix, in words.
pub fn faults(case: &Case, mix: &Mix) -> Vec<String> {
    let mut faults = Vec::new();
    let offerings: BTreeMap<&str, _> = case.offerings.iter().map(|it| (it.id.as_str(), it)).collect();
    let rooms: BTreeMap<&str, _> = case.rooms.iter().map(|it| (it.id.as_str(), it)).collect();
    let demands: BTreeMap<&str, _> = case.demands.iter().map(|it| (it.id.as_str(), it)).collect();
    let mut load: BTreeMap<&AssignedPlace, [u64; 3]> = BTreeMap::new();
    let mut queue_gpus: BTreeMap<&str, u64> = BTreeMap::new();
    let mut queue_cost: BTreeMap<&str, u64> = BTreeMap::new();
    let mut told: BTreeSet<&str> = mix.refused.iter().map(|it| it.demand.as_str()).collect();
    for assignment in &mix.assignments {
        let demand: &Demand = demands[assignment.demand.as_str()];
        let mut say = |what: String| faults.push(format!("{}: {what}", demand.id));
        if !told.insert(&assignment.demand) {
            say("told twice".to_owned());
        }
        let members: u32 = assignment.machines.iter().map(|(_, count)| count).sum();
        if members != demand.members {
            say(format!("{members} of {} members are placed", demand.members));
        }
        let mut cost = 0;
        let mut places = BTreeSet::new();
        for (place, count) in &assignment.machines {
            let (location, machine, ready, price): (&Location, MixResources, u32, Option<u64>) = match place {
                AssignedPlace::Room(id) => {
                    let room = rooms[id.as_str()];
                    (&room.location, room.free, room.ready_in_seconds, None)
                }
                AssignedPlace::Bought { offering, .. } => {
                    let it = offerings[offering.as_str()];
                    (&it.location, it.machine, it.boot_seconds, Some(it.price_per_hour))
                }
            };
            let used = load.entry(place).or_default();
            let need = [demand.member.gpus, demand.member.cpu_milli, demand.member.memory_bytes];
            for (used, need) in used.iter_mut().zip(need) {
                *used += need * u64::from(*count);
            }
            if demand.member.gpus > 0 {
                let has = location.gpu_type.clone().unwrap_or_default();
                if !demand.gpu_types.is_empty() && !demand.gpu_types.contains(&has) {
                    say(format!("is on a machine with {has}"));
                }
            }
            if !demand.zones.is_empty() && !demand.zones.contains(&location.zone) {
                say(format!("is in {}", location.zone));
            }
            if !demand.capacity_types.is_empty() && !demand.capacity_types.contains(&location.capacity_type) {
                say(format!("is on {:?}", location.capacity_type));
            }
            if demand.boot_seconds_max.is_some_and(|most| ready > most) {
                say(format!("would wait {ready} seconds for a machine"));
            }
            if let (Some(ceiling), Some(price)) = (demand.machine_ceiling, price)
                && price > ceiling
            {
                say(format!("is on a machine for {price}, above {ceiling}"));
            }
            places.insert(match demand.together {
                Together::Anywhere => None,
                Together::OneZone => Some(location.zone.clone()),
                Together::OneDomain if demand.members == 1 => None,
                Together::OneDomain => {
                    Some(location.domain.clone().unwrap_or_else(|| format!("none {place:?}")))
                }
            });
            cost += u64::from(*count) * price.map_or(0, |price| share(price, machine, demand.member));
        }
        if places.len() > 1 && demand.members > 1 {
            say(format!("is at {places:?}"));
        }
        if demand.gang_ceiling.is_some_and(|ceiling| cost > ceiling) {
            say(format!("costs {cost}, above {:?}", demand.gang_ceiling));
        }
        *queue_cost.entry(&demand.queue).or_default() += cost;
        *queue_gpus.entry(&demand.queue).or_default() += demand.member.gpus * u64::from(demand.members);
    }
    if told.len() != case.demands.len() {
        faults.push(format!("{} of {} demands are told of", told.len(), case.demands.len()));
    }
    for (queue, limit) in &case.limits.queues {
        let gpus = queue_gpus.get(queue.as_str()).copied().unwrap_or(0);
        let cost = queue_cost.get(queue.as_str()).copied().unwrap_or(0);
        if limit.gpus.is_some_and(|limit| gpus > limit) || limit.budget.is_some_and(|limit| cost > limit) {
            faults.push(format!("queue {queue} gets {gpus} GPUs for {cost}, with {limit:?}"));
        }
    }
    faults.extend(machine_faults(case, mix, &load));
    faults
}

fn machine_faults(case: &Case, mix: &Mix, load: &BTreeMap<&AssignedPlace, [u64; 3]>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut used_of: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for (place, used) in load {
        let capacity = match place {
            AssignedPlace::Room(id) => case.rooms.iter().find(|it| &it.id == id).map(|it| it.free),
            AssignedPlace::Bought { offering, number } => {
                used_of.entry(offering).or_default().insert(*number);
                case.offerings.iter().find(|it| &it.id == offering).map(|it| it.machine)
            }
        };
        let Some(capacity) = capacity else {
            faults.push(format!("{place:?} does not exist"));
            continue;
        };
        let capacity = [capacity.gpus, capacity.cpu_milli, capacity.memory_bytes];
        if used.iter().zip(capacity).any(|(used, has)| *used > has) {
            faults.push(format!("{place:?} has {capacity:?} and is given {used:?}"));
        }
    }
    let mut cost = 0;
    for offering in &case.offerings {
        let bought: u32 =
            mix.purchases.iter().filter(|it| it.offering == offering.id).map(|it| it.count).sum();
        let used = used_of.get(offering.id.as_str()).map_or(0, BTreeSet::len);
        if used != usize::try_from(bought).unwrap_or(0) {
            faults.push(format!("{}: {bought} are bought and {used} are used", offering.id));
        }
        if offering.stock.is_some_and(|stock| bought > stock) {
            faults.push(format!("{}: {bought} are bought, of {:?}", offering.id, offering.stock));
        }
        cost += u64::from(bought) * offering.price_per_hour;
    }
    if cost != mix.cost_per_hour || mix.bound > cost {
        faults.push(format!("costs {cost}, told are {} and the bound {}", mix.cost_per_hour, mix.bound));
    }
    if case.limits.budget.is_some_and(|budget| cost > budget) {
        faults.push(format!("costs {cost}, above the budget {:?}", case.limits.budget));
    }
    faults
}

fn share(price: u64, machine: MixResources, member: MixResources) -> u64 {
    let needs = [member.gpus, member.cpu_milli, member.memory_bytes];
    let parts = needs.into_iter().zip([machine.gpus, machine.cpu_milli, machine.memory_bytes]);
    let cost =
        |(need, has): (u64, u64)| (u128::from(price) * u128::from(need)).div_ceil(u128::from(has.max(1)));
    u64::try_from(parts.map(cost).max().unwrap_or(0)).unwrap_or(u64::MAX)
}
