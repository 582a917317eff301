//! Pods, and where they count.

use jiff::Timestamp;

use crate::devices::{DeviceAsk, DeviceUse};
use crate::gangs::GangSlot;
use crate::nodes::NodeId;
use crate::objects::Pod;
use crate::queues::{Charge, QueueSlot};
use crate::shapes::ShapeId;

/// A pod's number. It is valid until the next change is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId(pub(crate) u32);

/// Why a pod counts on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// It was seen there.
    Bound,
    /// We decided so, and are about to bind it.
    Assumed,
    /// It will go there once the pods in the way are gone. They count as well, so less than nothing may be free.
    Held,
}

/// What we decided about a pod that was not seen on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub node: NodeId,
    pub devices: Vec<DeviceUse>,
    /// When it was decided.
    pub since: Timestamp,
    /// Until when the node is held; `None` for an assumption.
    pub held_until: Option<Timestamp>,
}

/// Where a pod counts. Forks change nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodStanding {
    pub decision: Option<Decision>,
    /// Whether it counts as gone from where it was seen.
    pub evicted: bool,
}

impl PodStanding {
    pub fn decided(decision: Decision) -> Self {
        Self { decision: Some(decision), evicted: false }
    }
}

/// How a member counts in its gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It needs a node.
    Pending,
    /// A node is held for it.
    Held,
    /// It has a node.
    Placed,
    /// It has a node, and is being deleted.
    Leaving,
    /// It has no node and needs none.
    Nothing,
}

/// A pod, and where it counts.
#[derive(Clone, Debug)]
pub struct PodState {
    pub(crate) pod: Pod,
    pub(crate) standing: PodStanding,
    pub(crate) at: Option<NodeId>,
    pub(crate) shape: ShapeId,
    /// Its gang, if it is ours.
    pub(crate) gang: Option<GangSlot>,
    /// The queue it belongs to, if it belongs to one.
    pub(crate) queue: Option<QueueSlot>,
    pub(crate) charged: Option<Charge>,
    /// Whether it stands for the successor of a pod that is moved: it takes room on the node it goes to, and is not a
    /// pod.
    pub(crate) stand_in: bool,
}

impl PodState {
    /// The pod as it was last seen.
    pub fn pod(&self) -> &Pod {
        &self.pod
    }

    /// The node on which it counts.
    pub fn at(&self) -> Option<NodeId> {
        self.at
    }

    /// Its shape; see [`crate::PodShape`].
    pub fn shape(&self) -> ShapeId {
        self.shape
    }

    /// Why it counts on a node; `None` if it does not.
    pub fn place(&self) -> Option<Place> {
        match &self.standing.decision {
            Some(decision) if decision.held_until.is_some() => Some(Place::Held),
            Some(_) => Some(Place::Assumed),
            None => (self.pod.node.is_some() && !self.standing.evicted).then_some(Place::Bound),
        }
    }

    /// Whether it counts on a node only because we decided so, and was not seen there yet.
    pub fn is_assumed(&self) -> bool {
        self.place() == Some(Place::Assumed)
    }

    /// The devices it has or will have, on an Exact node.
    pub fn devices(&self) -> &[DeviceUse] {
        match &self.standing.decision {
            Some(decision) => &decision.devices,
            None => &self.pod.devices,
        }
    }

    /// Since when it has its node, as far as is known.
    pub fn started(&self) -> Option<Timestamp> {
        match self.place()? {
            Place::Bound => self.pod.started,
            Place::Assumed => self.standing.decision.as_ref().map(|decision| decision.since),
            Place::Held => None,
        }
    }

    /// What it asks of GPUs in all, in thousandths: whole ones, shares and slices.
    pub fn gpu_millis(&self) -> i64 {
        self.pod.requests.gpus.saturating_mul(1000).saturating_add(self.share_millis())
    }

    /// What it asks of single devices, in thousandths; a memory slice is an eighth of a device.
    pub(crate) fn share_millis(&self) -> i64 {
        match self.pod.device {
            DeviceAsk::Whole => 0,
            DeviceAsk::Share { millis } => i64::from(millis),
            DeviceAsk::Mig { profile } => i64::from(profile.slices()) * 125,
        }
    }

    pub(crate) fn role(&self) -> Role {
        match self.place() {
            Some(Place::Held) => Role::Held,
            Some(_) if self.pod.terminating => Role::Leaving,
            Some(_) => Role::Placed,
            None if self.pod.terminating || self.standing.evicted => Role::Nothing,
            None => Role::Pending,
        }
    }
}
