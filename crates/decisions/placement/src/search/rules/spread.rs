//! An even spread of the members of a gang over nodes or domains.

use std::collections::BTreeMap;

use cluster_model::{ClusterState, DomainId, GpuType, Level, NodeId};

use super::super::fit;
use crate::gang::Shape;

/// How many members are where.
#[derive(Clone, Debug)]
pub(super) struct Even {
    level: Option<Level>,
    pub skew_max: u32,
    members: BTreeMap<Spot, u32>,
    /// How many places have each number of members.
    places: BTreeMap<u32, u32>,
}

/// A node or a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spot {
    Node(NodeId),
    Domain(DomainId),
}

fn spot(state: &ClusterState, node: NodeId, level: Option<Level>) -> Option<Spot> {
    match level {
        None => Some(Spot::Node(node)),
        Some(level) => state.domain_of(node, level).map(Spot::Domain),
    }
}

impl Even {
    pub fn new(
        state: &ClusterState,
        level: Option<Level>,
        skew_max: u32,
        shape: &Shape,
        gpu_type: Option<&GpuType>,
        running: impl Iterator<Item = NodeId>,
    ) -> Self {
        let (members, places) = (BTreeMap::new(), BTreeMap::new());
        let mut even = Self { level, skew_max: skew_max.max(1), members, places };
        for (id, class) in state.classes() {
            let is_of_type = gpu_type.is_none() || class.kind().gpu_type.as_ref() == gpu_type;
            if is_of_type && fit::would_take(state, class, shape) {
                for spot in state.nodes_in(state.root(), id).filter_map(|node| spot(state, node, level)) {
                    even.members.entry(spot).or_default();
                }
            }
        }
        let places = u32::try_from(even.members.len()).unwrap_or(u32::MAX);
        even.places.insert(0, places);
        for node in running {
            even.add(state, node);
        }
        even
    }

    pub fn admits(&self, state: &ClusterState, node: NodeId) -> bool {
        // A node that is in no such domain is compared with none.
        let Some(spot) = spot(state, node, self.level) else { return true };
        let members = self.members.get(&spot).copied().unwrap_or(0);
        members < self.fewest() + self.skew_max
    }

    pub fn add(&mut self, state: &ClusterState, node: NodeId) {
        let Some(spot) = spot(state, node, self.level) else { return };
        let is_new = !self.members.contains_key(&spot);
        let members = self.members.entry(spot).or_default();
        *members += 1;
        *self.places.entry(*members).or_default() += 1;
        if let Some(places) = self.places.get_mut(&(*members - 1)).filter(|_| !is_new) {
            *places -= 1;
        }
        self.places.retain(|_, places| *places > 0);
    }

    pub fn fewest(&self) -> u32 {
        self.places.first_key_value().map_or(0, |(members, _)| *members)
    }

    pub fn most(&self) -> u32 {
        self.places.last_key_value().map_or(0, |(members, _)| *members)
    }
}
