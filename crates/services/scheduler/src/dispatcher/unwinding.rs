//! Gangs that cannot go on as they are: bound in part without room for the rest, or on an overcommitted node.
//! Pure: the input is the state and since when it has been so; the output is the gangs to unwind.
//!
//! ```text
//!   gang in part ──one more of its members is seen bound, or the rest lands──► the time starts anew
//!        │ 45 s without progress, in which plans found no room for the rest, or its binds failed
//!        ▼
//!     unwound: its bound members are deleted, and it waits whole, like any other
//!        └ called off if it makes progress before the first of them was told to go
//!
//!   node overcommitted ──10 s──► its newest gang is unwound, unless it has started: then the next newest, 10 s later
//! ```
//!
//! First, every plan retries a gang in part, before all other gangs. Only if that does not help, the gang gives
//! back its nodes. With 45 s and a few seconds of writes, that is within a minute. A gang whose rest waits for
//! something other than room (a gate, a deleted queue) keeps its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster_apply::EvictOutcome;
use cluster_model::plan::{Effect, EvictCause, EvictRequest, WaitReason, WaitingGang};
use cluster_model::{ClusterState, Gang, GangKey, NodeId, NodeName, Place, Resources};
use tokio::time::Instant;

/// Time between two looks at the state after plans. A look costs O(waiting).
const LOOK_PACE: Duration = Duration::from_millis(250);
/// A node is overcommitted for this long before a gang is unwound: pods that end, and late reports, resolve
/// most cases.
const OVERCOMMITTED_MAX: Duration = Duration::from_secs(10);
/// How long we wait to learn whether a gang leaves an overcommitted node, before another one is unwound:
/// unclear answers of the API server must not keep the node overcommitted.
const ASKED_MAX: Duration = Duration::from_secs(30);

/// The gangs in trouble, and since when.
#[derive(Debug)]
pub struct Unwinding {
    /// A gang in part without progress for this long gives back its nodes.
    in_part_max: Duration,
    in_part: BTreeMap<GangKey, InPart>,
    overcommitted: BTreeMap<NodeName, Instant>,
    /// Gangs whose unwinding was asked for, until its outcome is known.
    asked: BTreeMap<GangKey, Asked>,
    /// Gangs that turned out to have started, until none of their members has a node.
    started: BTreeSet<GangKey>,
    /// When to look at the state after the last plan, and when that was done last.
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

/// Why a gang is unwound.
#[derive(Debug)]
enum Trouble {
    /// It is bound in part, without progress since then.
    InPart { since: Instant },
    /// Its node is overcommitted.
    Overcommitted(NodeName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InPart {
    since: Instant,
    /// Members that were seen on a node: a change is progress. A decision of ours is none, because it may fail
    /// over and over.
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

    /// A plan was made: a look is due soon.
    pub fn planned(&mut self) {
        self.look_at.get_or_insert(self.looked + LOOK_PACE);
    }

    /// Looks at the state after a plan. Returns the gangs to unwind now, and the unwindings to call off because
    /// the gang made progress. None is asked for again before [`Unwinding::ended`]. `failing` are gangs with
    /// members whose last bind failed.
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

    /// An unwinding has ended. If the gang is still in part, because the server refused or another member was
    /// bound meanwhile, it is unwound again after the same wait; a gang that has started is not.
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

    /// When to look again without a change.
    pub fn next(&self) -> Option<Instant> {
        let parts = self.in_part.iter().filter(|(gang, part)| self.is_open(gang, part.unless_started));
        let parts = parts.map(|(_, part)| part.since + self.in_part_max);
        let nodes = self.overcommitted.values().map(|since| *since + OVERCOMMITTED_MAX);
        parts.chain(nodes).chain(self.look_at).min()
    }

    /// Gangs in part without progress for too long, because there is no room or binds fail.
    fn stuck(
        &mut self,
        state: &ClusterState,
        waiting: &[WaitingGang],
        failing: &BTreeSet<GangKey>,
        now: Instant,
    ) -> Vec<Effect> {
        let before = std::mem::take(&mut self.in_part);
        let needs_room = |it: &&WaitingGang| it.reasons.iter().all(WaitReason::is_helped_by_giving_back);
        let waits = waiting.iter().filter(needs_room).map(|it| (&it.gang, "found no room"));
        // Waiting gangs are handled above; a gang whose rest is about to be planned again does not wait yet.
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
            // A gang that must never be evicted loses nothing before it has started.
            let unless_started = state.pod(gang.lead()).pod().terms.eviction.never;
            self.in_part.insert(key.clone(), InPart { since, seen, unless_started });
            if now.duration_since(since) >= self.in_part_max && self.is_open(key, unless_started) {
                let (rest, seconds) = (awaited(state, gang), self.in_part_max.as_secs());
                let why = format!(
                    "{seen} of its members had a node, and {rest} {what} for {seconds} s: it gives back its nodes, and starts again when there is room for all, if its pods are created anew"
                );
                stuck.push(self.ask(state, key.clone(), Trouble::InPart { since }, why, unless_started, now));
            }
        }
        stuck
    }

    /// The newest gang that has not started, on each node that has been overcommitted for too long.
    fn crowded(&mut self, state: &ClusterState, now: Instant) -> Vec<Effect> {
        let before = std::mem::take(&mut self.overcommitted);
        // A gang may be the newest on several nodes.
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
            // This node is dealt with. If that does not help, the next gang goes after the same time again.
            self.overcommitted.insert(node.name().clone(), now);
            // No other gang goes before the outcome for the first one is known.
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
            let why = format!("node {node} is overcommitted: the newest gang on it gives way");
            self.ask(state, gang, Trouble::Overcommitted(node), why, true, now)
        });
        asked.collect()
    }

    /// The effect that unwinds a gang.
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

    /// Takes back unwindings whose cause is over: the gang made progress, or its node has enough again.
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

    /// Whether a gang may be unwound; a gang that has started may not, if it may go only before it starts.
    fn is_open(&self, gang: &GangKey, unless_started: bool) -> bool {
        let is_settled = self.asked.contains_key(gang) || unless_started && self.started.contains(gang);
        !is_settled
    }

    /// The gang of ours that was bound last on a node, without those that are decided about; ties are broken by
    /// name.
    fn newest<'a>(&self, state: &'a ClusterState, node: NodeId) -> Option<&'a GangKey> {
        let pods = state.node(node).pods().map(|pod| state.pod(pod));
        let ours = pods.filter(|pod| pod.place() == Some(Place::Bound) && pod.pod().ours);
        let leaves = |gang: &GangKey| state.gang(gang).is_some_and(Gang::is_leaving);
        let may_leave = |gang: &GangKey| self.is_open(gang, true) && !leaves(gang);
        let open = ours.filter(|pod| !pod.pod().terminating && may_leave(&pod.pod().gang));
        open.max_by_key(|pod| (pod.pod().started, &pod.pod().gang)).map(|pod| &pod.pod().gang)
    }
}

/// Gangs with members on a node and others that wait for theirs, or cannot be bound.
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
    // Without a size, members need not start together. The cheap questions come first: most gangs wait whole.
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

/// Members that wait for a node, or are not yet seen on the planned one.
fn awaited(state: &ClusterState, gang: &Gang) -> usize {
    let assumed = gang.members().filter(|id| state.pod(*id).is_assumed()).count();
    assumed + gang.pending().len()
}

/// Whether a node's pods, as seen, have more than the node has. Held and assumed pods do not count: they are
/// our decision, which the next plan can change.
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
