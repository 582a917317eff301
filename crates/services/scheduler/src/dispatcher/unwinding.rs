//! Gangs that cannot go on as they are: bound in part with no room for the rest, or on a node that was given more than it
//! has. Pure: from the state, and since when things have been so, to the gangs that are taken off their nodes.
//!
//! ```text
//!   gang in part ──one more of its members is seen bound, or the rest lands──► starts anew
//!        │ 45 s without progress, in which plans found no room for the rest, or its binds failed
//!        ▼
//!     unwound: its bound members are deleted, and it waits whole, like any other
//!        └ called off if it gets on before the first of them was told to go
//!
//!   node overcommitted ──10 s──► the newest gang on it is unwound, unless it has started: then the next newest, 10 s later
//! ```
//!
//! A gang in part is first retried and its members are replaced, by every plan: it comes before all others. Only when
//! that does not help, it gives back what it has. With 45 s and a few seconds of writes, that is within the minute. A gang
//! whose rest waits for anything but room (a gate, a queue that is no more) keeps what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster_apply::EvictOutcome;
use cluster_model::plan::{Effect, EvictCause, EvictRequest, WaitReason, WaitingGang};
use cluster_model::{ClusterState, Gang, GangKey, NodeId, NodeName, Place, Resources};
use tokio::time::Instant;

/// The state is looked at once in this time after a plan: it costs O(waiting).
const LOOK_PACE: Duration = Duration::from_millis(250);
/// A node is overcommitted for so long before anybody is taken off it: pods that end, and reports that are late, mend
/// most of it.
const OVERCOMMITTED_MAX: Duration = Duration::from_secs(10);
/// For so long nobody else on an overcommitted node goes while it is not known whether one that was asked does: a server
/// that says nothing clear about its pods must not keep the node as it is.
const ASKED_MAX: Duration = Duration::from_secs(30);

/// Since when things have been as they are.
#[derive(Debug)]
pub struct Unwinding {
    /// A gang in part that gets on by nothing for so long gives back what it has.
    in_part_max: Duration,
    in_part: BTreeMap<GangKey, InPart>,
    overcommitted: BTreeMap<NodeName, Instant>,
    /// Gangs whose unwinding was asked for, until it is known how that ended.
    asked: BTreeMap<GangKey, Asked>,
    /// Gangs that turned out to have started, until none of their members has a node.
    started: BTreeSet<GangKey>,
    /// When to look at the state of the last plan, and when that was done last.
    look_at: Option<Instant>,
    looked: Instant,
}

/// A gang that is being unwound.
#[derive(Debug)]
struct Asked {
    at: Instant,
    trouble: Trouble,
    is_called_off: bool,
}

