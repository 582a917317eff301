//! Generated workloads: as many jobs on as many nodes as asked for, from a seed.
//!
//! Sizes and run times have the shape of published GPU traces: most jobs are small and short, and most of the GPU
//! time is in the few that are neither. Arrivals follow the working day. Everything is drawn in whole numbers.

use std::sync::Arc;

use cluster_model::{
    Amounts, EvictionTerms, GpuType, Node, NodeName, Power, Queue, QueueName, Resources, Terms,
};
use jiff::{SignedDuration, Timestamp};
use trace_format::{Event, Job, Workload};

use crate::random::Random;

const DAY_SECONDS: u64 = 86_400;
const CPU_MILLIS_PER_GPU: i64 = 8_000;
const MEMORY_BYTES_PER_GPU: i64 = 64 << 30;
const NODES_PER_RACK: u32 = 16;

/// GPUs of a job in all, and how many jobs of a thousand ask for it.
const SIZES: [(u32, u64); 8] = [(1, 640), (2, 90), (4, 90), (8, 130), (16, 30), (32, 12), (64, 6), (128, 2)];

/// Thousandths of jobs that run at most this many seconds.
const RUN_SECONDS: [(u64, u64); 8] = [
    (0, 20),
    (200, 120),
    (500, 900),
    (750, 5_400),
    (900, 28_800),
    (970, 86_400),
    (995, 345_600),
    (1_000, 864_000),
];

/// What to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Where randomness comes from.
    pub seed: u64,
    /// How many jobs.
    pub jobs: u32,
    /// How many nodes.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus_per_node: u32,
    /// The type of the GPUs.
    pub gpu_type: GpuType,
    /// Teams; each has a queue. The first is the largest.
    pub teams: u32,
    /// GPU time that is asked for over GPU time that is there, in percent.
    pub load_percent: u32,
    /// When the first jobs come.
    pub start: Timestamp,
    /// Days from one failure of a node to its next, on average; zero: nodes do not fail.
    pub node_days_between_failures: u32,
    /// How long a node that failed is away.
    pub repair_seconds: u32,
}

impl Default for Recipe {
    /// A thousand jobs on 16 nodes, well loaded.
    fn default() -> Self {
        Self {
            seed: 42,
            jobs: 1_000,
            nodes: 16,
            gpus_per_node: 8,
            gpu_type: "H100".into(),
            teams: 4,
            load_percent: 90,
            start: Timestamp::from_second(1_767_571_200).unwrap_or(Timestamp::UNIX_EPOCH),
            node_days_between_failures: 0,
            repair_seconds: 4 * 3_600,
        }
    }
}

impl Recipe {
    /// The workload. The same recipe gives the same workload.
    pub fn workload(&self) -> Workload {
        let mut random = Random::new(self.seed);
        let teams = self.team_names();
        let (mut jobs, span_seconds) = self.jobs(&mut random, &teams);
        jobs.sort_by_key(|job| job.submitted);
        for (number, job) in jobs.iter_mut().enumerate() {
            job.name = format!("job-{number}").into();
        }
        let nodes = self.nodes();
        let events = self.failures(&mut random, &nodes, span_seconds);
        Workload { queues: self.queues(&teams), nodes, jobs, events }
    }

