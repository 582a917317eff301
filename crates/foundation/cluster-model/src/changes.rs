//! What happens to the state: what was seen, and where pods are assumed to be. What a plan does to it is in
//! `commit.rs`.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::decay::SavedAccounts;
use crate::gangs::{GangSlot, KINDS_MAX, Order, RunRecord};
use crate::holds::{self, Seat};
use crate::names::{GangKey, GpuType, NodeName, PodKey, QueueName};
use crate::near::LabelSet;
use crate::nodes::{Interests, NodeId};
use crate::objects::{ClusterChange, Node, Pod, Queue};
use crate::plan::MemberPlacement;
use crate::pods::{Decision, Place, PodId, PodStanding, PodState};
use crate::queues::Charge;
use crate::state::{AssumeError, ClusterState, PodName};
use crate::waiting::{Likeness, Listed};

impl ClusterState {
    /// Advances the time; it never goes back. Call it before what happened then is applied.
    pub fn advance(&mut self, now: Timestamp) {
        debug_assert_eq!(self.forks_open, 0, "a fork borrows the state");
        self.queues.advance(now);
    }

    /// Continues a queue's use and savings from what an earlier leader wrote down. Call it before the first plan,
    /// when it is known what the queue holds: the queue is taken to have held that ever since.
    pub fn restore_accounts(&mut self, queue: &QueueName, saved: &SavedAccounts) {
        debug_assert_eq!(self.forks_open, 0, "a fork borrows the state");
        self.queues.restore_accounts(queue, saved);
        self.generation += 1;
    }

    /// Takes in a cluster change.
    pub fn apply(&mut self, change: ClusterChange) {
        debug_assert_eq!(self.forks_open, 0, "a fork borrows the state");
        if self.is_known(&change) {
            return;
        }
        self.generation += 1;
        match change {
            ClusterChange::Node(node) => self.set_node(&node.name.clone(), Some(node)),
            ClusterChange::NodeGone(name) => self.set_node(&name, None),
            ClusterChange::Pod(pod) => self.set_pod(pod),
            ClusterChange::PodGone(key) => {
                if let Some(id) = self.pod_id(&key) {
                    let pod = &self.pod(id).pod;
                    let (name, seat, controller) = (pod.gang.clone(), Seat::of(pod), holds::controller(pod));
                    let (gang, node) = self.remove_pod(id);
                    self.settle(gang, node);
                    self.recharge_stand_in(&name, seat);
                    self.seat_successors(controller.as_ref());
                }
            }
            ClusterChange::Queue(queue) => self.set_queue(&queue.name.clone(), Some(queue)),
            ClusterChange::QueueGone(name) => self.set_queue(&name, None),
            ClusterChange::Budget(budget) => drop(self.budgets.insert(budget.key.clone(), budget)),
            ClusterChange::BudgetGone(key) => drop(self.budgets.remove(&key)),
            ClusterChange::Namespace { name, labels } => self.set_namespace(&name, Some(labels)),
            ClusterChange::NamespaceGone(name) => self.set_namespace(&name, None),
        }
        self.near.sweep(&self.pods, &self.nodes);
    }

    /// Records how many members of a gang had a node and have ended. Pods that ended are not watched. If the start of
    /// a gang is interrupted for longer than its first members run, the gang would seem to miss them for ever.
    /// Forgotten with the gang.
    pub fn note_ended(&mut self, gang: &GangKey, members: u32) {
        debug_assert_eq!(self.forks_open, 0, "a fork borrows the state");
        let Some(slot) = self.gangs.slot(gang) else { return };
        if self.gangs.get(slot).ended != members {
            self.gangs.get_mut(slot).ended = members;
            self.generation += 1;
            self.count_gang(slot, true);
        }
    }

    /// Counts a pod on a node from now on, because we are about to bind it there.
    pub fn assume(&mut self, pod: &PodKey, node: &NodeName) -> Result<(), AssumeError> {
        self.assume_member(&MemberPlacement { pod: pod.clone(), node: node.clone(), devices: Vec::new() })
    }

    /// The same, with devices. A member for which a node is held may go there, or elsewhere.
    pub fn assume_member(&mut self, member: &MemberPlacement) -> Result<(), AssumeError> {
        let (id, node) = self.may_assume(member)?;
        self.generation += 1;
        let devices = member.devices.clone();
        let decision = Decision { node, devices, since: self.now(), held_until: None };
        self.stand_for_good(id, PodStanding::decided(decision));
        Ok(())
    }

