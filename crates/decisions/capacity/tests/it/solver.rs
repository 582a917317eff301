//! The same question asked of a solver of mixed integer programmes, in a formulation of its own: it uses nothing of
//! the crate but its data. Shared with the benchmark.
//!
//! ```text
//!   machines[k, f]  of kind k with filling f   (fillings to which no member can be added)
//!   members[d, k]   of demand d on kind k      ≤ places for d in machines[k, ·]
//!   there[d, p]     0 or 1, place p for a gang that must be together
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use capacity::demand::{Demand, Limits, Together};
use capacity::offering::{Location, MixResources};
use microlp::{ComparisonOp, Error, OptimizationDirection, Problem, Solution, SolveOptions, Variable};

use super::cases::Case;

/// What the solver says about serving some demands, all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// The lowest cost, proven.
    Cost(u64),
    /// Proven: there is no way.
    Impossible,
    /// Not proven within the time, or too large to write down.
    Unproven,
}

struct Kind<'a> {
    location: &'a Location,
    machine: MixResources,
    boot_seconds: u32,
    /// `None`: it is there already.
    price: Option<u64>,
    stock: Option<u32>,
}

/// More are not written down.
const FILLINGS_MAX: usize = 4_000;

/// The cheapest way to serve all of these demands.
pub fn cheapest(case: &Case, served: &[&Demand], time_max: Duration) -> Answer {
    let members: u32 = served.iter().map(|demand| demand.members).sum();
    let offerings = case.offerings.iter().map(|it| Kind {
        location: &it.location,
        machine: it.machine,
        boot_seconds: it.boot_seconds,
        price: Some(it.price_per_hour),
        stock: it.stock,
    });
    let rooms = case.rooms.iter().map(|it| Kind {
        location: &it.location,
        machine: it.free,
        boot_seconds: it.ready_in_seconds,
        price: None,
        stock: Some(1),
    });
    let kinds: Vec<Kind> = offerings.chain(rooms).collect();
    let mut programme = Problem::new(OptimizationDirection::Minimize);
    let mut on: BTreeMap<(usize, usize), Variable> = BTreeMap::new();
    let mut bought: Vec<(Variable, u64)> = Vec::new();
    let mut fillings_left = FILLINGS_MAX;
    for (k, kind) in kinds.iter().enumerate() {
        let able: Vec<usize> = (0..served.len()).filter(|&d| may_be_on(served[d], kind)).collect();
        let Some(fillings) = full_fillings(served, &able, kind.machine, fillings_left) else {
            return Answer::Unproven;
        };
        fillings_left -= fillings.len();
        let most = i32::try_from(kind.stock.unwrap_or(members).min(members)).unwrap_or(i32::MAX);
        let machines: Vec<Variable> = fillings
            .iter()
            .map(|_| programme.add_integer_var(float(kind.price.unwrap_or(0)) / 1e6, (0, most)))
            .collect();
        bought.extend(machines.iter().map(|&machine| (machine, kind.price.unwrap_or(0))));
        let all: Vec<_> = machines.iter().map(|&machine| (machine, 1.0)).collect();
        programme.add_constraint(&all[..], ComparisonOp::Le, f64::from(most));
        for &d in &able {
            let here =
                programme.add_integer_var(0.0, (0, i32::try_from(served[d].members).unwrap_or(i32::MAX)));
            on.insert((d, k), here);
            let mut places: Vec<(Variable, f64)> = vec![(here, -1.0)];
            for (filling, &machine) in fillings.iter().zip(&machines) {
                places.push((machine, f64::from(filling[&d])));
            }
            programme.add_constraint(&places[..], ComparisonOp::Ge, 0.0);
        }
    }
    for (d, demand) in served.iter().enumerate() {
        let here: Vec<_> = (0..kinds.len()).filter_map(|k| Some((*on.get(&(d, k))?, 1.0))).collect();
        programme.add_constraint(&here[..], ComparisonOp::Eq, f64::from(demand.members));
        keep_together(&mut programme, demand, d, &kinds, &on);
        if let Some(ceiling) = demand.gang_ceiling {
            let shares = shares(&[(d, demand)], &kinds, &on);
            programme.add_constraint(&shares[..], ComparisonOp::Le, float(ceiling) / 1e6);
        }
    }
    let spent: Vec<_> = bought.iter().map(|&(machine, price)| (machine, float(price) / 1e6)).collect();
    add_budgets(&mut programme, &case.limits, served, &kinds, &on, &spent);
    let mut options = SolveOptions::default();
    options.time_limit = Some(time_max);
    match programme.solve_with(options) {
        Ok(outcome) if outcome.is_optimal() => {
            // Values are whole except for a millionth, which would be micro-units: rounded one by one.
            let cost = |solution: &Solution| {
                bought.iter().map(|&(machine, price)| whole(solution.var_value(machine)) * price).sum()
            };
            outcome.solution().map_or(Answer::Unproven, |solution| Answer::Cost(cost(solution)))
        }
        Err(Error::Infeasible) => Answer::Impossible,
        _ => Answer::Unproven,
    }
}

