//! The loop: what is due happens, then one plan is made and acted on, then the clock jumps to what is due next.

mod agenda;
mod attempt;
mod books;
mod pods;
mod turn;

use std::collections::{HashMap, VecDeque};

use cluster_model::plan::{EvictionRule, GangPlacement, Plan};
use cluster_model::{ClusterChange, ClusterState, GangKey, Queue, QueueName};
use jiff::Timestamp;
use placement::Policy;
use trace_format::{Event, Job, Workload};

use crate::outcome::{JobRecord, Outcome, Percentiles, Summary, ratio};
use agenda::{Agenda, Due};
use attempt::Attempt;
use books::Books;
use pods::Names;

/// How many wakes in a row may change nothing, with nothing else to come. After that the simulation ends.
const IDLE_WAKES_MAX: u32 = 1_000;

/// How the simulated cluster behaves, in addition to what the workload says.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a job that gives way holds its nodes: the time to save its state and end.
    pub eviction_grace_seconds: u32,
    /// From the start of an attempt to its first work: images, data, loading a checkpoint. The first attempt has it
    /// too.
    pub start_up_seconds: u32,
    /// In addition for every attempt after the first.
    pub restart_seconds: u32,
    /// How many points a series has at most.
    pub points_max: usize,
    /// Whether nodes that are nearly empty are emptied, and how often.
    pub tidying: Option<Tidying>,
    /// Where to stop, if not when all is done.
    pub until: Option<Timestamp>,
}

/// Emptying nodes while no job waits. No scheduler does this yet: an experiment brings the rule.
#[derive(Clone, Copy, Debug)]
pub struct Tidying {
    /// How often.
    pub every_seconds: u32,
    /// What is moved.
    pub plan: fn(&mut ClusterState, &Policy, Timestamp) -> Plan,
}

impl Default for Options {
    /// Half a minute to give way, as Kubernetes grants it; nothing else is slow.
    fn default() -> Self {
        Self {
            eviction_grace_seconds: 30,
            start_up_seconds: 0,
            restart_seconds: 0,
            points_max: 1_024,
            tidying: None,
            until: None,
        }
    }
}

/// An observer: a progress bar, a story, an experiment.
pub trait Watch {
    /// Something happened to a job.
    fn happened(&mut self, _at: Timestamp, _what: &Happening<'_>) {}
    /// A plan was made and acted on.
    fn planned(&mut self, _state: &mut ClusterState, _plan: &Plan) {}
}

impl Watch for () {}

/// What happens to a job.
#[derive(Clone, Debug)]
pub enum Happening<'a> {
    /// It was submitted.
    Submitted {
        /// Its number: its place in [`Outcome::jobs`].
        number: u32,
        /// The job.
        job: &'a Job,
    },
    /// It started, or more of its members did.
    Started {
        /// Its number.
        number: u32,
        /// The job.
        job: &'a Job,
        /// Where.
        placement: &'a GangPlacement,
    },
    /// Its work is done, or its time is up.
    Ended {
        /// Its number.
        number: u32,
        /// The job.
        job: &'a Job,
    },
    /// It must give way.
    Evicted {
        /// Its number.
        number: u32,
        /// The job.
        job: &'a Job,
        /// The claimant.
        claimant: &'a GangKey,
        /// The rule.
        rule: EvictionRule,
    },
    /// It is back in the queue: it gave way, or lost a node.
    Requeued {
        /// Its number.
        number: u32,
        /// The job.
        job: &'a Job,
        /// What was lost.
        lost_gpu_seconds: u64,
    },
}

/// A cluster on a virtual clock. Seconds are its smallest unit.
pub struct Simulation {
    state: ClusterState,
    policy: Policy,
    options: Options,
    now: i64,
    jobs: Vec<Job>,
    records: Vec<JobRecord>,
    /// Jobs that were not submitted yet, by time, then by number.
    arrivals: VecDeque<u32>,
    agenda: Agenda,
    live: HashMap<u32, Attempt>,
    by_gang: HashMap<GangKey, u32>,
    names: Names,
    books: Books,
    wake_at: Option<i64>,
    tidy_at: Option<i64>,
    idle_wakes: u32,
    needs_plan: bool,
    tally: Tally,
}

