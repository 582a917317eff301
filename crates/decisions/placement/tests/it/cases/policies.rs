//! Random policies.

use cluster_model::Tier;
use cluster_model::policy::TierPairs;
use placement::{
    Backfill, ConsolidationPolicy, EnergyPolicy, EvictionPolicy, OrderPolicy, Outruns, Packing, Policy,
};

use super::random::Random;

pub fn policy(random: &mut Random) -> Policy {
    let by_priority = random.chance(50);
    Policy {
        order: random.pick(&[
            OrderPolicy::Age,
            OrderPolicy::Age,
            OrderPolicy::StrictAge,
            OrderPolicy::ExpectedWork,
        ]),
        packing: random.pick(&[
            Packing::BestFit,
            Packing::LeastFragmentation,
            Packing::Spread,
            Packing::LeastPower,
        ]),
        backfill: Backfill {
            reservations_max: random.pick(&[0, 1, 1, 3]),
            gather_max: random.pick(&[0, 0, 1, 2]),
            gather_after_seconds: random.pick(&[0, 300, 388_800]),
        },
        eviction: EvictionPolicy {
            by_priority,
            takes_quota: if by_priority && random.chance(20) {
                takes_quota(random)
            } else {
                TierPairs::default()
            },
            reclaim: random.chance(60),
            by_expected_work: random.chance(50),
            outruns: outruns(random),
            hold_seconds: random.pick(&[60, 600]),
            ..EvictionPolicy::default()
        },
        consolidation: ConsolidationPolicy {
            moves_max: random.pick(&[0, 1, 3, 20]),
            after_seconds: random.pick(&[0, 300]),
        },
        energy: EnergyPolicy { cap_watts: random.some(20, |random| random.count(1, 30).into()).map(watts) },
        explain: random.chance(80),
    }
}

/// Some of the pairs of tiers that occur.
fn takes_quota(random: &mut Random) -> TierPairs {
    let tiers = [0, 1000, 2000, 3000].map(Tier::of);
    let pairs = tiers.iter().flat_map(|claims| tiers.iter().map(move |gives| (*claims, *gives)));
    pairs
        .filter(|_| random.chance(40))
        .fold(TierPairs::default(), |all, (claims, gives)| all.with(claims, gives))
}

/// As installed, or so that more gangs give way within the few hours of a case.
fn outruns(random: &mut Random) -> Outruns {
    if random.chance(30) {
        return Outruns::default();
    }
    Outruns {
        after_seconds: random.pick(&[0, 60, 400]),
        times: random.pick(&[1, 2, 4]),
        ran_seconds_min: random.pick(&[0, 100, 1_800]),
        waited_seconds_max: random.pick(&[100, 4_000, 86_400]),
    }
}

fn watts(hundreds: u64) -> u64 {
    hundreds * 300
}
