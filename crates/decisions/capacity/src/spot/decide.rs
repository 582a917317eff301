//! The decision: pure, with its reasons and the expected cost of what is left.

use std::sync::Arc;

use super::history::MarketHistory;
use super::lifetimes::{Lifetimes, range_of};
use super::market::{HourlyPrice, Market, MarketOffering};
use super::outlook::{Costs, Phase, Place, SpotOutlook};
use super::run::{RunMachine, SpotRun, TimeLeft};

/// A working spot machine is left for another one only if that saves this many times what moving costs.
pub const MOVE_GAIN_TIMES: f64 = 2.0;

/// What to do until the next look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stay on the machine that it has.
    Stay,
    /// Have no machine.
    Wait,
    /// Go to a spot machine of this offering.
    Spot(Arc<str>),
    /// Go to an on-demand machine of this offering.
    OnDemand(Arc<str>),
}

/// Why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpotReason {
    /// There is no work left.
    Finished,
    /// With less laxity than this, only on-demand ends in time.
    DeadlineNear {
        /// The time that can still be lost.
        laxity_seconds: i64,
        /// Changeover, lost work and one tick.
        guard_seconds: i64,
    },
    /// Even on-demand from now on ends this much too late.
    TooLate {
        /// By how much.
        by_seconds: i64,
    },
    /// No on-demand machine is below the ceiling, so the deadline cannot be kept by force.
    CeilingBelowOnDemand {
        /// The ceiling.
        ceiling: HourlyPrice,
    },
    /// No offering has spot below the ceiling and below on-demand.
    SpotDry {
        /// For how long.
        for_seconds: u32,
    },
    /// The machine is being started, or no other price beats its own by enough.
    Working,
    /// The cheapest by the outlook, and what the next best would cost in all.
    Cheapest {
        /// In millionths of the currency; none if nothing else is possible.
        next_best_micros: Option<u64>,
    },
    /// Another one is cheaper, but not by as much as leaving the working machine must gain.
    NotWorthLeaving {
        /// What it would gain.
        gain_micros: u64,
        /// What it must gain.
        needed_micros: u64,
    },
}

/// What to do, why, and what the rest of the run is expected to cost then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpotDecision {
    /// What to do.
    pub action: Action,
    /// Why.
    pub why: SpotReason,
    /// In millionths of the currency, from now to the end.
    pub expected_micros: u64,
}

/// Decides for the time until the next look, at most `tick_seconds` from now.
pub fn decide(
    run: &SpotRun,
    market: &Market,
    history: &MarketHistory,
    outlook: &SpotOutlook,
    tick_seconds: u32,
) -> SpotDecision {
    let on_demand = market.on_demand(run.ceiling);
    let spots = usable_spots(run, market, on_demand);
    let here = Here::new(run, market, outlook, &spots);
    if run.work_left_seconds == 0 {
        return SpotDecision { action: Action::Wait, why: SpotReason::Finished, expected_micros: 0 };
    }
    if let Some(forced) = guard(run, on_demand, tick_seconds) {
        return forced;
    }
    let costs = here.costs();
    match &run.machine {
        RunMachine::Spot { offering, changeover_left_seconds } => {
            if let Some(current) = spots.iter().find(|it| it.name == *offering) {
                return here.keep_or_move(current, *changeover_left_seconds > 0, &spots, history);
            }
        }
        RunMachine::OnDemand { changeover_left_seconds, offering } => {
            if market.offering(offering).is_none_or(|it| is_within_ceiling(run, it.on_demand)) {
                return here.keep_or_leave(*changeover_left_seconds > 0, costs, &spots, history);
            }
        }
        RunMachine::Nothing => {}
    }
    here.begin(costs, &spots, on_demand, history)
}

fn is_within_ceiling(run: &SpotRun, price: HourlyPrice) -> bool {
    run.ceiling.is_none_or(|ceiling| price <= ceiling)
}

/// Spot within the ceiling and cheaper than on-demand, in the market's order; choices among them break ties by name.
fn usable_spots<'a>(
    run: &SpotRun,
    market: &'a Market,
    on_demand: Option<&MarketOffering>,
) -> Vec<&'a MarketOffering> {
    let is_usable = |it: &&MarketOffering| {
        it.has_spot
            && is_within_ceiling(run, it.spot)
            && on_demand.is_none_or(|on_demand| it.spot < on_demand.on_demand)
    };
    market.offerings.iter().filter(is_usable).collect()
}

