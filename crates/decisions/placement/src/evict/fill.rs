//! Slots for all members of a claimant, where it must be: one node after the other, one domain after the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cluster_model::{GpuType, Level};

use super::ground::SpotIndex;
use super::slots::{Front, Scene, Work};
use crate::gang::{Grouping, Request, Shape};

/// How many domains are fully tried for a claimant, the cheapest first.
const DOMAINS_MAX: usize = 16;

/// Fronts of claimants that may take the same from the same gangs, so that none starts from the first node again.
pub(super) type Fronts = HashMap<FrontKey, Front>;
/// Queue, priority, shape, GPU type, GPUs needed, and the queue that victims must be below.
pub(super) type FrontKey = (Claimants, Arc<Shape>, Option<GpuType>, i64);
/// Claimants that may take from the same gangs.
pub(super) type Claimants = (Option<cluster_model::QueueName>, super::rules::Rules, Option<usize>);

pub(super) struct Filler<'a> {
    pub scene: Scene<'a>,
    pub gpu_type: Option<&'a GpuType>,
    /// See [`super::ground::Candidate::share_of`].
    pub needed_gpus: i64,
    pub looked_max: u64,
    pub claimants: Claimants,
}

impl Filler<'_> {
    /// Ways to make room for all members, the cheapest first. If there is none, `failed` is how far it went.
    pub fn ways(&self, request: &Request, fronts: &mut Fronts, failed: &mut Work) -> Vec<Work> {
        let root = &request.root;
        let is_anywhere = root.topology.required.is_none() && root.topology.segment.is_none();
        if is_anywhere && root.within.is_empty() {
            let mut work = Work::default();
            let filled = self.anywhere(root, fronts, &mut work);
            failed.clone_from(&work);
            return if filled { vec![work] } else { Vec::new() };
        }
        let looked = &mut failed.looked;
        let spots = self.scene.ground.spots_for(self.gpu_type);
        let mut ways: Vec<(u64, Work)> = match root.topology.required {
            None => self.inside(root, &spots, &Work::default(), looked).into_iter().collect(),
            Some(level) => {
                let domains = self.domains(&spots, level);
                domains
                    .iter()
                    .filter_map(|spots| self.inside(root, spots, &Work::default(), looked))
                    .collect()
            }
        };
        ways.sort_by_key(|(lost, _)| *lost);
        ways.into_iter().take(DOMAINS_MAX).map(|(_, work)| work).collect()
    }

    /// One more slot for each shape, after a way turned out not to be enough.
    pub fn more(&self, request: &Request, fronts: &mut Fronts, work: &mut Work) -> bool {
        let mut any = false;
        for group in request.root.all() {
            any |= self.slot(fronts, &group.shape, work);
        }
        any
    }

    fn anywhere(&self, grouping: &Grouping, fronts: &mut Fronts, work: &mut Work) -> bool {
        grouping.all().all(|group| group.members.iter().all(|_| self.slot(fronts, &group.shape, work)))
    }

    fn slot(&self, fronts: &mut Fronts, shape: &Arc<Shape>, work: &mut Work) -> bool {
        let gpu_type = self.gpu_type.filter(|_| shape.requests.gpus > 0);
        let key = (self.claimants.clone(), shape.clone(), gpu_type.cloned(), self.needed_gpus);
        let front = fronts.entry(key).or_insert_with(|| {
            Front::new(shape.clone(), self.needed_gpus, self.scene.ground.spots_for(gpu_type))
        });
        front.take_slot(self.scene, work, self.looked_max)
    }

    /// Slots for a grouping within these nodes, and what is lost by that in all.
    fn inside(
        &self,
        grouping: &Grouping,
        spots: &[SpotIndex],
        before: &Work,
        looked: &mut u64,
    ) -> Option<(u64, Work)> {
        let mut work = before.clone();
        work.looked = *looked;
        let mut found = true;
        for group in &grouping.groups {
            found = found
                && match grouping.topology.segment {
                    None => self.some(&group.shape, group.members.len(), spots, &mut work),
                    Some(segment) => group.members.chunks(segment.members.max(1) as usize).all(|members| {
                        self.cheapest(spots, segment.level, &mut work, |spots, work| {
                            self.some(&group.shape, members.len(), spots, work)
                        })
                    }),
                };
        }
        for within in &grouping.within {
            let fill = |spots: &[SpotIndex], work: &mut Work| {
                let mut looked = work.looked;
                let filled = self.inside(within, spots, work, &mut looked);
                work.looked = looked;
                filled.map(|(_, filled)| *work = filled).is_some()
            };
            found = found
                && match within.topology.required {
                    None => fill(spots, &mut work),
                    Some(level) => self.cheapest(spots, level, &mut work, fill),
                };
        }
        *looked = work.looked;
        found.then(|| (self.lost(&work), work))
    }

    /// Fills the domain where the loss is least.
    fn cheapest(
        &self,
        spots: &[SpotIndex],
        level: Level,
        work: &mut Work,
        fill: impl Fn(&[SpotIndex], &mut Work) -> bool,
    ) -> bool {
        let mut best: Option<(u64, Work)> = None;
        let mut looked = work.looked;
        for domain in self.domains(spots, level) {
            let mut tried = work.clone();
            tried.looked = looked;
            let filled = fill(&domain, &mut tried);
            looked = tried.looked;
            let lost = self.lost(&tried);
            if filled && best.as_ref().is_none_or(|(least, _)| lost < *least) {
                best = Some((lost, tried));
            }
        }
        let Some((_, filled)) = best else { return false };
        *work = filled;
        work.looked = looked;
        true
    }

    /// Slots of one shape for this many members on these nodes.
    fn some(&self, shape: &Arc<Shape>, members: usize, spots: &[SpotIndex], work: &mut Work) -> bool {
        let mut front = Front::new(shape.clone(), self.needed_gpus, spots.to_vec());
        (0..members).all(|_| front.take_slot(self.scene, work, self.looked_max))
    }

    /// The nodes of each domain of a level, in the order of the domains' names.
    fn domains(&self, spots: &[SpotIndex], level: Level) -> Vec<Vec<SpotIndex>> {
        let mut domains: BTreeMap<&[Arc<str>], Vec<SpotIndex>> = BTreeMap::new();
        for spot in spots {
            let node = self.scene.state.node(self.scene.ground.spots[*spot].id).object();
            if let Some(path) = node.and_then(|node| node.topology.get(..=usize::from(level.0))) {
                domains.entry(path).or_default().push(*spot);
            }
        }
        domains.into_values().collect()
    }

    fn lost(&self, work: &Work) -> u64 {
        work.taken.gangs.iter().map(|gang| self.scene.ground.gangs[*gang].lost_gpu_seconds).sum()
    }
}