    /// The pod and the node, if the pod may be assumed to be there.
    pub(crate) fn may_assume(&self, member: &MemberPlacement) -> Result<(PodId, NodeId), AssumeError> {
        let MemberPlacement { pod, node, .. } = member;
        let id = self.pod_id(pod).ok_or_else(|| AssumeError::UnknownPod(pod.clone()))?;
        let node = self.node_id(node).ok_or_else(|| AssumeError::UnknownNode(pod.clone(), node.clone()))?;
        if !self.is_pending(id) && self.pod(id).place() != Some(Place::Held) {
            return Err(AssumeError::NotPending(pod.clone()));
        }
        Ok((id, node))
    }

    /// Takes back an assumption, because the bind failed. Does nothing if the pod was seen on a node meanwhile,
    /// or is gone.
    pub fn forget(&mut self, pod: &PodKey) {
        if let Some(id) = self.pod_id(pod).filter(|id| self.pod(*id).is_assumed()) {
            self.generation += 1;
            // A member that is moved waits for the node that is held for it.
            let held = self.waits_without(id).then(|| self.take_stand_in_of(id)).flatten();
            self.stand_for_good(id, PodStanding { decision: held, evicted: false });
            self.settle(self.pod(id).gang, None);
        }
    }

    /// Whether a pod would wait if we had decided nothing about it.
    fn waits_without(&self, id: PodId) -> bool {
        let pod = &self.pod(id).pod;
        pod.ours && pod.node.is_none() && !pod.terminating
    }

    /// Whether a change says nothing new, such as a node's heartbeat: then there is nothing to plan either.
    fn is_known(&self, change: &ClusterChange) -> bool {
        match change {
            ClusterChange::Node(node) => self.node_object(&node.name) == Some(node),
            ClusterChange::Pod(pod) => self.pod_id(&pod.key).is_some_and(|id| self.pod(id).pod == *pod),
            ClusterChange::PodGone(key) => self.pod_id(key).is_none(),
            ClusterChange::Queue(queue) => self.queue(&queue.name).is_some_and(|(known, _)| known == queue),
            ClusterChange::Namespace { name, labels } => self.namespace(name) == Some(labels),
            ClusterChange::NamespaceGone(name) => self.namespace(name).is_none(),
            ClusterChange::Budget(budget) => {
                self.budgets.get(&budget.key).is_some_and(|known| budget.is_known_as(known))
            }
            ClusterChange::NodeGone(_) | ClusterChange::QueueGone(_) | ClusterChange::BudgetGone(_) => false,
        }
    }

    /// Makes a pod count as decided, in a fork or for good. Returns the node on which it counted before.
    pub(crate) fn stand(&mut self, id: PodId, standing: PodStanding) -> Option<NodeId> {
        let node = self.uncount_pod(id);
        self.pods.get_mut(id.0).standing = standing;
        self.count_pod(id);
        if let Some(gang) = self.pods.get(id.0).gang {
            self.count_gang(gang, true);
        }
        node
    }

    /// The same outside a fork: a node that is not there and has no pods any more is forgotten.
    pub(crate) fn stand_for_good(&mut self, id: PodId, standing: PodStanding) {
        if let Some(node) = self.stand(id, standing) {
            self.nodes.drop_if_unused(node);
        }
    }

    /// Undoes what forks changed since the undo log had this length, the last change first. Nodes and gangs that
    /// changed several times find their place once, at the end.
    pub(crate) fn take_back(&mut self, mark: usize) {
        self.nodes.begin_taking_back();
        let mut gangs = Vec::new();
        for (id, before) in self.undo.split_off(mark).into_iter().rev() {
            self.uncount_pod(id);
            self.pods.get_mut(id.0).standing = before;
            self.count_pod(id);
            let gang = self.pods.get(id.0).gang;
            gangs.extend(gang.filter(|gang| gangs.last() != Some(gang)));
        }
        self.nodes.end_taking_back();
        gangs.sort_unstable();
        gangs.dedup();
        for gang in gangs {
            self.count_gang(gang, true);
        }
    }

    /// The last fork ended, and its changes stay.
    pub(crate) fn keep_changes(&mut self) {
        self.generation += 1;
        for (pod, before) in std::mem::take(&mut self.undo) {
            let seen = self.pods.get(pod.0).pod.node.as_ref().and_then(|name| self.nodes.id(name));
            for node in seen.into_iter().chain(before.decision.map(|decision| decision.node)) {
                self.nodes.drop_if_unused(node);
            }
        }
    }

