//! What is in use, waits and is idle, kept by the simulator itself: the figures do not depend on the simulated model,
//! and a plan that puts more on a node than it has is noticed.

use std::collections::HashMap;

use cluster_model::{Node, NodeName, QueueName};
use trace_format::Job;

use crate::series::{Gauge, Series, Timeline};

/// Thousandths of a GPU to GPUs.
const GPUS: f64 = 0.001;

pub(super) struct Books {
    timeline: Timeline,
    gauges: Gauges,
    queue_index: HashMap<QueueName, usize>,
    queue_names: Vec<QueueName>,
    queues: Vec<Gauge>,
    node_index: HashMap<NodeName, u32>,
    nodes: Vec<NodeBook>,
    /// How often nodes were found to be used beyond what they have.
    pub overcommitted: u64,
}

#[derive(Default)]
struct Gauges {
    gpus: Gauge,
    busy: Gauge,
    jobs_waiting: Gauge,
    gpus_waiting: Gauge,
    fragmented: Gauge,
    powered: Gauge,
    watts: Gauge,
}

struct NodeBook {
    object: Node,
    is_up: bool,
    used_millis: u64,
    pods: u32,
    /// Jobs with members here, one entry for each member.
    jobs: Vec<u32>,
}

impl NodeBook {
    fn capacity_millis(&self) -> u64 {
        u64::try_from(self.object.allocatable.gpus).unwrap_or(0) * 1000
    }

    /// What it adds to the gauges: GPUs, fragmented, powered, watts.
    fn shares(&self) -> [u64; 4] {
        let capacity = self.capacity_millis();
        let fragmented = if self.used_millis > 0 { capacity.saturating_sub(self.used_millis) } else { 0 };
        let powered = u64::from(self.pods > 0);
        let power = self.object.power.unwrap_or_default();
        let watts =
            powered * u64::from(power.idle_watts) + u64::from(power.gpu_watts) * self.used_millis / 1000;
        [
            if self.is_up { capacity } else { 0 },
            if self.is_up { fragmented } else { 0 },
            powered,
            if self.is_up { watts } else { 0 },
        ]
    }
}

impl Books {
    pub fn new(start: i64, points_max: usize) -> Self {
        Self {
            timeline: Timeline::new(start, points_max),
            gauges: Gauges::default(),
            queue_index: HashMap::new(),
            queue_names: Vec::new(),
            queues: Vec::new(),
            node_index: HashMap::new(),
            nodes: Vec::new(),
            overcommitted: 0,
        }
    }

    /// Makes room for points up to a moment.
    pub fn reach(&mut self, at: i64) {
        while self.timeline.is_outgrown_at(at) {
            let gauges = self.gauges.all_mut().into_iter().chain(self.queues.iter_mut());
            self.timeline.merge(gauges);
        }
    }

    pub fn node_up(&mut self, at: i64, node: &Node) -> u32 {
        let index = *self.node_index.entry(node.name.clone()).or_insert_with(|| {
            let book =
                NodeBook { object: node.clone(), is_up: false, used_millis: 0, pods: 0, jobs: Vec::new() };
            self.nodes.push(book);
            u32::try_from(self.nodes.len() - 1).expect("nodes are fewer than 2³²")
        });
        self.change_node(at, index, |book| {
            book.object = node.clone();
            book.is_up = true;
        });
        index
    }

    pub fn node_down(&mut self, at: i64, name: &NodeName) {
        if let Some(index) = self.node(name) {
            self.change_node(at, index, |book| book.is_up = false);
        }
    }

    pub fn node(&self, name: &NodeName) -> Option<u32> {
        self.node_index.get(name).copied()
    }

    /// The node as it was last seen, if it is up.
    pub fn node_object(&self, name: &NodeName) -> Option<&Node> {
        let book = &self.nodes[self.node(name)? as usize];
        book.is_up.then_some(&book.object)
    }

