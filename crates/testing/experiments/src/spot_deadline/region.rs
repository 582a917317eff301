//! The zones between which a job may move, and their history.

use std::collections::BTreeMap;
use std::sync::Arc;

use capacity::spot::{HourlyPrice, Lifetimes, MarketHistory};
use simulator::traces::spot::{SpotSeries, Window};

/// Windows of the same time.
#[derive(Clone, Debug)]
pub struct Region {
    /// Their number.
    pub number: u32,
    /// The first look.
    pub start: i64,
    /// Time between looks.
    pub tick_seconds: u32,
    /// The zones, by name.
    pub zones: Vec<Zone>,
    /// The on-demand price in all of them.
    pub on_demand: HourlyPrice,
}

/// One zone.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Its name.
    pub name: Arc<str>,
    /// Whether there was spot, look by look.
    pub available: Vec<bool>,
    /// Its price, look by look, or one price for all.
    pub prices: Vec<HourlyPrice>,
}

impl Region {
    /// The number of looks.
    pub fn ticks(&self) -> usize {
        self.zones.iter().map(|zone| zone.available.len()).min().unwrap_or(0)
    }
}

/// The windows by number; `is_in` selects the zones. A trace without prices has one price for all.
pub fn regions(
    windows: &[Window],
    is_in: impl Fn(&str) -> bool,
    on_demand: HourlyPrice,
    spot: HourlyPrice,
) -> Vec<Region> {
    let mut regions: BTreeMap<u32, Region> = BTreeMap::new();
    for window in windows.iter().filter(|window| is_in(&window.zone)) {
        let price = |tick: usize| window.spot_micros.get(tick).map_or(spot, |micros| HourlyPrice(*micros));
        let zone = Zone {
            name: window.zone.clone(),
            available: window.available.clone(),
            prices: (0..window.available.len()).map(price).collect(),
        };
        let region = regions.entry(window.number).or_insert_with(|| Region {
            number: window.number,
            start: window.start,
            tick_seconds: window.tick_seconds,
            zones: Vec::new(),
            on_demand,
        });
        region.zones.push(zone);
        region.zones.sort_by(|left, right| left.name.cmp(&right.name));
    }
    regions.into_values().collect()
}

/// The series of all zones, to learn from the past.
#[derive(Clone, Debug)]
pub struct Past {
    series: BTreeMap<Arc<str>, SpotSeries>,
}

impl Past {
    /// The past in all windows of a trace.
    pub fn of(windows: &[Window]) -> Self {
        let mut zones: BTreeMap<Arc<str>, Vec<&Window>> = BTreeMap::new();
        for window in windows {
            zones.entry(window.zone.clone()).or_default().push(window);
        }
        Self { series: zones.into_iter().map(|(zone, windows)| (zone, SpotSeries::of(windows))).collect() }
    }

    /// The history of some zones together, before a moment.
    pub fn history(&self, zones: &[Zone], moment: i64) -> MarketHistory {
        let mut looks: BTreeMap<i64, Vec<(&Arc<str>, bool)>> = BTreeMap::new();
        for zone in zones {
            for (at, is_up) in self.series.get(&zone.name).into_iter().flat_map(|it| it.before(moment)) {
                looks.entry(at).or_default().push((&zone.name, is_up));
            }
        }
        let mut history = MarketHistory::default();
        for (at, spot) in looks {
            // Whether there is any spot is known only if all zones were seen.
            if spot.len() == zones.len() {
                history.look(at, spot);
            }
        }
        history
    }

    /// The lifetimes in each other zone, by itself, before a moment.
    pub fn elsewhere(&self, zones: &[Zone], moment: i64) -> Lifetimes {
        let mut all = Lifetimes::default();
        let is_other = |name: &Arc<str>| !zones.iter().any(|zone| zone.name == *name);
        for (name, series) in self.series.iter().filter(|(name, _)| is_other(name)) {
            let mut history = MarketHistory::default();
            for (at, is_up) in series.before(moment) {
                history.look(at, [(name, is_up)]);
            }
            all.add(history.lifetimes());
        }
        all
    }
}
