//! Large decisions: how long they take on one core, and how far from the bound they are at most.

use std::error::Error;
use std::time::Duration;

use capacity::mix::decide;
use nix::time::{ClockId, clock_gettime};

use crate::{cases, judge};

const SEEDS: u64 = 10;
/// How often each decision is made. Its fastest run counts: caches are warm where decisions are made all the time.
const TIMES: u32 = 3;

pub fn large_decisions() -> Result<(), Box<dyn Error>> {
    let (mut slowest, mut widest, mut gaps) = (0.0_f64, 0.0_f64, 0.0);
    for seed in 0..SEEDS {
        let case = cases::large(seed, 1_000, 500);
        let mut milliseconds = f64::INFINITY;
        let mut mix = None;
        for _ in 0..TIMES {
            let begin = core_milliseconds()?;
            mix = Some(decide(&case.demands, &case.offerings, &case.rooms, &case.limits));
            milliseconds = milliseconds.min(core_milliseconds()? - begin);
        }
        let mix = mix.ok_or("no decision was made")?;
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
        (slowest, widest, gaps) = (slowest.max(milliseconds), widest.max(gap), gaps + gap);
    }
    println!(
        "figure capacity.decide_ms {slowest:.1} ms  (bar: 50, time on one core for 1,000 gangs and 500 offerings, slowest of \
         {SEEDS} markets)"
    );
    println!(
        "figure capacity.bound_gap_percent {widest:.2} percent  (no bar; the widest of these {SEEDS} gaps to the linear bound, \
         in the mean {:.2})",
        gaps / 10.0
    );
    Ok(())
}

/// The time that this thread had a core: other processes on the machine do not count.
fn core_milliseconds() -> Result<f64, Box<dyn Error>> {
    let time = Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?);
    Ok(time.as_secs_f64() * 1e3)
}
