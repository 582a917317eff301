//! What machines really have for pods, if their `MachineType` promises more.
//!
//! A `MachineType` is written by hand. The kubelet reserves some of a machine, and every `DaemonSet` takes some more, so
//! its numbers may be too large. Then machines are bought for a gang that cannot start on them. So when a launch was in
//! vain, its nodes are compared with the type. From then on the type counts with what they had, and people are told.
//!
//! ```text
//!   a launch in vain ─► the most that one of its nodes had ─► less than promised? ─► counted with, and told
//!   a node that is in use had more                                                ─► that is counted with
//!   the MachineType is changed, or [`BELIEVED`] is over                           ─► forgotten: the type is tried again
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::{ClusterState, NodeName, Resources};
use jiff::{SignedDuration, Timestamp};

use crate::catalogue::{Catalogue, CatalogueMachine};
use crate::claim::Claim;
use crate::real_room::RealRoom;

/// How long a node speaks for its type. A machine with a broken GPU is not the rule, and `DaemonSet`s change.
pub const BELIEVED: SignedDuration = SignedDuration::from_hours(4);
/// How long a status that was written may take to be seen.
const TOLD_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealRooms {
    rooms: BTreeMap<Arc<str>, RealRoom>,
    /// Types whose status was read: what it says later is our own.
    recalled: BTreeSet<Arc<str>>,
    /// What was told last, of which type, and when.
    told: BTreeMap<Arc<str>, (Option<RealRoom>, Timestamp)>,
}

impl RealRooms {
    /// A launch was in vain: its nodes are compared with their types.
    pub fn compare(
        &mut self,
        state: &ClusterState,
        catalogue: &Catalogue,
        claims: &[&Claim],
        now: Timestamp,
    ) {
        for machine in catalogue.values() {
            let nodes = claims.iter().filter(|claim| claim.offer.machine == machine.name);
            let rooms = nodes.filter_map(|claim| room_of(state, claim, machine.room));
            let Some((node, room)) = rooms.reduce(|(node, most), (_, room)| (node, larger(most, room)))
            else {
                continue;
            };
            if machine.room.fits(&room) {
                self.rooms.remove(&machine.name);
            } else {
                let room = smaller(room, machine.room);
                let seen = RealRoom { promised: machine.room, room, node, seen_at: now };
                self.rooms.insert(Arc::clone(&machine.name), seen);
            }
        }
    }

    /// Learns from nodes that are in use, and forgets what is not believed any more.
    pub fn look(&mut self, state: &ClusterState, catalogue: &Catalogue, claims: &[Claim], now: Timestamp) {
        for machine in catalogue.values() {
            let Some(seen) = self.rooms.get_mut(&machine.name) else { continue };
            let used = claims.iter().filter(|claim| claim.ready && claim.offer.machine == machine.name);
            for (_, room) in used.filter_map(|claim| room_of(state, claim, machine.room)) {
                seen.room = smaller(larger(seen.room, room), machine.room);
            }
        }
        self.rooms.retain(|name, seen| {
            let promised = catalogue.get(name).map(|machine| machine.room);
            let is_old = now.duration_since(seen.seen_at) >= BELIEVED;
            promised == Some(seen.promised) && seen.room != seen.promised && !is_old
        });
    }

    /// Takes over what an earlier leader saw and wrote down, once.
    pub fn recall(&mut self, machine: &CatalogueMachine) {
        if self.recalled.insert(Arc::clone(&machine.name))
            && let Some(seen) = &machine.real_room
        {
            self.rooms.entry(Arc::clone(&machine.name)).or_insert_with(|| seen.clone());
        }
    }

