//! X2, X3 and start-time forecasts: two months of the Philly trace.

use std::error::Error;
use std::fmt;
use std::path::Path;

use experiments::{pool_queue, quota_vs_pool, start_forecasts};
use placement::Policy;
use simulator::{Workload, policies};

use crate::common::{figure, read, the_policy};

pub fn philly_pool_queue(folder: &Path, copies: u64) -> Result<(), Box<dyn Error>> {
    let trace = read(&folder.join("philly.csv.zst"))?;
    let teams = std::fs::read_to_string(folder.join("philly_vc_nodes.csv"))?;
    for nodes in [72, 80] {
        let workload = pool_queue::read(&trace, &teams, nodes, pool_queue::REPORTED)?;
        eprintln!("{} jobs on {nodes} nodes, mean of {copies} copies", workload.jobs.len());
        let run = |name: &str, workload: &Workload, policy: &Policy| {
            let means = Means::of(&pool_queue::runs(workload, policy, copies));
            eprintln!("n{nodes} {name}: {means}");
            means
        };
        let preset = |name: &str| policies::preset(name).ok_or("no such policy");
        let fifo = run("fifo", &workload, &preset("fifo")?);
        let id = |what: &str| format!("x2.n{nodes}.{what}");
        seconds(&id("fifo_wait_mean_seconds"), fifo.mean_seconds, "published 90,726 at 72, 18,991 at 80");
        let skip = run("skip-ahead", &workload, &preset("skip-ahead")?);
        seconds(&id("skip_wait_mean_seconds"), skip.mean_seconds, "published 7,250 at 72, 3,704 at 80");
        let ours = run("ours", &workload, &the_policy()?);
        assert!(ours.preemptions == 0.0, "no job saves its state, and {} gave way", ours.preemptions);
        let bar = "bar at 72: 5,000; perfect knowledge: SJF 2,533, SRTF 738 at 72, 1,289 and 322 at 80; preemptions: 0";
        seconds(&id("wait_mean_seconds"), ours.mean_seconds, bar);
        seconds(&id("wait_p99_seconds"), ours.p99_seconds, "bar at 72: 105,000, skip-ahead's");
        println!(
            "figure {} {:.3} times  (bar at 72: 1.5; {:.0} s against FIFO's {:.0} s; skip-ahead's {:.0} s)",
            id("wait_max_over_fifo"),
            ours.max_seconds / fifo.max_seconds,
            ours.max_seconds,
            fifo.max_seconds,
            skip.max_seconds
        );
        let second = run("ours, all save their state", &pool_queue::saving(&workload), &the_policy()?);
        let cost = format!(
            "all save their state every {} s and restart in {} s: {:.0} preemptions lose {:.2} %; SRTF with perfect knowledge, for nothing: 738 at 72, 322 at 80",
            pool_queue::SAVES_SECONDS,
            pool_queue::RESTART_SECONDS,
            second.preemptions,
            second.preempted_percent
        );
        seconds(&id("preemptive_wait_mean_seconds"), second.mean_seconds, &cost);
    }
    Ok(())
}

/// Means over the copies of a trace.
struct Means {
    mean_seconds: f64,
    deviation_seconds: f64,
    p50_seconds: f64,
    p90_seconds: f64,
    p99_seconds: f64,
    max_seconds: f64,
    preemptions: f64,
    preempted_percent: f64,
    exact: pool_queue::Run,
}

impl Means {
    fn of(runs: &[pool_queue::Run]) -> Self {
        let count = f64::from(u32::try_from(runs.len()).unwrap_or(1).max(1));
        let of = |value: &dyn Fn(&pool_queue::Run) -> f64| runs.iter().map(value).sum::<f64>() / count;
        let mean_seconds = of(&|run| run.wait.mean_seconds);
        Self {
            mean_seconds,
            deviation_seconds: of(&|run| (run.wait.mean_seconds - mean_seconds).powi(2)).sqrt(),
            p50_seconds: of(&|run| f64::from(run.wait.p50_seconds)),
            p90_seconds: of(&|run| f64::from(run.wait.p90_seconds)),
            p99_seconds: of(&|run| f64::from(run.wait.p99_seconds)),
            max_seconds: of(&|run| f64::from(run.wait.max_seconds)),
            preemptions: of(&|run| f64::from(u32::try_from(run.preemptions).unwrap_or(u32::MAX))),
            preempted_percent: of(&|run| run.preempted_percent),
            exact: runs.first().copied().unwrap_or_default(),
        }
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mean_seconds, deviation_seconds, p50_seconds, p90_seconds, p99_seconds, max_seconds, ..
        } = self;
        write!(
            f,
            "wait {mean_seconds:.0} ± {deviation_seconds:.0} p50 {p50_seconds:.0} p90 {p90_seconds:.0} p99 {p99_seconds:.0} max {max_seconds:.0} s, "
        )?;
        write!(
            f,
            "{:.0} preemptions, {:.2} % lost; the trace as it is: {:?}",
            self.preemptions, self.preempted_percent, self.exact
        )
    }
}

fn seconds(id: &str, value: f64, reference: &str) {
    println!("figure {id} {value:.0} s  ({reference})");
}

