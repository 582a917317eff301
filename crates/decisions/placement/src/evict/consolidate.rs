//! Moving a few gangs that save their state, so that a blocked gang finds nodes in one piece.
//!
//! ```text
//!   enough is free in all ──► nodes that are cheapest to clear ──► the gangs on them: the pool
//!                                                                      │
//!   planned ◄── all moved, all held ◄── all of them fit, on a fork ◄── sets of up to three of the pool, smallest first
//! ```
//!
//! If a policy lets more than three gangs move, and three could clear three nodes at most, room is looked for member
//! by member, as it is with victims. Otherwise that comes after the sets.
//!
//! All or nothing: the claimant and every gang that is moved for it have a place in the same plan, or nothing moves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_model::plan::MemberPlacement;
use cluster_model::{ClusterState, Fork, GpuType, NodeId, PodId, ResourceName};

use super::fill::{Filler, Fronts};
use super::ground::{GangIndex, Ground, SpotIndex};
use super::placing::place;
use super::rules::Claim;
use super::slots::{Front, Scene, Work};
use super::taken;
use crate::gang::{Request, Shape};
use crate::quota;
use crate::search::{self, Searches};
use cluster_model::policy::Policy;

/// The most gangs that sets are made of: with sets of three, 298 sets.
const POOL_MAX: usize = 12;
/// Nodes that are looked at to find them.
const NODES_MAX: usize = 64;
/// Sets of more gangs than this are not tried.
const SET_MAX: usize = 3;
/// Larger sets that are tried on a fork for one claimant.
const WAYS_MAX: usize = 4;
/// Sets that are tried on a fork for one claimant.
const TRIES_MAX: usize = 300;

/// Nodes in the order of what it costs to clear them for one more member, shared by all claimants of a plan for which
/// nothing was moved before: so the cost of a claimant depends on what it moves, not on what runs.
#[derive(Default)]
pub(super) struct ClearFronts(BTreeMap<(Arc<Shape>, Option<GpuType>), Front>);

impl ClearFronts {
    /// A gang left a node with GPUs of this type: the node may be cheaper to clear now.
    pub fn left(&mut self, spot: SpotIndex, gpu_type: Option<&GpuType>) {
        for ((_, of_type), front) in &mut self.0 {
            if of_type.is_none() || of_type.as_ref() == gpu_type {
                front.offer((0, 0, spot));
            }
        }
    }
}

/// Where every gang goes.
pub(super) struct Moves {
    pub claimant: Vec<MemberPlacement>,
    pub moved: Vec<(GangIndex, Vec<MemberPlacement>)>,
}

/// A blocked gang, and the gangs that might be moved for it.
pub(super) struct Blocked<'a> {
    pub ground: &'a Ground,
    pub request: &'a Request,
    pub gpu_type: Option<&'a GpuType>,
    pub policy: &'a Policy,
}

