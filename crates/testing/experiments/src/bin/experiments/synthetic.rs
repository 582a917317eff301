//! The small experiment for CI: no trace, a few seconds, the same three policies as on the traces.

use std::error::Error;

use simulator::synthetic::Recipe;
use simulator::{Options, Simulation, Summary, policies};

/// Waits vary with the seed; these are sums over several.
const SEEDS: std::ops::Range<u64> = 1..4;

/// One full cluster under three policies. The production policy has far shorter waits than first come, first
/// served, and unlike skip-ahead starves no job.
pub fn jobs_on_one_cluster() -> Result<(), Box<dyn Error>> {
    let (fifo, skip_ahead, ours) = (waits("fifo")?, waits("skip-ahead")?, waits("default")?);
    println!(
        "figure synthetic.wait_mean_seconds {:.0} s  (FIFO {:.0}, skip-ahead {:.0})",
        ours.mean_seconds, fifo.mean_seconds, skip_ahead.mean_seconds
    );
    let over = ours.max_seconds / fifo.max_seconds;
    println!(
        "figure synthetic.wait_max_over_fifo {over:.3} times  (skip-ahead {:.3})",
        skip_ahead.max_seconds / fifo.max_seconds
    );
    if ours.mean_seconds * 10.0 > fifo.mean_seconds {
        return Err("jobs wait longer than a tenth of first come, first served".into());
    }
    if ours.max_seconds > skip_ahead.max_seconds {
        return Err("somebody waits longer than if whoever fits went ahead".into());
    }
    Ok(())
}

struct Waits {
    mean_seconds: f64,
    max_seconds: f64,
}

fn waits(preset: &str) -> Result<Waits, Box<dyn Error>> {
    let policy = policies::preset(preset).ok_or("no such policy")?;
    let (mut mean_seconds, mut max_seconds) = (0.0, 0.0);
    for seed in SEEDS {
        let recipe = Recipe { seed, jobs: 20_000, nodes: 128, load_percent: 100, ..Recipe::default() };
        let mut simulation = Simulation::new(recipe.workload(), policy.clone(), Options::default());
        simulation.run(&mut ());
        let overcommitted = simulation.overcommitted();
        let Summary { jobs, jobs_ended, wait, .. } = simulation.finish().summary;
        if jobs_ended != jobs || overcommitted > 0 {
            return Err(format!("seed {seed}, {preset}: {jobs_ended} of {jobs} jobs ended, {overcommitted} nodes were given too much").into());
        }
        eprintln!("synthetic, seed {seed}, {preset}: {wait:?}");
        mean_seconds += wait.mean_seconds;
        max_seconds += f64::from(wait.max_seconds);
    }
    let seeds = f64::from(u32::try_from(SEEDS.count())?);
    Ok(Waits { mean_seconds: mean_seconds / seeds, max_seconds: max_seconds / seeds })
}
