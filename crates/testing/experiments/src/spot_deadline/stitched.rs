//! The windows of a region as one long market, in which many jobs buy at any time.
//!
//! Windows overlap, so they are joined in calendar order, each look once. Hours without a window are left out,
//! and the last look is followed by the first one. At a look the buyer knows only what was recorded *before* it
//! in the calendar, also in the second round.

use std::collections::BTreeMap;

use capacity::spot::{
    Action, Market, MarketHistory, MarketOffering, OutlookStakes, SpotOutlook, SpotRun, decide,
};

use super::region::{Past, Region, Zone};
use super::world::{BuyingOutcome, Contract, live};

/// How often the buyer's outlooks are made anew, for all jobs together.
const RELEARN_SECONDS: u32 = 24 * 3_600;

/// The least work for which there is an outlook of its own; then twice as much, and so on.
const OUTLOOK_SECONDS_MIN: u32 = 4 * 3_600;

/// An endless market, and the knowledge from its looks.
pub struct Stitched {
    line: Region,
    contract: Contract,
    /// The market at each look.
    markets: Vec<Market>,
    /// The knowledge at the beginning of each stretch of [`RELEARN_SECONDS`].
    stretches: Vec<Stretch>,
}

struct Stretch {
    history: MarketHistory,
    elsewhere: capacity::spot::Lifetimes,
    /// By the most work they are for.
    outlooks: BTreeMap<u32, SpotOutlook>,
}

/// Each look of overlapping windows once, in calendar order.
pub fn stitch(windows: &[Region]) -> Option<(Region, Vec<i64>)> {
    let first = windows.first()?;
    let tick = i64::from(first.tick_seconds);
    let mut looks: BTreeMap<i64, (&Region, usize)> = BTreeMap::new();
    for window in windows {
        let start = (2 * window.start + tick).div_euclid(2 * tick);
        looks.extend((start..).zip((0..window.ticks()).map(|look| (window, look))));
    }
    let zone = |index: usize| Zone {
        name: first.zones[index].name.clone(),
        available: looks.values().map(|(window, look)| window.zones[index].available[*look]).collect(),
        prices: looks.values().map(|(window, look)| window.zones[index].prices[*look]).collect(),
    };
    let zones = (0..first.zones.len()).map(zone).collect();
    let line = Region { number: 0, start: 0, zones, ..first.clone() };
    Some((line, looks.keys().map(|look| look * tick).collect()))
}

impl Stitched {
    /// Joins the windows of one region. The contract gives the cost of launches and lost machines; its sizes
    /// are not used.
    pub fn new(windows: &[Region], past: &Past, contract: Contract) -> Option<Self> {
        let (line, times) = stitch(windows)?;
        let tick = line.tick_seconds;
        let every = (RELEARN_SECONDS / tick) as usize;
        let mut history = MarketHistory::default();
        let (mut markets, mut stretches) = (Vec::new(), Vec::new());
        for (look, at) in times.into_iter().enumerate() {
            if look % every == 0 {
                let elsewhere = past.elsewhere(&line.zones, at);
                stretches.push(Stretch { history: history.clone(), elsewhere, outlooks: BTreeMap::new() });
            }
            history.look(at, line.zones.iter().map(|zone| (&zone.name, zone.available[look])));
            markets.push(market(&line, look, &history, at + i64::from(tick)));
        }
        Some(Self { line, contract, markets, stretches })
    }

    /// Hours until it begins anew.
    pub fn hours(&self) -> f64 {
        f64::from(u32::try_from(self.line.ticks()).unwrap_or(u32::MAX)) * f64::from(self.line.tick_seconds)
            / 3_600.0
    }

    /// Runs a job on one GPU that arrives `after_seconds` after the first look, with a deadline of 1.25 times
    /// its work.
    pub fn run(&mut self, after_seconds: u64, work_seconds: u32) -> BuyingOutcome {
        let tick = self.line.tick_seconds;
        let first = usize::try_from(after_seconds.div_ceil(u64::from(tick))).unwrap_or(0);
        // A deadline between two looks is kept at the first of them.
        let deadline_seconds = (work_seconds + work_seconds / 4) / tick * tick;
        let contract = Contract { work_seconds, deadline_seconds, ..self.contract };
        let window = self.part(first, (deadline_seconds / tick) as usize);
        live(&window, contract, |run, _, look| self.buy(run, (first + look) % self.line.ticks()))
    }