/// What a gang is unwound for.
#[derive(Debug)]
enum Trouble {
    /// It got on by nothing since then.
    InPart { since: Instant },
    /// The node has too little.
    Overcommitted(NodeName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InPart {
    since: Instant,
    /// Members that were seen on a node: when it changes, something got on. What we only decided is no progress, as it
    /// may fail over and over.
    seen: usize,
    /// Whether it may be unwound only before it starts.
    unless_started: bool,
}

impl Unwinding {
    /// Nothing is known yet; see `--unwind-after`.
    pub fn new(in_part_max: Duration) -> Self {
        Self {
            in_part_max,
            in_part: BTreeMap::new(),
            overcommitted: BTreeMap::new(),
            asked: BTreeMap::new(),
            started: BTreeSet::new(),
            look_at: None,
            looked: Instant::now(),
        }
    }

    /// A plan was made: there may be something to see in a moment.
    pub fn planned(&mut self) {
        self.look_at.get_or_insert(self.looked + LOOK_PACE);
    }

    /// Looks at the state after a plan: gangs that are to be unwound now, and unwindings that are called off because the gang
    /// got on. None is asked for again before [`Unwinding::ended`]. `failing` are gangs with members whose last bind failed.
    pub fn update(
        &mut self,
        state: &ClusterState,
        waiting: &[WaitingGang],
        failing: &BTreeSet<GangKey>,
        now: Instant,
    ) -> Vec<Effect> {
        (self.look_at, self.looked) = (None, now);
        self.started.retain(|gang| state.gang(gang).is_some_and(has_node));
        let mut effects = self.stuck(state, waiting, failing, now);
        effects.extend(self.crowded(state, now));
        effects.extend(self.call_off());
        effects
    }

    /// It is known how an unwinding ended. A gang that is in part nevertheless, because the server refused or another member
    /// was bound meanwhile, is asked for again after as long a wait; one that has started is not.
    pub fn ended(&mut self, gang: &GangKey, outcome: EvictOutcome, now: Instant) {
        if self.asked.remove(gang).is_none() {
            return;
        }
        match outcome {
            EvictOutcome::Started => {
                self.started.insert(gang.clone());
            }
            EvictOutcome::Leaves | EvictOutcome::Refused => {
                if let Some(part) = self.in_part.get_mut(gang) {
                    part.since = now;
                }
            }
            EvictOutcome::Spared | EvictOutcome::Fenced => {}
        }
    }

    /// When to look again though nothing happens.
    pub fn next(&self) -> Option<Instant> {
        let parts = self.in_part.iter().filter(|(gang, part)| self.is_open(gang, part.unless_started));
        let parts = parts.map(|(_, part)| part.since + self.in_part_max);
        let nodes = self.overcommitted.values().map(|since| *since + OVERCOMMITTED_MAX);
        parts.chain(nodes).chain(self.look_at).min()
    }

    /// Gangs in part that did not get on for too long, for want of room or because binds fail.
    fn stuck(
        &mut self,
        state: &ClusterState,
        waiting: &[WaitingGang],
        failing: &BTreeSet<GangKey>,
        now: Instant,
    ) -> Vec<Effect> {
        let before = std::mem::take(&mut self.in_part);
        let needs_room = |it: &&WaitingGang| it.reasons.iter().all(is_about_room);
        let waits = waiting.iter().filter(needs_room).map(|it| (&it.gang, "found no room"));
        // One that waits as well has its say above; one whose rest is about to be planned again does not wait yet.
        let planned: BTreeSet<&GangKey> = waiting.iter().map(|it| &it.gang).collect();
        let lands = |key: &&GangKey| {
            state.gang(key).is_some_and(|gang| gang.pending().len() == 0 || !planned.contains(key))
        };
        let lands = failing.iter().filter(lands);
        let mut stuck = Vec::new();
        for (key, what) in waits.chain(lands.map(|key| (key, "could not be bound"))) {
            let Some(gang) = state.gang(key).filter(|gang| is_in_part(state, gang)) else { continue };
            let seen = seen(state, gang);
            let known = before.get(key).filter(|part| part.seen == seen);
            let since = known.map_or(now, |part| part.since);
            // What says that it is never evicted loses nothing before it has started.
            let unless_started = state.pod(gang.lead()).pod().terms.eviction.never;
            self.in_part.insert(key.clone(), InPart { since, seen, unless_started });
            if now.duration_since(since) >= self.in_part_max && self.is_open(key, unless_started) {
                let (rest, seconds) = (awaited(state, gang), self.in_part_max.as_secs());
                let why = format!(
                    "{seen} of its members had a node, and {rest} {what} for {seconds} s: it gives back what it has, and \
                     starts when there is room for all, if its pods are made anew"
                );
                stuck.push(self.ask(state, key.clone(), Trouble::InPart { since }, why, unless_started, now));
            }
        }
        stuck
    }

    /// The newest gang that has not started, on each node that has been overcommitted for too long.
    fn crowded(&mut self, state: &ClusterState, now: Instant) -> Vec<Effect> {
        let before = std::mem::take(&mut self.overcommitted);
        // A gang may be the newest on several.
        let mut crowded: BTreeMap<GangKey, NodeName> = BTreeMap::new();
        let nodes: BTreeMap<_, _> = state
            .nodes()
            .filter(|(id, _)| is_overcommitted(state, *id))
            .map(|(id, node)| (node.name(), (id, node)))
            .collect();
        for (id, node) in nodes.into_values() {
            let since = *before.get(node.name()).unwrap_or(&now);
            if now.duration_since(since) < OVERCOMMITTED_MAX {
                self.overcommitted.insert(node.name().clone(), since);
                continue;
            }
            // It has been dealt with: if that does not help, the next one goes after as long again.
            self.overcommitted.insert(node.name().clone(), now);
            // Nobody else goes before it is known whether one that was asked does.
            let is_awaited = |asked: &Asked| now.duration_since(asked.at) < ASKED_MAX;
            let asked = node.pods().filter_map(|pod| self.asked.get(&state.pod(pod).pod().gang));
            if asked.into_iter().any(is_awaited) {
                continue;
            }
            if let Some(gang) = self.newest(state, id) {
                crowded.insert(gang.clone(), node.name().clone());
            }
        }
        let asked = crowded.into_iter().map(|(gang, node)| {
            let why = format!("node {node} has less than its pods were given: the newest gives way");
            self.ask(state, gang, Trouble::Overcommitted(node), why, true, now)
        });
        asked.collect()
    }

    /// Asks for a gang to be unwound.
    fn ask(
        &mut self,
        state: &ClusterState,
        gang: GangKey,
        trouble: Trouble,
        why: String,
        unless_started: bool,
        now: Instant,
    ) -> Effect {
        let pods = state.pods_to_leave(&gang);
        self.asked.insert(gang.clone(), Asked { at: now, trouble, is_called_off: false });
        Effect::Evict(EvictRequest { gang, pods, cause: EvictCause::Unwind { why, unless_started } })
    }

    /// Takes back the unwinding of gangs that are not as they were: those whose clock starts anew, and those whose node has
    /// enough again.
    fn call_off(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for (gang, Asked { trouble, is_called_off, .. }) in &mut self.asked {
            let is_as_it_was = match trouble {
                Trouble::InPart { since } => self.in_part.get(gang).is_some_and(|part| part.since == *since),
                Trouble::Overcommitted(node) => self.overcommitted.contains_key(node),
            };
            if !is_as_it_was && !std::mem::replace(is_called_off, true) {
                effects.push(Effect::CallOff(gang.clone()));
            }
        }
        effects
    }

    /// Whether a gang may be asked for; one that has started is not, if it may go only before.
    fn is_open(&self, gang: &GangKey, unless_started: bool) -> bool {
        let is_settled = self.asked.contains_key(gang) || unless_started && self.started.contains(gang);
        !is_settled
    }

    /// The gang of ours on a node that was bound last, of those that nothing was decided about; ties are broken by name.
    fn newest<'a>(&self, state: &'a ClusterState, node: NodeId) -> Option<&'a GangKey> {
        let pods = state.node(node).pods().map(|pod| state.pod(pod));
        let ours = pods.filter(|pod| pod.place() == Some(Place::Bound) && pod.pod().ours);
        let leaves = |gang: &GangKey| state.gang(gang).is_some_and(Gang::is_leaving);
        let may_leave = |gang: &GangKey| self.is_open(gang, true) && !leaves(gang);
        let open = ours.filter(|pod| !pod.pod().terminating && may_leave(&pod.pod().gang));
        open.max_by_key(|pod| (pod.pod().started, &pod.pod().gang)).map(|pod| &pod.pod().gang)
    }
}

