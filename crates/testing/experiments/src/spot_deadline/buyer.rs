//! Buys by `capacity::spot` in a window: looks, learns and decides.

use capacity::spot::{Action, Lifetimes, Market, MarketHistory, OutlookStakes, SpotOutlook, SpotRun, decide};

use super::region::{Past, Region};

/// How often the outlook is computed anew, from everything seen until then.
const RELEARN_SECONDS: u32 = 6 * 3_600;

/// A buyer and its knowledge.
#[derive(Debug)]
pub struct Buyer<'a> {
    region: &'a Region,
    history: MarketHistory,
    elsewhere: Lifetimes,
    outlook: Option<(usize, SpotOutlook)>,
}

impl<'a> Buyer<'a> {
    /// A buyer that knows the time before the window.
    pub fn new(region: &'a Region, past: &Past) -> Self {
        let history = past.history(&region.zones, region.start);
        Self { region, history, elsewhere: past.elsewhere(&region.zones, region.start), outlook: None }
    }

    /// Looks at the market and decides.
    pub fn buy(&mut self, run: &SpotRun, market: &Market, tick: usize) -> Action {
        let tick_seconds = self.region.tick_seconds;
        let at = self.region.start + i64::from(tick_seconds) * i64::try_from(tick).unwrap_or(0);
        self.history.look(at, market.offerings.iter().map(|it| (&it.name, it.has_spot)));
        let now = at + i64::from(tick_seconds);
        let mut market = market.clone();
        market.standing_seconds = self.history.standing_seconds(now);
        for offering in &mut market.offerings {
            offering.standing_seconds = self.history.standing_seconds_of(&offering.name, now);
        }
        let epoch = tick / (RELEARN_SECONDS / tick_seconds) as usize;
        if self.outlook.as_ref().is_none_or(|(made, _)| *made != epoch) {
            self.outlook = Some((epoch, self.outlook(run, &market)));
        }
        let Some((_, outlook)) = &self.outlook else { return Action::Wait };
        decide(run, &market, &self.history, outlook, tick_seconds).action
    }

    fn outlook(&self, run: &SpotRun, market: &Market) -> SpotOutlook {
        // The cheapest offering, available or not.
        let spot =
            market.offerings.iter().min_by_key(|it| (!it.has_spot, it.spot)).map(|it| it.spot.micros());
        let on_demand = self.region.on_demand.micros();
        let stakes = OutlookStakes {
            work_seconds: run.work_left_seconds,
            slack_seconds: u32::try_from(run.laxity_seconds()).unwrap_or(0),
            changeover_seconds: run.changeover_seconds,
            guard_seconds: u32::try_from(run.guard_seconds(self.region.tick_seconds)).unwrap_or(0),
            spot_micros: spot.unwrap_or(on_demand),
            on_demand_micros: on_demand,
        };
        SpotOutlook::new(stakes, &self.history.lifetimes().chances(&self.elsewhere, stakes.step_seconds()))
    }
}