/// Counts made on the way.
#[derive(Default)]
struct Tally {
    first_arrival: Option<i64>,
    last_end: i64,
    /// Busy and present GPU time at the last arrival, in thousandths of a GPU × seconds.
    at_last_arrival: (u64, u64),
    spent: u64,
    lost: u64,
    preempted: u64,
    plans: u64,
    moments: u64,
}

impl Simulation {
    /// The cluster before anything happened. Unless the policy has [`Policy::explain`], the cost of a plan depends on
    /// what it places.
    pub fn new(workload: Workload, policy: Policy, options: Options) -> Self {
        let Workload { nodes, queues, mut jobs, events } = workload;
        jobs.sort_by(|a, b| (a.submitted, &a.queue, &a.name).cmp(&(b.submitted, &b.queue, &b.name)));
        let first_job = jobs.first().map(|job| job.submitted);
        let first_event = events.iter().map(|(at, _)| *at).min();
        let start = first_job.into_iter().chain(first_event).min().unwrap_or(Timestamp::UNIX_EPOCH);
        let mut this = Self {
            state: ClusterState::default(),
            policy,
            now: start.as_second(),
            arrivals: (0..u32::try_from(jobs.len()).expect("jobs are fewer than 2³²")).collect(),
            records: jobs.iter().map(submitted).collect(),
            jobs,
            agenda: Agenda::default(),
            live: HashMap::new(),
            by_gang: HashMap::new(),
            names: Names::default(),
            books: Books::new(start.as_second(), options.points_max),
            tidy_at: options.tidying.map(|it| start.as_second() + i64::from(it.every_seconds)),
            options,
            wake_at: None,
            idle_wakes: 0,
            needs_plan: false,
            tally: Tally::default(),
        };
        this.state.advance(start);
        for queue in queues {
            this.set_queue(queue);
        }
        for node in nodes {
            this.node_up(node);
        }
        for (at, event) in events {
            this.add_event(at, event);
        }
        for number in 0..this.jobs.len() {
            let queue = this.jobs[number].queue.clone();
            this.ensure_queue(&queue);
        }
        this
    }

    /// One more job. If its time of submission is past, it is submitted at the next step.
    pub fn add_job(&mut self, job: Job) {
        let number = u32::try_from(self.jobs.len()).expect("jobs are fewer than 2³²");
        self.ensure_queue(&job.queue.clone());
        let place = self.arrivals.partition_point(|it| self.jobs[*it as usize].submitted <= job.submitted);
        self.arrivals.insert(place, number);
        self.records.push(submitted(&job));
        self.jobs.push(job);
    }

    /// Something more that will happen.
    pub fn add_event(&mut self, at: Timestamp, event: Event) {
        self.agenda.note(at.as_second(), Due::Event(Box::new(event)));
    }

    /// The next moment at which something happens: all of it, and one plan. `None` if nothing is left to happen.
    pub fn step(&mut self, watch: &mut dyn Watch) -> Option<Timestamp> {
        let at = self.next_at()?;
        self.pass_moment(at, watch);
        Some(time(at))
    }

    /// Runs everything up to a moment, where the clock stops.
    pub fn run_until(&mut self, until: Timestamp, watch: &mut dyn Watch) {
        while self.next_at().is_some_and(|at| at <= until.as_second()) {
            self.step(watch);
        }
        self.now = self.now.max(until.as_second());
        self.state.advance(time(self.now));
    }

    /// Runs everything there is.
    pub fn run(&mut self, watch: &mut dyn Watch) {
        while self.step(watch).is_some() {}
    }

    /// The time on the clock.
    pub fn now(&self) -> Timestamp {
        time(self.now)
    }

    /// The cluster as it is now.
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// The cluster as it is now, for what-ifs. A caller that changes it for good simulates something else.
    pub fn state_mut(&mut self) -> &mut ClusterState {
        &mut self.state
    }

