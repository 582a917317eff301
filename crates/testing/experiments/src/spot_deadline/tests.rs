//! The world, the omniscient plan, and that no buyer knows the future.

use capacity::spot::{Action, HourlyPrice};
use simulator::Random;
use simulator::traces::spot::Window;

use super::{Baseline, Buyer, Contract, Past, live, omniscient, regions};

const CONTRACT: Contract = Contract {
    work_seconds: 6 * 3_600,
    deadline_seconds: 9 * 3_600,
    changeover_seconds: 720,
    saves_seconds: 0,
};
const ON_DEMAND: HourlyPrice = HourlyPrice(3_000_000);
const SPOT: HourlyPrice = HourlyPrice(1_000_000);

fn window(zone: &str, number: u32, start: i64, available: Vec<bool>) -> Window {
    Window { zone: zone.into(), number, tick_seconds: 600, start, available, spot_micros: Vec::new() }
}

/// Spot that comes and goes.
fn flickering(seed: u64, ticks: usize) -> Vec<bool> {
    let mut random = Random::new(seed);
    let mut is_up = false;
    let mut look = || {
        is_up ^= random.below(5) == 0;
        is_up
    };
    (0..ticks).map(|_| look()).collect()
}

fn check_best(available: Vec<bool>, micros: f64, spot_hours: f64) {
    let windows = [window("a", 0, 0, available)];
    let region = &regions(&windows, |_| true, ON_DEMAND, SPOT)[0];
    let best = omniscient(region, CONTRACT, 120);
    assert!((best.micros - micros).abs() < 1.0, "{best:?} instead of {micros}");
    assert!((best.spot_hours - spot_hours).abs() < 1e-6, "{best:?} instead of {spot_hours} h");
}

#[test]
fn who_knows_all_takes_what_is_cheapest() {
    // Six hours and one changeover, on spot or on on-demand.
    check_best(vec![true; 54], 6_200_000.0, 6.0);
    check_best(vec![false; 54], 18_600_000.0, 0.0);
    // Three hours of slack less a changeover are 2 h 48 min, so 2 h 40 min without spot are waited out.
    let late: Vec<bool> = (0..54).map(|tick| tick >= 16).collect();
    check_best(late, 6_200_000.0, 6.0);
}

#[test]
fn nobody_is_late_and_nobody_is_cheaper_than_who_knows_all() {
    for seed in 0..40 {
        let windows = [window("a", 0, 0, flickering(seed, 54)), window("b", 0, 0, flickering(seed + 99, 54))];
        let region = &regions(&windows, |_| true, ON_DEMAND, SPOT)[0];
        let best = omniscient(region, CONTRACT, 120);
        let past = Past::of(&windows);
        let mut buyer = Buyer::new(region, &past);
        let mut outcomes = vec![live(region, CONTRACT, |run, market, tick| buyer.buy(run, market, tick))];
        for baseline in [
            Baseline::OnDemand,
            Baseline::Greedy,
            Baseline::UniformProgress { takes_spot_at_once: true },
            Baseline::UniformProgress { takes_spot_at_once: false },
        ] {
            let outcome = live(region, CONTRACT, |run, market, _| baseline.buy(CONTRACT, 600, run, market));
            outcomes.push(outcome);
        }
        for outcome in outcomes {
            assert!(!outcome.is_late, "seed {seed}: {outcome:?}");
            assert!(outcome.micros >= best.micros - 1.0, "seed {seed}: {outcome:?} beats {best:?}");
            assert!((outcome.spot_hours + outcome.on_demand_hours - 6.0).abs() < 1e-6, "seed {seed}");
        }
    }
}

#[test]
fn what_comes_later_changes_nothing_before() {
    let actions = |end: Vec<bool>| -> Vec<Action> {
        let mut available = flickering(7, 30);
        available.extend(end);
        // A second window of the same series, which began earlier and reaches into the first one: its future is no past.
        let mut earlier = flickering(8, 50);
        earlier.extend(available.iter().take(40).copied());
        let windows = [window("a", 0, 30_000, available), window("a", 1, 0, earlier)];
        let region = &regions(&windows, |_| true, ON_DEMAND, SPOT)[0];
        let past = Past::of(&windows);
        let mut buyer = Buyer::new(region, &past);
        let mut actions = Vec::new();
        live(region, CONTRACT, |run, market, tick| {
            let action = buyer.buy(run, market, tick);
            actions.push(action.clone());
            action
        });
        actions
    };
    let (one, other) = (actions(vec![true; 24]), actions(vec![false; 24]));
    assert_eq!(one[..30], other[..30]);
    assert_ne!(one, other);
}

#[test]
fn a_machine_that_goes_takes_along_what_was_not_saved_and_nobody_is_late() {
    // An hour of spot, of which 2,880 s are work; saved every 1,000 s, so that 880 s are lost.
    let available: Vec<bool> = (0..54).map(|tick| tick != 6).collect();
    let windows = [window("a", 0, 0, available)];
    let region = &regions(&windows, |_| true, ON_DEMAND, SPOT)[0];
    let contract = Contract { saves_seconds: 1_000, ..CONTRACT };
    let outcome = live(region, contract, |run, market, _| Baseline::Greedy.buy(contract, 600, run, market));
    assert!((outcome.lost_hours - 880.0 / 3_600.0).abs() < 1e-9, "{outcome:?}");
    assert!((outcome.spot_hours - 6.0 - outcome.lost_hours).abs() < 1e-9, "{outcome:?}");
    for seed in 0..40 {
        let windows = [window("a", 0, 0, flickering(seed, 54))];
        let region = &regions(&windows, |_| true, ON_DEMAND, SPOT)[0];
        let past = Past::of(&windows);
        let mut buyer = Buyer::new(region, &past);
        let outcome = live(region, contract, |run, market, tick| buyer.buy(run, market, tick));
        assert!(!outcome.is_late, "seed {seed}: {outcome:?}");
    }
}
