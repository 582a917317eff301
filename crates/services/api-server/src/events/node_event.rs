//! A node's event. Callers see different parts of it: names of occupants are only for callers who may list runs
//! in the occupant's namespace.
//!
//! The whole view is serialised once. Partial views are serialised once for each visible set of *this node's*
//! namespaces: mostly none or one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use api_types::rest::{NodeView, ObjectName};
use axum::body::Bytes;

use super::frame::frame;
use crate::views::cluster;

/// Cached versions of one event. Further ones are serialised for each stream, so memory stays bounded: 500
/// events × 64 batches × 4 × ~0.4 KB = 51 MB at the very most.
const VERSIONS_MAX: usize = 4;

/// A node as it is now, or its end.
#[derive(Debug)]
pub struct NodeEvent {
    whole: Bytes,
    view: Option<NodeView>,
    namespaces: BTreeSet<String>,
    versions: Mutex<BTreeMap<BTreeSet<String>, Bytes>>,
}

impl NodeEvent {
    /// The node is new or different.
    pub fn changed(view: NodeView) -> Self {
        Self {
            whole: frame("node", &view),
            namespaces: cluster::namespaces(&view),
            view: Some(view),
            versions: Mutex::default(),
        }
    }

    /// The node is gone.
    pub fn gone(name: &str) -> Self {
        Self {
            whole: frame("node-gone", &ObjectName { name: name.to_owned() }),
            view: None,
            namespaces: BTreeSet::new(),
            versions: Mutex::default(),
        }
    }

    /// The namespaces whose runs hold GPUs of it.
    pub fn namespaces(&self) -> &BTreeSet<String> {
        &self.namespaces
    }

    /// The event for a caller who sees everything.
    pub fn whole(&self) -> Bytes {
        self.whole.clone()
    }

    /// The event for a caller who may list runs in the namespaces `visible`, a subset of [`Self::namespaces`].
    pub fn frame_for(&self, visible: &BTreeSet<String>) -> Bytes {
        let Some(view) = self.view.as_ref().filter(|_| *visible != self.namespaces) else {
            return self.whole();
        };
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = versions.get(visible) {
            return version.clone();
        }
        let version = frame("node", &cluster::masked(view.clone(), visible));
        if versions.len() < VERSIONS_MAX {
            versions.insert(visible.clone(), version.clone());
        }
        version
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use api_types::rest::{MemberState, NodeView, Occupant};

    use super::{NodeEvent, VERSIONS_MAX};

    fn event() -> NodeEvent {
        let occupant = |number: usize| Occupant {
            namespace: Some(format!("team-{number}")),
            run: Some(format!("secret-{number}")),
            queue: Some(format!("queue-{number}")),
            gpus: 1,
            state: MemberState::Running,
        };
        NodeEvent::changed(NodeView {
            name: "n".to_owned(),
            rack: None,
            gpu_type: None,
            gpus: 8,
            ready: true,
            schedulable: true,
            occupants: (0..8).map(occupant).collect(),
        })
    }

    fn text(event: &NodeEvent, visible: &BTreeSet<String>) -> String {
        String::from_utf8(event.frame_for(visible).to_vec()).expect("frames are text")
    }

    #[test]
    fn each_caller_reads_the_names_of_their_own_namespaces_only() {
        let event = event();
        for number in 0..8 {
            let text = text(&event, &[format!("team-{number}")].into());
            for other in 0..8 {
                assert_eq!(text.contains(&format!("secret-{other}")), number == other, "{text}");
                assert_eq!(text.contains(&format!("queue-{other}")), number == other, "{text}");
            }
        }
        assert_eq!(event.frame_for(event.namespaces()), event.whole());
    }

    #[test]
    fn versions_are_shared_and_bounded_and_right_beyond_the_bound() {
        let event = event();
        for pass in 0..2 {
            for bits in 0..32_u32 {
                let visible: BTreeSet<String> = (0..8)
                    .filter(|number| bits & (1 << number) != 0)
                    .map(|number| format!("team-{number}"))
                    .collect();
                let text = text(&event, &visible);
                for number in 0..8 {
                    let seen = visible.contains(&format!("team-{number}"));
                    assert_eq!(text.contains(&format!("secret-{number}")), seen, "pass {pass}: {text}");
                }
            }
        }
        assert_eq!(event.versions.lock().expect("not poisoned").len(), VERSIONS_MAX);
    }
}
