//! The nodes as Runs need them: which are leaving, which are lost, and where there is room. Kept up to date by
//! one watch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use api_types::names::{GPU_NODE_TAINT, GPU_RESOURCE, GPU_SICK_TAINT, LEAVING_AT_ANNOTATION, LEAVING_TAINT};
use jiff::Timestamp;
use kube::runtime::watcher::Event;
use slim_objects::{SlimNode, gpu_type, quantity};

/// The facts about a node that decisions about Runs read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The machine goes soon.
    pub leaving: Option<Leaving>,
    /// A GPU is sick; the remedy, as the node agent names it.
    pub sick: Option<String>,
    /// Its kubelet has been silent since then.
    pub lost_since: Option<Timestamp>,
    /// New pods may be placed on it.
    pub takes_pods: bool,
    /// The number of GPUs that pods may use.
    pub gpus: u32,
    /// Their type.
    pub gpu_type: Option<String>,
}

/// A machine that was announced to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// `spot` or `maintenance`.
    pub why: String,
    /// The announced time of its end.
    pub at: Option<String>,
}

/// All nodes by name, at one moment.
pub type NodesByName = BTreeMap<String, NodeFacts>;

/// All nodes, from the watch.
#[derive(Debug, Default)]
pub struct Nodes {
    index: RwLock<Index>,
}

#[derive(Debug, Default)]
struct Index {
    nodes: Arc<NodesByName>,
    /// The incomplete list; nobody sees half a list.
    listing: NodesByName,
}

impl Nodes {
    /// All nodes as they are now.
    pub fn now(&self) -> Arc<NodesByName> {
        Arc::clone(&self.index.read().unwrap_or_else(PoisonError::into_inner).nodes)
    }

    /// Takes in a watch event; returns the nodes whose facts changed.
    pub fn apply(&self, event: &Event<SlimNode>) -> BTreeSet<String> {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = BTreeSet::new();
        match event {
            Event::Init => index.listing.clear(),
            Event::InitApply(node) => {
                index.listing.insert(name(node), facts(node));
            }
            Event::InitDone => {
                let listed = Arc::new(std::mem::take(&mut index.listing));
                let before = std::mem::replace(&mut index.nodes, Arc::clone(&listed));
                let differs = |name: &&String| before.get(*name) != listed.get(*name);
                changed.extend(before.keys().chain(listed.keys()).filter(differs).cloned());
            }
            Event::Apply(node) => {
                let (name, facts) = (name(node), facts(node));
                // Heartbeats that change nothing wake no Run.
                if index.nodes.get(&name) != Some(&facts) {
                    Arc::make_mut(&mut index.nodes).insert(name.clone(), facts);
                    changed.insert(name);
                }
            }
            Event::Delete(node) => {
                let name = name(node);
                Arc::make_mut(&mut index.nodes).remove(&name);
                changed.insert(name);
            }
        }
        changed
    }
}

fn name(node: &SlimNode) -> String {
    node.metadata.name.clone().unwrap_or_default()
}

/// Whether more than half of the nodes, and more than one, are silent at once. Machines rarely die like that:
/// the control plane does not hear them, and their members are well.
pub fn are_mostly_silent(nodes: &NodesByName) -> bool {
    let silent = nodes.values().filter(|node| node.lost_since.is_some()).count();
    silent > 1 && silent * 2 > nodes.len()
}

