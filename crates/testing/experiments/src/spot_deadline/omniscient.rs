//! The omniscient plan: the cheapest plan with knowledge of the whole window, by dynamic programming backwards
//! in time.
//!
//! Time is counted in units, and a tick has a whole number of them. For each tick, amount of work left, machine
//! and rest of its changeover, there is a cheapest continuation. Amounts of work that cannot be finished in
//! time, or that cannot be left, are skipped.

use super::region::Region;
use super::world::Contract;

/// The cost in micro-units, and hours of progress on spot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Best {
    /// In micro-units.
    pub micros: f64,
    /// Of progress.
    pub spot_hours: f64,
}

/// The cheapest plan. Work and changeover are rounded down to units of `unit_seconds`, in favour of the
/// omniscient plan.
pub fn omniscient(region: &Region, contract: Contract, unit_seconds: u32) -> Best {
    let tick = (region.tick_seconds / unit_seconds) as usize;
    let work = (contract.work_seconds / unit_seconds) as usize;
    let changeover = (contract.changeover_seconds / unit_seconds) as usize;
    let ticks = region.ticks().min((contract.deadline_seconds / region.tick_seconds) as usize);
    let hours = f64::from(unit_seconds) / 3_600.0;
    // Machines: none, on-demand, and one per zone. The rest of a changeover: none, or all but a number of
    // ticks.
    let left_of: Vec<usize> =
        (0..=changeover.div_ceil(tick)).map(|gone| changeover.saturating_sub(gone * tick)).collect();
    let (starts, machines) = (left_of.len(), region.zones.len() + 1);
    let states = 1 + machines * starts;
    let state = |machine: usize, gone: usize| 1 + machine * starts + gone;
    let price = |machine: usize, at: usize| {
        if machine == 0 {
            Some(region.on_demand.micros())
        } else {
            let zone = &region.zones[machine - 1];
            zone.available[at].then(|| zone.prices[at].micros())
        }
    };
    let never = Best { micros: f64::INFINITY, spot_hours: 0.0 };
    let done = Best { micros: 0.0, spot_hours: 0.0 };
    let row = || {
        let mut row = vec![never; (work + 1) * states];
        row[..states].fill(done);
        row
    };
    let (mut next, mut here) = (row(), row());
    for at in (0..ticks).rev() {
        let most = work.min((ticks - at) * tick);
        let least = work.saturating_sub(at * tick).max(1);
        for left in least..=work {
            let cells = left * states..(left + 1) * states;
            if left > most {
                here[cells].fill(never);
                continue;
            }
            let wait = next[left * states];
            // The result of a tick on a machine, by the elapsed part of its changeover.
            let stay = |machine: usize, gone: usize| {
                let Some(price) = price(machine, at) else { return never };
                let lost = left_of[gone].min(tick);
                let progress = (tick - lost).min(left);
                let then = next[(left - progress) * states + state(machine, (gone + 1).min(starts - 1))];
                let spot = if machine == 0 { 0 } else { progress };
                Best {
                    micros: then.micros + price * hours * count(lost + progress),
                    spot_hours: then.spot_hours + hours * count(spot),
                }
            };
            let better = |one: Best, other: Best| if other.micros < one.micros { other } else { one };
            let fresh = (0..machines).map(|machine| stay(machine, 0)).fold(wait, better);
            here[cells.start] = fresh;
            for machine in 0..machines {
                for gone in 0..starts {
                    here[cells.start + state(machine, gone)] = better(fresh, stay(machine, gone));
                }
            }
        }
        std::mem::swap(&mut next, &mut here);
    }
    next[work * states]
}

#[allow(clippy::cast_precision_loss, reason = "units of a job's work")]
fn count(units: usize) -> f64 {
    units as f64
}
