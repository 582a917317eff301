//! X4 and X5: a job with a deadline in recorded spot markets.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use capacity::spot::HourlyPrice;
use simulator::experiments::spot::{
    Baseline, Buyer, Contract, Outcome, Past, Region, live, omniscient, regions,
};
use simulator::traces::spot as traces;

use crate::{figure, read};

/// On-demand V100, and the published ratio of 0.32.
const ON_DEMAND: HourlyPrice = HourlyPrice(3_060_000);
const SPOT: HourlyPrice = HourlyPrice(979_200);

const HOUR: u32 = 3_600;
const CHANGEOVER_SECONDS: u32 = 720;

const BASELINES: [(&str, Baseline); 4] = [
    ("on-demand", Baseline::OnDemand),
    ("greedy", Baseline::Greedy),
    ("uniform progress", Baseline::UniformProgress { takes_spot_at_once: false }),
    ("uniform progress, at once", Baseline::UniformProgress { takes_spot_at_once: true }),
];

/// X4: one zone at a time.
pub fn spot_deadline(folder: &Path, quick: bool) -> Result<(), Box<dyn Error>> {
    let windows = traces::read_single(&read(&folder.join("single_zone_windows.csv.zst"))?)?;
    let past = Past::of(&windows);
    let zones: std::collections::BTreeSet<_> = windows.iter().map(|window| window.zone.clone()).collect();
    let mut misses = 0;
    for deadline in [52, 60, 70] {
        let contract = Contract {
            work_seconds: 48 * HOUR,
            deadline_seconds: deadline * HOUR,
            changeover_seconds: CHANGEOVER_SECONDS,
        };
        let mut rows = Rows::default();
        for zone in &zones {
            let all = regions(&windows, |name| *name == **zone, ON_DEMAND, SPOT);
            let mut mine = Rows::default();
            for region in all.iter().step_by(if quick { 10 } else { 1 }) {
                mine.measure(region, contract, &past, 120);
            }
            eprint!("{}", mine.table(&format!("{zone} {deadline} h")));
            rows.merge(mine);
        }
        eprint!("{}", rows.table(&format!("{deadline} h")));
        misses += rows.row("ours").iter().filter(|it| it.is_late).count();
        if deadline == 60 {
            let spot = |name: &str| mean(rows.row(name), |it| it.spot_hours);
            println!("figure x4.d60.spot_hours {:.2} h  (bar 24.0)", spot("ours"),);
        }
    }
    println!("figure x4.deadline_misses {misses} windows  (bar 0)");
    Ok(())
}

/// X5: the zones of a region.
pub fn spot_multizone(folder: &Path, quick: bool) -> Result<(), Box<dyn Error>> {
    let windows = traces::read_multi(&read(&folder.join("multi_zone_windows_with_prices.csv.zst"))?)?;
    let past = Past::of(&windows);
    for (prefix, id, bar) in
        [("us-east-1", "us_east_1", 35), ("us-east-2", "us_east_2", 60), ("us-west-2", "us_west_2", 68)]
    {
        let all = regions(&windows, |name| name.starts_with(prefix), ON_DEMAND, SPOT);
        let mut rows = Rows::default();
        for region in all.iter().step_by(if quick { 10 } else { 1 }) {
            let deadline = u32::try_from(region.ticks())? * region.tick_seconds;
            let contract = Contract {
                work_seconds: 48 * HOUR,
                deadline_seconds: deadline,
                changeover_seconds: CHANGEOVER_SECONDS,
            };
            rows.measure(region, contract, &past, 195);
        }
        eprint!("{}", rows.table(prefix));
        figure(
            &format!("x5.{id}.saving_percent"),
            rows.saving_percent("ours"),
            &format!("bar {bar}; {} misses", rows.row("ours").iter().filter(|it| it.is_late).count()),
        );
    }
    Ok(())
}

#[derive(Default)]
struct Rows(BTreeMap<&'static str, Vec<Outcome>>);

impl Rows {
    fn measure(&mut self, region: &Region, contract: Contract, past: &Past, unit: u32) {
        for (name, baseline) in BASELINES {
            let outcome = live(region, contract, |run, market, _| {
                baseline.buy(contract, region.tick_seconds, run, market)
            });
            self.0.entry(name).or_default().push(outcome);
        }
        let elsewhere = past.elsewhere(&region.zones, region.start);
        let mut buyer = Buyer::new(region, past, &elsewhere);
        let outcome = live(region, contract, |run, market, tick| buyer.buy(contract, run, market, tick));
        self.0.entry("ours").or_default().push(outcome);
        if std::env::var("NO_ORACLE").is_err() {
            let best = omniscient(region, contract, unit);
            self.0.entry("omniscient").or_default().push(Outcome {
                spot_hours: best.spot_hours,
                on_demand_hours: 48.0 - best.spot_hours,
                micros: best.micros,
                ..Outcome::default()
            });
        }
    }
    fn merge(&mut self, other: Self) {
        for (name, outcomes) in other.0 {
            self.0.entry(name).or_default().extend(outcomes);
        }
    }
    fn row(&self, name: &str) -> &[Outcome] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
    fn saving_percent(&self, name: &str) -> f64 {
        100.0 * (1.0 - mean(self.row(name), |it| it.micros) / mean(self.row("on-demand"), |it| it.micros))
    }
    fn table(&self, title: &str) -> String {
        let mut text = format!("{title}\n");
        for (name, all) in &self.0 {
            text += &format!(
                "  {name:26} spot {:5.2} on-demand {:5.2} changeovers {:4.2} h, launches {:4.1}, misses {}, saving {:.1} %\n",
                mean(all, |it| it.spot_hours),
                mean(all, |it| it.on_demand_hours),
                mean(all, |it| it.changeover_hours),
                mean(all, |it| f64::from(it.launches)),
                all.iter().filter(|it| it.is_late).count(),
                self.saving_percent(name)
            );
        }
        text
    }
}

fn mean(all: &[Outcome], value: impl Fn(&Outcome) -> f64) -> f64 {
    all.iter().map(value).sum::<f64>() / f64::from(u32::try_from(all.len()).unwrap_or(1).max(1))
}
