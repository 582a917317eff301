//! What is known about the use of pods and nodes. Records of the same pod are joined: the result does not depend on
//! their order or number, so a replayed, repeated or late event changes nothing that is right.

use crate::known::join_known;
use crate::purchase::Purchase;
use crate::time::Moment;

/// When something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Taken as its end until the true one is known: it vanished while nothing watched.
    Provisional(Moment),
    /// Reported by the object itself, or seen.
    Certain(Moment),
}

/// One pod on one node, from reservation to release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRecord {
    /// Its UID.
    pub uid: String,
    /// Its namespace: the tenant.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The name of its node.
    pub node: String,
    /// Its Run, if it has one.
    pub run: Option<String>,
    /// Its attempt of the Run, from 1.
    pub attempt: Option<u32>,
    /// The queue that is charged.
    pub queue: Option<String>,
    /// The user who submitted the Run.
    pub user: Option<String>,
    /// GPUs it holds.
    pub gpus: u32,
    /// CPU it requests, in thousandths of a core; its share of a node without GPUs.
    pub cpu_millis: i64,
    /// The `PodScheduled` transition.
    pub scheduled_at: Moment,
    /// When its first container started.
    pub started_at: Option<Moment>,
    /// When its last container ended.
    pub ended: Option<End>,
    /// When its work begins to be lost: a later attempt of its Run has begun from a checkpoint of that time.
    pub lost_from: Option<Moment>,
}

/// One life of a node: another node of the same name is another record. So is a machine that was bought, as long as
/// no Node stands for it: under the name and the UID of its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its UID.
    pub uid: String,
    /// Its name.
    pub name: String,
    /// Its creation.
    pub created_at: Moment,
    /// What it was seen to be, and when; ordered, never empty. Nothing is dropped, because a join that forgets what
    /// looks redundant would depend on the order of joins; [`NodeRecord::shape_changes`] reads it. It grows with each
    /// entry that is joined, so record an observation only if it is [`NodeRecord::is_news`].
    pub shapes: Vec<(Moment, NodeShape)>,
    /// When it was gone.
    pub ended: Option<End>,
    /// How it was bought, if we bought it: then its price is what was paid, and no price sheet counts.
    pub bought: Option<Purchase>,
}

/// What a node's price depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeShape {
    /// For example `p5.48xlarge`.
    pub instance_type: Option<String>,
    /// `on-demand`, `spot`, `reserved`; `on-premises` if no label says.
    pub capacity_type: String,
    /// For example `H100`.
    pub gpu_type: Option<String>,
    /// GPUs in it.
    pub gpus: u32,
    /// CPU in it, in thousandths of a core.
    pub cpu_millis: i64,
}

impl End {
    /// The moment, certain or not.
    pub fn at(self) -> Moment {
        match self {
            Self::Provisional(at) | Self::Certain(at) => at,
        }
    }

    /// Certain before provisional; of two certain ends the later (another container ended), of two provisional ones
    /// the earlier.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Certain(one), Self::Certain(other)) => Self::Certain(one.max(other)),
            (Self::Provisional(one), Self::Provisional(other)) => Self::Provisional(one.min(other)),
            (certain @ Self::Certain(_), Self::Provisional(_))
            | (Self::Provisional(_), certain @ Self::Certain(_)) => certain,
        }
    }
}

impl PodRecord {
    /// Joins what was known with what is reported now, of the same pod: earliest start; ends as in [`End::join`];
    /// lost work stays lost. What names the pod never differs; if it did, the greater would count, in any order.
    /// Commutative, associative, idempotent.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            uid: self.uid.max(other.uid),
            namespace: self.namespace.max(other.namespace),
            name: self.name.max(other.name),
            node: self.node.max(other.node),
            run: self.run.max(other.run),
            attempt: self.attempt.max(other.attempt),
            queue: self.queue.max(other.queue),
            user: self.user.max(other.user),
            gpus: self.gpus.max(other.gpus),
            cpu_millis: self.cpu_millis.max(other.cpu_millis),
            scheduled_at: self.scheduled_at.min(other.scheduled_at),
            started_at: join_known(self.started_at, other.started_at, Moment::min),
            ended: join_known(self.ended, other.ended, End::join),
            lost_from: join_known(self.lost_from, other.lost_from, Moment::min),
        }
    }
}

impl NodeRecord {
    /// Joins what was known with what is reported now, of the same node: earliest creation, everything that was seen,
    /// ends as in [`End::join`], and what is known about its purchase. Commutative, associative, idempotent.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        let mut shapes = self.shapes;
        shapes.extend(other.shapes);
        shapes.sort_unstable();
        shapes.dedup();
        Self {
            uid: self.uid.max(other.uid),
            name: self.name.max(other.name),
            created_at: self.created_at.min(other.created_at),
            shapes,
            ended: join_known(self.ended, other.ended, End::join),
            bought: join_known(self.bought, other.bought, Purchase::join),
        }
    }

    /// Takes in a report on its purchase. Returns whether that is news.
    pub fn learn_purchase(&mut self, said: Option<Purchase>) -> bool {
        let joined = join_known(self.bought.clone(), said, Purchase::join);
        let is_news = joined != self.bought;
        self.bought = joined;
        is_news
    }

    /// What it is, and since when: the first from `created_at`, neighbours different. GPUs that vanish for a while (a
    /// device plugin restarts) stay: a shape's counts never fall below an earlier one's. Of two shapes that were seen
    /// in the same second, the greater counts as the later.
    pub fn shape_changes(&self) -> Vec<(Moment, NodeShape)> {
        let mut seen: Vec<_> = self.shapes.iter().collect();
        seen.sort_unstable();
        let mut changes: Vec<(Moment, NodeShape)> = Vec::new();
        for (at, shape) in seen {
            // The first one stands for the time before it was seen.
            let Some((last_at, last)) = changes.last_mut() else {
                changes.push((self.created_at, shape.clone()));
                continue;
            };
            let (at, shape) = ((*at).max(self.created_at), shape.with_counts_of(last));
            if at <= *last_at {
                *last = shape;
            } else if shape != *last {
                changes.push((at, shape));
            }
        }
        // Two shapes of one second may leave the second one equal to its neighbour before it.
        changes.dedup_by(|later, earlier| later.1 == earlier.1);
        changes
    }

    /// Whether seeing this shape at this moment changes anything.
    pub fn is_news(&self, at: Moment, shape: &NodeShape) -> bool {
        let changes = self.shape_changes();
        let known = changes.iter().rfind(|(from, _)| *from <= at).or(changes.first());
        known.is_none_or(|(_, known)| shape.with_counts_of(known) != *known)
    }
}

impl NodeShape {
    fn with_counts_of(&self, earlier: &Self) -> Self {
        Self {
            gpus: self.gpus.max(earlier.gpus),
            cpu_millis: self.cpu_millis.max(earlier.cpu_millis),
            ..self.clone()
        }
    }
}