    fn gpus(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.gpus_per_node)
    }

    fn nodes(&self) -> Vec<Node> {
        let gpus = i64::from(self.gpus_per_node);
        let node = |number: u32| Node {
            gpu_type: Some(self.gpu_type.clone()),
            allocatable: Resources {
                gpus,
                cpu_millis: (gpus + 1) * CPU_MILLIS_PER_GPU,
                memory_bytes: (gpus + 1) * MEMORY_BYTES_PER_GPU,
                pods: 250,
            },
            topology: vec![format!("rack-{:05}", number / NODES_PER_RACK).into()],
            power: Some(Power { idle_watts: 1_000, gpu_watts: 700 }),
            ..Node::new(NodeName::from(format!("node-{number:06}")))
        };
        (0..self.nodes).map(node).collect()
    }

    fn team_names(&self) -> Vec<QueueName> {
        let width = self.teams.max(1).to_string().len();
        (1..=self.teams.max(1)).map(|number| QueueName::from(format!("team-{number:0width$}"))).collect()
    }

    /// Each owns its part, and may borrow whatever is free.
    fn queues(&self, teams: &[QueueName]) -> Vec<Queue> {
        let all = i64::try_from(self.gpus()).unwrap_or(i64::MAX);
        let amounts = |gpus: i64| Amounts {
            gpus: [(self.gpu_type.clone(), gpus)].into_iter().collect(),
            ..Amounts::default()
        };
        let sum: u64 = (0..teams.len()).map(|team| team_weight(team, teams.len())).sum();
        let queue = |(index, name): (usize, &QueueName)| {
            let weight = team_weight(index, teams.len());
            let quota = i64::try_from(self.gpus() * weight / sum).unwrap_or(0);
            Queue {
                weight: u32::try_from(weight).unwrap_or(1),
                quota: Some(amounts(quota)),
                limit: Some(amounts(all)),
                ..Queue::new(name.clone())
            }
        };
        teams.iter().enumerate().map(queue).collect()
    }

    /// The jobs, and over how many seconds they arrive: as many as make up the load.
    fn jobs(&self, random: &mut Random, teams: &[QueueName]) -> (Vec<Job>, u64) {
        let shared = Shared::new(self);
        let mut work: u64 = 0;
        let mut jobs: Vec<Job> = Vec::with_capacity(self.jobs as usize);
        for _ in 0..self.jobs {
            let team = random.weighted((0..teams.len()).map(|team| team_weight(team, teams.len())));
            let job = self.job(random, &shared, teams[team.unwrap_or(0)].clone());
            work += job.gpu_millis() / 1000 * u64::from(job.run_seconds);
            jobs.push(job);
        }
        let per_second = (self.gpus() * u64::from(self.load_percent)).max(1);
        let span_seconds = (work * 100 / per_second).max(1);
        for job in &mut jobs {
            let after = i64::try_from(arrival(random, span_seconds)).unwrap_or(i64::MAX);
            job.submitted = self.start.saturating_add(SignedDuration::from_secs(after)).unwrap_or(self.start);
        }
        (jobs, span_seconds)
    }

    fn job(&self, random: &mut Random, shared: &Shared, team: QueueName) -> Job {
        // Nothing larger than half the cluster, so that everything can run.
        let largest = u32::try_from(self.gpus() / 2).unwrap_or(u32::MAX).max(1);
        let sizes = SIZES.iter().map(|(gpus, weight)| if *gpus <= largest { *weight } else { 0 });
        let gpus = SIZES[random.weighted(sizes).unwrap_or(0)].0;
        let each = gpus.min(self.gpus_per_node.max(1));
        let members = gpus.div_ceil(each);
        let run_seconds = u32::try_from(random.quantile(&RUN_SECONDS)).unwrap_or(u32::MAX);
        let saves = run_seconds > 3_600;
        Job {
            user: Some(
                shared.users[usize::try_from(random.below(shared.users.len() as u64)).unwrap_or(0)].clone(),
            ),
            run_seconds,
            members,
            members_min: members,
            requests: Resources {
                gpus: i64::from(each),
                cpu_millis: i64::from(each) * CPU_MILLIS_PER_GPU,
                memory_bytes: i64::from(each) * MEMORY_BYTES_PER_GPU,
                pods: 1,
            },
            gpu_types: shared.gpu_types.clone(),
            checkpoint_seconds: saves.then_some(1_800),
            terms: if saves { shared.saves.clone() } else { shared.loses.clone() },
            ..Job::new(shared.unnamed.clone(), team, self.start)
        }
    }

    /// Every node fails at random, on average once in the time given.
    fn failures(&self, random: &mut Random, nodes: &[Node], span_seconds: u64) -> Vec<(Timestamp, Event)> {
        let Some(node_seconds) = u64::from(self.node_days_between_failures).checked_mul(DAY_SECONDS) else {
            return Vec::new();
        };
        if node_seconds == 0 || nodes.is_empty() {
            return Vec::new();
        }
        let count = span_seconds * nodes.len() as u64 / node_seconds;
        let mut events = Vec::new();
        for _ in 0..count {
            let node = &nodes[usize::try_from(random.below(nodes.len() as u64)).unwrap_or(0)];
            let after = i64::try_from(random.below(span_seconds)).unwrap_or(0);
            let at = |seconds: i64| {
                self.start.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(self.start)
            };
            events.push((at(after), Event::NodeDown(node.name.clone())));
            events.push((at(after + i64::from(self.repair_seconds)), Event::NodeUp(node.clone())));
        }
        events
    }
}

