//! Nodes with only the fields we read, and what their labels say.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::names;
use k8s_openapi::api::core::v1::Node;
use kube_core::ObjectMeta;

use crate::parse::{null_is_default, resource_like, slim_metadata};
use crate::pod::SlimCondition;

/// The levels of the topology, the outermost first: what people call them, and the node label that says where a node is.
pub const LEVELS: [(&str, &str); 3] =
    [("zone", names::ZONE_LABEL), ("block", names::BLOCK_LABEL), ("rack", names::RACK_LABEL)];

/// A node as we read it.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub struct SlimNode {
    /// Name, uid, resource version, labels, times, and the annotations that are ours.
    #[serde(deserialize_with = "slim_metadata")]
    pub metadata: ObjectMeta,
    /// What pods must know about it.
    #[serde(default)]
    pub spec: SlimNodeSpec,
    /// What it has.
    #[serde(default)]
    pub status: SlimNodeStatus,
}

/// What keeps pods off a node, and which machine it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct SlimNodeSpec {
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The cloud's address of its machine.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// Its taints.
    #[serde(deserialize_with = "null_is_default")]
    pub taints: Vec<SlimTaint>,
}

/// One taint, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct SlimTaint {
    /// The taint's key.
    pub key: String,
    /// The taint's value.
    pub value: Option<String>,
    /// What it does.
    pub effect: String,
}

/// What a node has.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default)]
pub struct SlimNodeStatus {
    /// What it has.
    #[serde(deserialize_with = "null_is_default")]
    pub capacity: BTreeMap<String, String>,
    /// What pods may use.
    #[serde(deserialize_with = "null_is_default")]
    pub allocatable: BTreeMap<String, String>,
    /// What its kubelet can do beyond what every kubelet can.
    #[serde(rename = "declaredFeatures", deserialize_with = "null_is_default")]
    pub declared_features: Vec<String>,
    /// For example `Ready`.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<SlimCondition>,
}

resource_like!(SlimNode, Node);

/// The domains that a node is in. If a node names no level but one further in, the level is a domain without a name.
/// So a rack is always the third level, even if nobody has labelled zones.
pub fn topology(labels: &BTreeMap<String, String>) -> Vec<Arc<str>> {
    let named = LEVELS.map(|(_, label)| labels.get(label).map_or("", String::as_str));
    let depth = named.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    named.iter().take(depth).map(|name| Arc::from(*name)).collect()
}

/// The type of a node's GPUs: what our label says, else the model in NVIDIA's product name.
pub fn gpu_type(node: &SlimNode) -> Option<Arc<str>> {
    let labels = node.metadata.labels.as_ref()?;
    let label = |name: &str| labels.get(name).filter(|value| !value.is_empty());
    let named = label(names::GPU_TYPE_NODE_LABEL).map(|name| name.as_str().into());
    named.or_else(|| type_of_product(label(names::GPU_PRODUCT_LABEL)?))
}

/// `NVIDIA-H100-80GB-HBM3` is an `H100`. Slices and shared GPUs are types of their own: `H100-MIG-1g.10gb`,
/// `H100-SHARED`.
fn type_of_product(product: &str) -> Option<Arc<str>> {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::topology;

    #[test]
    fn a_rack_is_the_third_level_whatever_else_is_labelled() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let path = |pairs: &[(&str, &str)]| topology(&labels(pairs)).join("/");
        let (zone, block, rack) =
            ("topology.kubernetes.io/zone", "topology.warpyard.dev/block", "topology.warpyard.dev/rack");
        assert_eq!(path(&[(zone, "z"), (block, "b"), (rack, "r")]), "z/b/r");
        assert_eq!(path(&[(rack, "r")]), "//r");
        assert_eq!(path(&[(zone, "z"), (rack, "r")]), "z//r");
        assert_eq!(topology(&labels(&[(zone, "z")])).len(), 1);
        assert!(topology(&labels(&[])).is_empty(), "in no domain at all");
    }
}
