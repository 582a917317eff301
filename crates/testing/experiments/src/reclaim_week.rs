//! A week of borrowing and reclaim: measures repeated evictions and lost work.
//!
//! Four teams own a quarter each and work at different hours: a sleeping team lends its quota and reclaims it
//! in the morning. The counts come from the simulator's actions, not from the planner's own numbers.

use std::collections::BTreeSet;

use cluster_model::{GangKey, Reclaim};
use jiff::Timestamp;
use placement::Policy;
use simulator::{Happening, Options, Simulation, Watch};

use crate::days::Days;

/// The outcome of a week.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Week {
    /// How many jobs there were.
    pub jobs: u64,
    /// The number of evictions.
    pub preemptions: u64,
    /// Evictions of a job for a gang for which it had given way before.
    pub repeats: u64,
    /// GPU time lost by evictions, in percent of all GPU time.
    pub preempted_percent: f64,
    /// The used share of the cluster, in percent.
    pub utilisation_percent: f64,
    /// How long jobs waited on average.
    pub wait_mean_seconds: f64,
}

/// A week from a seed.
pub fn week(seed: u64, policy: &Policy) -> Week {
    let days = Days {
        seed,
        length: 7,
        nodes: 16,
        teams: 4,
        load_percent: 90,
        day_over_night: 9,
        around_the_globe: true,
        reclaim: Reclaim { grace_seconds: 240, min_run_seconds: 600 },
        checkpoint_seconds: 1_800,
    };
    let options = Options { restart_seconds: 120, ..Options::default() };
    let mut watched = Seen::default();
    let mut simulation = Simulation::new(days.workload(), policy.clone(), options);
    simulation.run(&mut watched);
    let summary = simulation.finish().summary;
    Week {
        jobs: summary.jobs,
        preemptions: watched.preemptions,
        repeats: watched.repeats,
        preempted_percent: summary.preempted_percent,
        utilisation_percent: summary.utilisation_percent,
        wait_mean_seconds: summary.wait.mean_seconds,
    }
}

/// Pairs of victims and claimants.
#[derive(Default)]
struct Seen {
    pairs: BTreeSet<(u32, GangKey)>,
    preemptions: u64,
    repeats: u64,
}

impl Watch for Seen {
    fn happened(&mut self, _at: Timestamp, what: &Happening<'_>) {
        if let Happening::Evicted { number, claimant, .. } = what {
            self.preemptions += 1;
            self.repeats += u64::from(!self.pairs.insert((*number, (*claimant).clone())));
        }
    }
}