    /// The jobs with members on a node, each once, by number.
    pub fn jobs_on(&self, name: &NodeName) -> Vec<u32> {
        let mut jobs = self.node(name).map_or_else(Vec::new, |index| self.nodes[index as usize].jobs.clone());
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// A member starts on a node (`added`) or leaves it.
    pub fn member(&mut self, at: i64, node: u32, job_number: u32, job: &Job, added: bool) {
        let millis = job.gpu_millis() / u64::from(job.members.max(1));
        self.change_node(at, node, |book| {
            if added {
                book.used_millis += millis;
                book.pods += 1;
                book.jobs.push(job_number);
            } else if let Some(place) = book.jobs.iter().position(|it| *it == job_number) {
                book.jobs.swap_remove(place);
                book.used_millis -= millis;
                book.pods -= 1;
            }
        });
        if added && self.nodes[node as usize].used_millis > self.nodes[node as usize].capacity_millis() {
            self.overcommitted += 1;
        }
        let queue = self.queue(&job.queue);
        let gauges = [&mut self.gauges.busy, &mut self.queues[queue]];
        for gauge in gauges {
            change(gauge, &self.timeline, at, millis, added);
        }
    }

    /// A job begins to wait (`added`), or does not any more.
    pub fn waits(&mut self, at: i64, job: &Job, added: bool) {
        change(&mut self.gauges.jobs_waiting, &self.timeline, at, 1, added);
        change(&mut self.gauges.gpus_waiting, &self.timeline, at, job.gpu_millis(), added);
    }

    /// Busy and present GPU time so far, in thousandths of a GPU × seconds.
    pub fn busy_and_present(&mut self, at: i64) -> (u64, u64) {
        self.gauges.busy.settle(&self.timeline, at);
        self.gauges.gpus.settle(&self.timeline, at);
        (self.gauges.busy.total(), self.gauges.gpus.total())
    }

    pub fn powered_node_seconds(&mut self, at: i64) -> u64 {
        self.gauges.powered.settle(&self.timeline, at);
        self.gauges.powered.total()
    }

    /// GPU time that each queue had so far, in thousandths of a GPU × seconds, by name.
    pub fn queue_totals(&mut self, at: i64) -> Vec<(QueueName, u64)> {
        for gauge in &mut self.queues {
            gauge.settle(&self.timeline, at);
        }
        let mut totals: Vec<_> =
            self.queue_names.iter().cloned().zip(self.queues.iter().map(Gauge::total)).collect();
        totals.sort();
        totals
    }

    pub fn series(&mut self, until: i64) -> Series {
        self.reach(until);
        for gauge in self.gauges.all_mut().into_iter().chain(self.queues.iter_mut()) {
            gauge.settle(&self.timeline, until);
        }
        let line = |name: &str, gauge: &Gauge, scale: f64| self.timeline.line(name, gauge, until, scale);
        let mut queues: Vec<_> = self
            .queue_names
            .iter()
            .zip(&self.queues)
            .map(|(name, gauge)| line(name.as_str(), gauge, GPUS))
            .collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        Series {
            start: self.timeline.start(),
            step_seconds: self.timeline.step_seconds(),
            gpus: line("GPUs", &self.gauges.gpus, GPUS),
            gpus_busy: line("GPUs in use", &self.gauges.busy, GPUS),
            jobs_waiting: line("jobs waiting", &self.gauges.jobs_waiting, 1.0),
            gpus_waiting: line("GPUs waited for", &self.gauges.gpus_waiting, GPUS),
            gpus_fragmented: line("free GPUs on partly used nodes", &self.gauges.fragmented, GPUS),
            nodes_powered: line("nodes in use", &self.gauges.powered, 1.0),
            watts: line("watts", &self.gauges.watts, 1.0),
            queues,
        }
    }

    pub fn queue(&mut self, name: &QueueName) -> usize {
        if let Some(index) = self.queue_index.get(name) {
            return *index;
        }
        self.queue_index.insert(name.clone(), self.queues.len());
        self.queue_names.push(name.clone());
        self.queues.push(Gauge::default());
        self.queues.len() - 1
    }

    fn change_node(&mut self, at: i64, index: u32, change_it: impl FnOnce(&mut NodeBook)) {
        let book = &mut self.nodes[index as usize];
        let before = book.shares();
        change_it(book);
        let after = book.shares();
        let Gauges { gpus, fragmented, powered, watts, .. } = &mut self.gauges;
        for (gauge, (before, after)) in
            [gpus, fragmented, powered, watts].into_iter().zip(before.into_iter().zip(after))
        {
            if before != after {
                gauge.set(&self.timeline, at, gauge.value() - before + after);
            }
        }
    }
}

impl Gauges {
    fn all_mut(&mut self) -> [&mut Gauge; 7] {
        let Self { gpus, busy, jobs_waiting, gpus_waiting, fragmented, powered, watts } = self;
        [gpus, busy, jobs_waiting, gpus_waiting, fragmented, powered, watts]
    }
}

fn change(gauge: &mut Gauge, timeline: &Timeline, at: i64, by: u64, added: bool) {
    let value = if added { gauge.value() + by } else { gauge.value().saturating_sub(by) };
    gauge.set(timeline, at, value);
}
