//! Sends the dispatcher's effects. Its parts return effects; only the outbox has writers.

use std::sync::Arc;

use cluster_apply::{EffectWriter, StatusWriter, Target, Value};
use cluster_model::plan::Effect as ClusterEffect;
use cluster_model::{GangKey, NodeName};
use serde_json::Value as Json;
use tokio::sync::mpsc;

use crate::machines::{CapacityBackend, Order};

/// One effect of the dispatcher.
#[derive(Clone, Debug)]
pub enum DispatcherEffect {
    /// On pods and Holds.
    Cluster(ClusterEffect),
    /// On a status that people read.
    Notice(Notice),
    /// On machines.
    Machines(MachineEffect),
    /// Ask the API server how many members of a gang have ended.
    AskEnded(GangKey),
}

/// A status to write, or to take back.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Write this about it.
    Say(Target, Value),
    /// Write nothing more about it.
    Forget(Target),
    /// Remove a run's `status.waiting`.
    Clear(Target),
}

/// An effect on machines that are bought.
#[derive(Clone, Debug)]
pub enum MachineEffect {
    /// Order all machines of a launch.
    Order(Order),
    /// Give the machine of a claim back.
    GiveBack(Arc<str>),
    /// Change a node, by a JSON patch.
    PatchNode(NodeName, Json),
    /// More gangs wait: a decision is due now.
    DecideNow,
}

impl From<ClusterEffect> for DispatcherEffect {
    fn from(effect: ClusterEffect) -> Self {
        Self::Cluster(effect)
    }
}

impl From<Notice> for DispatcherEffect {
    fn from(notice: Notice) -> Self {
        Self::Notice(notice)
    }
}

impl From<MachineEffect> for DispatcherEffect {
    fn from(effect: MachineEffect) -> Self {
        Self::Machines(effect)
    }
}

/// The writers.
pub struct Outbox {
    /// For pods and Holds.
    pub effects: EffectWriter,
    /// For statuses.
    pub status: StatusWriter,
    /// For machines, if they are bought.
    pub machines: Option<Arc<dyn CapacityBackend>>,
    /// For questions about members that ended.
    pub questions: mpsc::UnboundedSender<GangKey>,
}

impl Outbox {
    /// Sends effects, in their order. The effects of one plan are sent together.
    pub fn send(&self, effects: impl IntoIterator<Item = DispatcherEffect>) {
        let mut for_cluster = Vec::new();
        for effect in effects {
            match effect {
                DispatcherEffect::Cluster(effect) => for_cluster.push(effect),
                DispatcherEffect::Notice(Notice::Say(target, value)) => self.status.submit(target, value),
                DispatcherEffect::Notice(Notice::Forget(target)) => self.status.forget(&target),
                DispatcherEffect::Notice(Notice::Clear(run)) => self.status.clear_run(&run),
                DispatcherEffect::Machines(effect) => self.send_to_machines(effect),
                // Without a receiver the process is ending.
                DispatcherEffect::AskEnded(gang) => drop(self.questions.send(gang)),
            }
        }
        self.effects.write(for_cluster);
    }

    fn send_to_machines(&self, effect: MachineEffect) {
        let Some(backend) = &self.machines else { return };
        match effect {
            MachineEffect::Order(order) => backend.order(&order),
            MachineEffect::GiveBack(claim) => backend.give_back(&claim),
            MachineEffect::PatchNode(node, patch) => backend.patch_node(&node, patch),
            MachineEffect::DecideNow => backend.more_wait(),
        }
    }

    /// Begins nothing more, and waits for the requests under way until the server would give them up.
    pub async fn stop(self) {
        self.effects.stop().await;
    }
}