/// What jobs have in common.
struct Shared {
    gpu_types: Arc<[GpuType]>,
    users: Vec<Arc<str>>,
    saves: Arc<Terms>,
    loses: Arc<Terms>,
    unnamed: Arc<str>,
}

impl Shared {
    fn new(recipe: &Recipe) -> Self {
        let eviction = EvictionTerms { checkpoints: true, ..EvictionTerms::default() };
        Self {
            gpu_types: [recipe.gpu_type.clone()].into(),
            users: (1..=50).map(|number| format!("user-{number:02}").into()).collect(),
            saves: Arc::new(Terms { eviction, ..Terms::default() }),
            loses: Arc::default(),
            unnamed: "".into(),
        }
    }
}

/// The first team is as large as the last three together, or so.
fn team_weight(team: usize, teams: usize) -> u64 {
    (teams - team) as u64 + teams as u64 / 2
}

/// A second within the span: three times as likely at noon as at midnight.
fn arrival(random: &mut Random, span_seconds: u64) -> u64 {
    // A draw is kept with a chance of two in three on average; 64 in a row are refused once in 10³⁰.
    for _ in 0..64 {
        let drawn = random.below(span_seconds);
        let second = drawn % DAY_SECONDS;
        let from_midnight = second.min(DAY_SECONDS - second);
        if random.below(DAY_SECONDS * 3 / 4) < DAY_SECONDS / 4 + from_midnight {
            return drawn;
        }
    }
    random.below(span_seconds)
}

#[cfg(test)]
mod tests {
    use trace_format::json_lines;

    use super::Recipe;

    #[test]
    fn what_is_written_as_a_trace_is_read_back_the_same() {
        let recipe = Recipe { jobs: 300, node_days_between_failures: 3, ..Recipe::default() };
        let workload = recipe.workload();
        let text: String = json_lines::write(&workload).map(|line| line + "\n").collect();
        let again = json_lines::read(&text).unwrap();
        assert_eq!(again.nodes, workload.nodes);
        assert_eq!(again.queues, workload.queues);
        assert_eq!(again.jobs, workload.jobs);
        assert_eq!(again.events, workload.events);
    }

    #[test]
    fn the_same_seed_gives_the_same_jobs_and_another_seed_others() {
        let recipe = Recipe { jobs: 200, node_days_between_failures: 5, ..Recipe::default() };
        let again = recipe.workload();
        assert_eq!(recipe.workload().jobs, again.jobs);
        assert_eq!(recipe.workload().events, again.events);
        assert_ne!(Recipe { seed: 43, ..recipe }.workload().jobs, again.jobs);
    }

    #[test]
    fn the_load_is_what_was_asked_for() {
        let recipe = Recipe { jobs: 20_000, load_percent: 80, ..Recipe::default() };
        let jobs = recipe.workload().jobs;
        let work: u64 = jobs.iter().map(|job| job.gpu_millis() / 1000 * u64::from(job.run_seconds)).sum();
        let first = jobs.first().unwrap().submitted.as_second();
        let last = jobs.last().unwrap().submitted.as_second();
        let offered = work * 100 / (recipe.gpus() * (last - first).unsigned_abs());
        assert!((79..=82).contains(&offered), "{offered} %");
    }
}