pub fn start_forecasts(folder: &Path, jobs: usize) -> Result<(), Box<dyn Error>> {
    let trace = read(&folder.join("philly.csv.zst"))?;
    let teams = std::fs::read_to_string(folder.join("philly_vc_nodes.csv"))?;
    let workload = pool_queue::read(&trace, &teams, 72, pool_queue::REPORTED)?;
    let policy = the_policy()?;
    let mut progress = |made: usize| {
        if made.is_multiple_of(100) {
            eprintln!("{made} of {jobs} forecasts");
        }
    };
    let found = start_forecasts::measure(&workload, &policy, jobs, 42, &mut progress);
    eprintln!("{found:?}");
    let [p50, p90] = found.covered_percent;
    let of = format!("{} of {} jobs that waited over 60 s", found.forecasts, found.eligible);
    figure("eta.p50_coverage_percent", p50, &format!("bar: 40 to 60; {of}"));
    figure("eta.p90_coverage_percent", p90, &format!("bar: 85 to 95; {of}"));
    let [naive, naive_long] = found.naive_pinball_seconds;
    let over = found.pinball_seconds / naive;
    let strict = found.pinball_seconds / naive_long;
    println!(
        "figure eta.pinball_over_naive {over:.3} times  (bar: 0.7; {:.0} s, naive {naive:.0} s; {strict:.3} of the naive one that looks at waits over 60 s only)",
        found.pinball_seconds
    );
    Ok(())
}

/// The grace of the pool: with the protection of a borrower that has just started and the time of an eviction,
/// it stays within the bound.
const GRACE_SECONDS: u32 = 240;
const MIN_RUN_SECONDS: u32 = 240;

pub fn philly_quota_vs_pool(folder: &Path, quick: bool) -> Result<(), Box<dyn Error>> {
    let trace = read(&folder.join("philly.csv.zst"))?;
    let table = std::fs::read_to_string(folder.join("philly_vc_nodes.csv"))?;
    let teams = quota_vs_pool::teams(&table, quota_vs_pool::LAYOUT_NODES)?;
    let workload =
        pool_queue::read_by_team(&trace, &table, quota_vs_pool::LAYOUT_NODES, pool_queue::REPORTED)?;
    let fifo = policies::preset("fifo").ok_or("no such policy")?;
    let policy = the_policy()?;
    let bars = quota_vs_pool::partitioned(&workload, &teams, &fifo);
    let mut smallest = None;
    // More nodes are not always better, because small changes affect everything: all tried sizes are printed.
    let tried: Vec<u32> = if quick { vec![74] } else { (66..=78).rev().step_by(2).collect() };
    for nodes in tried {
        let terrain =
            quota_vs_pool::Terrain { nodes, grace_seconds: GRACE_SECONDS, min_run_seconds: MIN_RUN_SECONDS };
        let pooled = quota_vs_pool::pooled(&workload, &teams, terrain, &policy);
        let longer = print_pool(nodes, &teams, &bars, &pooled);
        if longer == 0 && pooled.entitled_late == 0 {
            smallest = Some((nodes, pooled));
        }
    }
    let bound = quota_vs_pool::work_bound_nodes(&workload);
    let Some((nodes, pooled)) = smallest else {
        figure("x3.nodes_saved_percent", 0.0, "bar 30; in no pool that was tried all teams wait no longer");
        return Ok(());
    };
    let saved = |nodes: u32| 100.0 * (1.0 - f64::from(nodes) / f64::from(quota_vs_pool::LAYOUT_NODES));
    figure(
        "x3.nodes_saved_percent",
        saved(nodes),
        &format!(
            "bar 30; {nodes} of {} nodes, longest entitled wait {} s of {}; reclaim after {GRACE_SECONDS} s; all save their state every {} s and restart in {} s: {:.2} % lost; the work alone fills {bound} nodes: {:.1}",
            quota_vs_pool::LAYOUT_NODES,
            pooled.entitled_wait_seconds_max,
            quota_vs_pool::BOUND_SECONDS,
            pool_queue::SAVES_SECONDS,
            pool_queue::RESTART_SECONDS,
            pooled.preempted_percent,
            saved(bound)
        ),
    );
    Ok(())
}

/// Prints the outcome of a pool, and returns how many teams waited longer than on their own nodes.
fn print_pool(
    nodes: u32,
    teams: &[quota_vs_pool::Team],
    bars: &[f64],
    pooled: &quota_vs_pool::Pooled,
) -> usize {
    eprintln!(
        "{nodes} nodes: {} entitled gangs waited, {} of them beyond {} s, the longest {} s; {} preemptions, {:.2} % lost",
        pooled.entitled,
        pooled.entitled_late,
        quota_vs_pool::BOUND_SECONDS,
        pooled.entitled_wait_seconds_max,
        pooled.preemptions,
        pooled.preempted_percent
    );
    eprintln!("  team     nodes  own wait s  pool wait s");
    let mut longer = 0;
    for ((team, own), pool) in teams.iter().zip(bars).zip(&pooled.wait_mean_seconds) {
        longer += usize::from(pool > own);
        let mark = if pool > own { "  longer" } else { "" };
        eprintln!("  {:8} {:5}  {own:10.0}  {pool:11.0}{mark}", team.name, team.nodes);
    }
    longer
}
