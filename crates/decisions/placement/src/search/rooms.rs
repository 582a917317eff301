//! Where in the topology a group of members goes.
//!
//! ```text
//!   required level ──► domains that have room by count, the tightest first ──► members in the first that works
//!   preferred level ─► the same there, then one level further out, up to the required one or where we are
//!   segments ────────► each like a group of its own that requires the segment's level
//! ```
//!
//! Counts per domain rule out most domains without a look at their nodes; for a group of members alike they are exact.
//! For others a domain may turn out too small: then the next is tried, up to a bound.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_model::plan::WaitReason;
use cluster_model::{ClusterState, DomainId, Fork, Level, NodeId, PodId, TopologyTerms};

use super::for_gang::{Running, Search};
use crate::gang::{Group, Grouping, Shape};

/// A domain in which a grouping may be placed.
struct DomainRoom {
    domain: DomainId,
    order: usize,
    /// How many of its members fit, as far as counts tell.
    members: usize,
    /// How many members like those of its largest group would fit.
    capacity: i64,
}

impl Search<'_> {
    /// Places a grouping somewhere within a domain.
    pub(super) fn place_grouping(
        &mut self,
        attempt: &mut Fork<'_>,
        grouping: &Grouping,
        within: DomainId,
    ) -> Result<(), Vec<WaitReason>> {
        let running = self.running_in(grouping);
        let here = attempt.domain(within).level().map_or(0, |level| usize::from(level.0) + 1);
        let required = grouping.topology.required.map(|level| usize::from(level.0) + 1);
        let preferred = grouping.topology.preferred.map(|level| usize::from(level.0) + 1);
        let outermost = required.unwrap_or(0).max(here);
        let innermost = preferred.unwrap_or(0).max(outermost);
        if let Some(level) = grouping.topology.required
            && usize::from(level.0) < here
            && !joins(attempt, within, level, &running)
        {
            return Err(vec![no_room_together(grouping, level, 0, None)]);
        }
        let around_running = match grouping.topology.required {
            Some(level) if usize::from(level.0) >= here => joined(attempt, within, level, &running),
            _ => Some(within),
        };
        let mut reasons = Vec::new();
        // From the innermost depth outwards; depth 0 is the cluster.
        for depth in (outermost..=innermost).rev() {
            if depth == here {
                return self.place_inside(attempt, grouping, within);
            }
            let Ok(level) = u8::try_from(depth - 1) else { continue };
            // Running members may be scattered at the preferred level; the required level binds the others all the
            // same.
            let tried = if depth > outermost { around_running } else { Some(within) };
            let Some(tried) = tried else { continue };
            reasons = match self.place_at(attempt, grouping, tried, Level(level), &running) {
                Ok(()) => return Ok(()),
                Err(reasons) => reasons,
            };
        }
        Err(reasons)
    }

    /// Places a grouping in one domain of a level.
    fn place_at(
        &mut self,
        attempt: &mut Fork<'_>,
        grouping: &Grouping,
        within: DomainId,
        level: Level,
        running: &[NodeId],
    ) -> Result<(), Vec<WaitReason>> {
        let rooms = self.rooms(attempt, grouping, within, level, running);
        let counted = rooms.iter().map(|room| (room.members, Reverse(room.order), room.domain)).max();
        let mut fitting: Vec<DomainRoom> =
            rooms.into_iter().filter(|room| room.members >= grouping.len()).collect();
        fitting.sort_by_key(|room| (room.capacity, room.order));
        let mut tried = None;
        for room in fitting {
            if self.tries_left == 0 {
                break;
            }
            self.tries_left -= 1;
            let saved = (self.rules.clone(), self.members.len());
            let mut probe = attempt.fork();
            if self.place_inside(&mut probe, grouping, room.domain).is_ok() {
                probe.keep();
                return Ok(());
            }
            drop(probe);
            tried = tried.max(Some((self.members.len() - saved.1, Reverse(room.order), room.domain)));
            self.rules = saved.0;
            self.members.truncate(saved.1);
        }
        // Counts are not everything: where something was tried, the number of members that really fit decides.
        let name = |(members, _, domain)| (members, Some(domain_name(attempt, domain)));
        let (members, name) = tried.or(counted).map_or((0, None), name);
        Err(vec![no_room_together(grouping, level, members, name)])
    }

    /// The domains of a level in which a grouping may be placed, in the order of their paths.
    fn rooms(
        &mut self,
        attempt: &Fork<'_>,
        grouping: &Grouping,
        within: DomainId,
        level: Level,
        running: &[NodeId],
    ) -> Vec<DomainRoom> {
        let mut domains = Vec::new();
        match anchor(attempt, level, running) {
            Anchor::Nowhere => {}
            Anchor::Anywhere => domains_at(attempt, within, level, &mut domains),
            Anchor::In(domain) => {
                domains_at(attempt, within, level, &mut domains);
                domains.retain(|it| *it == domain);
            }
        }
        let mut look = |(order, domain)| {
            let (members, capacity) = self.room_for(attempt, grouping, domain);
            DomainRoom { domain, order, members, capacity }
        };
        domains.into_iter().enumerate().map(&mut look).collect()
    }

    /// How many of the members fit in a domain, as far as counts tell, and how many like them would.
    fn room_for(&mut self, attempt: &Fork<'_>, grouping: &Grouping, domain: DomainId) -> (usize, i64) {
        let (mut members, mut room) = (0, i64::MAX);
        for group in grouping.all() {
            let (ask, gpu_type) = (self.ask(group), self.gpu_type_of(group));
            let of_group = self.rankings.room(attempt, (domain, gpu_type), i64::MAX, &ask);
            members += group.members.len().min(usize::try_from(of_group).unwrap_or(usize::MAX));
            room = room.min(of_group);
        }
        (members, room)
    }

    /// Places a grouping anywhere in a domain: inner groups first, because they are harder.
    fn place_inside(
        &mut self,
        attempt: &mut Fork<'_>,
        grouping: &Grouping,
        domain: DomainId,
    ) -> Result<(), Vec<WaitReason>> {
        if let Some(segment) = grouping.topology.segment {
            if grouping.within.iter().any(has_topology) {
                let fields = vec!["segments around groups that have a topology of their own".to_owned()];
                return Err(vec![WaitReason::Unsupported { fields }]);
            }
            return self.place_segments(attempt, grouping, domain, segment.members.max(1), segment.level);
        }
        for inner in &grouping.within {
            self.place_grouping(attempt, inner, domain)?;
        }
        for group in &grouping.groups {
            self.place_alike(attempt, group, domain)?;
        }
        Ok(())
    }

    fn place_segments(
        &mut self,
        attempt: &mut Fork<'_>,
        grouping: &Grouping,
        domain: DomainId,
        size: u32,
        level: Level,
    ) -> Result<(), Vec<WaitReason>> {
        let mut segments: BTreeMap<u32, Grouping> = BTreeMap::new();
        for group in grouping.all() {
            for member in &group.members {
                let number = index_of(attempt, *member) / size;
                let segment = segments.entry(number).or_default();
                push(&mut segment.groups, &group.shape, *member);
            }
        }
        let depth = usize::from(level.0) + 1;
        let here = attempt.domain(domain).level().map_or(0, |level| usize::from(level.0) + 1);
        let topology = TopologyTerms { required: Some(level), ..TopologyTerms::default() };
        let running: Vec<Running> = self.members_running_in(grouping).cloned().collect();
        for (number, segment) in segments {
            let segment = Grouping { topology, ..segment };
            let of_segment = running.iter().filter(|member| member.index / size == number);
            let nodes: Vec<NodeId> = of_segment.map(|member| member.node).collect();
            if depth <= here {
                if !joins(attempt, domain, level, &nodes) {
                    return Err(vec![no_room_together(&segment, level, 0, None)]);
                }
                self.place_inside(
                    attempt,
                    &Grouping { topology: TopologyTerms::default(), ..segment },
                    domain,
                )?;
                continue;
            }
            let inside = Grouping { topology: TopologyTerms::default(), ..segment };
            self.place_at(attempt, &inside, domain, level, &nodes)?;
        }
        Ok(())
    }

    fn running_in(&self, grouping: &Grouping) -> Vec<NodeId> {
        self.members_running_in(grouping).map(|member| member.node).collect()
    }

    /// Members with a node that belong to a grouping, or to one within it.
    fn members_running_in<'a>(&'a self, grouping: &'a Grouping) -> impl Iterator<Item = &'a Running> {
        let terms = &self.request.terms;
        self.running.iter().filter(move |member| {
            let Some(name) = &grouping.name else { return true };
            let parent = |group: &Arc<str>| terms.groups.get(group).and_then(|group| group.parent.clone());
            let chain = std::iter::successors(member.group.clone(), parent).take(terms.groups.len() + 1);
            chain.into_iter().any(|group| group == *name)
        })
    }
}

