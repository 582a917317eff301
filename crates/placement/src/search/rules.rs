//! Where members may not go because of other pods: marks kept apart, and an even spread.
//!
//! Each of these looks at one node at a time, in the order of the search. Others of the kind come in here.

use std::collections::BTreeMap;

use cluster_model::{ClusterState, DomainId, GpuType, Level, NodeId, Pod, Spread, Terms};

use super::fit;
use crate::gang::Shape;

/// The rules of one gang, as far as it was placed.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    spread: Option<Even>,
}

/// How many members are where.
#[derive(Clone, Debug)]
struct Even {
    level: Option<Level>,
    skew_max: u32,
    members: BTreeMap<Spot, u32>,
    /// How many places have so many members.
    places: BTreeMap<u32, u32>,
}

impl Rules {
    /// `running` are the nodes of members that are there already; `shape` and `gpu_type` decide where members could be.
    pub fn new(
        state: &ClusterState,
        terms: &Terms,
        shape: &Shape,
        gpu_type: Option<&GpuType>,
        running: impl Iterator<Item = NodeId>,
    ) -> Self {
        let even = |Spread { level, skew_max }| Even::new(state, level, skew_max, shape, gpu_type, running);
        Self { spread: terms.spread.map(even) }
    }

    /// Whether every node of a class that takes the pod is admitted.
    pub fn is_void(&self, state: &ClusterState, pod: &Pod) -> bool {
        self.spread.is_none()
            && pod.terms.keep_apart.is_empty()
            && pod.marks.is_empty()
            && pod.node_selector.keys().all(|key| state.label_splits_kinds(key))
    }

    /// Whether the pod may go to the node.
    pub fn admits(&self, state: &ClusterState, node: NodeId, pod: &Pod) -> bool {
        self.spread.as_ref().is_none_or(|even| even.admits(state, node))
            && is_apart(state, node, pod)
            && is_selected(state, node, pod)
    }

    /// Takes note of a member.
    pub fn placed(&mut self, state: &ClusterState, node: NodeId) {
        if let Some(even) = &mut self.spread {
            even.add(state, node);
        }
    }

    /// Whether the whole is as it should be. Members that were there already may lie unevenly.
    pub fn hold(&self) -> bool {
        self.spread.as_ref().is_none_or(|even| even.most() - even.fewest() <= even.skew_max)
    }

    /// The most that two places may differ by, if the gang is to be spread.
    pub fn skew_max(&self) -> Option<u32> {
        self.spread.as_ref().map(|even| even.skew_max)
    }
}

/// No pod with a mark that it keeps apart from is near, and nobody near keeps apart from one of its marks.
pub(crate) fn is_apart(state: &ClusterState, node: NodeId, pod: &Pod) -> bool {
    let carried = |level: Option<Level>, mark: &str| match level {
        None => state.marks_on(node, mark) > 0,
        Some(level) => state.domain_of(node, level).is_some_and(|domain| state.marks_in(domain, mark) > 0),
    };
    !pod.terms.keep_apart.iter().any(|apart| carried(apart.level, &apart.mark))
        && !pod.marks.iter().any(|mark| state.is_kept_away(node, mark))
}

/// Classes do not say everything about labels.
fn is_selected(state: &ClusterState, node: NodeId, pod: &Pod) -> bool {
    let labels = state.node(node).object().map(|object| &object.labels);
    pod.node_selector.iter().all(|(key, value)| labels.is_some_and(|labels| labels.get(key) == Some(value)))
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
    fn new(
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

    fn admits(&self, state: &ClusterState, node: NodeId) -> bool {
        // A node that lies in no such domain has no neighbours to be compared with.
        let Some(spot) = spot(state, node, self.level) else { return true };
        let members = self.members.get(&spot).copied().unwrap_or(0);
        members < self.fewest() + self.skew_max
    }

    fn add(&mut self, state: &ClusterState, node: NodeId) {
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

    fn fewest(&self) -> u32 {
        self.places.first_key_value().map_or(0, |(members, _)| *members)
    }

    fn most(&self) -> u32 {
        self.places.last_key_value().map_or(0, |(members, _)| *members)
    }
}
