//! One large decision: how long, and how far from the bound at most.

use std::error::Error;
use std::time::Instant;

use capacity::mix::decide;

use crate::{cases, judge};

const SEEDS: u64 = 10;

pub fn large_decisions() -> Result<(), Box<dyn Error>> {
    let (mut slowest, mut widest) = (0.0_f64, 0.0_f64);
    for seed in 0..SEEDS {
        let case = cases::large(seed, 1_000, 500);
        let begin = Instant::now();
        let mix = decide(&case.demands, &case.offerings, &case.rooms, &case.limits);
        let milliseconds = begin.elapsed().as_secs_f64() * 1_000.0;
        #[expect(clippy::cast_precision_loss, reason = "costs of cases are far below 2^53")]
        let gap = (mix.cost_per_hour - mix.bound) as f64 / (mix.bound.max(1) as f64) * 100.0;
        println!(
            "seed {seed}: {milliseconds:.1} ms, {} served, {} refused, {} per hour, at most {gap:.2} percent above the best",
            mix.assignments.len(),
            mix.refused.len(),
            mix.cost_per_hour
        );
        if let Some(fault) = judge::faults(&case, &mix).first() {
            return Err(format!("seed {seed}: {fault}").into());
        }
        (slowest, widest) = (slowest.max(milliseconds), widest.max(gap));
    }
    println!("figure capacity.decide_ms {slowest:.1} ms  (bar: 50, slowest of {SEEDS}, 1,000 gangs and 500 offerings, one core)");
    println!("figure capacity.bound_gap_percent {widest:.2} percent  (no bar: the widest gap to the linear bound of the same)");
    Ok(())
}