/// How members that have a node already restrict the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    /// There are none, or they are in several domains: too late to keep together.
    Anywhere,
    In(DomainId),
    /// They are in no domain of the level, so no member can join them.
    Nowhere,
}

fn anchor(state: &ClusterState, level: Level, running: &[NodeId]) -> Anchor {
    let mut domains = running.iter().map(|node| state.domain_of(*node, level));
    let Some(first) = domains.next() else { return Anchor::Anywhere };
    if domains.any(|other| other != first) {
        return Anchor::Anywhere;
    }
    first.map_or(Anchor::Nowhere, Anchor::In)
}

/// Whether members that go to a domain, which is within one of the level, are in one domain of it with those that
/// run.
fn joins(state: &ClusterState, domain: DomainId, level: Level, running: &[NodeId]) -> bool {
    match anchor(state, level, running) {
        Anchor::Anywhere => true,
        Anchor::In(other) => around(state, domain, level) == Some(other),
        Anchor::Nowhere => false,
    }
}

/// The part of a domain in which running members leave room for others at a level; none if they are outside of it.
fn joined(state: &ClusterState, within: DomainId, level: Level, running: &[NodeId]) -> Option<DomainId> {
    let parent = |id: &DomainId| state.domain(*id).parent();
    match anchor(state, level, running) {
        Anchor::Anywhere => Some(within),
        Anchor::In(domain) => {
            std::iter::successors(Some(domain), parent).any(|id| id == within).then_some(domain)
        }
        Anchor::Nowhere => None,
    }
}

