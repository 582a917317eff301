//! Days and nights on a cluster that switches off unused nodes: compares the node-hours that are on with the
//! fewest possible.
//!
//! The bound is for the same work at the same moments: the nodes that its GPUs fill, rounded up, summed over
//! time. Nothing can be below it, and only a planner that knows all ends, or that moves jobs without loss,
//! could reach it.

use std::collections::{BTreeMap, HashMap};

use cluster_model::{NodeName, Reclaim};
use jiff::Timestamp;
use placement::Policy;
use simulator::{Happening, Job, Options, Simulation, Tidying, Watch, ratio};

use crate::days::Days;

const IDLE_WATTS: u64 = 1_000;
const GPU_WATTS: u64 = 700;
const GPUS_PER_NODE: u64 = 8;

/// The outcome of a week.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Powered {
    /// Node-hours that were on.
    pub node_hours: f64,
    /// The fewest for the same work at the same time.
    pub node_hours_min: f64,
    /// How many jobs there were.
    pub jobs: u64,
    /// How long they waited on average for their first start.
    pub wait_mean_seconds: f64,
    /// How long they took on average from submission to end, including work lost by moves.
    pub completion_mean_seconds: f64,
    /// GPU time lost by moves, in percent of all GPU time.
    pub lost_percent: f64,
    /// The highest power.
    pub watts_max: u64,
    /// How often a job was moved or gave way.
    pub moves: u64,
}

/// Requested GPU time in percent of the cluster's: by day the cluster is full and jobs wait for minutes, and by
/// night most of it may be off.
pub const LOAD_PERCENT: u32 = 60;

/// A week of days and nights from a seed. Nearly empty nodes are emptied every `tidy_seconds`.
pub fn week(seed: u64, load_percent: u32, policy: &Policy, tidy_seconds: Option<u32>) -> Powered {
    let days = Days {
        seed,
        length: 7,
        nodes: 32,
        teams: 1,
        load_percent,
        day_over_night: 9,
        around_the_globe: false,
        reclaim: Reclaim::default(),
        checkpoint_seconds: 1_800,
    };
    let mut meter = Meter::default();
    let tidying = tidy_seconds.map(|every_seconds| Tidying { every_seconds, plan: placement::testing::tidy });
    let options = Options { tidying, ..Options::default() };
    let mut simulation = Simulation::new(days.workload(), policy.clone(), options);
    simulation.run(&mut meter);
    let summary = simulation.finish().summary;
    Powered {
        node_hours: ratio(meter.node_seconds, 3_600),
        node_hours_min: ratio(meter.node_seconds_min, 3_600),
        jobs: summary.jobs,
        wait_mean_seconds: summary.wait.mean_seconds,
        completion_mean_seconds: summary.completion.mean_seconds,
        lost_percent: summary.preempted_percent,
        watts_max: meter.watts_max,
        moves: summary.preemptions,
    }
}

/// Computes which nodes are on, only from starts and ends.
#[derive(Default)]
struct Meter {
    /// GPUs in use on each node that is on.
    nodes: BTreeMap<NodeName, u64>,
    /// The nodes of each job, with its GPUs there.
    jobs: HashMap<u32, Vec<(NodeName, u64)>>,
    reckoned_at: i64,
    node_seconds: u64,
    node_seconds_min: u64,
    watts_max: u64,
}

impl Meter {
    fn reckon(&mut self, at: Timestamp) {
        let seconds = u64::try_from(at.as_second() - self.reckoned_at).unwrap_or(0);
        self.reckoned_at = at.as_second();
        let gpus: u64 = self.nodes.values().sum();
        self.node_seconds += seconds * self.nodes.len() as u64;
        self.node_seconds_min += seconds * gpus.div_ceil(GPUS_PER_NODE);
        // Only states that last count: at one moment, a job ends before another starts.
        if seconds > 0 {
            self.watts_max = self.watts_max.max(self.nodes.len() as u64 * IDLE_WATTS + gpus * GPU_WATTS);
        }
    }

    fn leave(&mut self, number: u32) {
        for (node, gpus) in self.jobs.remove(&number).unwrap_or_default() {
            let Some(used) = self.nodes.get_mut(&node) else { continue };
            *used -= gpus;
            if *used == 0 {
                self.nodes.remove(&node);
            }
        }
    }
}

impl Watch for Meter {
    fn happened(&mut self, at: Timestamp, what: &Happening<'_>) {
        self.reckon(at);
        match what {
            Happening::Started { number, job, placement } => {
                let each = gpus_of_member(job);
                for member in &placement.members {
                    *self.nodes.entry(member.node.clone()).or_default() += each;
                    self.jobs.entry(*number).or_default().push((member.node.clone(), each));
                }
            }
            Happening::Ended { number, .. } | Happening::Requeued { number, .. } => self.leave(*number),
            Happening::Submitted { .. } | Happening::Evicted { .. } => {}
        }
    }
}

fn gpus_of_member(job: &Job) -> u64 {
    u64::try_from(job.requests.gpus).unwrap_or(0)
}
