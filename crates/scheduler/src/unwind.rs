//! Gangs that cannot go on as they are: bound in part with no room for the rest, or on a node that was given more than it
//! has. Pure: from the state, and since when things have been so, to who is taken off its nodes.
//!
//! ```text
//!   gang in part ──one more of its members is seen bound, or the rest lands──► starts anew
//!        │ 45 s without progress, in which plans found no room for the rest, or its binds failed
//!        ▼
//!     unwound: its bound members are deleted, and it waits whole, like any other
//!
//!   node overcommitted ──10 s──► the newest gang on it is unwound, unless it has started: then the next newest, 10 s later
//! ```
//!
//! A gang in part is first retried and its members are replaced, by every plan: it comes before all others. Only when
//! that does not help, it gives back what it has. With 45 s and a few seconds of writes, that is within the minute. A gang
//! whose rest waits for anything but room (a gate, a queue that is no more) keeps what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster_model::plan::{WaitReason, WaitingGang};
use cluster_model::{ClusterState, Gang, GangKey, NodeId, NodeName, Place, Resources};
use tokio::time::Instant;

/// A node is overcommitted for so long before anybody is taken off it: pods that end, and reports that are late, mend
/// most of it.
const OVERCOMMITTED_MAX: Duration = Duration::from_secs(10);

/// Who is unwound, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwound {
    /// The gang.
    pub gang: GangKey,
    /// Why, in a sentence.
    pub why: String,
    /// Whether it may go only if none of its members runs yet: nothing is lost then.
    pub unless_started: bool,
}

/// Since when things have been as they are.
#[derive(Debug)]
pub struct Unwinding {
    /// A gang in part that gets on by nothing for so long gives back what it has.
    in_part_max: Duration,
    in_part: BTreeMap<GangKey, InPart>,
    overcommitted: BTreeMap<NodeName, Instant>,
    /// Gangs that were unwound, or that turned out to have started, until none of their members has a node.
    settled: BTreeSet<GangKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InPart {
    since: Instant,
    /// Members that were seen on a node: when it changes, something got on. What we only decided is no progress, as it
    /// may fail over and over.
    seen: usize,
}

impl Unwinding {
    /// Nothing is known yet; see `--unwind-after`.
    pub fn new(in_part_max: Duration) -> Self {
        Self {
            in_part_max,
            in_part: BTreeMap::new(),
            overcommitted: BTreeMap::new(),
            settled: BTreeSet::new(),
        }
    }

    /// Looks at the state after a plan, and says who is unwound now; each is said once. `failing` are gangs with members
    /// whose last bind failed.
    pub fn update(
        &mut self,
        state: &ClusterState,
        waiting: &[WaitingGang],
        failing: &BTreeSet<GangKey>,
        now: Instant,
    ) -> Vec<Unwound> {
        self.settled.retain(|gang| state.gang(gang).is_some_and(has_node));
        let mut found = self.stuck(state, waiting, failing, now);
        found.extend(self.crowded(state, now));
        for gang in &found {
            self.settled.insert(gang.gang.clone());
        }
        found
    }

    /// A gang could not be unwound: it is said again after as long a wait.
    pub fn refused(&mut self, gang: &GangKey, now: Instant) {
        if self.settled.remove(gang)
            && let Some(part) = self.in_part.get_mut(gang)
        {
            part.since = now;
        }
    }

    /// When to look again though nothing happens.
    pub fn next(&self) -> Option<Instant> {
        let parts = self.in_part.iter().filter(|(gang, _)| !self.settled.contains(*gang));
        let parts = parts.map(|(_, part)| part.since + self.in_part_max);
        parts.chain(self.overcommitted.values().map(|since| *since + OVERCOMMITTED_MAX)).min()
    }

    /// Gangs in part that did not get on for too long, for want of room or because binds fail.
    fn stuck(
        &mut self,
        state: &ClusterState,
        waiting: &[WaitingGang],
        failing: &BTreeSet<GangKey>,
        now: Instant,
    ) -> Vec<Unwound> {
        let before = std::mem::take(&mut self.in_part);
        let needs_room = |it: &&WaitingGang| it.reasons.iter().all(is_about_room);
        let waits = waiting.iter().filter(needs_room).map(|it| (&it.gang, "found no room"));
        // One that waits as well has its say above.
        let lands = failing.iter().filter(|key| state.gang(key).is_some_and(|it| it.pending().len() == 0));
        let mut stuck = Vec::new();
        for (key, what) in waits.chain(lands.map(|key| (key, "could not be bound"))) {
            let Some(gang) = state.gang(key).filter(|gang| is_in_part(state, gang)) else { continue };
            let seen = seen(state, gang);
            let known = before.get(key).filter(|part| part.seen == seen);
            let since = known.map_or(now, |part| part.since);
            self.in_part.insert(key.clone(), InPart { since, seen });
            if now.duration_since(since) >= self.in_part_max && !self.settled.contains(key) {
                let (rest, seconds) = (awaited(state, gang), self.in_part_max.as_secs());
                stuck.push(Unwound {
                    gang: key.clone(),
                    // What says that it is never evicted loses nothing before it has started.
                    unless_started: state.pod(gang.lead()).pod().terms.eviction.never,
                    why: format!(
                        "{seen} of its members had a node, and {rest} {what} for {seconds} s: it gives back what it \
                         has, and starts when there is room for all, if its pods are made anew"
                    ),
                });
            }
        }
        stuck
    }

    /// The newest gang that has not started, on each node that has been overcommitted for too long.
    fn crowded(&mut self, state: &ClusterState, now: Instant) -> Vec<Unwound> {
        let before = std::mem::take(&mut self.overcommitted);
        let mut crowded: BTreeMap<GangKey, Unwound> = BTreeMap::new();
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
            if let Some(gang) = self.newest(state, id) {
                let why =
                    format!("node {} has less than its pods were given: the newest gives way", node.name());
                crowded.insert(gang.clone(), Unwound { gang: gang.clone(), why, unless_started: true });
            }
        }
        crowded.into_values().collect()
    }

    /// The gang of ours on a node that was bound last, of those that nothing was decided about; ties are broken by name.
    fn newest<'a>(&self, state: &'a ClusterState, node: NodeId) -> Option<&'a GangKey> {
        let pods = state.node(node).pods().map(|pod| state.pod(pod));
        let ours = pods.filter(|pod| pod.place() == Some(Place::Bound) && pod.pod().ours);
        let leaves = |gang: &GangKey| {
            self.settled.contains(gang) || state.gang(gang).is_some_and(|it| it.evicting().is_some())
        };
        let open = ours.filter(|pod| !pod.pod().terminating && !leaves(&pod.pod().gang));
        open.max_by_key(|pod| (pod.pod().started, &pod.pod().gang)).map(|pod| &pod.pod().gang)
    }
}

fn has_node(gang: &Gang) -> bool {
    gang.bound() > 0
}

/// Whether some members of a gang were seen on a node while others wait for theirs or for their bind, and nothing is held
/// for it and it does not leave.
pub fn is_in_part(state: &ClusterState, gang: &Gang) -> bool {
    // Without a size nothing says that they must start together. The cheap questions come first: most gangs wait whole.
    let Some(size) = state.pod(gang.lead()).pod().gang_size else { return false };
    if gang.bound() == 0 || gang.held() > 0 || gang.evicting().is_some() {
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
        | WaitReason::ReclaimsAt { .. } => true,
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
