//! Machines that are bought for gangs, as the loop knows them: kept for their gang until it has started, and
//! closed before they go. `moves.rs` has the gangs that leave them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::names::{FOR_GANG_TAINT, LAUNCH_LABEL};
use capacity::Decision;
use capacity::buy::is_for_nodes;
use capacity::claim::{Launch, LaunchKey};
use capacity::idle::is_empty;
use capacity::launches::{nodes_by_launch, waits_for_machines};
use capacity::reserve;
use cluster_apply::{Target, Value};
use cluster_model::plan::{Nature, WaitReason, WaitingGang};
use cluster_model::{ClusterChange, ClusterState, Gang, GangKey, Node, NodeName, Pod};
use serde_json::{Value as Json, json};
use tracing::debug;

use super::outbox::{DispatcherEffect, MachineEffect, Notice};
use crate::explain;
use crate::machines::guard::queue_bounds;
use crate::machines::{Decided, Order};

/// The loop's memory of bought machines.
#[derive(Debug, Default)]
pub(super) struct Machines {
    /// Whether machines are bought at all.
    are_bought: bool,
    /// Nodes that are kept for a gang, by the gang's mark.
    kept: BTreeMap<Arc<str>, BTreeSet<NodeName>>,
    /// Nodes that go: no pod is placed on them any more. With each, whether it would otherwise take pods, as
    /// last seen.
    pub(super) closing: BTreeMap<NodeName, bool>,
    /// Launches that were given up, by name: their later nodes go as well.
    given_up: BTreeSet<String>,
    /// Gangs that were told to move, with the nodes that are closed for it, until the outcome is known.
    pub(super) moving: BTreeMap<GangKey, Vec<NodeName>>,
    /// The last decision about each gang that waits for nodes.
    said: BTreeMap<GangKey, Said>,
    /// How many gangs waited in the last plan.
    waiting: usize,
}

/// A decision about a gang that waits for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    /// Machines of its own are on their way, or none are bought.
    Reason(WaitReason),
    /// A pool may buy a machine for it: Karpenter buys for the reason `Unschedulable`.
    FromPool,
}

impl Machines {
    /// Nothing is known yet. `are_bought` says whether machines are bought at all.
    pub fn new(are_bought: bool) -> Self {
        Self { are_bought, ..Self::default() }
    }

    /// Applies a cluster change with what is known of machines: nodes that go take no pods, and the gang for
    /// which a machine was bought tolerates its taint.
    pub fn apply(&mut self, state: &mut ClusterState, mut change: ClusterChange) {
        let mut first_machine_of = None;
        match &mut change {
            ClusterChange::Node(node) => first_machine_of = self.see(node),
            ClusterChange::NodeGone(node) => {
                self.closing.remove(node);
                self.forget(node);
            }
            ClusterChange::Pod(pod) => self.tolerate(pod),
            _ => {}
        }
        state.apply(change);
        if let Some(mark) = first_machine_of {
            let_in(state, &mark);
        }
    }

    fn see(&mut self, node: &mut Node) -> Option<Arc<str>> {
        if node.labels.get(LAUNCH_LABEL).is_some_and(|launch| self.given_up.contains(&**launch)) {
            self.closing.entry(node.name.clone()).or_insert(node.schedulable);
        }
        if let Some(takes_pods) = self.closing.get_mut(&node.name) {
            *takes_pods = std::mem::replace(&mut node.schedulable, false);
        }
        let mark = reserve::reserved_for(node).cloned();
        if mark
            .as_ref()
            .is_some_and(|mark| self.kept.get(mark).is_some_and(|nodes| nodes.contains(&node.name)))
        {
            return None;
        }
        self.forget(&node.name);
        let mark = mark?;
        let nodes = self.kept.entry(Arc::clone(&mark)).or_default();
        nodes.insert(node.name.clone());
        (nodes.len() == 1).then_some(mark)
    }

    fn forget(&mut self, node: &NodeName) {
        if self.kept.is_empty() {
            return;
        }
        self.kept.retain(|_, nodes| {
            nodes.remove(node);
            !nodes.is_empty()
        });
    }