    /// What people have not been told yet: types whose status says something else. What was told is told again only
    /// after a while, because a write may take some time, and may fail.
    pub fn news(&mut self, catalogue: &Catalogue, now: Timestamp) -> BTreeMap<Arc<str>, Option<RealRoom>> {
        self.told.retain(|name, _| catalogue.contains_key(name));
        let mut news = BTreeMap::new();
        for (name, machine) in catalogue {
            let real = self.rooms.get(name);
            let is_told = self
                .told
                .get(name)
                .is_some_and(|(told, at)| told.as_ref() == real && now.duration_since(*at) < TOLD_AGAIN);
            if machine.real_room.as_ref() != real && !is_told {
                self.told.insert(Arc::clone(name), (real.cloned(), now));
                news.insert(Arc::clone(name), real.cloned());
            }
        }
        news
    }

    /// What the nodes of a type had, if that is less than it promises.
    pub fn get(&self, machine: &str) -> Option<&RealRoom> {
        self.rooms.get(machine)
    }

    /// The catalogue, with what machines really have.
    pub fn correct<'a>(&self, catalogue: &'a Catalogue) -> Cow<'a, Catalogue> {
        if self.rooms.is_empty() {
            return Cow::Borrowed(catalogue);
        }
        let mut corrected = catalogue.clone();
        for (name, seen) in &self.rooms {
            if let Some(machine) = corrected.get_mut(name) {
                machine.room = seen.room;
            }
        }
        Cow::Owned(corrected)
    }

    /// What people are told about types that seem to suit a gang by what they promise.
    pub fn words<'a>(&'a self, machines: impl Iterator<Item = &'a CatalogueMachine>) -> Vec<String> {
        let told = machines.filter_map(|machine| Some((machine, self.rooms.get(&machine.name)?)));
        told.map(|(machine, seen)| format!("{}: {}", machine.name, seen.in_words())).collect()
    }
}

/// What a claim's node has for pods that come and go: all that is not taken by pods which are not ours.
fn room_of(state: &ClusterState, claim: &Claim, promised: Resources) -> Option<(NodeName, Resources)> {
    let id = state.node_id(claim.node.as_ref()?)?;
    let node = state.node(id);
    let mut room = node.object()?.allocatable;
    // Its device plugin has not started: that it has no GPUs yet says nothing about the type.
    if room.gpus == 0 && promised.gpus > 0 {
        return None;
    }
    for pod in node.pods().map(|pod| state.pod(pod).pod()).filter(|pod| !pod.ours) {
        room -= pod.requests;
    }
    Some((node.name().clone(), room))
}

fn larger(one: Resources, other: Resources) -> Resources {
    by_resource(one, other, i64::max)
}

fn smaller(one: Resources, other: Resources) -> Resources {
    by_resource(one, other, i64::min)
}

fn by_resource(one: Resources, other: Resources, choose: fn(i64, i64) -> i64) -> Resources {
    Resources {
        gpus: choose(one.gpus, other.gpus),
        cpu_millis: choose(one.cpu_millis, other.cpu_millis),
        memory_bytes: choose(one.memory_bytes, other.memory_bytes),
        pods: choose(one.pods, other.pods),
    }
}

#[cfg(test)]
mod tests {
    use cluster_model::{ClusterChange, ClusterState, GangKey, Pod, PodKey, Resources};
    use jiff::SignedDuration;

    use super::{BELIEVED, RealRooms};
    use crate::catalogue::{Catalogue, CatalogueMachine};
    use crate::claim::Claim;
    use crate::testing::{at, boot, catalogue, claims, launch, machine, state};

    /// Two machines of a launch, each with a `DaemonSet` pod of this much memory.
    fn launched(daemon_memory: [i64; 2]) -> (ClusterState, Vec<Claim>) {
        let (mut state, mut claims) = (state([]), claims(&launch("train", 1_000, 2)));
        for (claim, memory_bytes) in claims.iter_mut().zip(daemon_memory) {
            boot(&mut state, &catalogue([machine("h100")]), claim);
            let name = format!("daemon-{}", claim.name);
            let pod = Pod {
                ours: false,
                node: claim.node.clone(),
                requests: Resources { memory_bytes, ..Resources::default() },
                ..Pod::new(
                    PodKey::new("kube-system", name.clone(), name.clone()),
                    GangKey::new("kube-system", name),
                )
            };
            state.apply(ClusterChange::Pod(pod));
        }
        (state, claims)
    }

