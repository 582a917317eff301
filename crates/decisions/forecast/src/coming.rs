//! Machines that are on their way: ordered, and not there yet.
//!
//! ```text
//!   ordered ──at──► there ─┬─ for a gang: with its taint ──its gang starts──► open to all gangs
//!                          └─ for no gang ──────────────────────────────────► open to all gangs
//!      └── its gang has started elsewhere, or is gone: they never come
//! ```

use std::collections::BTreeMap;

use cluster_model::{ClusterChange, ClusterState, Gang, GangKey, Node, Pod, Taint, Toleration};
use jiff::Timestamp;

/// Machines that come together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coming {
    /// When all of them should be ready.
    pub at: Timestamp,
    /// What they are when they are open to all gangs. A node that is already known by its name is replaced.
    pub nodes: Vec<Node>,
    /// The gang that they are for, with what keeps all others away until it has started.
    pub kept_for: Option<(GangKey, Taint)>,
}

impl Coming {
    /// The gang that they are for.
    pub fn gang(&self) -> Option<&GangKey> {
        self.kept_for.as_ref().map(|(gang, _)| gang)
    }
}

/// Gangs may use the machines that are kept for them.
pub(crate) fn let_in(state: &mut ClusterState, coming: &[Coming]) {
    for (gang, taint) in coming.iter().filter_map(|it| it.kept_for.as_ref()) {
        let pods = state.gang(gang).into_iter().flat_map(Gang::pending);
        let pods: Vec<Pod> = pods.map(|pod| state.pod(pod).pod().clone()).collect();
        for mut pod in pods.into_iter().filter(|pod| !taint.tolerated_by(&pod.tolerations)) {
            let (key, value) = (Some(taint.key.clone()), Some(taint.value.clone()));
            pod.tolerations.push(Toleration { key, value, effect: None });
            state.apply(ClusterChange::Pod(pod));
        }
    }
}

/// What is still to come in one future, and what is there and not open yet.
#[derive(Clone, Debug)]
pub(crate) struct Expected<'a> {
    /// The last comes first.
    to_come: Vec<&'a Coming>,
    kept: BTreeMap<&'a GangKey, &'a [Node]>,
}

impl<'a> Expected<'a> {
    pub fn new(coming: &'a [Coming]) -> Self {
        let mut to_come: Vec<&Coming> = coming.iter().collect();
        // Those of one moment by gang, so that the order is always the same.
        to_come.sort_by(|one, other| (other.at, other.gang()).cmp(&(one.at, one.gang())));
        Self { to_come, kept: BTreeMap::new() }
    }

    pub fn next_at(&self) -> Option<i64> {
        self.to_come.last().map(|it| it.at.as_second())
    }

    /// Machines that are due by now arrive. Returns whether any did.
    pub fn arrive(&mut self, state: &mut ClusterState, now: i64) -> bool {
        let mut has_come = false;
        while self.next_at().is_some_and(|at| at <= now) {
            let Some(coming) = self.to_come.pop() else { break };
            let is_wanted = |gang| state.gang(gang).is_some_and(|gang: &Gang| gang.pending().len() > 0);
            match &coming.kept_for {
                Some((gang, _)) if !is_wanted(gang) => continue,
                Some((gang, taint)) => {
                    for node in &coming.nodes {
                        let mut node = node.clone();
                        node.taints.push(taint.clone());
                        state.apply(ClusterChange::Node(node));
                    }
                    self.kept.insert(gang, &coming.nodes);
                }
                None => open(state, &coming.nodes),
            }
            has_come = true;
        }
        has_come
    }

    /// A gang has started: what was kept for it is open to all gangs. Returns whether anything was.
    pub fn started(&mut self, state: &mut ClusterState, gang: &GangKey) -> bool {
        let Some(nodes) = self.kept.remove(gang) else { return false };
        open(state, nodes);
        true
    }
}

fn open(state: &mut ClusterState, nodes: &[Node]) {
    for node in nodes {
        state.apply(ClusterChange::Node(node.clone()));
    }
}