    fn tolerate(&self, pod: &mut Pod) {
        // Nearly always nothing is bought for a gang, and a mark costs a little.
        if self.kept.is_empty() || !pod.ours || pod.node.is_some() {
            return;
        }
        let mark = reserve::mark(&pod.gang);
        if self.kept.contains_key(mark.as_str()) {
            reserve::tolerate(pod, &mark);
        }
    }
}

impl Machines {
    /// Adds machines to the reasons of waiting gangs. For a gang that lacks only machines that are coming, they
    /// are the first reason. If more gangs wait than before, a new decision may be needed.
    pub fn explain(&mut self, waiting: &mut [WaitingGang]) -> Option<MachineEffect> {
        let before = std::mem::replace(&mut self.waiting, waiting.len());
        let decide = (waiting.len() > before).then_some(MachineEffect::DecideNow);
        for gang in waiting.iter_mut().filter(|_| !self.said.is_empty()) {
            match self.said.get(&gang.gang) {
                Some(Said::Reason(coming)) if coming.nature() == Nature::Coming && is_for_nodes(gang) => {
                    gang.reasons.insert(0, coming.clone());
                }
                Some(Said::Reason(reason)) => gang.reasons.push(reason.clone()),
                Some(Said::FromPool) | None => {}
            }
        }
        decide
    }

    /// Whether a decision that a pool buys for a gang of one may come soon.
    pub fn awaits_decision(&self, state: &ClusterState, gang: &GangKey) -> bool {
        let is_single = state.gang(gang).is_some_and(|gang| gang.members().count() == 1);
        self.are_bought && is_single && !self.said.contains_key(gang)
    }

    /// Whether a pool may buy a machine for a gang of one.
    pub fn is_from_pool(&self, gang: &GangKey) -> bool {
        self.said.get(gang) == Some(&Said::FromPool)
    }

    /// Applies a decision about machines to the state, as far as it is still right; returns the effects.
    pub fn carry_out(&mut self, state: &mut ClusterState, decided: &Decided) -> Vec<DispatcherEffect> {
        let decision = &decided.decision;
        let mut effects: Vec<DispatcherEffect> = Vec::new();
        self.said = said(decision);
        let kept = self.give_up(state, &decision.given_up);
        // A gang that was placed meanwhile needs no machines.
        let is_needed =
            |launch: &&Launch| launch.key.gang().is_none_or(|gang| waits_for_machines(state, gang));
        for launch in decision.launches.iter().filter(is_needed) {
            let queue_bounds = queue_bounds(state, launch.queue.as_ref());
            let (launch, catalogue) = (launch.clone(), Arc::clone(&decided.catalogue));
            effects.push(MachineEffect::Order(Order { launch, catalogue, queue_bounds }).into());
        }
        for release in &decision.releases {
            let is_kept = release.given_up.as_ref().is_some_and(|launch| kept.contains(launch));
            if !is_kept && is_empty(state, release.node.as_ref()) {
                if let Some(node) = &release.node {
                    self.close(state, node);
                    // The node goes, even if the gangs that were to leave it stay.
                    self.moving.values_mut().for_each(|leaves| leaves.retain(|it| it != node));
                }
                effects.push(MachineEffect::GiveBack(Arc::clone(&release.claim)).into());
            } else {
                debug!(claim = %release.claim, "The machine has pods again, and stays.");
            }
        }
        for (name, real_room) in &decision.real_rooms {
            let generation =
                decided.catalogue.get(name).and_then(|machine| machine.generation).unwrap_or_default();
            let status = explain::machine_type_status(real_room.as_ref(), generation, state.now());
            let target = Target::MachineType(Arc::clone(name));
            effects.push(Notice::Say(target, Value::MachineType(status)).into());
        }
        for it in &decision.moves {
            effects.extend(self.move_away(state, it).into_iter().map(DispatcherEffect::from));
        }
        let opened =
            decision.opens.iter().filter_map(|node| Some((node.clone(), without_mark(state, node)?)));
        effects.extend(opened.map(|(node, patch)| MachineEffect::PatchNode(node, patch).into()));
        effects
    }

