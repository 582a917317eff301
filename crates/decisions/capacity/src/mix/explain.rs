//! The result in words and numbers that people can check: which members are where, why this offering, why nothing.

use std::collections::BTreeMap;

use super::admit::Admitted;
use super::answer::{AssignedPlace, Assignment, Mix, MixPurchase, RefusedDemand};
use super::fits;
use super::market::Market;
use super::problem::Source;
use crate::demand::Together;

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
    let mut machines_of: BTreeMap<usize, Vec<(AssignedPlace, u32)>> =
        (0..market.demands.len()).filter(|it| !refused.contains_key(it)).map(|it| (it, Vec::new())).collect();
    // By offering and by the members on the machine.
    let mut alike: BTreeMap<(usize, Vec<(usize, u32)>), u32> = BTreeMap::new();
    for filled in &solution.machines {
        for _ in 0..filled.copies {
            let place = match &problem.bins[filled.bin].source {
                Source::Offering(offering) => {
                    let number = bought[*offering];
                    bought[*offering] += 1;
                    AssignedPlace::Bought { offering: market.offerings[*offering].id.clone(), number }
                }
                Source::Rooms(rooms) => {
                    let room = rooms[rooms_used[filled.bin]];
                    rooms_used[filled.bin] += 1;
                    AssignedPlace::Room(market.rooms[room].id.clone())
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
    let purchases: Vec<MixPurchase> = alike
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
            .map(|(demand, reason)| RefusedDemand { demand: name(demand), reason })
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

fn purchase(
    market: &Market,
    bought: &[u32],
    offering: usize,
    here: &[(usize, u32)],
    count: u32,
) -> MixPurchase {
    let chosen = market.offerings[offering];
    let machines = market.fits.machines();
    // The fastest check, for almost all of them.
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
    MixPurchase {
        offering: chosen.id.clone(),
        count,
        cost_per_hour: cost(offering),
        serves: here.iter().map(|&(demand, members)| (market.demands[demand].id.clone(), members)).collect(),
        possible_offerings,
        next_best: next_best.map(|(_, other)| (market.offerings[other].id.clone(), cost(other))),
    }
}