/// On-demand, if nothing else is safe.
fn guard(run: &SpotRun, on_demand: Option<&MarketOffering>, tick_seconds: u32) -> Option<SpotDecision> {
    let (laxity, guard) = (run.laxity_seconds(), run.guard_seconds(tick_seconds));
    if laxity >= guard {
        return None;
    }
    // Without on-demand nothing can be forced: any spot is used.
    let on_demand = on_demand?;
    let (action, changeover) = match &run.machine {
        RunMachine::OnDemand { changeover_left_seconds, .. } => (Action::Stay, *changeover_left_seconds),
        _ => (Action::OnDemand(on_demand.name.clone()), run.changeover_seconds),
    };
    let late = i64::from(changeover) - laxity;
    let is_deadline = matches!(run.time_left, TimeLeft::Deadline(_));
    let why = if is_deadline && late > 0 {
        SpotReason::TooLate { by_seconds: late }
    } else {
        SpotReason::DeadlineNear { laxity_seconds: laxity, guard_seconds: guard }
    };
    let seconds = f64::from(run.work_left_seconds) + f64::from(changeover);
    Some(SpotDecision {
        action,
        why,
        expected_micros: micros(seconds * on_demand.on_demand.micros() / 3_600.0),
    })
}

/// The run in the market, in the outlook's units.
struct Here<'a> {
    run: &'a SpotRun,
    market: &'a Market,
    outlook: &'a SpotOutlook,
    phase: Phase,
    place: Place,
    work: i64,
    slack: i64,
}

impl<'a> Here<'a> {
    fn new(
        run: &'a SpotRun,
        market: &'a Market,
        outlook: &'a SpotOutlook,
        spots: &[&MarketOffering],
    ) -> Self {
        let phase = Phase::of(!spots.is_empty(), market.standing_seconds);
        let place = match &run.machine {
            RunMachine::OnDemand { .. } => Place::OnDemand,
            RunMachine::Spot { offering, .. } if spots.iter().any(|it| it.name == *offering) => Place::Spot,
            RunMachine::Nothing | RunMachine::Spot { .. } => Place::Nothing,
        };
        let work = i64::from(run.work_left_seconds);
        Self { run, market, outlook, phase, place, work, slack: run.laxity_seconds() }
    }

    fn costs(&self) -> Costs {
        self.outlook.costs(self.work, self.slack, self.phase, self.place)
    }

    /// A working spot machine is left only for one so much cheaper that the move pays [`MOVE_GAIN_TIMES`] over. The
    /// gain is the difference in price for as long as both are expected to last. The cost is a changeover at the new
    /// price, and its slack.
    fn keep_or_move(
        &self,
        current: &MarketOffering,
        is_starting: bool,
        spots: &[&MarketOffering],
        history: &MarketHistory,
    ) -> SpotDecision {
        let stay = SpotDecision {
            action: Action::Stay,
            why: SpotReason::Working,
            expected_micros: micros(self.costs().spot),
        };
        let Some(best) = self.best_spot(spots, history) else { return stay };
        if is_starting || best.name == current.name {
            return stay;
        }
        let price = |it: &MarketOffering| it.spot.micros();
        let hours = expected_seconds(current, history).min(expected_seconds(best, history)) / 3_600.0;
        let gain =
            (price(current) - price(best)) * hours.min(f64::from(self.run.work_left_seconds) / 3_600.0);
        let needed = MOVE_GAIN_TIMES * self.moving_micros(price(best));
        if gain > needed {
            let expected_micros =
                stay.expected_micros.saturating_sub(micros(gain - needed / MOVE_GAIN_TIMES));
            let why = SpotReason::Cheapest { next_best_micros: Some(stay.expected_micros) };
            return SpotDecision { action: Action::Spot(best.name.clone()), why, expected_micros };
        }
        let why = if gain > 0.0 {
            SpotReason::NotWorthLeaving { gain_micros: micros(gain), needed_micros: micros(needed) }
        } else {
            SpotReason::Working
        };
        SpotDecision { why, ..stay }
    }

