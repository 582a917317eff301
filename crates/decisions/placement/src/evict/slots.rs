//! Room for one member at a time, on the node where it costs least.
//!
//! ```text
//!   nodes by their floor ──► looked at while the floor is below the best known ──► heap by true cost ──► cheapest slot
//! ```
//!
//! A slot costs what the gangs that leave for it lose. The cost is checked again when the slot is taken from the
//! heap, because others may have left since, or may not leave any more.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use cluster_model::{ClusterState, DeviceAsk, Node, Resources};

use super::ground::{GangIndex, Ground, SpotIndex};
use super::parts;
use super::rules::{Asking, Claim};
use super::taken::Taken;
use crate::gang::Shape;

/// On a node with at most this many victims every set of them is tried: 2^10 at the very most, and far fewer because
/// a set is dropped as soon as it costs more than the best.
const EXACT_MAX: usize = 10;

/// What one attempt has taken and used so far.
#[derive(Clone, Default)]
pub(super) struct Work {
    pub taken: Taken,
    /// What gangs that leave have freed, less what members of the claimant use.
    free: HashMap<SpotIndex, Resources>,
    /// Gangs looked at.
    pub looked: u64,
}

/// Nodes for members of one shape, the cheapest first.
pub(super) struct Front {
    pub shape: Arc<Shape>,
    /// How many GPUs the claimant needs in all; see [`super::ground::Candidate::share_of`].
    needed_gpus: i64,
    /// Nodes by their floor, and how many of them are in the heap.
    spots: Vec<SpotIndex>,
    entered: usize,
    heap: BinaryHeap<Reverse<Entry>>,
}

/// What a slot costs, then how many GPUs it takes from others, then the node's place by name.
pub(super) type Entry = (u64, i64, SpotIndex);

struct Slot {
    cost: u64,
    gpus: i64,
    victims: Vec<GangIndex>,
}

/// What a claim is evaluated on.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub state: &'a ClusterState,
    pub ground: &'a Ground,
    pub claim: &'a Claim,
}

impl Work {
    /// What is free on a node, as things stand in this attempt.
    pub fn free(&self, state: &ClusterState, ground: &Ground, spot: SpotIndex) -> Resources {
        state.node(ground.spots[spot].id).free() + self.free.get(&spot).copied().unwrap_or_default()
    }

    /// Lets a gang leave all its nodes.
    pub fn take(&mut self, scene: Scene<'_>, gang: GangIndex) {
        let Scene { state, ground, claim } = scene;
        self.taken.add(ground, &claim.resource, gang);
        for (pod, spot) in &ground.gangs[gang].members {
            *self.free.entry(*spot).or_default() += state.pod(*pod).pod().requests;
        }
    }

    pub fn place(&mut self, spot: SpotIndex, requests: Resources) {
        let free = self.free.entry(spot).or_default();
        *free -= requests;
    }
}

impl Front {
    /// Over nodes in the order of their floors.
    pub fn new(shape: Arc<Shape>, needed_gpus: i64, spots: Vec<SpotIndex>) -> Self {
        Self { shape, needed_gpus, spots, entered: 0, heap: BinaryHeap::new() }
    }

    /// Makes room for one more member in `work`, where that costs least. False if there is none, or the bound on gangs
    /// looked at is reached.
    pub fn take_slot(&mut self, scene: Scene<'_>, work: &mut Work, looked_max: u64) -> bool {
        loop {
            self.enter_up_to_best(scene);
            let Some(Reverse(known)) = self.heap.pop() else { return false };
            let spot = known.2;
            if work.looked >= looked_max {
                self.heap.push(Reverse(known));
                return false;
            }
            let Some(found) = self.look(scene, work, spot) else { continue };
            let now = (found.cost, found.gpus, spot);
            if now > known {
                self.heap.push(Reverse(now));
                continue;
            }
            for gang in &found.victims {
                work.take(scene, *gang);
                // Its other nodes have become cheaper.
                let elsewhere = scene.ground.gangs[*gang].members.iter().map(|(_, other)| *other);
                self.heap
                    .extend(elsewhere.filter(|other| *other != spot).map(|other| Reverse((0, 0, other))));
            }
            work.place(spot, self.shape.requests);
            self.heap.push(Reverse((0, 0, spot)));
            return true;
        }
    }

