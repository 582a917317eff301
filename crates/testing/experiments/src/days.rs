//! Workloads of days and nights, from a seed, to measure borrowing and energy.

use std::sync::Arc;

use cluster_model::{
    Amounts, EvictionTerms, GpuType, Node, NodeName, Power, Queue, QueueName, Reclaim, Resources, Terms,
};
use jiff::{SignedDuration, Timestamp};
use simulator::{Job, Random, Workload};

const GPU_TYPE: &str = "H100";
const GPUS_PER_NODE: u32 = 8;
const DAY_SECONDS: u64 = 86_400;
/// The Monday on which it begins.
const START_SECOND: i64 = 1_767_571_200;

/// GPUs of a job, and how many jobs of a thousand request them.
const SIZES: [(u32, u64); 6] = [(1, 500), (2, 200), (4, 150), (8, 100), (16, 40), (32, 10)];

/// Thousandths of jobs that run at most this many seconds.
const RUN_SECONDS: [(u64, u64); 5] = [(0, 60), (300, 600), (600, 3_600), (850, 14_400), (1_000, 43_200)];

/// The parameters of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Days {
    /// The seed of randomness.
    pub seed: u64,
    /// For how many days jobs arrive.
    pub length: u32,
    /// How many nodes of eight GPUs.
    pub nodes: u32,
    /// Teams of equal quota.
    pub teams: u32,
    /// Requested GPU time in percent of the cluster's.
    pub load_percent: u32,
    /// How much likelier a job comes at the busiest moment of its team's day than at the quietest.
    pub day_over_night: u32,
    /// Whether the teams' days are spread over the clock, as around the globe; otherwise all work at the same
    /// hours.
    pub around_the_globe: bool,
    /// How teams reclaim their quota.
    pub reclaim: Reclaim,
    /// How often jobs save their state.
    pub checkpoint_seconds: u32,
}

impl Days {
    /// The workload. The same value gives the same workload.
    pub fn workload(&self) -> Workload {
        let mut random = Random::new(self.seed);
        let names: Vec<QueueName> =
            (0..self.teams.max(1)).map(|team| QueueName::from(format!("team-{team}"))).collect();
        let span_seconds = u64::from(self.length) * DAY_SECONDS;
        let wanted =
            u64::from(self.nodes * GPUS_PER_NODE) * span_seconds * u64::from(self.load_percent) / 100;
        let eviction = EvictionTerms { checkpoints: true, ..EvictionTerms::default() };
        let terms = Arc::new(Terms { eviction, ..Terms::default() });
        let gpu_types: Arc<[GpuType]> = [GpuType::from(GPU_TYPE)].into();
        let (mut jobs, mut work) = (Vec::new(), 0);
        // This ends: every job has a GPU and runs for at least a minute.
        while work < wanted {
            let team = random.below(names.len() as u64);
            let gpus = SIZES[random.weighted(SIZES.iter().map(|(_, weight)| *weight)).unwrap_or(0)].0;
            let run_seconds = u32::try_from(random.quantile(&RUN_SECONDS)).unwrap_or(u32::MAX).max(60);
            let after = i64::try_from(self.arrival(&mut random, team, span_seconds)).unwrap_or(0);
            let each = gpus.min(GPUS_PER_NODE);
            work += u64::from(gpus) * u64::from(run_seconds);
            let name = format!("job-{:06}", jobs.len());
            let queue = names[usize::try_from(team).unwrap_or(0)].clone();
            jobs.push(Job {
                run_seconds,
                members: gpus / each,
                members_min: gpus / each,
                requests: Resources { gpus: i64::from(each), pods: 1, ..Resources::default() },
                gpu_types: gpu_types.clone(),
                checkpoint_seconds: Some(self.checkpoint_seconds),
                terms: terms.clone(),
                ..Job::new(name, queue, start() + SignedDuration::from_secs(after))
            });
        }
        Workload { nodes: self.nodes(), queues: self.queues(&names), jobs, events: Vec::new() }
    }

    /// A random second of the span. Over the day the chance rises and falls linearly.
    fn arrival(&self, random: &mut Random, team: u64, span_seconds: u64) -> u64 {
        let shift = if self.around_the_globe { team * DAY_SECONDS / u64::from(self.teams.max(1)) } else { 0 };
        let (most, least) = (u64::from(self.day_over_night.max(1)), 1);
        // At least half of the draws are kept: 64 refusals in a row do not happen.
        for _ in 0..64 {
            let drawn = random.below(span_seconds);
            let second = (drawn + shift) % DAY_SECONDS;
            let from_night = second.min(DAY_SECONDS - second);
            let chance = least * DAY_SECONDS / 2 + (most - least) * from_night;
            if random.below(most * DAY_SECONDS / 2) < chance {
                return drawn;
            }
        }
        random.below(span_seconds)
    }

    fn nodes(&self) -> Vec<Node> {
        let node = |number: u32| Node {
            gpu_type: Some(GPU_TYPE.into()),
            allocatable: Resources { gpus: i64::from(GPUS_PER_NODE), pods: 250, ..Resources::default() },
            power: Some(Power { idle_watts: 1_000, gpu_watts: 700 }),
            ..Node::new(NodeName::from(format!("node-{number:04}")))
        };
        (0..self.nodes).map(node).collect()
    }

    fn queues(&self, names: &[QueueName]) -> Vec<Queue> {
        let all = i64::from(self.nodes * GPUS_PER_NODE);
        let gpus = |count: i64| Amounts {
            gpus: [(GpuType::from(GPU_TYPE), count)].into_iter().collect(),
            ..Amounts::default()
        };
        let queue = |name: &QueueName| Queue {
            quota: Some(gpus(all / i64::from(self.teams.max(1)))),
            limit: Some(gpus(all)),
            reclaim: self.reclaim,
            ..Queue::new(name.clone())
        };
        names.iter().map(queue).collect()
    }
}

fn start() -> Timestamp {
    Timestamp::from_second(START_SECOND).unwrap_or(Timestamp::UNIX_EPOCH)
}