fn keep_together(
    programme: &mut Problem,
    demand: &Demand,
    d: usize,
    kinds: &[Kind],
    on: &BTreeMap<(usize, usize), Variable>,
) {
    if demand.together == Together::Anywhere || demand.members == 1 {
        return;
    }
    let place = |kind: &Kind| match demand.together {
        Together::OneZone => Some(kind.location.zone.clone()),
        _ => kind.location.domain.clone(),
    };
    let able: Vec<usize> = (0..kinds.len()).filter(|&k| on.contains_key(&(d, k))).collect();
    let places: BTreeSet<String> = able.iter().filter_map(|&k| place(&kinds[k])).collect();
    let mut one: Vec<(Variable, f64)> = Vec::new();
    for name in places {
        let there = programme.add_binary_var(0.0);
        one.push((there, 1.0));
        for &k in able.iter().filter(|&&k| place(&kinds[k]).as_deref() == Some(&name)) {
            let bound = [(on[&(d, k)], 1.0), (there, -f64::from(demand.members))];
            programme.add_constraint(&bound[..], ComparisonOp::Le, 0.0);
        }
    }
    programme.add_constraint(&one[..], ComparisonOp::Eq, 1.0);
}

fn add_budgets(
    programme: &mut Problem,
    limits: &Limits,
    served: &[&Demand],
    kinds: &[Kind],
    on: &BTreeMap<(usize, usize), Variable>,
    spent: &[(Variable, f64)],
) {
    for (queue, limit) in &limits.queues {
        if let Some(budget) = limit.budget {
            let of_queue: Vec<_> =
                served.iter().copied().enumerate().filter(|(_, demand)| &demand.queue == queue).collect();
            let shares = shares(&of_queue, kinds, on);
            programme.add_constraint(&shares[..], ComparisonOp::Le, float(budget) / 1e6);
        }
    }
    if let Some(budget) = limits.budget {
        programme.add_constraint(spent, ComparisonOp::Le, float(budget) / 1e6);
    }
}

fn shares(
    demands: &[(usize, &Demand)],
    kinds: &[Kind],
    on: &BTreeMap<(usize, usize), Variable>,
) -> Vec<(Variable, f64)> {
    let mut shares = Vec::new();
    for &(d, demand) in demands {
        for (k, kind) in kinds.iter().enumerate() {
            if let (Some(&here), Some(price)) = (on.get(&(d, k)), kind.price) {
                shares.push((here, float(share(price, kind.machine, demand.member)) / 1e6));
            }
        }
    }
    shares
}

/// The largest part of any resource, of the price, rounded up.
fn share(price: u64, machine: MixResources, member: MixResources) -> u64 {
    let part = |need: u64, has: u64| (u128::from(price) * u128::from(need)).div_ceil(u128::from(has.max(1)));
    let most = part(member.gpus, machine.gpus)
        .max(part(member.cpu_milli, machine.cpu_milli))
        .max(part(member.memory_bytes, machine.memory_bytes));
    u64::try_from(most).unwrap_or(u64::MAX)
}

fn may_be_on(demand: &Demand, kind: &Kind) -> bool {
    let Location { zone, domain, capacity_type, gpu_type } = kind.location;
    let type_fits = demand.member.gpus == 0
        || gpu_type.as_ref().is_some_and(|it| demand.gpu_types.is_empty() || demand.gpu_types.contains(it));
    type_fits
        && (demand.zones.is_empty() || demand.zones.contains(zone))
        && (demand.capacity_types.is_empty() || demand.capacity_types.contains(capacity_type))
        && (domain.is_some() || demand.together != Together::OneDomain || demand.members == 1)
        && demand.member.gpus <= kind.machine.gpus
        && demand.member.cpu_milli <= kind.machine.cpu_milli
        && demand.member.memory_bytes <= kind.machine.memory_bytes
        && demand.boot_seconds_max.is_none_or(|most| kind.boot_seconds <= most)
        && demand.machine_ceiling.is_none_or(|most| kind.price.is_none_or(|price| price <= most))
}

/// All ways to fill one machine so that no member can be added; `None` if there are more than `most`.
fn full_fillings(
    served: &[&Demand],
    able: &[usize],
    machine: MixResources,
    most: usize,
) -> Option<Vec<BTreeMap<usize, u32>>> {
    let mut open = vec![(0, machine, BTreeMap::new())];
    let mut full = Vec::new();
    let mut steps = 0;
    while let Some((at, room, filling)) = open.pop() {
        steps += 1;
        if full.len() > most || steps > 100 * FILLINGS_MAX {
            return None;
        }
        let Some(&d) = able.get(at) else {
            let could_add =
                able.iter().any(|&d| filling[&d] < served[d].members && served[d].member.fits(room));
            if !could_add {
                full.push(filling);
            }
            continue;
        };
        let mut room = room;
        let mut count = 0;
        loop {
            let mut with = filling.clone();
            with.insert(d, count);
            open.push((at + 1, room, with));
            if count == served[d].members || !served[d].member.fits(room) {
                break;
            }
            let need = served[d].member;
            room = MixResources {
                gpus: room.gpus - need.gpus,
                cpu_milli: room.cpu_milli - need.cpu_milli,
                memory_bytes: room.memory_bytes - need.memory_bytes,
            };
            count += 1;
        }
    }
    (full.len() <= most).then_some(full)
}

#[expect(clippy::cast_precision_loss, reason = "prices of cases are far below 2^53")]
fn float(amount: u64) -> f64 {
    amount as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of machines")]
fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}