    /// The next cheapest slot and its victims, without taking it; the node is not offered again until it is
    /// [offered](Self::offer).
    pub fn next_victims(&mut self, scene: Scene<'_>, work: &mut Work) -> Option<(Entry, Vec<GangIndex>)> {
        loop {
            self.enter_up_to_best(scene);
            let Reverse(known) = self.heap.pop()?;
            let spot = known.2;
            let Some(found) = self.look(scene, work, spot) else { continue };
            let now = (found.cost, found.gpus, spot);
            if now > known {
                self.heap.push(Reverse(now));
                continue;
            }
            return Some((now, found.victims));
        }
    }

    /// Offers a node that costs at least this much.
    pub fn offer(&mut self, entry: Entry) {
        self.heap.push(Reverse(entry));
    }

    /// Nodes whose floor is not above the best known could be better: they enter the heap at their floor.
    fn enter_up_to_best(&mut self, Scene { ground, claim, .. }: Scene<'_>) {
        while let Some(spot) = self.spots.get(self.entered) {
            let floor = if claim.has_floors() { ground.spots[*spot].floor } else { 0 };
            if floor == u64::MAX || self.heap.peek().is_some_and(|Reverse((best, ..))| *best < floor) {
                break;
            }
            self.heap.push(Reverse((floor, 0, *spot)));
            self.entered += 1;
        }
    }

    /// The gangs that would have to leave a node for one more member, at the least cost.
    fn look(&self, scene: Scene<'_>, work: &mut Work, spot: SpotIndex) -> Option<Slot> {
        let Scene { state, ground, claim } = scene;
        let node = state.node(ground.spots[spot].id).object()?;
        work.looked += 1;
        if !suits(&self.shape, node) {
            return None;
        }
        let free = work.free(state, ground, spot);
        if self.fits(scene, work, spot, &free, &[]) {
            return Some(Slot { cost: 0, gpus: 0, victims: Vec::new() });
        }
        let asking = Asking { claim, state, ground, taken: &work.taken, chosen: &[] };
        let victims: Vec<(GangIndex, Resources, u64)> = ground.spots[spot]
            .victims
            .iter()
            .filter(|(gang, _)| !work.taken.gangs.contains(gang) && !ground.gangs[*gang].is_gone)
            .filter(|(gang, _)| asking.rule(*gang).is_some())
            .map(|(gang, here)| (*gang, *here, claim.share_of(&ground.gangs[*gang], here, self.needed_gpus)))
            .collect();
        work.looked += victims.len() as u64;
        let mut choice = NodeVictims { front: self, scene, work, spot, victims: &victims, best: None };
        if victims.len() <= EXACT_MAX {
            choice.every(0, &free, 0, &mut Vec::new());
        } else {
            choice.greedy(&free);
        }
        let (cost, chosen) = choice.best?;
        let gpus = chosen.iter().map(|gang| ground.gangs[*gang].holds.gpus).sum();
        Some(Slot { cost, gpus, victims: chosen })
    }

    fn fits(
        &self,
        Scene { state, ground, .. }: Scene<'_>,
        work: &Work,
        spot: SpotIndex,
        free: &Resources,
        chosen: &[GangIndex],
    ) -> bool {
        let asks_more = self.shape.device != DeviceAsk::Whole || self.shape.has_extras();
        self.shape.requests.fits(free)
            && (!asks_more || {
                let leaves = |gang: &GangIndex| chosen.contains(gang) || work.taken.gangs.contains(gang);
                let gone = ground.spots[spot].victims.iter().filter(|(gang, _)| leaves(gang));
                let gone: Vec<_> = gone.map(|(gang, _)| &ground.gangs[*gang].key).collect();
                (self.shape.device == DeviceAsk::Whole
                    || has_part(state, ground, spot, self.shape.device, &gone))
                    && has_extras(state, ground, spot, &self.shape, &gone)
            })
    }
}

/// A search among the victims of one node.
struct NodeVictims<'a> {
    front: &'a Front,
    scene: Scene<'a>,
    work: &'a Work,
    spot: SpotIndex,
    victims: &'a [(GangIndex, Resources, u64)],
    best: Option<(u64, Vec<GangIndex>)>,
}

