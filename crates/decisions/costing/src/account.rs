//! One account is one node name on one day, UTC: everything that was used there, and everything that was idle.

use crate::money::Amount;
use crate::time::{Day, Moment};

/// A node name on a day.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account {
    /// The node's name.
    pub node: String,
    /// The day.
    pub day: Day,
}

/// What a node-second was used for. Each has exactly one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The pod's containers run.
    Productive,
    /// The pod has its GPUs and does not run yet: images and volumes are being fetched.
    Starting,
    /// The containers ran, and what they did is in no checkpoint that a later attempt loaded.
    Lost,
    /// The machine was bought, and is not open to pods yet.
    NodeStarting,
    /// No pod holds it.
    NodeIdle,
}

impl Class {
    /// Each of them.
    pub const ALL: [Self; 5] =
        [Self::Productive, Self::Starting, Self::Lost, Self::NodeStarting, Self::NodeIdle];
}

/// What a line is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A pod, by UID.
    Pod(String),
    /// What is left of the node.
    Idle,
}

/// What is charged; all empty for idle nodes and for spares that start.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attribution {
    /// The tenant.
    pub namespace: Option<String>,
    /// The pod's name.
    pub pod: Option<String>,
    /// The Run.
    pub run: Option<String>,
    /// The attempt of the Run.
    pub attempt: Option<u32>,
    /// The queue.
    pub queue: Option<String>,
    /// Who submitted it.
    pub user: Option<String>,
}

/// What was used from one moment to another, at one price. Half-open: `[from, to)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// What it is about.
    pub subject: Subject,
    /// Which life of the node.
    pub node_uid: String,
    /// What it was used for.
    pub class: Class,
    /// The first second.
    pub from: Moment,
    /// The first second after.
    pub to: Moment,
    /// GPUs held, or idle; below zero if pods hold more than the node has.
    pub gpus: i64,
    /// What is charged.
    pub attribution: Attribution,
    /// Cost per second; `None` if the node had no price then, which is an error that people must fix.
    pub rate: Option<Amount>,
    /// How much more a second would have cost on demand: above zero only on spot machines that we bought.
    pub saved_rate: Amount,
}

/// What is in use now: it grows by `rate` with every second until it becomes a [`Line`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenLine {
    /// As the line that it will become; `to` is the moment of the fold.
    pub line: Line,
}

/// Something that must not happen. It is shown to people and never smoothed over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// Pods hold more of the node than it has: its idle line is negative.
    Overcommitted {
        /// From when.
        from: Moment,
        /// Until when.
        to: Moment,
    },
    /// A pod was there before its node or between two lives of it, or its node was never seen: that part of its use
    /// is on no line.
    OutsideNode {
        /// The pod.
        pod_uid: String,
    },
}

/// The account at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fold {
    /// It will not change unless something new is learned about the past.
    pub closed: Vec<Line>,
    /// It continues.
    pub open: Vec<OpenLine>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

impl Attribution {
    /// Joins two reports on what is charged. They differ only in how much they say; if they contradicted each other,
    /// the greater would count.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            namespace: self.namespace.max(other.namespace),
            pod: self.pod.max(other.pod),
            run: self.run.max(other.run),
            attempt: self.attempt.max(other.attempt),
            queue: self.queue.max(other.queue),
            user: self.user.max(other.user),
        }
    }
}

impl Line {
    /// How many seconds.
    pub fn seconds(&self) -> i64 {
        self.to.0 - self.from.0
    }

    /// GPUs times seconds.
    pub fn gpu_seconds(&self) -> i64 {
        self.seconds() * self.gpus
    }

    /// What it costs; `None` without a price.
    pub fn amount(&self) -> Option<Amount> {
        self.rate.map(|rate| rate * self.seconds())
    }

    /// How much more it would have cost on demand.
    pub fn saved(&self) -> Amount {
        self.saved_rate * self.seconds()
    }

    /// Whether it exists only because of an interruption: work that was lost, or a repeated start, in an attempt that
    /// is not the first.
    pub fn is_of_interruption(&self) -> bool {
        let is_again = self.attribution.attempt.is_some_and(|attempt| attempt > 1);
        match self.class {
            Class::Lost => true,
            Class::Starting | Class::NodeStarting => is_again,
            Class::Productive | Class::NodeIdle => false,
        }
    }
}