    fn compared(daemon_memory: [i64; 2]) -> RealRooms {
        let (state, claims) = launched(daemon_memory);
        let mut rooms = RealRooms::default();
        rooms.compare(&state, &catalogue([machine("h100")]), &claims.iter().collect::<Vec<_>>(), at(0));
        rooms
    }

    #[test]
    fn what_the_best_node_of_a_launch_had_is_counted_with_and_told() {
        let rooms = compared([3 << 30, 2 << 30]);
        let seen = rooms.get("h100").expect("it has less");
        assert_eq!(seen.room.memory_bytes, (1 << 40) - (2 << 30));
        let types = catalogue([machine("h100")]);
        assert_eq!(rooms.correct(&types)["h100"].room, seen.room);
        assert!(seen.in_words().ends_with(": memory 1046528Mi of 1048576Mi"), "{}", seen.in_words());
        assert_eq!(compared([2 << 30, 0]), RealRooms::default(), "one broken machine is not the rule");
    }

    #[test]
    fn it_is_forgotten_when_a_node_shows_more_or_the_type_changes_or_time_passes() {
        let (rooms, types) = (compared([2 << 30; 2]), catalogue([machine("h100")]));
        let after = |daemon_memory, types: &Catalogue, now| {
            let (state, claims) = launched(daemon_memory);
            let mut rooms = rooms.clone();
            rooms.look(&state, types, &claims, now);
            rooms.get("h100").map(|seen| (1_i64 << 40) - seen.room.memory_bytes)
        };
        assert_eq!(after([2 << 30; 2], &types, at(1)), Some(2 << 30));
        assert_eq!(after([3 << 30, 1 << 30], &types, at(1)), Some(1 << 30), "what the best node had");
        assert_eq!(after([3 << 30, 0], &types, at(1)), None);
        assert_eq!(
            after([2 << 30; 2], &types, at(0) + BELIEVED - SignedDuration::from_secs(1)),
            Some(2 << 30)
        );
        assert_eq!(after([2 << 30; 2], &types, at(0) + BELIEVED), None);
        let mut changed = machine("h100");
        changed.room.memory_bytes -= 4 << 30;
        for types in [catalogue([changed]), catalogue([])] {
            assert_eq!(after([2 << 30; 2], &types, at(1)), None);
        }
    }

    #[test]
    fn what_an_earlier_leader_saw_counts_unless_one_has_seen_more_oneself() {
        let seen = |daemon_memory| compared([daemon_memory; 2]).get("h100").cloned().unwrap();
        let (theirs, more) = (seen(4 << 30), seen(2 << 30));
        let mut fresh = RealRooms::default();
        let written = CatalogueMachine { real_room: Some(theirs.clone()), ..machine("h100") };
        fresh.recall(&written);
        assert_eq!(fresh.get("h100"), Some(&theirs));
        let mut own = compared([2 << 30; 2]);
        own.recall(&written);
        assert_eq!(own.get("h100").map(|seen| seen.room), Some(more.room));
    }

    #[test]
    fn people_are_told_what_the_status_does_not_say_and_again_only_after_a_minute() {
        let (mut rooms, mut types) = (compared([2 << 30; 2]), catalogue([machine("h100")]));
        let seen = rooms.get("h100").cloned();
        assert_eq!(rooms.news(&types, at(0)).get("h100"), Some(&seen));
        assert!(rooms.news(&types, at(59)).is_empty(), "it is being written");
        assert_eq!(rooms.news(&types, at(60)).get("h100"), Some(&seen), "the write has failed");
        types.get_mut("h100").unwrap().real_room = seen;
        assert!(rooms.news(&types, at(200)).is_empty());
        rooms.rooms.clear();
        assert_eq!(rooms.news(&types, at(201)).get("h100"), Some(&None));
    }
}