    fn set_pod(&mut self, pod: Pod) {
        // A label or a resource that only this pod looks at must not be forgotten for a moment.
        let interests = Interests::of(&pod);
        self.nodes.count_interests(&interests, true);
        self.replace_pod(pod);
        self.nodes.count_interests(&interests, false);
    }

    fn replace_pod(&mut self, mut pod: Pod) {
        self.share_namespace(&mut pod);
        let name = (pod.key.namespace.clone(), pod.key.name.clone());
        let (mut decision, mut old) = (None, (None, None));
        if let Some(&id) = self.pod_by_name.get(&name) {
            // A new pod gets a name only after the old pod is gone, even if no change said so.
            if self.pod(id).pod.key.uid == pod.key.uid {
                decision.clone_from(&self.pod(id).standing.decision);
            }
            old = self.remove_pod(id);
        } else if pod.ours {
            self.workload.pod_arrived(&pod);
        }
        let waits = pod.ours && pod.node.is_none() && !pod.terminating;
        let stand_in = if waits && decision.is_none() { self.take_stand_in(&pod) } else { None };
        let stand_in_at = stand_in.as_ref().map(|decision| decision.node);
        // A hold for a pod that is being deleted is for a start that will not come any more.
        let holds_good =
            |it: &Decision| pod.ours && pod.node.is_none() && (it.held_until.is_none() || !pod.terminating);
        let decision = decision.or(stand_in).filter(holds_good);
        let (mut gang, gang_key, seat) = (None, pod.gang.clone(), Seat::of(&pod));
        let leaves = holds::controller(&pod).filter(|_| pod.terminating);
        if pod.node.is_some() || pod.ours {
            gang = self.insert_pod(name, pod, PodStanding { decision, evicted: false });
        }
        self.settle(gang, stand_in_at);
        if old.0 == gang {
            old.0 = None;
        }
        self.settle(old.0, old.1);
        self.recharge_stand_in(&gang_key, seat);
        self.seat_successors(leaves.as_ref());
    }

    /// Pods of one namespace share its text: this saves memory, and makes names faster to compare.
    fn share_namespace(&self, pod: &mut Pod) {
        let Some((shared, _)) = self.pods_by_namespace.get_key_value(&pod.key.namespace) else { return };
        if pod.gang.namespace == *shared {
            pod.gang.namespace = shared.clone();
        }
        pod.key.namespace = shared.clone();
    }

    fn insert_pod(&mut self, name: PodName, pod: Pod, standing: PodStanding) -> Option<GangSlot> {
        let gang = pod.ours.then(|| self.gangs.slot_or_new(&pod.gang));
        let id = self.insert_state(pod, standing, gang, false);
        self.pod_by_name.insert(name, id);
        let state = self.pods.get(id.0);
        if let Some(gang) = gang {
            self.gangs.get_mut(gang).add(id, state, self.shapes.get(state.shape));
        }
        self.count_pod(id);
        if let Some(gang) = gang {
            self.count_gang(gang, true);
        }
        gang
    }

    /// Puts a pod (or a stand-in) in the lists; it does not count yet.
    pub(crate) fn insert_state(
        &mut self,
        mut pod: Pod,
        standing: PodStanding,
        gang: Option<GangSlot>,
        stand_in: bool,
    ) -> PodId {
        self.near.share(&mut pod);
        self.nodes.count_interests(&Interests::of(&pod), true);
        let shape = self.shapes.enter(&mut pod);
        let queue = self.queue_slot_of(&pod);
        let namespace = pod.key.namespace.clone();
        let state = PodState { pod, standing, at: None, shape, gang, queue, charged: None, stand_in };
        let id = PodId(self.pods.insert(state));
        self.pods_by_namespace.entry(namespace).or_default().insert(id);
        self.near.enter(id, &self.pods, &self.nodes);
        id
    }

    /// Takes a pod that does not count any more out of the lists.
    pub(crate) fn remove_state(&mut self, id: PodId) -> PodState {
        let state = self.pods.remove(id.0);
        self.near.leave(id, &state);
        let namespace = &state.pod.key.namespace;
        let pods = self.pods_by_namespace.get_mut(namespace).expect("every pod is in its namespace");
        pods.remove(&id);
        if pods.is_empty() {
            self.pods_by_namespace.remove(namespace);
        }
        self.shapes.leave(state.shape);
        self.nodes.count_interests(&Interests::of(&state.pod), false);
        state
    }

