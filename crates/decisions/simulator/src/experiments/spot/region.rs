//! Zones that a job may move between, at one time, and what was seen of them before.

use std::collections::BTreeMap;
use std::sync::Arc;

use capacity::spot::{History, HourlyPrice, Lifetimes};

use crate::traces::spot::{Series, Window};

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
    /// What on-demand costs in all of them.
    pub on_demand: HourlyPrice,
}

/// One zone.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Its name.
    pub name: Arc<str>,
    /// Whether there was spot, look by look.
    pub available: Vec<bool>,
    /// Its price, look by look, or the one for all.
    pub prices: Vec<HourlyPrice>,
}

impl Region {
    /// How many looks there are.
    pub fn ticks(&self) -> usize {
        self.zones.iter().map(|zone| zone.available.len()).min().unwrap_or(0)
    }
}

/// The windows by their number, where `is_in` says which zones belong together. A trace without prices has one for all.
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

/// The series of all zones, to learn from what was before.
#[derive(Clone, Debug)]
pub struct Past {
    series: BTreeMap<Arc<str>, Series>,
}

impl Past {
    /// Of all windows of a trace.
    pub fn of(windows: &[Window]) -> Self {
        let mut zones: BTreeMap<Arc<str>, Vec<&Window>> = BTreeMap::new();
        for window in windows {
            zones.entry(window.zone.clone()).or_default().push(window);
        }
        Self { series: zones.into_iter().map(|(zone, windows)| (zone, Series::of(windows))).collect() }
    }

    /// What was seen of some zones, together, before a moment.
    pub fn history(&self, zones: &[Zone], moment: i64) -> History {
        let mut looks: BTreeMap<i64, Vec<(&Arc<str>, bool)>> = BTreeMap::new();
        for zone in zones {
            for (at, is_up) in self.series.get(&zone.name).into_iter().flat_map(|it| it.before(moment)) {
                looks.entry(at).or_default().push((&zone.name, is_up));
            }
        }
        let mut history = History::default();
        for (at, spot) in looks {
            // Whether there is any spot is known where all zones were looked at.
            if spot.len() == zones.len() {
                history.look(at, spot);
            }
        }
        history
    }

    /// What was learned of each other zone, by itself, before a moment.
    pub fn elsewhere(&self, zones: &[Zone], moment: i64) -> Lifetimes {
        let mut all = Lifetimes::default();
        let is_other = |name: &Arc<str>| !zones.iter().any(|zone| zone.name == *name);
        for (name, series) in self.series.iter().filter(|(name, _)| is_other(name)) {
            let mut history = History::default();
            for (at, is_up) in series.before(moment) {
                history.look(at, [(name, is_up)]);
            }
            all.add(history.lifetimes());
        }
        all
    }
}
