//! What happens to a cluster, one change at a time: the state must take in each change at a cost that hardly depends
//! on its size.

use cluster_model::{ClusterChange, ClusterState, Node, Pod};

use super::{Work, cluster, fill, node, node_name, now, pod};

/// How many are applied and counted, at every size.
pub const EVENTS: usize = 1_000;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A one-GPU pod comes, and waits.
    PodArrives,
    /// It is seen on a node.
    PodIsBound,
    /// It is gone.
    PodEnds,
    /// A node is cordoned, or opened again.
    NodeChanges,
}

impl Event {
    pub const ALL: [Self; 4] = [Self::PodArrives, Self::PodIsBound, Self::PodEnds, Self::NodeChanges];

    pub fn name(self) -> &'static str {
        match self {
            Self::PodArrives => "pod-arrives",
            Self::PodIsBound => "pod-is-bound",
            Self::PodEnds => "pod-ends",
            Self::NodeChanges => "node-changes",
        }
    }
}

/// A cluster that is half full, and what happens to it next.
pub fn events(event: Event, nodes: usize, shapes: usize) -> (ClusterState, Vec<ClusterChange>) {
    let mut state = cluster(nodes, shapes);
    fill(&mut state, Work::Pods, nodes, now());
    let waiting = |number: usize| pod("owner", &format!("pod-{number}"), 0, 1, 1, now());
    // Far apart, so that no two in a row are neighbours.
    let place = |number: usize| number * 7_919 % nodes;
    let bound = |number: usize| Pod { node: Some(node_name(place(number)).into()), ..waiting(number) };
    let cordoned = |number: usize| {
        let is_open = number / nodes % 2 == 1;
        ClusterChange::Node(Node { schedulable: is_open, ..node(number % nodes, shapes) })
    };
    let numbers = || 0..EVENTS;
    let (before, changes): (Vec<ClusterChange>, Vec<ClusterChange>) = match event {
        Event::PodArrives => (Vec::new(), numbers().map(waiting).map(ClusterChange::Pod).collect()),
        Event::PodIsBound => (
            numbers().map(waiting).map(ClusterChange::Pod).collect(),
            numbers().map(bound).map(ClusterChange::Pod).collect(),
        ),
        Event::PodEnds => (
            numbers().map(bound).map(ClusterChange::Pod).collect(),
            numbers().map(|number| ClusterChange::PodGone(waiting(number).key)).collect(),
        ),
        Event::NodeChanges => (Vec::new(), numbers().map(cordoned).collect()),
    };
    for change in before {
        state.apply(change);
    }
    (state, changes)
}
