//! Where the dispatcher's effects go. Its parts return effects; nothing else of it holds a writer.

use std::sync::Arc;

use capacity::catalogue::Catalogue;
use capacity::claim::Launch;
use cluster_apply::{EffectWriter, StatusWriter, Target, Value};
use cluster_model::plan::Effect as ClusterEffect;
use cluster_model::{GangKey, NodeName};
use serde_json::Value as Json;
use tokio::sync::mpsc;

use crate::machines::CapacityBackend;

/// One thing that the dispatcher wants done.
#[derive(Clone, Debug)]
pub enum Effect {
    /// To pods and Holds.
    Cluster(ClusterEffect),
    /// What people read.
    Notice(Notice),
    /// To machines.
    Machines(MachineEffect),
    /// Ask the API server how many members of a gang have ended.
    AskEnded(GangKey),
}

/// What people are told, and what is not true any more.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Write this about it.
    Say(Target, Value),
    /// Write nothing more about it.
    Forget(Target),
    /// Take back that a run waits.
    Clear(Target),
}

/// To machines that are bought.
#[derive(Clone, Debug)]
pub enum MachineEffect {
    /// Order all machines of a launch.
    Order(Launch, Arc<Catalogue>),
    /// Give the machine of a claim back.
    GiveBack(Arc<str>),
    /// Change a node, by a JSON patch.
    PatchNode(NodeName, Json),
    /// More gangs wait: a decision is due now.
    DecideNow,
}

impl From<ClusterEffect> for Effect {
    fn from(effect: ClusterEffect) -> Self {
        Self::Cluster(effect)
    }
}

impl From<Notice> for Effect {
    fn from(notice: Notice) -> Self {
        Self::Notice(notice)
    }
}

impl From<MachineEffect> for Effect {
    fn from(effect: MachineEffect) -> Self {
        Self::Machines(effect)
    }
}

/// The writers.
pub struct Outbox {
    /// Of pods and Holds.
    pub effects: EffectWriter,
    /// Of statuses.
    pub status: StatusWriter,
    /// Of machines, if they are bought.
    pub machines: Option<Arc<dyn CapacityBackend>>,
    /// Who asks about members that ended.
    pub questions: mpsc::UnboundedSender<GangKey>,
}

impl Outbox {
    /// Sends effects, in their order. The effects of one plan are sent together.
    pub fn send(&self, effects: impl IntoIterator<Item = Effect>) {
        let mut for_cluster = Vec::new();
        for effect in effects {
            match effect {
                Effect::Cluster(effect) => for_cluster.push(effect),
                Effect::Notice(Notice::Say(target, value)) => self.status.submit(target, value),
                Effect::Notice(Notice::Forget(target)) => self.status.forget(&target),
                Effect::Notice(Notice::Clear(run)) => self.status.clear_run(&run),
                Effect::Machines(effect) => self.send_to_machines(effect),
                // Without a receiver the process is ending.
                Effect::AskEnded(gang) => drop(self.questions.send(gang)),
            }
        }
        self.effects.write(for_cluster);
    }

    fn send_to_machines(&self, effect: MachineEffect) {
        let Some(backend) = &self.machines else { return };
        match effect {
            MachineEffect::Order(launch, catalogue) => backend.order(&launch, &catalogue),
            MachineEffect::GiveBack(claim) => backend.give_back(&claim),
            MachineEffect::PatchNode(node, patch) => backend.patch_node(&node, patch),
            MachineEffect::DecideNow => backend.more_wait(),
        }
    }

    /// Begins nothing more, and waits for what is under way, for as long as the server takes to give it up.
    pub async fn stop(self) {
        self.effects.stop().await;
    }
}
