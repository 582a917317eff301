//! Pods: the waiting one, and those that exist already.

use api_types::names;
use serde_json::{Value, json};

use super::node::node_name;
use super::{Feature, Maker, put};

/// The queue of our pods; it lists all namespaces and has no limits.
pub(crate) const QUEUE: &str = "open";

/// How often a pod uses a feature, in percent: the waiting pod usually, the others sometimes.
const WAITING: usize = 85;
const OTHERS: usize = 35;

impl Maker {
    pub(super) fn waiting_pod(&mut self) -> Value {
        let mut pod = self.pod("waiting", WAITING);
        pod["spec"]["schedulerName"] = json!(names::SCHEDULER_NAME);
        pod["metadata"]["labels"][names::QUEUE_LABEL] = json!(QUEUE);
        if self.uses(Feature::Gates, 50) {
            pod["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
        }
        pod
    }

    pub(super) fn other_pod(&mut self, number: usize) -> Value {
        let mut pod = self.pod(&format!("other-{number}"), OTHERS);
        let is_bound = self.random.chance(95);
        if is_bound {
            let is_missing = self.uses(Feature::MissingNodes, 30);
            let node = if is_missing { self.nodes + 1 } else { self.random.count(0, self.nodes - 1) };
            pod["spec"]["nodeName"] = json!(node_name(node));
        }
        // A second pod of ours that waits would compete for the room.
        if is_bound && self.random.chance(50) {
            pod["spec"]["schedulerName"] = json!(names::SCHEDULER_NAME);
            pod["metadata"]["labels"][names::QUEUE_LABEL] = json!(QUEUE);
        }
        if is_bound && self.uses(Feature::Resize, 70) {
            pod["status"] = self.resize_status(&pod);
        }
        if self.uses(Feature::Terminating, 40) {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        }
        if is_bound && self.uses(Feature::Ended, 40) {
            pod["status"]["phase"] = json!(self.random.pick(&["Succeeded", "Failed", "Running", "Unknown"]));
        }
        pod
    }

    fn pod(&mut self, name: &str, percent: usize) -> Value {
        let mut spec = json!({"containers": self.containers()});
        if self.uses(Feature::InitContainers, 60) {
            put(&mut spec, "initContainers", json!(self.init_containers()));
        }
        if !self.has(Feature::OddQuantities) && self.uses(Feature::PodLevel, 50) {
            put(&mut spec, "resources", self.pod_level_resources());
        }
        if self.uses(Feature::Overhead, 50) {
            spec["runtimeClassName"] = json!("sandboxed");
            spec["overhead"] = json!({"cpu": self.random.pick(&["50m", "250m"]), "memory": "32Mi"});
        }
        if self.uses(Feature::NodeSelector, percent) {
            put(&mut spec, "nodeSelector", self.node_selector());
        }
        let mut affinity = json!({});
        if self.uses(Feature::NodeAffinity, percent) {
            put(&mut affinity, "nodeAffinity", self.node_affinity());
        }
        self.pod_affinities(&mut affinity, percent);
        if affinity != json!({}) {
            spec["affinity"] = affinity;
        }
        if self.uses(Feature::Spread, percent) {
            put(&mut spec, "topologySpreadConstraints", json!(self.spread()));
        }
        if self.has(Feature::Taints) || self.has(Feature::Unschedulable) {
            let tolerations = (0..self.random.count(0, 2)).map(|_| self.toleration()).collect();
            put(&mut spec, "tolerations", tolerations);
        }
        if self.uses(Feature::DeclaredFeatures, 50) {
            spec["restartPolicy"] = json!("Never");
        }
        json!({
            "metadata": {
                "name": name, "namespace": self.namespace(), "uid": name, "labels": self.pod_labels(),
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": spec,
        })
    }
}