    /// A working on-demand machine is left for spot, or for waiting, if the outlook says that this gains anything:
    /// the outlook has counted the changeover there and back, in money and in slack. There is no further margin,
    /// because a single look gains little even if staying for hours costs much: half a changeover of margin left 20.6
    /// of 23.8 spot hours in X4.
    fn keep_or_leave(
        &self,
        is_starting: bool,
        costs: Costs,
        spots: &[&MarketOffering],
        history: &MarketHistory,
    ) -> SpotDecision {
        let stay = SpotDecision {
            action: Action::Stay,
            why: SpotReason::Working,
            expected_micros: micros(costs.on_demand),
        };
        if is_starting {
            return stay;
        }
        let best_spot = self.best_spot(spots, history);
        let (action, cost) = match best_spot {
            Some(best) if costs.spot <= costs.wait => (Action::Spot(best.name.clone()), costs.spot),
            _ => (Action::Wait, costs.wait),
        };
        if cost < costs.on_demand {
            let why = SpotReason::Cheapest { next_best_micros: Some(micros(costs.on_demand)) };
            return SpotDecision { action, why, expected_micros: micros(cost) };
        }
        let why = match best_spot {
            Some(_) => SpotReason::Working,
            None => SpotReason::SpotDry { for_seconds: self.market.standing_seconds },
        };
        SpotDecision { why, ..stay }
    }

    /// Without a machine: the cheapest of all; ties go to spot, then to waiting.
    fn begin(
        &self,
        costs: Costs,
        spots: &[&MarketOffering],
        on_demand: Option<&MarketOffering>,
        history: &MarketHistory,
    ) -> SpotDecision {
        let mut options = Vec::new();
        if let Some(best) = self.best_spot(spots, history) {
            // Without on-demand to fall back on, spot is right at any cost.
            let cost = if on_demand.is_some() { costs.spot } else { 0.0 };
            options.push((cost, Action::Spot(best.name.clone())));
        }
        options.push((costs.wait, Action::Wait));
        if let Some(on_demand) = on_demand {
            options.push((costs.on_demand, Action::OnDemand(on_demand.name.clone())));
        }
        options.sort_by(|left, right| left.0.total_cmp(&right.0));
        let next_best = options.get(1).map(|(cost, _)| *cost).filter(|cost| cost.is_finite());
        let (cost, action) = options.swap_remove(0);
        let why = match (&action, self.run.ceiling, on_demand) {
            (_, Some(ceiling), None) => SpotReason::CeilingBelowOnDemand { ceiling },
            (Action::Wait, ..) if spots.is_empty() => {
                SpotReason::SpotDry { for_seconds: self.market.standing_seconds }
            }
            _ => SpotReason::Cheapest { next_best_micros: next_best.map(micros) },
        };
        SpotDecision { action, why, expected_micros: micros(cost) }
    }

    /// The spot offering with the least price and risk together: an hour costs its price, and the moves that are
    /// expected in it. Ties by name.
    fn best_spot<'b>(
        &self,
        spots: &[&'b MarketOffering],
        history: &MarketHistory,
    ) -> Option<&'b MarketOffering> {
        let hourly = |it: &MarketOffering| {
            let price = it.spot.micros();
            price + self.moving_micros(price) * 3_600.0 / expected_seconds(it, history)
        };
        spots.iter().copied().min_by(|left, right| {
            hourly(left).total_cmp(&hourly(right)).then_with(|| left.name.cmp(&right.name))
        })
    }

    /// What a move costs: a changeover at the price of the new machine, and the slack that it takes.
    fn moving_micros(&self, price: f64) -> f64 {
        let changeover = f64::from(self.run.changeover_seconds);
        let slack = self.outlook.slack_micros_per_second(self.work, self.slack, self.phase, Place::Spot);
        changeover * (price / 3_600.0 + slack)
    }
}

/// How long spot of an offering is expected to last from now on, by its age.
fn expected_seconds(offering: &MarketOffering, history: &MarketHistory) -> f64 {
    const STEP_SECONDS: u32 = 600;
    let none = Lifetimes::default();
    let lifetimes = history.lifetimes_of(&offering.name).unwrap_or(&none);
    let lost = lifetimes.chances(&none, STEP_SECONDS).lost[range_of(offering.standing_seconds)];
    f64::from(STEP_SECONDS) / lost
}

/// Rounded to whole millionths. An infinite or negative value is an error of floating point, and becomes the nearest
/// bound.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn micros(cost: f64) -> u64 {
    cost.round().clamp(0.0, 9e18) as u64
}
