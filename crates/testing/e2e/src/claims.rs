//! Makes Karpenter's claims for tests.

use std::collections::BTreeMap;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};
use test_cluster::karpenter::{NODE_CLASS, Offerings};

/// Karpenter's `NodeClaim`s.
pub fn node_claims(client: &Client) -> Api<DynamicObject> {
    of_kind(client, "NodeClaim")
}

/// Karpenter's `NodePool`s.
pub fn node_pools(client: &Client) -> Api<DynamicObject> {
    of_kind(client, "NodePool")
}

fn of_kind(client: &Client, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("karpenter.sh", "v1", kind));
    Api::all_with(client.clone(), &resource)
}

/// A claim without a pool, for one machine of these offerings.
pub fn node_claim(name: &str, of: &Offerings, labels: &[(&str, &str)]) -> anyhow::Result<DynamicObject> {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    Ok(serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": NODE_CLASS },
            "expireAfter": "Never",
            "requirements": requirements(of),
            "resources": { "requests": { "cpu": "1", "pods": "1" } },
        },
    }))?)
}

/// A pool from which Karpenter buys for pods that wait.
pub fn node_pool(name: &str, instance_types: &[&str]) -> anyhow::Result<DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": { "name": name },
        "spec": {
            "disruption": { "consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never" },
            "template": { "spec": {
                "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": NODE_CLASS },
                "expireAfter": "Never",
                "requirements": [
                    is_in("karpenter.sh/capacity-type", &["spot", "on-demand"]),
                    is_in("node.kubernetes.io/instance-type", instance_types),
                ],
            } },
        },
    }))?)
}

fn requirements(of: &Offerings) -> Vec<Value> {
    [
        ("node.kubernetes.io/instance-type", &of.instance_type),
        ("topology.kubernetes.io/zone", &of.zone),
        ("karpenter.sh/capacity-type", &of.capacity_type),
        (api_types::names::RACK_LABEL, &of.rack),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some(is_in(key, &[value.as_deref()?])))
    .collect()
}

fn is_in(key: &str, values: &[&str]) -> Value {
    json!({ "key": key, "operator": "In", "values": values })
}

/// The status of a claim's condition, such as `Ready`, and its reason.
pub fn claim_condition<'a>(claim: &'a DynamicObject, kind: &str) -> (&'a str, &'a str) {
    let conditions = claim.data["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    let text = |field: &str| found.and_then(|condition| condition[field].as_str()).unwrap_or_default();
    (text("status"), text("reason"))
}

/// The name of a claim's Node, once Karpenter knows it.
pub fn node_of(claim: &DynamicObject) -> Option<&str> {
    claim.data["status"]["nodeName"].as_str().filter(|name| !name.is_empty())
}
