//! One account is one node name on one day, UTC: everything that was used there, and what nobody used.

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

/// What a node-second was good for. Every one has exactly one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The pod's containers run.
    Productive,
    /// The pod has its GPUs and does not run yet: images, volumes.
    Starting,
    /// The containers ran, and what they did is in no checkpoint that a later attempt loaded.
    Lost,
    /// The machine was bought, and is not open to pods yet.
    NodeStarting,
    /// Nobody holds it.
    NodeIdle,
}

impl Class {
    /// Each of them.
    pub const ALL: [Self; 5] =
        [Self::Productive, Self::Starting, Self::Lost, Self::NodeStarting, Self::NodeIdle];
}

/// Who or what a line is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A pod, by UID.
    Pod(String),
    /// What is left of the node.
    Idle,
}

/// Who is charged; all empty for idle nodes and for spares that start.
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
    /// About whom.
    pub subject: Subject,
    /// Which life of the node.
    pub node_uid: String,
    /// What for.
    pub class: Class,
    /// The first second.
    pub from: Moment,
    /// The first second after.
    pub to: Moment,
    /// GPUs held, or idle; below zero where pods hold more than the node has.
    pub gpus: i64,
    /// Who is charged.
    pub attribution: Attribution,
    /// Cost per second; `None` if the node has no price then, which is an error that people must mend.
    pub rate: Option<Amount>,
    /// What a second would have cost more on demand: above zero only on spot machines that we bought.
    pub saved_rate: Amount,
}

/// What is in use now: it grows by `rate` with every second until it becomes a [`Line`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenLine {
    /// As the line that it will become; `to` is the moment of the fold.
    pub line: Line,
}

/// Something that must not be, told to people and never smoothed over.
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

/// The account as it stands at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fold {
    /// Will not change unless something new is learnt about the past.
    pub closed: Vec<Line>,
    /// Goes on.
    pub open: Vec<OpenLine>,
    /// What is wrong.
    pub problems: Vec<Problem>,
}

impl Attribution {
    /// Joins two words on who is charged. They never differ but in how much they tell; if they did, the greater would count.
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

    /// What it would have cost more on demand.
    pub fn saved(&self) -> Amount {
        self.saved_rate * self.seconds()
    }

    /// Whether it would not have been without an interruption: work that was lost, and what starts once more, in an attempt
    /// that is not the first.
    pub fn is_of_interruption(&self) -> bool {
        let is_again = self.attribution.attempt.is_some_and(|attempt| attempt > 1);
        match self.class {
            Class::Lost => true,
            Class::Starting | Class::NodeStarting => is_again,
            Class::Productive | Class::NodeIdle => false,
        }
    }
}
