//! Experiments on workloads from a seed: offered changes, reclaim, energy, and a million jobs.

use std::error::Error;

use cluster_model::ClusterState;
use experiments::{offered_changes, powered_nodes, reclaim_week};
use placement::{ConsolidationPolicy, Plan, Policy};
use simulator::synthetic::Recipe;
use simulator::{Options, Simulation, policies};

use crate::common::{figure, the_policy};

pub fn offered_changes(cases: u64) {
    let mut judge = |state: &ClusterState, plan: &Plan, policy: &Policy| {
        let violations = plan_check::check_plan(state, plan, policy);
        for violation in &violations {
            eprintln!("why: {violation}");
        }
        violations.is_empty()
    };
    let found = offered_changes::measure(0, cases, &mut judge);
    eprintln!("{found:?}");
    let percent = |part: u64, whole: u64| 100.0 * simulator::ratio(part, whole);
    figure(
        "why.changes_verified_percent",
        percent(found.verified, found.offered),
        &format!("bar: 100; {} changes offered in {} cases", found.offered, found.cases),
    );
    figure(
        "why.recall_percent",
        percent(found.found, found.could_start),
        &format!("bar: 95; {} gangs that exhaustive search can start", found.could_start),
    );
}

pub fn week_of_reclaim(seeds: std::ops::Range<u64>) -> Result<(), Box<dyn Error>> {
    let policy = the_policy()?;
    let (mut repeats, mut worst) = (0, 0.0_f64);
    for seed in seeds.clone() {
        let week = reclaim_week::week(seed, &policy);
        eprintln!("thrash, seed {seed}: {week:?}");
        repeats += week.repeats;
        worst = worst.max(week.preempted_percent);
    }
    let count = seeds.end - seeds.start;
    println!("figure thrash.repeat_preemptions {repeats} jobs  (bar 0; {count} weeks)");
    figure("thrash.preempted_percent", worst, &format!("bar 2; the worst of {count} weeks"));
    Ok(())
}

/// The same policy in the mode that saves energy: nodes that are on are filled first, gangs are moved at once
/// to make room, and nearly empty nodes are emptied while no gang waits. It plans every minute, so that a moved
/// gang has just saved its state.
pub fn days_and_nights(seeds: std::ops::Range<u64>) -> Result<(), Box<dyn Error>> {
    let plain = the_policy()?;
    let mut saving = Policy { packing: placement::Packing::LeastPower, ..plain.clone() };
    saving.consolidation = ConsolidationPolicy { moves_max: 8, after_seconds: 0 };
    let week = |seed, policy: &Policy, tidy_seconds| {
        let week = powered_nodes::week(seed, powered_nodes::LOAD_PERCENT, policy, tidy_seconds);
        eprintln!("energy, seed {seed}, {tidy_seconds:?}, cap {:?} W: {week:?}", policy.energy.cap_watts);
        week
    };
    let tidy = Some(60);
    let (mut on, mut on_plain, mut least) = (0.0, 0.0, 0.0);
    let (mut waited, mut waited_plain, mut took, mut took_plain) = (0.0, 0.0, 0.0, 0.0);
    for seed in seeds {
        let (with, without) = (week(seed, &saving, tidy), week(seed, &plain, None));
        let mut capped = saving.clone();
        let cap = with.watts_max * 8 / 10;
        capped.energy.cap_watts = Some(cap);
        let under_cap = week(seed, &capped, tidy);
        assert!(
            under_cap.watts_max <= cap,
            "seed {seed}: {} W are drawn under a cap of {cap} W",
            under_cap.watts_max
        );
        on += with.node_hours;
        on_plain += without.node_hours;
        // Work that was lost and done again does not raise the bound.
        least += with.node_hours_min.min(without.node_hours_min);
        waited += with.wait_mean_seconds;
        waited_plain += without.wait_mean_seconds;
        took += with.completion_mean_seconds;
        took_plain += without.completion_mean_seconds;
    }
    println!(
        "figure energy.node_hours_over_bound {:.3} times  (bar 1.05; without the mode {:.3}; cap never exceeded)",
        on / least,
        on_plain / least
    );
    println!(
        "figure energy.waits_over_plain {:.3} times  (bar 1.05; from submission to end, with what moving costs, {:.4})",
        waited / waited_plain,
        took / took_plain
    );
    Ok(())
}

/// The installed policy: no gang gives way, so a plan's cost depends on what it places and not on what runs.
pub fn million_jobs(jobs: u32) -> Result<(), Box<dyn Error>> {
    let recipe = Recipe { jobs, nodes: jobs / 100, teams: 20, load_percent: 100, ..Recipe::default() };
    let policy = policies::preset("default").ok_or("no such policy")?;
    let before_seconds = cpu_seconds();
    let mut simulation = Simulation::new(recipe.workload(), policy, Options::default());
    simulation.run(&mut ());
    let overcommitted = simulation.overcommitted();
    let summary = simulation.finish().summary;
    let minutes = (cpu_seconds() - before_seconds) / 60.0;
    assert_eq!((summary.jobs_ended, overcommitted), (u64::from(jobs), 0), "all end, on nodes that have room");
    eprintln!("million: {summary:?}");
    println!(
        "figure sim.million_jobs_minutes {minutes:.2} minutes  (bar 10; {jobs} jobs on {} nodes in CPU time of one core, {} plans, {:.1} % in use, waits {:.0} s on average; at most {:.0} MB)",
        recipe.nodes,
        summary.plans,
        summary.utilisation_percent,
        summary.wait.mean_seconds,
        memory_max_megabytes()
    );
    Ok(())
}

/// Processor seconds of this process alone.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name in brackets, user and system time are the 12th and 13th, in hundredths.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn memory_max_megabytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}
