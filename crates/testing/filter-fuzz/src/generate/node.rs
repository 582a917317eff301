//! Nodes: labels, taints and resources.

use api_types::names;
use serde_json::{Map, Value, json};

use super::{Feature, Maker};

/// Keys of node labels by which pods are kept near or apart.
pub(super) const TOPOLOGY_KEYS: [&str; 3] =
    ["kubernetes.io/hostname", "topology.kubernetes.io/zone", names::RACK_LABEL];
/// Keys of node labels that are numbers, or nearly.
pub(super) const NUMBER_KEY: &str = "generation";
/// Their values: numbers, one that is too large, and one that is not a number.
pub(super) const NUMBERS: [&str; 6] = ["1", "2", "10", "07", "99999999999999999999", "x1"];
/// Values of zones.
pub(super) const ZONES: [&str; 3] = ["a", "b", "c"];
/// Values of racks.
pub(super) const RACKS: [&str; 3] = ["r1", "r2", "r3"];
/// Resources of a node besides CPUs and memory.
pub(super) const OTHER_RESOURCES: [&str; 5] =
    [names::GPU_RESOURCE, "example.com/fpga", "hugepages-2Mi", "hugepages-1Gi", "ephemeral-storage"];
/// A feature of kubelets that pods can need.
pub(super) const DECLARED_FEATURE: &str = "RestartAllContainersOnContainerExits";

const TAINT_KEYS: [&str; 3] =
    ["dedicated", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"];
const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const TAINT_VALUES: [&str; 3] = ["", "a", "b"];

impl Maker {
    pub(super) fn node(&mut self, number: usize) -> Value {
        let name = node_name(number);
        let mut node = json!({
            "metadata": {"name": name, "labels": self.node_labels(&name)},
            "spec": {},
            "status": {"allocatable": self.allocatable()},
        });
        if self.uses(Feature::Unschedulable, 40) {
            node["spec"]["unschedulable"] = json!(true);
        }
        if self.uses(Feature::Taints, 60) {
            let taints: Vec<Value> = (0..self.random.count(1, 2)).map(|_| self.taint()).collect();
            node["spec"]["taints"] = json!(without_twins(taints));
        }
        if self.uses(Feature::DeclaredFeatures, 50) {
            node["status"]["declaredFeatures"] = json!([DECLARED_FEATURE]);
        }
        node
    }

    fn node_labels(&mut self, name: &str) -> Value {
        let mut labels = Map::new();
        let all = if self.has(Feature::MissingLabels) { 60 } else { 97 };
        for key in TOPOLOGY_KEYS {
            let value = match key {
                "topology.kubernetes.io/zone" => self.random.pick(&ZONES),
                names::RACK_LABEL => self.random.pick(&RACKS),
                // The host name is unique, unless it was set by hand.
                _ if self.uses(Feature::MissingLabels, 15) => "node-0",
                _ => name,
            };
            if self.random.chance(all) {
                labels.insert(key.into(), json!(value));
            }
        }
        if self.random.chance(all) {
            labels.insert(NUMBER_KEY.into(), json!(self.random.pick(&NUMBERS)));
        }
        Value::Object(labels)
    }

    fn allocatable(&mut self) -> Value {
        let mut allocatable = json!({
            "cpu": self.random.pick(&["1", "2", "4", "3500m"]),
            "memory": self.random.pick(&["1Gi", "2Gi", "4Gi", "3G"]),
        });
        let pods: &[&str] =
            if self.has(Feature::FewPods) { &["0", "1", "2", "3", "4"] } else { &["20", "110"] };
        if !self.uses(Feature::FewPods, 5) {
            allocatable["pods"] = json!(self.random.pick(pods));
        }
        if self.has(Feature::OtherResources) {
            for name in OTHER_RESOURCES {
                if self.random.chance(70) {
                    allocatable[name] = json!(self.amount_had(name));
                }
            }
        }
        allocatable
    }

    fn amount_had(&mut self, name: &str) -> &'static str {
        match name {
            "hugepages-2Mi" => self.random.pick(&["0", "4Mi", "16Mi"]),
            "hugepages-1Gi" => self.random.pick(&["0", "1Gi", "3Gi"]),
            "ephemeral-storage" => self.random.pick(&["1Gi", "4Gi", "5G"]),
            _ => self.random.pick(&["0", "1", "4", "8"]),
        }
    }

    fn taint(&mut self) -> Value {
        json!({
            "key": self.random.pick(&TAINT_KEYS),
            "value": self.random.pick(&TAINT_VALUES),
            "effect": self.random.pick(&TAINT_EFFECTS),
        })
    }

    pub(super) fn toleration(&mut self) -> Value {
        let mut toleration = json!({});
        let exists = self.random.chance(50);
        // Without a key it tolerates every taint, for which the operator must be `Exists`.
        if !exists || self.random.chance(85) {
            toleration["key"] = json!(self.random.pick(&TAINT_KEYS));
        }
        if exists {
            toleration["operator"] = json!("Exists");
        } else {
            toleration["value"] = json!(self.random.pick(&TAINT_VALUES));
            if self.random.chance(50) {
                toleration["operator"] = json!("Equal");
            }
        }
        if self.random.chance(60) {
            toleration["effect"] = json!(self.random.pick(&TAINT_EFFECTS));
        }
        toleration
    }
}

pub(super) fn node_name(number: usize) -> String {
    format!("node-{number}")
}

/// A node has at most one taint of a key and an effect.
fn without_twins(taints: Vec<Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for taint in taints {
        if !kept.iter().any(|it| it["key"] == taint["key"] && it["effect"] == taint["effect"]) {
            kept.push(taint);
        }
    }
    kept
}