/// Gangs of which some members have a node while others wait for theirs, or cannot be bound.
pub fn count_in_part(state: &ClusterState, failing: &BTreeSet<GangKey>) -> usize {
    let keys: BTreeSet<&GangKey> = state.waiting_gangs().chain(failing).collect();
    let gangs = keys.into_iter().filter_map(|key| state.gang(key));
    gangs.filter(|gang| is_in_part(state, gang)).count()
}

fn has_node(gang: &Gang) -> bool {
    gang.bound() > 0
}

/// Whether some members of a gang were seen on a node while others wait for theirs or for their bind, and nothing is held
/// for it and it does not leave.
pub fn is_in_part(state: &ClusterState, gang: &Gang) -> bool {
    // Without a size nothing says that they must start together. The cheap questions come first: most gangs wait whole.
    let Some(size) = state.pod(gang.lead()).pod().gang_size else { return false };
    if gang.bound() == 0 || gang.held() > 0 || gang.is_leaving() {
        return false;
    }
    let seen = seen(state, gang);
    seen > 0 && seen + (gang.ended() as usize) < size as usize && awaited(state, gang) > 0
}

/// Members that were seen on a node and stay there.
fn seen(state: &ClusterState, gang: &Gang) -> usize {
    let members = gang.members().map(|id| state.pod(id));
    members.filter(|member| member.place() == Some(Place::Bound) && !member.pod().terminating).count()
}

