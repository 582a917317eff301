//! What was bought and has not been given back, in sums for people.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::machine_type::CapacityType;

use crate::Decision;
use crate::claim::{Claim, LaunchKey};
use crate::memory::Memory;

/// Machines of one type that were bought in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// How many there are.
    pub count: u32,
    /// How many of them belong to launches under way.
    pub starting: u32,
    /// How many of them have no pods.
    pub idle: u32,
    /// How many of them are being given back.
    pub leaving: u32,
    /// What all of them cost, in millionths of the currency per hour.
    pub price_micros: i64,
}

/// Sums over claims, by machine type and how it was bought, as they stand after a decision.
pub fn holdings(
    claims: &[Claim],
    decision: &Decision,
    memory: &Memory,
) -> BTreeMap<(Arc<str>, CapacityType), Holding> {
    let awaited: BTreeSet<&LaunchKey> =
        decision.under_way.values().map(|it| &it.launch).chain(memory.ordered.keys()).collect();
    let released: BTreeSet<&Arc<str>> = decision.releases.iter().map(|release| &release.claim).collect();
    let goes = |claim: &Claim| {
        claim.leaving || memory.given_up.contains(&claim.launch) || released.contains(&claim.name)
    };
    let mut sums: BTreeMap<(Arc<str>, CapacityType), Holding> = BTreeMap::new();
    for claim in claims {
        let kind = (Arc::clone(&claim.offer.machine), claim.offer.place.capacity_type);
        let sum = sums.entry(kind).or_default();
        sum.count += 1;
        sum.price_micros = sum.price_micros.saturating_add(claim.price_micros);
        if goes(claim) {
            sum.leaving += 1;
        } else if awaited.contains(&claim.launch) {
            sum.starting += 1;
        } else if memory.idle.contains_key(&claim.name) {
            sum.idle += 1;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use api_types::machine_type::CapacityType;

    use super::{Holding, holdings};
    use crate::launches::Release;
    use crate::memory::Memory;
    use crate::testing::{at, claims, launch, ordered};
    use crate::{Decision, decide};

    #[test]
    fn every_machine_is_paid_for_and_counted_once() {
        let (starts, runs) = (launch("starts", 1000, 2), launch("runs", 900, 4));
        let mut memory = Memory::default();
        ordered(&mut memory, &starts);
        let mut all = claims(&starts);
        all.extend(claims(&runs));
        all[2].leaving = true;
        all[3].offer.place.capacity_type = CapacityType::Spot;
        memory.idle.insert(all[4].name.clone(), at(900));
        memory.idle.insert(all[5].name.clone(), at(900));
        let release =
            Release { claim: all[5].name.clone(), node: None, given_up: None, why: "idle".to_owned() };
        let decision = Decision { releases: vec![release], ..Decision::default() };
        let sums = holdings(&all, &decision, &memory);
        let found = sums.values().copied().collect::<Vec<_>>();
        let on_demand = Holding { count: 5, starting: 2, idle: 1, leaving: 2, price_micros: 50_000_000 };
        let spot = Holding { count: 1, price_micros: 10_000_000, ..Holding::default() };
        assert_eq!(found, [on_demand, spot]);
    }

    #[test]
    fn machines_without_pods_are_idle_after_a_decision() {
        let (mut state, policy) = (crate::testing::state([]), placement::Policy::default());
        let catalogue = crate::testing::catalogue([crate::testing::machine("h100")]);
        // Its gang is gone, and it was open to all gangs before: an ordinary machine.
        let mut claims = claims(&launch("gone", 1000, 1));
        crate::testing::boot(&mut state, &catalogue, &mut claims[0]);
        crate::testing::open(&mut state, &catalogue, &claims);
        let mut memory = Memory::default();
        let view = crate::testing::view(&state, &policy, &catalogue, &claims, at(2000));
        let decision = decide(&view, &mut memory);
        let sums = holdings(&claims, &decision, &memory);
        let expect = Holding { count: 1, idle: 1, price_micros: 10_000_000, ..Holding::default() };
        assert_eq!(sums.into_values().collect::<Vec<_>>(), [expect]);
    }
}
