//! Nodes by name, with the fields that the map shows.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use api_types::names::GPU_RESOURCE;
use slim_objects::{SlimNode, gpu_type, quantity, topology};

use crate::events::changes::ChangedObject;

/// The fields of a node that the map shows. 10,000 × (72 bytes + three texts of ~20) are 1.5 MB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedNode {
    /// Unique in the cluster.
    pub name: Arc<str>,
    /// Its rack, if it has the label.
    pub rack: Option<Arc<str>>,
    /// Its GPU type.
    pub gpu_type: Option<Arc<str>>,
    /// GPUs it offers.
    pub gpus: u32,
    /// Whether its kubelet says that it is ready.
    pub ready: bool,
    /// Whether it takes new pods.
    pub schedulable: bool,
}

impl CachedNode {
    fn read(slim: &SlimNode) -> Self {
        let metadata = &slim.metadata;
        let gpus = slim.status.allocatable.get(GPU_RESOURCE).and_then(|text| quantity::units(text).ok());
        let mut conditions = slim.status.conditions.iter();
        Self {
            schedulable: metadata.deletion_timestamp.is_none() && !slim.spec.unschedulable,
            name: metadata.name.as_deref().unwrap_or_default().into(),
            rack: metadata.labels.as_ref().and_then(|labels| topology(labels).pop()),
            gpu_type: gpu_type(slim),
            gpus: u32::try_from(gpus.unwrap_or(0)).unwrap_or(0),
            ready: conditions.any(|it| it.kind == "Ready" && it.status == "True"),
        }
    }
}

/// All nodes of the cluster.
#[derive(Debug, Default)]
pub struct NodeIndex {
    by_name: BTreeMap<Arc<str>, Arc<CachedNode>>,
}

impl NodeIndex {
    /// Adds a node or replaces its former version; returns the changes. A heartbeat changes nothing.
    pub fn apply(&mut self, node: &SlimNode) -> Vec<ChangedObject> {
        let node = CachedNode::read(node);
        if self.by_name.get(&node.name).is_some_and(|old| **old == node) {
            return Vec::new();
        }
        let name = Arc::clone(&node.name);
        self.by_name.insert(Arc::clone(&name), Arc::new(node));
        vec![ChangedObject::Node(name)]
    }

    /// Removes a node; returns the changes.
    pub fn remove(&mut self, node: &SlimNode) -> Vec<ChangedObject> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        self.by_name.remove_entry(name).map(|(name, _)| ChangedObject::Node(name)).into_iter().collect()
    }

    /// The differences to a new index, from a new list.
    pub fn differences(&self, new: &Self) -> Vec<ChangedObject> {
        let differs = |mine: &Self, other: &Self| -> Vec<ChangedObject> {
            let nodes = mine.by_name.iter().filter(|(name, node)| other.by_name.get(*name) != Some(*node));
            nodes.map(|(name, _)| ChangedObject::Node(Arc::clone(name))).collect()
        };
        let mut changes = differs(self, new);
        changes.extend(differs(new, self));
        changes
    }

    /// The node of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<CachedNode>> {
        self.by_name.get(name)
    }

    /// The nodes after `after`, by name.
    pub fn after(&self, after: Option<&str>) -> impl Iterator<Item = &Arc<CachedNode>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_name.range::<str, _>((from, Bound::Unbounded)).map(|(_, node)| node)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use slim_objects::SlimNode;

    use super::NodeIndex;
    use crate::events::changes::ChangedObject;

    fn node(name: &str, ready: &str, heartbeat: &str) -> SlimNode {
        serde_json::from_value(json!({
            "metadata": {"name": name, "resourceVersion": heartbeat, "labels": {
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "topology.warpyard.dev/rack": "r1",
            }},
            "status": {
                "allocatable": {"nvidia.com/gpu": "8"},
                "conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}],
            },
        }))
        .expect("the test's node is valid")
    }

    #[test]
    fn a_node_is_shown_with_rack_type_and_gpus() {
        let mut index = NodeIndex::default();
        index.apply(&node("n1", "True", "1"));
        let seen = index.get("n1").expect("it was added");
        assert_eq!((seen.rack.as_deref(), seen.gpu_type.as_deref()), (Some("r1"), Some("H100")));
        assert_eq!((seen.gpus, seen.ready, seen.schedulable), (8, true, true));
    }

    #[test]
    fn a_heartbeat_is_no_change_but_an_unready_kubelet_is() {
        let mut index = NodeIndex::default();
        assert_eq!(index.apply(&node("n1", "True", "1")), [ChangedObject::Node("n1".into())]);
        assert_eq!(index.apply(&node("n1", "True", "2")), []);
        assert_eq!(index.apply(&node("n1", "Unknown", "3")), [ChangedObject::Node("n1".into())]);
        assert_eq!(index.remove(&node("n1", "True", "4")), [ChangedObject::Node("n1".into())]);
        assert_eq!(index.remove(&node("n1", "True", "4")), []);
    }

    #[test]
    fn a_new_list_changes_what_differs_and_nodes_come_in_pages_by_name() {
        let (mut old, mut new) = (NodeIndex::default(), NodeIndex::default());
        for (name, before, after) in
            [("a", Some("True"), None), ("b", Some("True"), Some("True")), ("c", Some("True"), Some("False"))]
        {
            before.map(|ready| old.apply(&node(name, ready, "1")));
            after.map(|ready| new.apply(&node(name, ready, "2")));
        }
        let changed: Vec<_> = ["a", "c", "c"].map(|name| ChangedObject::Node(name.into())).into();
        assert_eq!(old.differences(&new), changed);
        let names = |after| -> Vec<_> { old.after(after).map(|node| node.name.to_string()).collect() };
        assert_eq!(names(None), ["a", "b", "c"]);
        assert_eq!(names(Some("b")), ["c"]);
    }
}
