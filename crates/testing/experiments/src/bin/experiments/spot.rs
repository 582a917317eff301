//! X4 and X5: a job with a deadline in recorded spot markets.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use capacity::spot::HourlyPrice;
use experiments::spot_deadline::{
    Baseline, Buyer, BuyingOutcome, Contract, Past, Region, live, omniscient, regions,
};
use sha2::{Digest, Sha256};
use simulator::traces::spot as traces;

use crate::common::{figure, read};

/// On-demand V100, and spot at the ratio of 0.32 where a trace has no prices.
pub const ON_DEMAND: HourlyPrice = HourlyPrice(3_060_000);
pub const SPOT: HourlyPrice = HourlyPrice(979_200);

const HOUR: u32 = 3_600;
const WORK_SECONDS: u32 = 48 * HOUR;
pub const CHANGEOVER_SECONDS: u32 = 720;

const OURS: &str = "ours";
const OMNISCIENT: &str = "omniscient";
const ALL_ON_DEMAND: &str = "on-demand";
const GREEDY: &str = "greedy";
const UNIFORM: &str = "uniform progress";
const UNIFORM_AT_ONCE: &str = "uniform progress, at once";
const ROWS: [&str; 6] = [ALL_ON_DEMAND, GREEDY, UNIFORM, UNIFORM_AT_ONCE, OURS, OMNISCIENT];

const BASELINES: [(&str, Baseline); 4] = [
    (ALL_ON_DEMAND, Baseline::OnDemand),
    (GREEDY, Baseline::Greedy),
    (UNIFORM, Baseline::UniformProgress { takes_spot_at_once: false }),
    (UNIFORM_AT_ONCE, Baseline::UniformProgress { takes_spot_at_once: true }),
];

/// X4: each zone and type alone, at three deadlines.
pub fn spot_deadline(folder: &Path, quick: bool) -> Result<(), Box<dyn Error>> {
    let windows = traces::read_single(&read_hashed(&folder.join("single_zone_windows.csv.zst"))?)?;
    let past = Past::of(&windows);
    let zones: BTreeSet<Arc<str>> = windows.iter().map(|window| window.zone.clone()).collect();
    let mut misses = 0;
    for deadline_hours in [52, 60, 70] {
        let contract = contract(deadline_hours * HOUR);
        let mut rows = Rows::default();
        for zone in &zones {
            let all = regions(&windows, |name| *name == **zone, ON_DEMAND, SPOT);
            for region in all.iter().step_by(if quick { 10 } else { 1 }) {
                // 120 s divide both the tick and the changeover, so the omniscient plan is exact.
                rows.measure(region, contract, &past, 120);
            }
        }
        rows.print(&format!("{deadline_hours} h, {} windows", rows.of(OURS).len()));
        misses += rows.misses();
        if deadline_hours == 60 {
            let hours = |name: &str| mean(rows.of(name), |it| it.spot_hours);
            println!(
                "figure x4.d60.spot_hours {:.2} h  (bar 24.0; of 48 h, changeovers not counted; same rules: greedy {:.2}, uniform progress {:.2} or {:.2}, omniscient {:.2}; published 17.2, 22.9, 27.4; saving {:.1} % at a price ratio of 0.32, uniform progress {:.1} or {:.1}, omniscient {:.1})",
                hours(OURS),
                hours(GREEDY),
                hours(UNIFORM),
                hours(UNIFORM_AT_ONCE),
                hours(OMNISCIENT),
                rows.saving_percent(OURS),
                rows.saving_percent(UNIFORM),
                rows.saving_percent(UNIFORM_AT_ONCE),
                rows.saving_percent(OMNISCIENT),
            );
        }
    }
    println!("figure x4.deadline_misses {misses} windows  (bar 0; deadlines of 52, 60 and 70 h)");
    Ok(())
}

/// The regions of X5, with their bars.
const REGIONS: [(&str, &str, u32); 3] =
    [("us-east-1", "us_east_1", 35), ("us-east-2", "us_east_2", 60), ("us-west-2", "us_west_2", 68)];

