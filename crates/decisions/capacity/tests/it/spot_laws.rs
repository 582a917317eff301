//! What holds in every market: no run is late, and nothing costs more than the ceiling.

use std::sync::Arc;

use capacity::spot::{
    Action, HourlyPrice, Lifetimes, Market, MarketHistory, MarketOffering, OutlookStakes, RunMachine,
    SpotOutlook, SpotRun, TimeLeft, decide,
};
use proptest::prelude::*;
use seeded_random::Random;

/// A market that is against the run: ticks of any length, and spot that goes in the middle of a tick without notice.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    work: u32,
    laxity: u32,
    changeover: u32,
    lost_work: u32,
    tick_max: u32,
    ceiling: Option<u64>,
    zones: usize,
    /// Chances in a thousand that spot of a zone goes, and comes, at a look.
    goes: u64,
    comes: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let sizes = (600u32..40_000, 0u32..60_000, 0u32..2_000, 0u32..1_000, 30u32..1_800);
    let market = (prop::option::of(3_000_000u64..4_000_000), 1usize..4, 0u64..1_000, 0u64..1_000);
    (any::<u64>(), sizes, market).prop_map(
        |(seed, (work, laxity, changeover, lost_work, tick_max), (ceiling, zones, goes, comes))| Case {
            seed,
            work,
            laxity: laxity + changeover,
            changeover,
            lost_work,
            tick_max,
            ceiling,
            zones,
            goes,
            comes,
        },
    )
}

struct World {
    random: Random,
    run: SpotRun,
    market: Market,
    history: MarketHistory,
    now: i64,
    actions: Vec<Action>,
    dearest: u64,
}

impl World {
    fn new(case: &Case) -> Self {
        let offering = |zone: usize| MarketOffering {
            name: Arc::from(format!("zone-{zone}")),
            has_spot: zone.is_multiple_of(2),
            spot: HourlyPrice(1_000_000),
            standing_seconds: 0,
            on_demand: HourlyPrice(3_000_000),
        };
        Self {
            random: Random::new(case.seed),
            run: SpotRun {
                work_left_seconds: case.work,
                time_left: TimeLeft::Deadline(case.work + case.laxity),
                changeover_seconds: case.changeover,
                lost_work_seconds_max: case.lost_work,
                ceiling: case.ceiling.map(HourlyPrice),
                machine: RunMachine::Nothing,
            },
            market: Market { offerings: (0..case.zones).map(offering).collect(), standing_seconds: 0 },
            history: MarketHistory::default(),
            now: 0,
            actions: Vec::new(),
            dearest: 0,
        }
    }

    /// Whether the work ended in time.
    fn live(&mut self, case: &Case) -> bool {
        let stakes = OutlookStakes {
            work_seconds: case.work,
            slack_seconds: case.laxity,
            changeover_seconds: case.changeover,
            guard_seconds: u32::try_from(self.run.guard_seconds(case.tick_max)).unwrap(),
            spot_micros: 1_000_000.0,
            on_demand_micros: 3_000_000.0,
        };
        let chances = Lifetimes::default().chances(&Lifetimes::default(), stakes.step_seconds());
        let outlook = SpotOutlook::new(stakes, &chances);
        while self.run.work_left_seconds > 0 {
            let TimeLeft::Deadline(left) = self.run.time_left else { return false };
            if left == 0 {
                return false;
            }
            self.turn(case);
            let decision = decide(&self.run, &self.market, &self.history, &outlook, case.tick_max);
            self.act(&decision.action);
            self.actions.push(decision.action);
            let elapsed = 1 + u32::try_from(self.random.below(u64::from(case.tick_max))).unwrap();
            self.pass(case, elapsed.min(left));
        }
        true
    }

    /// Spot comes and goes, and prices move, sometimes far beyond any ceiling.
    fn turn(&mut self, case: &Case) {
        for offering in &mut self.market.offerings {
            let chance = if offering.has_spot { case.goes } else { case.comes };
            offering.has_spot ^= self.random.below(1_000) < chance;
            offering.spot = HourlyPrice(500_000 + self.random.below(4_500_000));
        }
        let looks = self.market.offerings.iter().map(|it| (&it.name, it.has_spot));
        self.history.look(self.now, looks);
        self.market.standing_seconds = self.history.standing_seconds(self.now);
        if let RunMachine::Spot { offering, .. } = &self.run.machine
            && !self.market.offering(offering).unwrap().has_spot
        {
            self.lose(case);
        }
    }

    fn lose(&mut self, case: &Case) {
        self.run.machine = RunMachine::Nothing;
        let lost = u32::try_from(self.random.below(u64::from(case.lost_work) + 1)).unwrap();
        self.run.work_left_seconds = (self.run.work_left_seconds + lost).min(case.work);
    }

    fn act(&mut self, action: &Action) {
        let changeover_left_seconds = self.run.changeover_seconds;
        match action.clone() {
            Action::Stay => assert_ne!(self.run.machine, RunMachine::Nothing, "stays on nothing"),
            Action::Wait => self.run.machine = RunMachine::Nothing,
            Action::Spot(offering) => {
                self.run.machine = RunMachine::Spot { offering, changeover_left_seconds }
            }
            Action::OnDemand(offering) => {
                self.run.machine = RunMachine::OnDemand { offering, changeover_left_seconds };
            }
        }
        let price = match &self.run.machine {
            RunMachine::Nothing => 0,
            RunMachine::Spot { offering, .. } => self.market.offering(offering).unwrap().spot.0,
            RunMachine::OnDemand { offering, .. } => self.market.offering(offering).unwrap().on_demand.0,
        };
        self.dearest = self.dearest.max(price);
    }

    /// Time passes. A third of all spot machines are lost before they have done anything in it.
    fn pass(&mut self, case: &Case, elapsed: u32) {
        let is_lost = matches!(self.run.machine, RunMachine::Spot { .. }) && self.random.below(3) == 0;
        if is_lost {
            self.lose(case);
        }
        if let RunMachine::Spot { changeover_left_seconds: left, .. }
        | RunMachine::OnDemand { changeover_left_seconds: left, .. } = &mut self.run.machine
        {
            let starting = (*left).min(elapsed);
            *left -= starting;
            self.run.work_left_seconds = self.run.work_left_seconds.saturating_sub(elapsed - starting);
        }
        if let TimeLeft::Deadline(left) = &mut self.run.time_left {
            *left -= elapsed;
        }
        self.now += i64::from(elapsed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_deadline_that_can_be_met_is_missed_and_no_ceiling_exceeded(case in case()) {
        let mut world = World::new(&case);
        prop_assert!(world.live(&case), "late after {} decisions", world.actions.len());
        let ceiling = case.ceiling.unwrap_or(3_000_000);
        prop_assert!(world.dearest <= ceiling, "{} was paid, and {ceiling} allowed", world.dearest);
    }

    #[test]
    fn the_same_market_is_decided_the_same_way(case in case()) {
        let (mut one, mut other) = (World::new(&case), World::new(&case));
        one.live(&case);
        other.live(&case);
        prop_assert_eq!(one.actions, other.actions);
    }
}