/// The domain of a level around a domain, or itself.
fn around(state: &ClusterState, domain: DomainId, level: Level) -> Option<DomainId> {
    let parent = |id: &DomainId| state.domain(*id).parent();
    std::iter::successors(Some(domain), parent).find(|id| state.domain(*id).level() == Some(level))
}

/// All domains of a level within a domain, in the order of their paths.
fn domains_at(state: &ClusterState, within: DomainId, level: Level, found: &mut Vec<DomainId>) {
    let domain = state.domain(within);
    if domain.level() == Some(level) {
        found.push(within);
        return;
    }
    for child in domain.children() {
        domains_at(state, child, level, found);
    }
}

/// `zone-a/rack-1`.
fn domain_name(state: &ClusterState, domain: DomainId) -> Arc<str> {
    let parent = |id: &DomainId| state.domain(*id).parent().filter(|id| *id != state.root());
    let path = std::iter::successors(Some(domain), parent).map(|id| state.domain(id).name().to_string());
    let path: Vec<String> = path.collect();
    path.into_iter().rev().collect::<Vec<_>>().join("/").into()
}

fn no_room_together(
    grouping: &Grouping,
    level: Level,
    members: usize,
    domain: Option<Arc<str>>,
) -> WaitReason {
    let count = |members: usize| u32::try_from(members).unwrap_or(u32::MAX);
    WaitReason::NoRoomTogether {
        level,
        domain,
        members_asked: count(grouping.len()),
        members_that_fit: count(members),
    }
}

fn has_topology(grouping: &Grouping) -> bool {
    grouping.topology != TopologyTerms::default() || grouping.within.iter().any(has_topology)
}

fn index_of(state: &ClusterState, member: PodId) -> u32 {
    state.pod(member).pod().member_index.unwrap_or(0)
}

fn push(groups: &mut Vec<Group>, shape: &Arc<Shape>, member: PodId) {
    match groups.iter_mut().find(|group| group.shape == *shape) {
        Some(group) => group.members.push(member),
        None => groups.push(Group { shape: shape.clone(), members: vec![member] }),
    }
}