/// X5: the zones of a region together, at recorded prices.
pub fn spot_multizone(folder: &Path, quick: bool) -> Result<(), Box<dyn Error>> {
    let windows = traces::read_multi(&read_hashed(&folder.join("multi_zone_windows_with_prices.csv.zst"))?)?;
    let past = Past::of(&windows);
    for (prefix, id, bar) in REGIONS {
        let all = regions(&windows, |name| name.starts_with(prefix), ON_DEMAND, SPOT);
        let mut rows = Rows::default();
        for region in all.iter().step_by(if quick { 10 } else { 1 }) {
            // The windows end two minutes before 60 h; so does the deadline.
            let seconds = u32::try_from(region.ticks())? * region.tick_seconds;
            // Fifths of a tick, 39 s: a changeover of 702 instead of 720 s, in favour of the omniscient plan.
            rows.measure(region, contract(seconds.min(60 * HOUR)), &past, region.tick_seconds / 5);
        }
        rows.print(&format!("{prefix}, {} windows", rows.of(OURS).len()));
        let saving = |name: &str| rows.saving_percent(name);
        figure(
            &format!("x5.{id}.saving_percent"),
            saving(OURS),
            &format!(
                "bar {bar}; {} misses; same rules: greedy {:.1}, uniform progress {:.1} or {:.1}, omniscient {:.1} with changeovers of 702 instead of 720 s",
                rows.misses(),
                saving(GREEDY),
                saving(UNIFORM),
                saving(UNIFORM_AT_ONCE),
                saving(OMNISCIENT),
            ),
        );
    }
    Ok(())
}

fn contract(deadline_seconds: u32) -> Contract {
    Contract {
        work_seconds: WORK_SECONDS,
        deadline_seconds,
        changeover_seconds: CHANGEOVER_SECONDS,
        saves_seconds: 0,
    }
}

/// The text of a trace; its hash is part of the report.
pub fn read_hashed(path: &Path) -> Result<String, Box<dyn Error>> {
    let hash = format!("{:x}", Sha256::digest(std::fs::read(path)?));
    eprintln!("{} sha256 {hash}", path.file_name().unwrap_or_default().display());
    read(path)
}

/// The outcome of each policy in each window.
#[derive(Default)]
struct Rows(BTreeMap<&'static str, Vec<BuyingOutcome>>);

impl Rows {
    fn measure(&mut self, region: &Region, contract: Contract, past: &Past, unit_seconds: u32) {
        for (name, baseline) in BASELINES {
            let outcome = live(region, contract, |run, market, _| {
                baseline.buy(contract, region.tick_seconds, run, market)
            });
            self.0.entry(name).or_default().push(outcome);
        }
        let mut buyer = Buyer::new(region, past);
        let ours = live(region, contract, |run, market, tick| buyer.buy(run, market, tick));
        self.0.entry(OURS).or_default().push(ours);
        let best = omniscient(region, contract, unit_seconds);
        self.0.entry(OMNISCIENT).or_default().push(BuyingOutcome {
            spot_hours: best.spot_hours,
            on_demand_hours: f64::from(contract.work_seconds) / f64::from(HOUR) - best.spot_hours,
            micros: best.micros,
            ..BuyingOutcome::default()
        });
    }

    fn of(&self, name: &str) -> &[BuyingOutcome] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    fn misses(&self) -> usize {
        self.of(OURS).iter().filter(|it| it.is_late).count()
    }

    /// The saving against on-demand from beginning to end, with its changeover.
    fn saving_percent(&self, name: &str) -> f64 {
        100.0 * (1.0 - mean(self.of(name), |it| it.micros) / mean(self.of(ALL_ON_DEMAND), |it| it.micros))
    }

    fn print(&self, title: &str) {
        eprintln!("{title}");
        eprintln!(
            "                             spot h          on-demand h     changeovers h  launches  saving %  misses"
        );
        for name in ROWS {
            let all = self.of(name);
            eprintln!(
                "  {name:26} {:5.2} ± {:5.2}   {:5.2} ± {:5.2}   {:13.2}  {:8.1}  {:8.1}  {:6}",
                mean(all, |it| it.spot_hours),
                deviation(all, |it| it.spot_hours),
                mean(all, |it| it.on_demand_hours),
                deviation(all, |it| it.on_demand_hours),
                mean(all, |it| it.changeover_hours),
                mean(all, |it| f64::from(it.launches)),
                self.saving_percent(name),
                all.iter().filter(|it| it.is_late).count(),
            );
        }
    }
}

fn mean(all: &[BuyingOutcome], value: impl Fn(&BuyingOutcome) -> f64) -> f64 {
    all.iter().map(value).sum::<f64>() / f64::from(u32::try_from(all.len()).unwrap_or(1).max(1))
}

fn deviation(all: &[BuyingOutcome], value: impl Fn(&BuyingOutcome) -> f64) -> f64 {
    let middle = mean(all, &value);
    mean(all, |it| (value(it) - middle).powi(2)).sqrt()
}