/// Reads a node.
pub fn facts(node: &SlimNode) -> NodeFacts {
    let taint = |key: &str| node.spec.taints.iter().find(|taint| taint.key == key);
    let annotation = |key: &str| node.metadata.annotations.as_ref().and_then(|all| all.get(key).cloned());
    let ready = node.status.conditions.iter().find(|condition| condition.kind == "Ready");
    let lost = ready.filter(|condition| condition.status == "Unknown");
    let keeps_away =
        |taint: &slim_objects::SlimTaint| taint.effect != "PreferNoSchedule" && taint.key != GPU_NODE_TAINT;
    let gpus = node.status.allocatable.get(GPU_RESOURCE).and_then(|text| quantity::units(text).ok());
    NodeFacts {
        leaving: taint(LEAVING_TAINT).map(|taint| Leaving {
            why: taint.value.clone().unwrap_or_default(),
            at: annotation(LEAVING_AT_ANNOTATION),
        }),
        sick: taint(GPU_SICK_TAINT).map(|taint| taint.value.clone().unwrap_or_default()),
        lost_since: lost.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0),
        takes_pods: !node.spec.unschedulable
            && ready.is_some_and(|condition| condition.status == "True")
            && !node.spec.taints.iter().any(keeps_away),
        gpus: gpus.and_then(|gpus| u32::try_from(gpus).ok()).unwrap_or(0),
        gpu_type: gpu_type(node).map(|it| it.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::{Leaving, Nodes, facts};
    use slim_objects::SlimNode;

    fn node(taints: &Value, ready: &str) -> SlimNode {
        serde_json::from_value(json!({
            "metadata": {
                "name": "a", "labels": { "warpyard.dev/gpu-type": "H100" },
                "annotations": { "warpyard.dev/leaving-at": "2026-11-16T12:00:00Z" },
            },
            "spec": { "taints": taints },
            "status": {
                "allocatable": { "nvidia.com/gpu": "8" },
                "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": "2026-11-16T11:00:00Z" }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_notice_a_sick_gpu_and_a_silent_kubelet_are_told_apart() {
        let healthy = facts(&node(&json!([{ "key": "warpyard.dev/gpu", "effect": "NoSchedule" }]), "True"));
        assert!(healthy.takes_pods && healthy.leaving.is_none() && healthy.lost_since.is_none());
        assert_eq!((healthy.gpus, healthy.gpu_type.as_deref()), (8, Some("H100")));
        let taint = json!([{ "key": "warpyard.dev/leaving", "value": "spot", "effect": "NoSchedule" }]);
        let leaving = facts(&node(&taint, "True"));
        let at = Some("2026-11-16T12:00:00Z".to_owned());
        assert_eq!(leaving.leaving, Some(Leaving { why: "spot".to_owned(), at }));
        assert!(!leaving.takes_pods);
        let taint = json!([{ "key": "warpyard.dev/gpu-sick", "value": "reset-gpu", "effect": "NoSchedule" }]);
        assert_eq!(facts(&node(&taint, "True")).sick.as_deref(), Some("reset-gpu"));
        let lost = facts(&node(&json!([]), "Unknown"));
        assert_eq!(lost.lost_since, Some("2026-11-16T11:00:00Z".parse().unwrap()));
        assert_eq!(facts(&node(&json!([]), "False")).lost_since, None, "its kubelet speaks");
    }

    #[test]
    fn most_machines_do_not_die_at_once() {
        let are_mostly_silent = |silent: usize, of: usize| {
            let ready = |index| if index < silent { "Unknown" } else { "True" };
            let all = (0..of).map(|index| (format!("node-{index}"), facts(&node(&json!([]), ready(index)))));
            super::are_mostly_silent(&all.collect())
        };
        assert!(!are_mostly_silent(1, 1) && !are_mostly_silent(1, 2) && !are_mostly_silent(2, 4));
        assert!(are_mostly_silent(2, 3) && are_mostly_silent(9, 9));
        assert!(!are_mostly_silent(0, 0));
    }

    #[test]
    fn only_news_wake_anybody_and_a_list_replaces_all() {
        let nodes = Nodes::default();
        assert_eq!(nodes.apply(&Event::Apply(node(&json!([]), "True"))).len(), 1);
        assert!(nodes.apply(&Event::Apply(node(&json!([]), "True"))).is_empty());
        nodes.apply(&Event::Init);
        nodes.apply(&Event::InitApply(node(&json!([]), "True")));
        assert!(nodes.apply(&Event::InitDone).is_empty());
        nodes.apply(&Event::Init);
        assert_eq!(nodes.apply(&Event::InitDone).len(), 1);
        assert!(nodes.now().is_empty());
    }
}