    /// The policy; it may change during the simulation.
    pub fn policy_mut(&mut self) -> &mut Policy {
        self.needs_plan = true;
        &mut self.policy
    }

    /// How the cluster behaves from now on.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Jobs known so far, by number.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// What happened to them so far.
    pub fn records(&self) -> &[JobRecord] {
        &self.records
    }

    /// How many jobs have not been submitted yet, and how many are on their way.
    pub fn jobs_to_come_and_live(&self) -> (usize, usize) {
        (self.arrivals.len(), self.live.len())
    }

    /// GPU time that each queue had so far, in GPU-seconds, by name.
    pub fn queue_gpu_seconds(&mut self) -> Vec<(QueueName, u64)> {
        let totals = self.books.queue_totals(self.now);
        totals.into_iter().map(|(queue, millis)| (queue, millis / 1000)).collect()
    }

    /// How often a node was found to be used beyond what it has. Anything but zero is a defect of the planner, or
    /// of a workload whose nodes shrink.
    pub fn overcommitted(&self) -> u64 {
        self.books.overcommitted
    }

    /// Ends the simulation.
    pub fn finish(mut self) -> Outcome {
        let summary = self.summary();
        let series = self.books.series(self.now);
        Outcome { jobs: self.jobs, records: self.records, series, summary }
    }

    fn summary(&mut self) -> Summary {
        let started = |record: &JobRecord| record.started;
        let waits = self.records.iter().filter_map(started).collect();
        let completions = self.records.iter().filter_map(|record| record.ended).collect();
        let (busy, present) = self.tally.at_last_arrival;
        let spent = self.tally.spent + self.tally.lost;
        let first = self.tally.first_arrival;
        let count = |count: usize| count as u64;
        Summary {
            jobs: count(self.records.len()),
            jobs_ended: count(self.records.iter().filter(|record| record.ended.is_some()).count()),
            jobs_never_started: count(self.records.iter().filter(|record| record.started.is_none()).count()),
            first_arrival: first.map(time),
            makespan_seconds: first.map_or(0, |first| (self.tally.last_end - first).max(0).unsigned_abs()),
            wait: Percentiles::of(waits),
            completion: Percentiles::of(completions),
            utilisation_percent: 100.0 * ratio(busy, present),
            preemptions: self.records.iter().map(|record| u64::from(record.preemptions)).sum(),
            failures: self.records.iter().map(|record| u64::from(record.failures)).sum(),
            lost_percent: 100.0 * ratio(self.tally.lost, spent),
            preempted_percent: 100.0 * ratio(self.tally.preempted, spent),
            deadlines_missed: count(self.deadlines_missed()),
            powered_node_hours: ratio(self.books.powered_node_seconds(self.now), 3600),
            plans: self.tally.plans,
            moments: self.tally.moments,
        }
    }

    fn deadlines_missed(&self) -> usize {
        let missed = |(job, record): &(&Job, &JobRecord)| {
            let deadline = job.terms.deadline.map(Timestamp::as_second);
            let ended = record.ended.map(|ended| record.submitted + i64::from(ended));
            deadline.is_some_and(|deadline| ended.unwrap_or(self.now + 1) > deadline)
        };
        self.jobs.iter().zip(&self.records).filter(missed).count()
    }

    /// Every queue is open to the namespace of its name.
    fn set_queue(&mut self, mut queue: Queue) {
        let namespace = self.names.namespace(&queue.name);
        queue.namespaces.insert(namespace);
        self.books.queue(&queue.name);
        self.state.apply(ClusterChange::Queue(queue));
    }

    fn ensure_queue(&mut self, name: &QueueName) {
        if self.state.queue(name).is_none() {
            self.set_queue(Queue::new(name.clone()));
        }
    }
}

/// Simulates a workload from its first arrival to its last end.
pub fn simulate(workload: Workload, policy: Policy, options: Options) -> Outcome {
    let mut simulation = Simulation::new(workload, policy, options);
    simulation.run(&mut ());
    simulation.finish()
}

fn submitted(job: &Job) -> JobRecord {
    JobRecord { submitted: job.submitted.as_second(), ..JobRecord::default() }
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}
