//! X6: two months of the Philly trace, a share of them on recorded spot.

use std::error::Error;
use std::path::Path;

use experiments::spot_deadline::{Contract, Past, Stitched, regions};
use experiments::{blended_cost, pool_queue, quota_vs_pool};
use simulator::traces::spot as traces;
use simulator::{Workload, policies};

use crate::common::{figure, the_policy};
use crate::spot::{CHANGEOVER_SECONDS, ON_DEMAND, SPOT, read_hashed};

/// The region is our choice: the claim is for this one, and the others are printed too.
const CLAIMED: &str = "us-west-2";
const REGIONS: [&str; 3] = ["us-east-1", "us-east-2", CLAIMED];

/// The shares with their ids and bars.
const SHARES: [(u64, &str, u32); 2] = [(500, "half", 45), (800, "most", 59)];

/// The cost of a job on spot, in on-demand GPU-seconds for all of its GPUs.
struct OnSpot {
    region: &'static str,
    costs: Vec<f64>,
}

pub fn blended_cost(folder: &Path, seeds: u64) -> Result<(), Box<dyn Error>> {
    let trace = read_hashed(&folder.join("philly-compact/philly.csv.zst"))?;
    let table = std::fs::read_to_string(folder.join("philly-compact/philly_vc_nodes.csv"))?;
    let teams = blended_cost::teams(&table, blended_cost::PARTITIONED_NODES)?;
    let all = pool_queue::read_by_team(&trace, &table, 80, pool_queue::REPORTED)?;
    let workload = blended_cost::that_fit(&all, &teams);
    let fifo = policies::preset("fifo").ok_or("no such policy")?;
    let partitioned = blended_cost::partitioned_cost(&workload, &teams, &fifo);
    eprintln!(
        "{} jobs, {} that fit on no team's own nodes left out; {} nodes partitioned: {:.1} % useful",
        workload.jobs.len(),
        all.jobs.len() - workload.jobs.len(),
        teams.iter().map(|team| team.nodes).sum::<u32>(),
        100.0 / partitioned
    );
    let on_spot = on_spot(folder, &workload)?;
    for (thousandths, id, bar) in SHARES {
        blend(&workload, &teams, partitioned, &on_spot, (thousandths, id, bar), seeds)?;
    }
    Ok(())
}

/// The cost of every job that could be drawn, in each region: it does not depend on the other drawn jobs.
fn on_spot(folder: &Path, workload: &Workload) -> Result<Vec<OnSpot>, Box<dyn Error>> {
    let path = folder.join("spot-cant-be-late/multi_zone_windows_with_prices.csv.zst");
    let windows = traces::read_multi(&read_hashed(&path)?)?;
    let past = Past::of(&windows);
    let contract = Contract {
        work_seconds: 0,
        deadline_seconds: 0,
        changeover_seconds: CHANGEOVER_SECONDS,
        saves_seconds: pool_queue::SAVES_SECONDS,
    };
    let (first, _) = blended_cost::arrivals(workload);
    let mut all = Vec::new();
    for region in REGIONS {
        let parts = regions(&windows, |name| name.starts_with(region), ON_DEMAND, SPOT);
        let mut market = Stitched::new(&parts, &past, contract).ok_or("a region without windows")?;
        let (mut costs, mut late, mut hours) = (Vec::new(), 0, [0.0; 4]);
        for job in &workload.jobs {
            if job.run_seconds < blended_cost::SPOT_SECONDS_MIN {
                costs.push(0.0);
                continue;
            }
            let after = (job.submitted.as_second() - first).unsigned_abs();
            let outcome = market.run(after, job.run_seconds);
            let gpus = f64::from(u32::try_from(blended_cost::bought_gpus(blended_cost::gpus(job)))?);
            costs.push(outcome.micros / ON_DEMAND.micros() * 3_600.0 * gpus);
            late += u32::from(outcome.is_late);
            let parts =
                [outcome.spot_hours, outcome.on_demand_hours, outcome.changeover_hours, outcome.lost_hours];
            hours.iter_mut().zip(parts).for_each(|(sum, part)| *sum += gpus * part);
        }
        let sum: f64 = hours[..3].iter().sum();
        let percent = |part: f64| 100.0 * part / sum;
        eprintln!(
            "{region}: {:.0} h of looks, then anew; of the GPU-hours paid for {:.1} % spot, {:.1} % on-demand, {:.2} % changeovers; {:.2} % lost work; {late} late",
            market.hours(),
            percent(hours[0]),
            percent(hours[1]),
            percent(hours[2]),
            percent(hours[3])
        );
        all.push(OnSpot { region, costs });
    }
    Ok(all)
}

