//! A week of borrowing and reclaim: is anybody pushed around, and how much work is lost by it?
//!
//! Four teams own a quarter each and work at different hours, so that who sleeps lends to who is awake, and takes it back in
//! the morning. What is counted is what the simulator was told to do, not what the planner says of itself.

use std::collections::BTreeSet;

use cluster_model::{GangKey, Reclaim};
use jiff::Timestamp;
use placement::Policy;

use super::days::Days;
use crate::{Happening, Options, Simulation, Watch};

/// What came of a week.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Week {
    /// How many jobs there were.
    pub jobs: u64,
    /// How often a job gave way.
    pub preemptions: u64,
    /// How often it did for a gang for which it had given way before.
    pub repeats: u64,
    /// GPU time that was lost by it, in percent of all that was spent.
    pub preempted_percent: f64,
    /// How much of the cluster was in use, in percent.
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

/// Who gave way for whom.
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