    fn part(&self, first: usize, looks: usize) -> Region {
        let all = self.line.ticks();
        let places = || (first..first + looks).map(|look| look % all);
        let zone = |zone: &Zone| Zone {
            name: zone.name.clone(),
            available: places().map(|look| zone.available[look]).collect(),
            prices: places().map(|look| zone.prices[look]).collect(),
        };
        Region { zones: self.line.zones.iter().map(zone).collect(), ..self.line.clone() }
    }

    fn buy(&mut self, run: &SpotRun, look: usize) -> Action {
        let (tick, on_demand) = (self.line.tick_seconds, self.line.on_demand.micros());
        let every = (RELEARN_SECONDS / tick) as usize;
        let market = &self.markets[look];
        let begin = &self.markets[look - look % every];
        let Stretch { history, elsewhere, outlooks } = &mut self.stretches[look / every];
        let work_seconds = run.work_left_seconds.max(OUTLOOK_SECONDS_MIN).next_power_of_two();
        let outlook = outlooks.entry(work_seconds).or_insert_with(|| {
            let spot = begin.offerings.iter().min_by_key(|it| (!it.has_spot, it.spot));
            let stakes = OutlookStakes {
                work_seconds,
                slack_seconds: work_seconds / 2,
                changeover_seconds: run.changeover_seconds,
                guard_seconds: u32::try_from(run.guard_seconds(tick)).unwrap_or(0),
                spot_micros: spot.map_or(on_demand, |it| it.spot.micros()),
                on_demand_micros: on_demand,
            };
            SpotOutlook::new(stakes, &history.lifetimes().chances(elsewhere, stakes.step_seconds()))
        });
        decide(run, market, history, outlook, tick).action
    }
}

fn market(line: &Region, look: usize, history: &MarketHistory, now: i64) -> Market {
    let offering = |zone: &Zone| MarketOffering {
        name: zone.name.clone(),
        has_spot: zone.available[look],
        spot: zone.prices[look],
        standing_seconds: history.standing_seconds_of(&zone.name, now),
        on_demand: line.on_demand,
    };
    Market {
        offerings: line.zones.iter().map(offering).collect(),
        standing_seconds: history.standing_seconds(now),
    }
}

#[cfg(test)]
mod tests {
    use capacity::spot::HourlyPrice;
    use simulator::traces::spot::Window;

    use super::super::{Contract, Past, regions};
    use super::{Stitched, stitch};

    const ON_DEMAND: HourlyPrice = HourlyPrice(3_000_000);
    const SPOT: HourlyPrice = HourlyPrice(1_000_000);

    fn window(number: u32, start: i64, available: Vec<bool>) -> Window {
        Window { zone: "a".into(), number, tick_seconds: 600, start, available, spot_micros: Vec::new() }
    }

    #[test]
    fn overlapping_windows_are_looked_at_once_in_calendar_order() {
        let late = window(0, 1_200, vec![true, false]);
        let early = window(1, 0, vec![false, false, true]);
        let (line, times) = stitch(&regions(&[late, early], |_| true, ON_DEMAND, SPOT)).unwrap();
        assert_eq!(line.zones[0].available, [false, false, true, false]);
        assert_eq!(times, [0, 600, 1_200, 1_800]);
    }

    #[test]
    fn a_job_longer_than_the_recording_goes_round_and_is_not_late() {
        let available: Vec<bool> = (0..60).map(|look| look % 20 < 12).collect();
        let windows = [window(0, 0, available)];
        let contract =
            Contract { work_seconds: 0, deadline_seconds: 0, changeover_seconds: 720, saves_seconds: 600 };
        let all = regions(&windows, |_| true, ON_DEMAND, SPOT);
        let mut market = Stitched::new(&all, &Past::of(&windows), contract).unwrap();
        let outcome = market.run(7_000, 20 * 3_600);
        assert!(!outcome.is_late, "{outcome:?}");
        let done = outcome.spot_hours + outcome.on_demand_hours - outcome.lost_hours;
        assert!((done - 20.0).abs() < 1e-6, "{outcome:?}");
        assert!(outcome.spot_hours > 5.0 && outcome.lost_hours > 0.0, "{outcome:?}");
    }
}