    /// Removes a pod. Returns the gang and the node that it leaves, of which nothing may be left.
    fn remove_pod(&mut self, id: PodId) -> (Option<GangSlot>, Option<NodeId>) {
        let node = self.uncount_pod(id);
        let state = self.pods.get(id.0);
        let gang = state.gang;
        if let Some(gang) = gang {
            self.gangs.get_mut(gang).remove(id, state);
            self.count_gang(gang, true);
        }
        let PodState { pod, .. } = self.remove_state(id);
        self.pod_by_name.remove(&(pod.key.namespace.clone(), pod.key.name.clone()));
        (gang, node)
    }

    /// After a change of its members: a gang that ran and does not any more has ended or was evicted, and a gang
    /// without members is forgotten. So is a node that is not there and has no pods.
    fn settle(&mut self, gang: Option<GangSlot>, node: Option<NodeId>) {
        if let Some(node) = node {
            self.nodes.drop_if_unused(node);
        }
        let Some(slot) = gang else { return };
        let now = self.now();
        let gang = self.gangs.get_mut(slot);
        if gang.bound + gang.leaving > 0 {
            // Once all are there, it is known how many GPUs the gang runs on; later members change nothing.
            if gang.run.is_none()
                && gang.pending.is_empty()
                && let Some(started) = gang.started()
            {
                let limit = self.pods.get(gang.lead().0).pod.terms.time_limit_seconds;
                let length = limit.map(|limit| SignedDuration::from_secs(i64::from(limit)));
                let ends_by = length.map(|length| started.saturating_add(length).unwrap_or(Timestamp::MAX));
                let (key, gpus) = (gang.key.clone(), gang.gpus_placed);
                gang.run = Some(RunRecord { started, gpus, ends_by });
                self.history.gang_started(&key.namespace, gpus, started);
                self.gangs.ends.extend(ends_by.map(|end| (end, key)));
            }
        } else {
            let was_evicted = gang.departure.take().is_some();
            if was_evicted {
                self.evicted.unmark(&gang.key);
            }
            // Members that wait again, are held, or were told to leave, did not end.
            let by_itself = gang.members.is_empty() && gang.held == 0 && !was_evicted;
            if let Some(run) = gang.run.take() {
                let key = gang.key.clone();
                self.history.gang_ended(&key.namespace, run.gpus, run.started, now, by_itself);
                run.ends_by.map(|end| self.gangs.ends.remove(&(end, key)));
            }
        }
        if self.gangs.get(slot).members.is_empty() {
            self.gangs.remove(slot);
        }
    }

    fn set_node(&mut self, name: &NodeName, object: Option<Node>) {
        if object.is_none() && self.nodes.id(name).is_none() {
            return;
        }
        let id = self.nodes.id_or_new(name);
        let pods: Vec<PodId> = self.node(id).pods.iter().copied().collect();
        let old_type = self.node(id).gpu_type();
        if self.near.looks_at(self.node(id).object(), object.as_ref()) {
            for pod in &pods {
                self.near.count(*pod, self.pods.get(pod.0), false);
            }
            self.near.set_node(id, object.as_ref());
            for pod in &pods {
                self.near.count(*pod, self.pods.get(pod.0), true);
            }
        }
        self.nodes.set_object(id, object);
        // A node that is gone and has no pods is forgotten, and its number with it.
        if !pods.is_empty() && self.node(id).gpu_type() != old_type {
            for pod in pods {
                self.uncharge(pod);
                self.charge(pod);
            }
        }
    }

    fn set_namespace(&mut self, name: &Arc<str>, labels: Option<LabelSet>) {
        let none = BTreeSet::new();
        let pods = self.pods_by_namespace.get(name).unwrap_or(&none);
        self.near.set_namespace(name, labels, pods, &self.pods);
    }

    fn set_queue(&mut self, name: &QueueName, object: Option<Queue>) {
        let old = self.queues.get(name).map(|(queue, _)| queue.namespaces.clone()).unwrap_or_default();
        let new = object.as_ref().map(|queue| queue.namespaces.clone()).unwrap_or_default();
        let changed = old.symmetric_difference(&new);
        let pods: Vec<PodId> = changed
            .filter_map(|namespace| self.pods_by_namespace.get(namespace))
            .flatten()
            .copied()
            .collect();
        let gangs: BTreeSet<GangSlot> = pods.iter().filter_map(|pod| self.pod(*pod).gang).collect();
        for pod in &pods {
            self.uncharge(*pod);
        }
        for gang in &gangs {
            self.count_gang(*gang, false);
        }
        self.queues.set_object(name, object);
        for pod in pods {
            self.pods.get_mut(pod.0).queue = self.queue_slot_of(&self.pods.get(pod.0).pod);
            self.charge(pod);
        }
        for gang in &gangs {
            self.count_gang(*gang, true);
        }
    }