impl Blocked<'_> {
    /// Finds gangs to move for it; none if its queue has no room for it, too little is free in all, or no movable set
    /// is enough.
    pub fn find(
        &self,
        planned: &mut Fork<'_>,
        fronts: &mut ClearFronts,
        searches: &mut Searches,
    ) -> Option<Moves> {
        if !quota::exceeded(planned, self.request, self.gpu_type).is_empty() || !self.is_free_in_all(planned)
        {
            return None;
        }
        let pool = self.pool(planned, fronts);
        if self.moves_max() <= SET_MAX || pool.iter().any(|gang| self.spans_nodes(*gang)) {
            return self.few(planned, &pool, searches).or_else(|| self.many(planned, searches));
        }
        self.many(planned, searches).or_else(|| self.few(planned, &pool, searches))
    }

    fn moves_max(&self) -> usize {
        self.policy.consolidation.moves_max as usize
    }

    fn spans_nodes(&self, gang: GangIndex) -> bool {
        let spots = self.ground.gangs[gang].members.iter().map(|(_, spot)| spot);
        spots.collect::<BTreeSet<_>>().len() > 1
    }

    /// Moves the smallest set of the pool that is enough.
    fn few(&self, planned: &mut Fork<'_>, pool: &[GangIndex], searches: &mut Searches) -> Option<Moves> {
        let ground = self.ground;
        let set_max = SET_MAX.min(self.moves_max());
        let mut tries = 0;
        for size in 1..=set_max {
            let mut sets = subsets(pool, size);
            let gpus =
                |set: &Vec<GangIndex>| -> i64 { set.iter().map(|gang| ground.gangs[*gang].holds.gpus).sum() };
            let lost = |set: &Vec<GangIndex>| -> u64 {
                set.iter().map(|gang| ground.gangs[*gang].lost_gpu_seconds).fold(0, u64::saturating_add)
            };
            // Of sets of one size the one that loses least: moving comes often, and each time something is done again.
            sets.sort_by_key(|set| (lost(set), gpus(set), set.clone()));
            for set in sets.into_iter().filter(|set| taken::allow_all(ground, set)) {
                if tries == TRIES_MAX {
                    return None;
                }
                tries += 1;
                if let Some(moves) = self.try_set(planned, &set, searches) {
                    return Some(moves);
                }
            }
        }
        None
    }

    /// Moves the gangs that are cheapest to move for each member, if that is more than small sets can do.
    fn many(&self, planned: &mut Fork<'_>, searches: &mut Searches) -> Option<Moves> {
        let (ground, request, moves_max) = (self.ground, self.request, self.moves_max());
        if moves_max <= SET_MAX {
            return None;
        }
        let claim = self.claim();
        let filler = Filler {
            scene: Scene { state: planned, ground, claim: &claim },
            gpu_type: self.gpu_type,
            needed_gpus: 0,
            looked_max: u64::from(self.policy.eviction.candidates_max),
            claimants: (request.queue.clone(), claim.rules(), None),
        };
        let ways = filler.ways(request, &mut Fronts::new(), &mut Work::default());
        let sets = ways.into_iter().map(|way| way.taken.gangs.into_iter().collect::<Vec<GangIndex>>());
        let is_allowed = |set: &Vec<GangIndex>| {
            (SET_MAX + 1..=moves_max).contains(&set.len()) && taken::allow_all(ground, set)
        };
        let sets: Vec<_> = sets.filter(is_allowed).take(WAYS_MAX).collect();
        sets.into_iter().find_map(|set| self.try_set(planned, &set, searches))
    }

    fn claim(&self) -> Claim {
        let resource = self.gpu_type.cloned().map_or(ResourceName::Cpu, ResourceName::Gpu);
        Claim::to_move(self.request.key.clone(), resource)
    }

    /// Whether what the gang needs would be free if it were in one piece.
    fn is_free_in_all(&self, state: &ClusterState) -> bool {
        let Self { ground, request, gpu_type, .. } = *self;
        if gpu_type.is_some() {
            let kinds = state.kinds().filter(|(_, kind)| kind.gpu_type.as_ref() == gpu_type);
            return kinds.map(|(kind, _)| state.gpus_free_of(kind)).sum::<i64>() >= request.needs.gpus;
        }
        let mut free = 0;
        ground.spots_for(None).into_iter().any(|spot| {
            free += state.node(ground.spots[spot].id).free().cpu_millis.max(0);
            free >= request.needs.cpu_millis
        })
    }

    /// Gangs on the nodes that are cheapest to clear for one more member; of every shape, in turn.
    fn pool(&self, state: &ClusterState, fronts: &mut ClearFronts) -> Vec<GangIndex> {
        let Self { ground, request, gpu_type, .. } = *self;
        let claim = self.claim();
        let mut pool = Vec::new();
        let mut seen = BTreeSet::new();
        // A gang that was moved for it before is not moved again, so what others found out says nothing about its
        // nodes.
        let mut own_fronts = ClearFronts::default();
        let fronts = if state.has_displaced(&request.key) { &mut own_fronts } else { fronts };
        for group in request.root.all() {
            let gpu_type = gpu_type.filter(|_| group.shape.requests.gpus > 0);
            let front = fronts.0.entry((group.shape.clone(), gpu_type.cloned()));
            let front =
                front.or_insert_with(|| Front::new(group.shape.clone(), 0, ground.spots_for(gpu_type)));
            let (mut work, mut offered) = (Work::default(), Vec::new());
            while offered.len() < NODES_MAX && pool.len() < POOL_MAX {
                let Some((entry, victims)) =
                    front.next_victims(Scene { state, ground, claim: &claim }, &mut work)
                else {
                    break;
                };
                // A node that is offered again after a gang left it is there twice.
                if !offered.iter().any(|(_, _, spot)| *spot == entry.2) {
                    offered.push(entry);
                }
                for gang in victims {
                    if pool.len() < POOL_MAX && seen.insert(gang) {
                        pool.push(gang);
                    }
                }
            }
            for entry in offered {
                front.offer(entry);
            }
        }
        // Gangs that could not clear a node alone may still help; by name, while there is room for more.
        let helps = |gang: &GangIndex| {
            let gang = &ground.gangs[*gang];
            gang.is_movable
                && !gang.is_gone
                && gang.gpu_type.as_ref() == gpu_type
                && gang.key != request.key
                && !state.was_evicted_for(&gang.key, &request.key)
        };
        for gang in (0..ground.gangs.len()).filter(helps) {
            if pool.len() == POOL_MAX {
                break;
            }
            if seen.insert(gang) {
                pool.push(gang);
            }
        }
        pool
    }

    /// All gangs find a place on a fork, or none moves. The search never takes back a placement, so the order
    /// matters, and several are tried.
    fn try_set(&self, planned: &mut Fork<'_>, set: &[GangIndex], searches: &mut Searches) -> Option<Moves> {
        let Self { ground, request, gpu_type, .. } = *self;
        let mut by_size = set.to_vec();
        by_size.sort_by_key(|gang| (-ground.gangs[*gang].holds.gpus, *gang));
        let smallest_first: Vec<_> = by_size.iter().rev().copied().collect();
        let mut attempt = planned.fork();
        for (pod, _) in set.iter().flat_map(|gang| &ground.gangs[*gang].members) {
            attempt.evict(*pod);
        }
        // If the claimant does not fit with all of them gone, it fits in no order.
        place(&mut attempt.fork(), request, gpu_type, searches)?;
        let mut orders = vec![(true, &by_size), (false, &by_size)];
        if set.len() > 1 {
            orders.extend([(true, &smallest_first), (false, &smallest_first)]);
        }
        orders.into_iter().find_map(|(claimant_first, order)| {
            let mut fork = attempt.fork();
            let mut claimant = None;
            if claimant_first {
                claimant = Some(place(&mut fork, request, gpu_type, searches)?);
            }
            let mut moved = Vec::with_capacity(order.len());
            for index in order {
                let gang = &ground.gangs[*index];
                let pods: Vec<PodId> = gang.members.iter().map(|(pod, _)| *pod).collect();
                let again = Request::read_again(&fork, &gang.key, &pods, gang.gpu_type.clone());
                moved.push((*index, place(&mut fork, &again, gang.gpu_type.as_ref(), searches)?));
            }
            let claimant = match claimant {
                Some(claimant) => claimant,
                None => place(&mut fork, request, gpu_type, searches)?,
            };
            let moved = settle(&mut fork, ground, moved);
            (!moved.is_empty()).then_some(Moves { claimant, moved })
        })
    }
}