impl NodeVictims<'_> {
    /// Every set from the victim `next` on, except those that cost as much as the best.
    fn every(&mut self, next: usize, free: &Resources, cost: u64, chosen: &mut Vec<GangIndex>) {
        if self.best.as_ref().is_some_and(|(best, _)| *best <= cost && !chosen.is_empty()) {
            return;
        }
        if !chosen.is_empty() && self.front.fits(self.scene, self.work, self.spot, free, chosen) {
            self.best = Some((cost, chosen.clone()));
            return;
        }
        let Some((gang, here, share)) = self.victims.get(next) else { return };
        if self.gives_way(chosen, *gang) {
            chosen.push(*gang);
            self.every(next + 1, &(*free + *here), cost.saturating_add(*share), chosen);
            chosen.pop();
        }
        self.every(next + 1, free, cost, chosen);
    }

    /// The least lost per GPU first until there is room; then those that are not needed stay after all, the dearest
    /// first.
    fn greedy(&mut self, free: &Resources) {
        let (mut free, mut chosen): (_, Vec<GangIndex>) = (*free, Vec::new());
        let mut has_room = false;
        for (gang, here, _) in self.victims {
            if !self.gives_way(&chosen, *gang) {
                continue;
            }
            chosen.push(*gang);
            free += *here;
            has_room = self.front.fits(self.scene, self.work, self.spot, &free, &chosen);
            if has_room {
                break;
            }
        }
        if !has_room {
            return;
        }
        let mut by_share: Vec<_> = self.victims.iter().filter(|(gang, ..)| chosen.contains(gang)).collect();
        by_share.sort_by_key(|(gang, _, share)| (Reverse(*share), *gang));
        for (gang, here, _) in by_share {
            let without: Vec<_> = chosen.iter().copied().filter(|other| other != gang).collect();
            let left = free - *here;
            if self.front.fits(self.scene, self.work, self.spot, &left, &without) {
                (chosen, free) = (without, left);
            }
        }
        let shares = self.victims.iter().filter(|(gang, ..)| chosen.contains(gang));
        self.best = Some((shares.map(|(.., share)| *share).sum(), chosen));
    }

    /// Whether a rule makes the gang give way, after those in `chosen`.
    fn gives_way(&self, chosen: &[GangIndex], gang: GangIndex) -> bool {
        let Scene { state, ground, claim } = self.scene;
        Asking { claim, state, ground, taken: &self.work.taken, chosen }.rule(gang).is_some()
    }
}

/// Whether a member of this shape may be on a node at all.
pub(super) fn suits(shape: &Shape, node: &Node) -> bool {
    node.schedulable
        && (!node.spot || shape.takes_spot)
        && (node.exact || shape.device == DeviceAsk::Whole)
        && node.repelling().all(|taint| taint.tolerated_by(&shape.tolerations))
        && shape.selects(node)
        && node.features.contain(shape.node_features)
}

/// Whether a device of the node has the part that is asked for, once these gangs are gone.
fn has_part(
    state: &ClusterState,
    ground: &Ground,
    spot: SpotIndex,
    ask: DeviceAsk,
    gone: &[&cluster_model::GangKey],
) -> bool {
    let node = state.node(ground.spots[spot].id);
    let devices = node.object().map_or(0, |object| u8::try_from(object.allocatable.gpus).unwrap_or(u8::MAX));
    let stays = |pod: &cluster_model::PodId| !gone.contains(&&state.pod(*pod).pod().gang);
    let used: Vec<_> = node.pods().filter(stays).flat_map(|pod| state.pod(pod).devices()).copied().collect();
    (0..devices).any(|device| parts::of(ask, device).any(|part| parts::is_free(part, used.iter())))
}

/// Whether a node has the other resources and the ports that are asked for, once these gangs are gone. Other members
/// of the claimant are ignored: the search that follows counts them.
fn has_extras(
    state: &ClusterState,
    ground: &Ground,
    spot: SpotIndex,
    shape: &Shape,
    gone: &[&cluster_model::GangKey],
) -> bool {
    let node = state.node(ground.spots[spot].id);
    let on_node = || node.pods().map(|pod| state.pod(pod).pod());
    let is_gone = |pod: &&cluster_model::Pod| gone.contains(&&pod.gang);
    let freed = |name: &str| -> i64 {
        let gone = on_node().filter(is_gone);
        gone.map(|pod| pod.other_requests.get(name)).fold(0, i64::saturating_add)
    };
    shape.other_requests.iter().all(|(name, asked)| asked <= node.free_of(name).saturating_add(freed(name)))
        && !on_node().any(|pod| !is_gone(&pod) && pod.host_ports.conflict(&shape.host_ports))
}