    /// The queue that a pod belongs to. A pod of another scheduler belongs to one only if it asks for it.
    fn queue_slot_of(&self, pod: &Pod) -> Option<u32> {
        (pod.ours || pod.queue.is_some()).then(|| self.queues.of_pod(pod).ok()).flatten()
    }

    /// Makes a pod count: on its node, in its queue, in its gang.
    pub(crate) fn count_pod(&mut self, id: PodId) {
        let state = self.pods.get(id.0);
        let at = match &state.standing {
            PodStanding { decision: Some(decision), .. } => Some(decision.node),
            PodStanding { evicted: true, .. } => None,
            PodStanding { .. } => state.pod.node.as_ref().map(|node| self.nodes.id_or_new(node)),
        };
        if let Some(node) = at {
            self.nodes.add_pod(node, id, state);
        }
        if let Some(until) = state.standing.decision.as_ref().and_then(|decision| decision.held_until) {
            self.holds.add(&state.pod.gang, id, until);
        }
        if let Some(gang) = state.gang {
            self.gangs.get_mut(gang).count(id, state, true);
        }
        self.pods.get_mut(id.0).at = at;
        self.near.count(id, self.pods.get(id.0), true);
        self.charge(id);
    }

    /// The opposite of [`Self::count_pod`]. Returns the node on which it counted.
    pub(crate) fn uncount_pod(&mut self, id: PodId) -> Option<NodeId> {
        self.uncharge(id);
        let state = self.pods.get(id.0);
        if state.place() == Some(Place::Held) {
            self.holds.remove(&state.pod.gang, id);
        }
        if let Some(gang) = state.gang {
            self.gangs.get_mut(gang).count(id, state, false);
        }
        if let Some(node) = state.at {
            self.nodes.remove_pod(node, id, state);
            self.near.count(id, state, false);
        }
        self.pods.get_mut(id.0).at.take()
    }

    pub(crate) fn charge(&mut self, id: PodId) {
        let state = self.pods.get(id.0);
        let (Some(node), Some(queue)) = (state.at, state.queue) else { return };
        // While the pod that is moved is there, it is charged, and its stand-in is not.
        if state.stand_in && self.pod_id(&state.pod.key).is_some() {
            return;
        }
        let requests = state.pod.requests;
        let gpus = (requests.gpus > 0).then(|| {
            // What the node has is what is used; the requested type counts only while the node is not there.
            let asked_type = || state.pod.gpu_types.first().cloned();
            let gpu_type =
                self.nodes.get(node).gpu_type().or_else(asked_type).unwrap_or_else(GpuType::unknown);
            (gpu_type, requests.gpus)
        });
        let charge = Charge {
            queue,
            gpus,
            gpu_share_millis: state.share_millis(),
            cpu_millis: requests.cpu_millis,
            memory_bytes: requests.memory_bytes,
        };
        self.queues.charge(&charge, 1);
        self.pods.get_mut(id.0).charged = Some(charge);
    }

    pub(crate) fn uncharge(&mut self, id: PodId) {
        if let Some(charge) = self.pods.get_mut(id.0).charged.take() {
            self.queues.charge(&charge, -1);
        }
    }