/// All subsets of one size, at most a few hundred.
fn subsets(pool: &[GangIndex], size: usize) -> Vec<Vec<GangIndex>> {
    let mut sets = vec![(0, Vec::new())];
    for _ in 0..size {
        sets = sets
            .into_iter()
            .flat_map(|(from, set): (usize, Vec<GangIndex>)| {
                (from..pool.len()).map(move |next| {
                    let mut longer = set.clone();
                    longer.push(pool[next]);
                    (next + 1, longer)
                })
            })
            .collect();
    }
    sets.into_iter().map(|(_, set)| set).collect()
}

/// Gangs that could have stayed where they were, stay.
fn settle(
    fork: &mut Fork<'_>,
    ground: &Ground,
    moved: Vec<(GangIndex, Vec<MemberPlacement>)>,
) -> Vec<(GangIndex, Vec<MemberPlacement>)> {
    let mut kept = Vec::with_capacity(moved.len());
    for (index, places) in moved {
        let members = &ground.gangs[index].members;
        let stays = {
            let mut back = fork.fork();
            for (pod, _) in members {
                back.evict(*pod);
            }
            let stays = members.iter().all(|(pod, spot)| {
                let node: NodeId = ground.spots[*spot].id;
                let fits = back.node(node).has_room_for(back.pod(*pod).pod());
                let devices = ground.devices_of(*pod);
                let used = super::parts::used(&back, node);
                let free = devices.iter().all(|part| super::parts::is_free(*part, used.iter()))
                    && search::neighbours_admit(&back, node, *pod);
                if fits && free {
                    back.assume(*pod, node, devices);
                }
                fits && free
            });
            if stays {
                back.keep();
            }
            stays
        };
        if !stays {
            kept.push((index, places));
        }
    }
    kept
}
