//! Where members may not go, checked node by node: what classes do not say, and what other pods forbid.
//!
//! ```text
//!   is_void    whether a class that takes the pod says all, so that its nodes need not be looked at
//!   admits ──┬─► local    labels that do not split kinds
//!            ├─► near     pods that must or must not be near, and an even spread with pods alike
//!            └─► spread   an even spread of the gang's members
//! ```
//!
//! Each checks one node at a time, in the order of the search. Further rules of the kind belong here.

pub(super) mod local;
pub(super) mod near;
mod spread;

use std::sync::Arc;

use cluster_model::{ClusterState, GpuType, NodeId, PodId, Spread, Terms};

pub(crate) use self::near::neighbours_admit;
use self::spread::Even;
use crate::gang::Shape;

/// The rules of one gang, as far as it was placed.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    spread: Option<Even>,
    /// A label and its value that all nodes must have, while places to begin are tried.
    within: Option<(Arc<str>, Arc<str>)>,
}

impl Rules {
    /// `running` has the nodes of members that are there already; `shape` and `gpu_type` decide where members could
    /// be.
    pub fn new(
        state: &ClusterState,
        terms: &Terms,
        shape: &Shape,
        gpu_type: Option<&GpuType>,
        running: impl Iterator<Item = NodeId>,
    ) -> Self {
        let even = |Spread { level, skew_max }| Even::new(state, level, skew_max, shape, gpu_type, running);
        Self { spread: terms.spread.map(even), within: None }
    }

    /// The same on nodes with this label only.
    pub fn within(self, key: &Arc<str>, value: &Arc<str>) -> Self {
        Self { within: Some((key.clone(), value.clone())), ..self }
    }

    /// Whether every node of a class that takes the pod is admitted.
    pub fn is_void(&self, state: &ClusterState, member: PodId) -> bool {
        self.spread.is_none()
            && self.within.is_none()
            && !state.has_neighbours(member)
            && local::is_void(state, state.pod(member).pod())
    }

    /// Whether the pod may go to the node.
    pub fn admits(&self, state: &ClusterState, node: NodeId, member: PodId) -> bool {
        let label = |key: &str| state.node(node).object().and_then(|node| node.labels.get(key));
        self.spread.as_ref().is_none_or(|even| even.admits(state, node))
            && self.within.as_ref().is_none_or(|(key, value)| label(key) == Some(value))
            && neighbours_admit(state, node, member)
            && local::admits(state, node, state.pod(member).pod())
    }

    /// Records a member.
    pub fn placed(&mut self, state: &ClusterState, node: NodeId) {
        if let Some(even) = &mut self.spread {
            even.add(state, node);
        }
    }

    /// Whether the whole is as it should be. Members that were there already may be spread unevenly.
    pub fn hold(&self) -> bool {
        self.spread.as_ref().is_none_or(|even| even.most() - even.fewest() <= even.skew_max)
    }

    /// The most that two places may differ by, if the gang is to be spread.
    pub fn skew_max(&self) -> Option<u32> {
        self.spread.as_ref().map(|even| even.skew_max)
    }
}