    /// Updates a gang's place among waiting and running gangs, and in its queue's counts. With `count` false, the
    /// gang is taken out of what depends on its queue.
    fn count_gang(&mut self, slot: GangSlot, count: bool) {
        let gang = self.gangs.get(slot);
        let lead = gang.members.first().map(|(_, _, pod)| self.pods.get(pod.0));
        let waits = !gang.pending.is_empty();
        let runs = gang.bound + gang.leaving > 0;
        let order = lead.filter(|_| waits).map(|lead| Order {
            finishes: Reverse(gang.finishes_its_start(lead.pod.gang_size)),
            priority: Reverse(lead.pod.priority),
            created: lead.pod.created,
        });
        let running = lead.filter(|_| runs).map(|lead| lead.pod.created);
        let queue = lead.filter(|_| count).and_then(|lead| lead.queue);
        let queue = queue.map(|queue| (queue, runs, waits || gang.held > 0));
        if gang.counted.likeness_is_stale || !count {
            self.find_likeness(slot, count);
        }
        self.list(slot, count);

        let gang = self.gangs.get_mut(slot);
        let (old_order, old_running) = (gang.counted.order, gang.counted.running);
        let old_queue = std::mem::replace(&mut gang.counted.queue, queue);
        (gang.counted.order, gang.counted.running) = (order, running);
        if old_order == order && old_running == running && old_queue == queue {
            return;
        }
        let key = gang.key.clone();
        if old_order != order {
            old_order.map(|old| self.gangs.waiting.remove(&(old, key.clone())));
            self.gangs.waiting.extend(order.map(|order| (order, key.clone())));
        }
        if old_running != running {
            old_running.map(|old| self.gangs.running.remove(&(old, key.clone())));
            self.gangs.running.extend(running.map(|created| (created, key.clone())));
        }
        if old_queue == queue {
            return;
        }
        for (counted, sign) in [(old_queue, -1), (queue, 1)] {
            if let Some((queue, running, waiting)) = counted {
                self.queues.count_gang(queue, running, waiting, sign);
            }
        }
    }

    /// Finds the likeness of a gang, after its members or its queue changed.
    fn find_likeness(&mut self, slot: GangSlot, count: bool) {
        self.unlist(slot);
        let gang = self.gangs.get(slot);
        let old = gang.counted.likeness;
        let lead = gang.members.first().map(|(_, _, pod)| self.pods.get(pod.0)).filter(|_| count);
        let likeness = lead.filter(|_| gang.kinds.len() <= KINDS_MAX).and_then(|lead| {
            let members = gang.kinds.iter().map(|(shape, kind)| (*shape, kind.members)).collect();
            let Pod { priority, preempts, gang_size: size, ref terms, .. } = lead.pod;
            let (namespace, terms) = (gang.key.namespace.clone(), terms.clone());
            Some(Likeness { queue: lead.queue?, namespace, priority, preempts, size, members, terms })
        });
        let new = likeness.map(|it| {
            let queue = self.queues.name(it.queue);
            self.gangs.classes.enter(it, queue)
        });
        let counted = &mut self.gangs.get_mut(slot).counted;
        (counted.likeness, counted.likeness_is_stale) = (new, !count);
        if let Some(old) = old {
            self.gangs.classes.leave(old);
        }
    }

    /// Lists a waiting gang in its class, or alone.
    fn list(&mut self, slot: GangSlot, count: bool) {
        let gang = self.gangs.get(slot);
        let lead = gang.members.first().map(|(_, _, pod)| self.pods.get(pod.0));
        let listed = match gang.counted.likeness {
            _ if gang.pending.is_empty() => Listed::No,
            Some(likeness) if !gang.has_begun() => Listed::WithItsLike(likeness),
            _ => Listed::Alone,
        };
        let created = lead.map_or(Timestamp::MIN, |lead| lead.pod.created);
        if listed == gang.counted.listed && (listed == Listed::No || created == gang.counted.listed_as) {
            return;
        }
        let queue = lead.and_then(|lead| lead.queue).filter(|_| count && listed == Listed::Alone);
        let priority = lead.map_or(0, |lead| lead.pod.priority);
        self.unlist(slot);
        let key = self.gangs.get(slot).key.clone();
        match listed {
            Listed::No => {}
            Listed::WithItsLike(likeness) => self.gangs.classes.list(likeness, created, &key),
            Listed::Alone => {
                let queue = queue.map(|queue| self.queues.name(queue));
                self.gangs.classes.list_alone(queue, priority, created, &key);
            }
        }
        let counted = &mut self.gangs.get_mut(slot).counted;
        (counted.listed, counted.listed_as) = (listed, created);
    }

    fn unlist(&mut self, slot: GangSlot) {
        let gang = self.gangs.get_mut(slot);
        let listed = std::mem::take(&mut gang.counted.listed);
        if listed == Listed::No {
            return;
        }
        let (created, key) = (gang.counted.listed_as, gang.key.clone());
        match listed {
            Listed::No => {}
            Listed::WithItsLike(likeness) => self.gangs.classes.unlist(likeness, created, &key),
            Listed::Alone => self.gangs.classes.unlist_alone(&key),
        }
    }
}
