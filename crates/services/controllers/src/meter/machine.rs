//! Reads from a `NodeClaim` of ours the machine that was bought by it. Pure.
//!
//! ```text
//!   Launched=True ───────── Initialized=True ─────────────── InstanceTerminating=True
//!        │ paid for from here     │ open to pods                    │ paid for until here
//! ```
//!
//! The times are Karpenter's own, from the conditions that it wrote when it asked the cloud. So every reader
//! sees the same times, at any moment.

use std::borrow::Cow;

use api_types::launch::LaunchMark;
use api_types::names;
use costing::{HourlyPrice, Moment, NodeShape};
use jiff::Timestamp;
use kube::Resource;
use kube::core::{ClusterResourceScope, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use slim_objects::quantity;

use super::observe::{price, text};

/// The part of a `NodeClaim` that we read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeClaim {
    /// Its name, labels and annotations.
    pub metadata: ObjectMeta,
    /// What was ordered.
    #[serde(default)]
    pub spec: Json,
    /// The outcome.
    #[serde(default)]
    pub status: Json,
}

impl Resource for NodeClaim {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "NodeClaim".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "karpenter.sh".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "nodeclaims".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// A machine that was launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchedMachine {
    /// Its claim's UID.
    pub uid: String,
    /// Its claim's name.
    pub name: String,
    /// The cloud's address of it, which its Node has too.
    pub address: Option<String>,
    /// The namespace and the name of the gang that it was bought for; none for a spare.
    pub gang: Option<(String, String)>,
    /// The price that is paid for it.
    pub paid: HourlyPrice,
    /// Its on-demand price, if it is spot.
    pub on_demand: Option<HourlyPrice>,
    /// Its shape.
    pub shape: NodeShape,
    /// From when on it is paid for.
    pub launched_at: Moment,
    /// When it was open to pods.
    pub opened_at: Option<Moment>,
    /// When the cloud was told to end it.
    pub terminating_at: Option<Moment>,
    /// Whether Karpenter has seen its Node.
    pub has_node: bool,
}

/// The machine of a claim; `None` if the claim is not ours, or nothing was launched for it.
pub fn machine(claim: &NodeClaim) -> Option<LaunchedMachine> {
    let NodeClaim { metadata, spec, status } = claim;
    let (labels, annotations) = (metadata.labels.as_ref()?, metadata.annotations.as_ref()?);
    let mark = LaunchMark::read(labels, annotations)?;
    let since = |condition: &str| since(status, condition);
    Some(LaunchedMachine {
        uid: metadata.uid.clone()?,
        name: metadata.name.clone()?,
        address: status["providerID"].as_str().filter(|address| !address.is_empty()).map(str::to_owned),
        gang: mark.gang,
        paid: price(annotations.get(names::PRICE_ANNOTATION))?,
        on_demand: price(annotations.get(names::ON_DEMAND_PRICE_ANNOTATION)),
        shape: shape(claim, spec, status),
        launched_at: since("Launched")?,
        opened_at: since("Initialized"),
        terminating_at: since("InstanceTerminating"),
        has_node: status["nodeName"].as_str().is_some_and(|name| !name.is_empty()),
    })
}

/// The resources that the cloud reports; until then, those that were ordered.
fn shape(claim: &NodeClaim, spec: &Json, status: &Json) -> NodeShape {
    let requirements = spec["requirements"].as_array();
    let asked = |key: &str| {
        let requirement = requirements?.iter().find(|requirement| requirement["key"] == key)?;
        requirement["values"][0].as_str().map(str::to_owned)
    };
    let has = |name: &str| {
        let capacity = status["capacity"][name].as_str();
        capacity.or(spec["resources"]["requests"][name].as_str()).unwrap_or("0")
    };
    let gpu_type = claim.metadata.labels.as_ref().and_then(|labels| labels.get(names::GPU_TYPE_NODE_LABEL));
    NodeShape {
        instance_type: asked(names::INSTANCE_TYPE_NODE_LABEL),
        capacity_type: asked(names::CAPACITY_TYPE_NODE_LABEL)
            .unwrap_or_else(|| names::ON_PREMISES.to_owned()),
        gpu_type: text(gpu_type),
        gpus: quantity::units(has(names::GPU_RESOURCE))
            .map_or(0, |gpus| u32::try_from(gpus).unwrap_or(u32::MAX)),
        cpu_millis: quantity::millis(has("cpu")).unwrap_or(0),
    }
}

/// Since when a condition is true.
fn since(status: &Json, kind: &str) -> Option<Moment> {
    let conditions = status["conditions"].as_array()?;
    let condition = conditions.iter().find(|it| it["type"] == kind && it["status"] == "True")?;
    condition["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok().map(Moment::of)
}
