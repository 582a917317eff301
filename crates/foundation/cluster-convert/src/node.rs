//! Nodes: what they have, and which GPUs.

use std::collections::BTreeMap;

use api_types::names;
use cluster_model::{ClusterChange, Node, NodeName, Resources, Taint, TaintEffect};
use slim_objects::requests::{self, AMOUNT_MAX};
use slim_objects::{SlimNode, SlimTaint, gpu_type, quantity, topology};

use crate::features;
use crate::pod::taint_effect;

/// The cluster change for a node that was seen.
pub fn node_change(slim: &SlimNode) -> ClusterChange {
    ClusterChange::Node(node(slim))
}

/// A node as the model knows it.
fn node(node: &SlimNode) -> Node {
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let allocatable = &node.status.allocatable;
    // Amounts that cannot be read count as zero. Absurd amounts are bounded, so that sums over nodes fit in an i64.
    let amount = |name: &str, read: fn(&str) -> Result<i64, quantity::Error>| {
        allocatable.get(name).and_then(|text| read(text).ok()).unwrap_or(0).min(AMOUNT_MAX)
    };
    Node {
        gpu_type: gpu_type(node).map(Into::into),
        allocatable: Resources {
            gpus: amount(names::GPU_RESOURCE, quantity::units),
            cpu_millis: amount("cpu", quantity::millis),
            memory_bytes: amount("memory", quantity::units),
            pods: amount("pods", quantity::units),
        },
        other_allocatable: requests::other_allocatable(allocatable).into_iter().collect(),
        features: features::declared(node),
        cordoned: node.spec.unschedulable,
        schedulable: node.metadata.deletion_timestamp.is_none(),
        labels: labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
        taints: node.spec.taints.iter().map(taint).collect(),
        topology: topology(labels),
        spot: labels.get(names::CAPACITY_TYPE_NODE_LABEL).is_some_and(|bought| bought == names::SPOT),
        ..Node::new(name(node))
    }
}

/// The cluster change for a node that was deleted.
pub fn node_gone(node: &SlimNode) -> ClusterChange {
    ClusterChange::NodeGone(name(node))
}

fn name(node: &SlimNode) -> NodeName {
    node.metadata.name.as_deref().unwrap_or_default().into()
}

/// An unknown effect keeps pods away, to be on the safe side.
fn taint(slim: &SlimTaint) -> Taint {
    Taint {
        key: slim.key.as_str().into(),
        value: slim.value.as_deref().unwrap_or_default().into(),
        effect: taint_effect(&slim.effect).unwrap_or(TaintEffect::NoSchedule),
    }
}