    /// Closes the nodes of launches that are given up: known nodes, even if their claims do not name them yet,
    /// and later ones. Returns the launches that stay because a gang was placed on them after the decision.
    fn give_up<'a>(
        &mut self,
        state: &mut ClusterState,
        launches: &'a BTreeSet<LaunchKey>,
    ) -> BTreeSet<&'a LaunchKey> {
        self.given_up.clear();
        if launches.is_empty() {
            return BTreeSet::new();
        }
        let mut nodes = nodes_by_launch(state);
        let (mut kept, mut leaving) = (BTreeSet::new(), Vec::new());
        for launch in launches {
            let name = launch.name();
            let known = nodes.remove(name.as_str()).unwrap_or_default();
            if known.iter().all(|node| is_empty(state, Some(&node.name))) {
                leaving.extend(known.into_iter().map(|node| node.name.clone()));
                self.given_up.insert(name);
            } else {
                kept.insert(launch);
            }
        }
        leaving.retain(|node| !self.closing.contains_key(node));
        for node in &leaving {
            self.close(state, node);
        }
        kept
    }

    /// Closes a node: nothing is placed on it any more.
    pub(super) fn close(&mut self, state: &mut ClusterState, node: &NodeName) {
        let object = state.node_object(node).cloned();
        let takes_pods = object.as_ref().is_none_or(|object| object.schedulable);
        // A closed node keeps the value of its first closing.
        self.closing.entry(node.clone()).or_insert(takes_pods);
        if let Some(object) = object {
            state.apply(ClusterChange::Node(Node { schedulable: false, ..object }));
        }
    }

    /// Opens a node that stays after all.
    pub(super) fn reopen(&mut self, state: &mut ClusterState, node: &NodeName) {
        let Some(schedulable) = self.closing.remove(node) else { return };
        if let Some(object) = state.node_object(node).cloned() {
            state.apply(ClusterChange::Node(Node { schedulable, ..object }));
        }
    }
}

/// When the first machine of a gang is there, the gang's waiting pods may use it.
fn let_in(state: &mut ClusterState, mark: &str) {
    let gangs: Vec<GangKey> =
        state.waiting_gangs().filter(|gang| reserve::mark(gang) == mark).cloned().collect();
    let pods = gangs.iter().filter_map(|gang| state.gang(gang)).flat_map(Gang::pending);
    let pods: Vec<Pod> = pods.map(|pod| state.pod(pod).pod().clone()).collect();
    for mut pod in pods {
        reserve::tolerate(&mut pod, mark);
        state.apply(ClusterChange::Pod(pod));
    }
}

/// The patch that removes the gang's mark from a node. It fails if the taints have changed meanwhile.
fn without_mark(state: &ClusterState, node: &NodeName) -> Option<Json> {
    let node = state.node_object(node)?;
    let index = node.taints.iter().position(|taint| &*taint.key == FOR_GANG_TAINT)?;
    let path = format!("/spec/taints/{index}");
    Some(json!([
        { "op": "test", "path": format!("{path}/key"), "value": FOR_GANG_TAINT },
        { "op": "remove", "path": path },
    ]))
}

fn said(decision: &Decision) -> BTreeMap<GangKey, Said> {
    let coming = decision.under_way.iter().map(|(gang, launch)| {
        let reason = WaitReason::MachinesComing { machines: launch.of, ready_by: launch.ready_by };
        (gang.clone(), Said::Reason(reason))
    });
    let refused = decision.refused.iter().map(|refused| {
        let reason = WaitReason::NoMachines { why: refused.why.as_str().into() };
        (refused.gang.clone(), Said::Reason(reason))
    });
    let singles = decision.from_pools.iter().map(|gang| (gang.clone(), Said::FromPool));
    coming.chain(refused).chain(singles).collect()
}

#[cfg(test)]
mod tests;
