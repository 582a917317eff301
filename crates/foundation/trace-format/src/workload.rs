//! What a trace holds: a cluster, its queues, jobs and what happens to nodes. Plain data, read, recorded or generated.

use std::sync::Arc;

use cluster_model::{DeviceAsk, GpuType, Node, NodeName, Queue, QueueName, Resources, Terms};
use jiff::Timestamp;

/// Everything that a trace holds, and that a simulation is given.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Nodes that are there from the start.
    pub nodes: Vec<Node>,
    /// Queues. A queue that jobs name and that is not here is created, without bounds.
    pub queues: Vec<Queue>,
    /// Jobs, in any order.
    pub jobs: Vec<Job>,
    /// What happens to nodes, in any order.
    pub events: Vec<(Timestamp, Event)>,
}

/// Something to run: members that start together.
///
/// A million of them are held in memory at about 160 bytes each, with the name; what jobs have in common is shared.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name, unique in its queue.
    pub name: Arc<str>,
    /// The queue that is charged; the team.
    pub queue: QueueName,
    /// The team, as the namespace of its pods, if that is not the queue. The queue must be open to it.
    pub team: Option<Arc<str>>,
    /// Who submitted it.
    pub user: Option<Arc<str>>,
    /// When.
    pub submitted: Timestamp,
    /// How long it runs if nothing stops it. The planner does not know this.
    pub run_seconds: u32,
    /// How many members it has, at least 1.
    pub members: u32,
    /// How many of them must start together; fewer than all if it is elastic.
    pub members_min: u32,
    /// What each of them asks for.
    pub requests: Resources,
    /// What each of them asks of a device.
    pub device: DeviceAsk,
    /// The GPU types that are acceptable, sorted; any if empty.
    pub gpu_types: Arc<[GpuType]>,
    /// Higher comes first.
    pub priority: i32,
    /// How often it saves its state; without it, an interruption loses everything.
    pub checkpoint_seconds: Option<u32>,
    /// What it asks beyond that.
    pub terms: Arc<Terms>,
}

impl Job {
    /// A job of one member without GPUs that ends at once.
    pub fn new(name: impl Into<Arc<str>>, queue: impl Into<QueueName>, submitted: Timestamp) -> Self {
        Self {
            name: name.into(),
            queue: queue.into(),
            team: None,
            user: None,
            submitted,
            run_seconds: 0,
            members: 1,
            members_min: 1,
            requests: Resources { pods: 1, ..Resources::default() },
            device: DeviceAsk::Whole,
            gpu_types: Arc::default(),
            priority: 0,
            checkpoint_seconds: None,
            terms: Arc::default(),
        }
    }

    /// GPUs of all members, in thousandths: a share counts as its part, a MIG instance by its memory slices.
    pub fn gpu_millis(&self) -> u64 {
        let each = match self.device {
            DeviceAsk::Whole => u64::try_from(self.requests.gpus).unwrap_or(0) * 1000,
            DeviceAsk::Share { millis } => u64::from(millis),
            DeviceAsk::Mig { profile } => u64::from(profile.slices()) * 125,
        };
        each * u64::from(self.members)
    }

    /// How long it runs at most: its time limit ends it.
    pub fn run_seconds_within_limit(&self) -> u32 {
        self.terms.time_limit_seconds.map_or(self.run_seconds, |limit| limit.min(self.run_seconds))
    }
}

/// What happens to nodes and queues.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A node appears, or comes back, or changes.
    NodeUp(Node),
    /// A node fails: it is gone at once, with all that ran on it.
    NodeDown(NodeName),
    /// A node will be taken away: it takes no more pods, and is gone after the notice.
    NodeLeaves {
        /// The node.
        node: NodeName,
        /// How long after this.
        notice_seconds: u32,
    },
    /// A queue is new or different.
    Queue(Queue),
}