fn blend(
    workload: &Workload,
    teams: &[quota_vs_pool::Team],
    partitioned: f64,
    on_spot: &[OnSpot],
    (thousandths, id, bar): (u64, &str, u32),
    seeds: u64,
) -> Result<(), Box<dyn Error>> {
    let policy = the_policy()?;
    let all: u64 = workload.jobs.iter().map(blended_cost::gpu_seconds).sum();
    let mut savings: Vec<Vec<f64>> = vec![Vec::new(); on_spot.len()];
    let mut pools = Vec::new();
    for seed in 1..=seeds {
        let drawn = blended_cost::draw(workload, thousandths, seed);
        let pool = blended_cost::pool(workload, teams, &drawn, &policy);
        let pairs = || workload.jobs.iter().zip(&drawn).enumerate().filter(|(_, (_, drawn))| **drawn);
        let work: u64 = pairs().map(|(_, (job, _))| blended_cost::gpu_seconds(job)).sum();
        let share = simulator::ratio(work, all);
        for (region, savings) in on_spot.iter().zip(&mut savings) {
            let cost: f64 = pairs().map(|(number, _)| region.costs[number]).sum();
            let spot = cost / simulator::ratio(work, 1);
            savings.push(blended_cost::saving_percent(share, spot, pool.cost, partitioned));
        }
        eprintln!(
            "share {share:.3}, draw {seed}: {} nodes {:.1} % useful, wait {:.0} s, {} never started; spot saves {:?}",
            pool.nodes,
            100.0 / pool.cost,
            pool.wait_mean_seconds,
            pool.never_started,
            savings.iter().filter_map(|all| all.last()).map(|it| format!("{it:.1}")).collect::<Vec<_>>()
        );
        pools.push(pool);
    }
    let mut rows = Vec::new();
    let mut claimed = 0.0;
    for (region, savings) in on_spot.iter().zip(&savings) {
        let (mean, deviation) = mean_and_deviation(savings);
        rows.push(format!("{} {mean:.2} ± {deviation:.2}", region.region));
        if region.region == CLAIMED {
            claimed = mean;
        }
    }
    let of = |value: &dyn Fn(&blended_cost::Pool) -> f64| {
        mean_and_deviation(&pools.iter().map(value).collect::<Vec<_>>()).0
    };
    figure(
        &format!("x6.{id}.saving_percent"),
        claimed,
        &format!(
            "bar {bar}; simulated; spot-eligible share {:.1} of the GPU-hours, jobs of 2 h and more, {seeds} draws; claimed for {CLAIMED}: {}; windows in calendar order, each look once, wrapped; deadlines 1.25 x the length; against {} on-demand nodes in static partitions, {:.1} % useful; the rest in a pool of {:.0} on-demand nodes, {:.1} % useful, mean wait {:.0} s",
            simulator::ratio(thousandths, 1_000),
            rows.join(", "),
            teams.iter().map(|team| team.nodes).sum::<u32>(),
            100.0 / partitioned,
            of(&|pool| f64::from(pool.nodes)),
            of(&|pool| 100.0 / pool.cost),
            of(&|pool| pool.wait_mean_seconds),
        ),
    );
    Ok(())
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = f64::from(u32::try_from(values.len()).unwrap_or(1).max(1));
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}
