//! Nodes: what they have, and which GPUs.

use std::collections::BTreeMap;

use api_types::names;
use cluster_model::{Change, GpuType, Node, NodeName, Resources, Taint, TaintEffect};

use crate::pod::{AMOUNT_MAX, taint_effect};
use crate::slim::{SlimNode, SlimTaint};
use crate::{features, quantity, requests, terms};

/// What a node that was seen means.
pub fn node_change(slim: &SlimNode) -> Change {
    Change::Node(node(slim))
}

/// A node as the model knows it.
pub fn node(node: &SlimNode) -> Node {
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let allocatable = &node.status.allocatable;
    // What cannot be read is not there; what is absurd is bounded, so that sums over nodes stay within an i64.
    let amount = |name: &str, read: fn(&str) -> Result<i64, quantity::Error>| {
        allocatable.get(name).and_then(|text| read(text).ok()).unwrap_or(0).min(AMOUNT_MAX)
    };
    Node {
        gpu_type: gpu_type(node),
        allocatable: Resources {
            gpus: amount(names::GPU_RESOURCE, quantity::units),
            cpu_millis: amount("cpu", quantity::millis),
            memory_bytes: amount("memory", quantity::units),
            pods: amount("pods", quantity::units),
        },
        other_allocatable: requests::other_allocatable(allocatable),
        features: features::declared(node),
        cordoned: node.spec.unschedulable,
        schedulable: node.metadata.deletion_timestamp.is_none(),
        labels: labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
        taints: node.spec.taints.iter().map(taint).collect(),
        topology: terms::topology(labels),
        spot: labels.get(names::CAPACITY_TYPE_NODE_LABEL).is_some_and(|bought| bought == names::SPOT),
        ..Node::new(name(node))
    }
}

/// What a node that was deleted means.
pub fn node_gone(node: &SlimNode) -> Change {
    Change::NodeGone(name(node))
}

fn name(node: &SlimNode) -> NodeName {
    node.metadata.name.as_deref().unwrap_or_default().into()
}

/// An effect that we do not know keeps pods away, to be on the safe side.
fn taint(slim: &SlimTaint) -> Taint {
    Taint {
        key: slim.key.as_str().into(),
        value: slim.value.as_deref().unwrap_or_default().into(),
        effect: taint_effect(&slim.effect).unwrap_or(TaintEffect::NoSchedule),
    }
}

/// The type of a node's GPUs: what our label says, else the model in NVIDIA's product name.
pub fn gpu_type(node: &SlimNode) -> Option<GpuType> {
    let labels = node.metadata.labels.as_ref()?;
    let label = |name: &str| labels.get(name).filter(|value| !value.is_empty());
    let named = label(names::GPU_TYPE_NODE_LABEL).map(|name| name.as_str().into());
    named.or_else(|| type_of_product(label(names::GPU_PRODUCT_LABEL)?))
}

/// `NVIDIA-H100-80GB-HBM3` is an `H100`. Slices and shared GPUs are types of their own: `H100-MIG-1g.10gb`,
/// `H100-SHARED`.
fn type_of_product(product: &str) -> Option<GpuType> {
    const BRANDS: [&str; 4] = ["NVIDIA", "Tesla", "GeForce", "Quadro"];
    let mut parts = product
        .split('-')
        .filter(|part| !part.is_empty())
        .skip_while(|part| BRANDS.contains(part))
        .peekable();
    let mut model = parts.next()?.to_owned();
    // RTX and GTX are lines, the model comes after.
    if matches!(model.as_str(), "RTX" | "GTX")
        && let Some(number) = parts.next()
    {
        model = format!("{model}-{number}");
    }
    let rest: Vec<&str> = parts.collect();
    if let Some(mig) = rest.iter().position(|part| *part == "MIG") {
        model = format!("{model}-{}", rest[mig..].join("-"));
    } else if rest.contains(&"SHARED") {
        model.push_str("-SHARED");
    }
    Some(model.into())
}
