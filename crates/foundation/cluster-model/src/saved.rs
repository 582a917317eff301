//! The state, written down: everything that it is made from, and nothing that follows from it. A restored state plans
//! what the saved one would have planned, to the last byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::budgets::Budget;
use crate::decay::Accounts;
use crate::devices::DeviceUse;
use crate::gangs::RunRecord;
use crate::history::History;
use crate::names::{GangKey, NodeName, QueueName};
use crate::near::LabelSet;
use crate::objects::{ClusterChange, Node, Pod, Queue};
use crate::plan::Departure;
use crate::pods::{Decision, PodId, PodStanding};
use crate::state::ClusterState;
use crate::workload::LearnedWorkload;

/// A state, by name where order does not matter.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Saved {
    generation: u64,
    now: Timestamp,
    nodes: Vec<Node>,
    namespaces: Vec<(Arc<str>, LabelSet)>,
    budgets: Vec<Budget>,
    queues: Vec<Queue>,
    accounts: Vec<(QueueName, Accounts)>,
    pods: Vec<SavedPod>,
    gangs: Vec<SavedGang>,
    /// Victims and claimants, the oldest first.
    evicted: Vec<(GangKey, GangKey)>,
    history: History,
    workload: LearnedWorkload,
}

/// A pod, and what was decided about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedPod {
    pod: Pod,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decision: Option<SavedDecision>,
    /// Whether it is not a pod, but keeps room for the successor of one.
    #[serde(default, skip_serializing_if = "is_false")]
    stand_in: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedDecision {
    node: NodeName,
    devices: Vec<DeviceUse>,
    since: Timestamp,
    held_until: Option<Timestamp>,
}

/// What is known about a gang apart from its pods.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedGang {
    gang: GangKey,
    ended: u32,
    departure: Option<Departure>,
    run: Option<RunRecord>,
}

impl ClusterState {
    /// Everything that the state is made from; O(n).
    pub fn save(&self) -> Saved {
        // Every field is named, so that a new one cannot be forgotten here.
        let Self {
            generation,
            nodes,
            pods,
            queues,
            gangs,
            evicted,
            history,
            workload,
            near,
            budgets,
            // These follow from the pods.
            pod_by_name: _,
            pods_by_namespace: _,
            shapes: _,
            holds: _,
            // These are empty between plans, or may be.
            undo: _,
            steps: _,
            memory: _,
            forks_open: _,
        } = self;
        let mut nodes: Vec<Node> = nodes.iter().filter_map(|(_, node)| node.object.clone()).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let mut pods: Vec<SavedPod> = pods.iter().map(|(slot, _)| self.save_pod(PodId(slot))).collect();
        pods.sort_by(|one, other| (one.stand_in, &one.pod.key).cmp(&(other.stand_in, &other.pod.key)));
        let gangs =
            gangs.iter().filter(|gang| gang.ended > 0 || gang.departure.is_some() || gang.run.is_some());
        let gangs: BTreeMap<&GangKey, SavedGang> = gangs
            .map(|gang| {
                let (ended, departure, run) = (gang.ended, gang.departure.clone(), gang.run);
                (gang.key(), SavedGang { gang: gang.key().clone(), ended, departure, run })
            })
            .collect();
        Saved {
            generation: *generation,
            now: queues.now(),
            nodes,
            namespaces: near.namespaces().map(|(name, labels)| (name.clone(), labels.clone())).collect(),
            budgets: budgets.values().cloned().collect(),
            queues: queues.iter().map(|(queue, _)| queue.clone()).collect(),
            accounts: queues.accounts().map(|(name, accounts)| (name.clone(), accounts.clone())).collect(),
            pods,
            gangs: gangs.into_values().collect(),
            evicted: evicted.by_age().cloned().collect(),
            history: history.clone(),
            workload: workload.clone(),
        }
    }

    /// The state that was saved.
    pub fn restore(saved: Saved) -> Self {
        let mut state = Self::default();
        saved.queues.into_iter().for_each(|queue| state.apply(ClusterChange::Queue(queue)));
        saved.nodes.into_iter().for_each(|node| state.apply(ClusterChange::Node(node)));
        for (name, labels) in saved.namespaces {
            state.apply(ClusterChange::Namespace { name, labels });
        }
        saved.budgets.into_iter().for_each(|budget| state.apply(ClusterChange::Budget(budget)));
        for SavedPod { pod, decision, stand_in } in saved.pods {
            state.restore_pod(pod, decision, stand_in);
        }
        saved.evicted.into_iter().for_each(|pair| state.evicted.remember(pair));
        // Pod by pod, a gang may have seemed to run before all of it was there.
        state.gangs.forget_runs();
        saved.gangs.into_iter().for_each(|gang| state.restore_gang(gang));
        state.queues.put_accounts(saved.accounts, saved.now);
        (state.history, state.workload) = (saved.history, saved.workload);
        state.generation = saved.generation;
        state
    }

    fn save_pod(&self, id: PodId) -> SavedPod {
        let state = self.pod(id);
        let decision = state.standing.decision.as_ref().map(|decision| SavedDecision {
            node: self.node(decision.node).name.clone(),
            devices: decision.devices.clone(),
            since: decision.since,
            held_until: decision.held_until,
        });
        SavedPod { pod: state.pod.clone(), decision, stand_in: state.stand_in }
    }

    fn restore_pod(&mut self, pod: Pod, decision: Option<SavedDecision>, stand_in: bool) {
        let standing = decision.map(|decision| {
            PodStanding::decided(Decision {
                node: self.nodes.id_or_new(&decision.node),
                devices: decision.devices,
                since: decision.since,
                held_until: decision.held_until,
            })
        });
        match standing {
            Some(standing) if stand_in => self.restore_stand_in(pod, standing),
            standing => {
                let key = pod.key.clone();
                self.apply(ClusterChange::Pod(pod));
                if let (Some(standing), Some(id)) = (standing, self.pod_id(&key)) {
                    self.stand_for_good(id, standing);
                }
            }
        }
    }

    fn restore_gang(&mut self, saved: SavedGang) {
        let Some(slot) = self.gangs.slot(&saved.gang) else { return };
        self.note_ended(&saved.gang, saved.ended);
        if let Some(departure) = &saved.departure {
            let lineages = self.lineages_of(&saved.gang, departure);
            self.evicted.mark(&saved.gang, lineages);
        }
        let gang = self.gangs.get_mut(slot);
        (gang.departure, gang.run) = (saved.departure, saved.run);
        let key = gang.key.clone();
        self.gangs.ends.extend(saved.run.and_then(|run| run.ends_by).map(|end| (end, key)));
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_false(value: &bool) -> bool {
    !*value
}