/// Members that wait for a node, or to be seen on the one we decided on.
fn awaited(state: &ClusterState, gang: &Gang) -> usize {
    let assumed = gang.members().filter(|id| state.pod(*id).is_assumed()).count();
    assumed + gang.pending().len()
}

/// Whether giving back what it has may help a gang, or those that it stands in the way of. All else is for people to
/// mend, and until then the members that run lose nothing.
fn is_about_room(reason: &WaitReason) -> bool {
    match reason {
        WaitReason::QuotaExceeded { .. }
        | WaitReason::NoSuchGpuType { .. }
        | WaitReason::TooLargeForAnyNode { .. }
        | WaitReason::NotEnoughGpus { .. }
        | WaitReason::NotEnoughCpu { .. }
        | WaitReason::NodesRefused { .. }
        | WaitReason::LendingReserve { .. }
        | WaitReason::BehindBlocked { .. }
        | WaitReason::KeepsDeadline { .. }
        | WaitReason::WouldDelay { .. }
        | WaitReason::NoRoomTogether { .. }
        | WaitReason::NoDeviceWithRoom { .. }
        | WaitReason::CannotSpread { .. }
        | WaitReason::Neighbours { .. }
        | WaitReason::PowerCapped { .. }
        | WaitReason::AwaitsVictims { .. }
        | WaitReason::GaveUp { .. }
        | WaitReason::ReclaimsAt { .. }
        | WaitReason::MachinesComing { .. }
        | WaitReason::NoMachines { .. } => true,
        WaitReason::MembersMissing { .. }
        | WaitReason::Gated { .. }
        | WaitReason::MembersDisagree { .. }
        | WaitReason::Unsupported { .. }
        | WaitReason::QueueUnknown { .. }
        | WaitReason::QueueNotOpen { .. }
        | WaitReason::NoQueue { .. }
        | WaitReason::SeveralQueues { .. }
        | WaitReason::QueueCycle { .. }
        | WaitReason::QueueTooDeep { .. }
        | WaitReason::AtMembersMax { .. }
        | WaitReason::TermsContradict { .. }
        | WaitReason::OutOfBudget { .. }
        | WaitReason::GivesWay { .. } => false,
    }
}

/// Whether a node's pods, as they were seen, were given more than it has. What is held or assumed there does not count:
/// we decided it, and know better by the next plan.
fn is_overcommitted(state: &ClusterState, node: NodeId) -> bool {
    let node = state.node(node);
    let is_negative =
        |free: Resources| free.gpus < 0 || free.cpu_millis < 0 || free.memory_bytes < 0 || free.pods < 0;
    if !is_negative(node.free()) {
        return false;
    }
    let Some(object) = node.object() else { return false };
    let mut free = object.allocatable;
    for pod in node.pods() {
        if state.pod(pod).place() == Some(Place::Bound) {
            free -= state.pod(pod).pod().requests;
        }
    }
    is_negative(free)
}

#[cfg(test)]
mod tests;
