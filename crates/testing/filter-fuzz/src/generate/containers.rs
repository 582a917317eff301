//! Containers: their requests, the node's ports that they take, and a kubelet's status of a resize.

use serde_json::{Value, json};

use super::node::{DECLARED_FEATURE, OTHER_RESOURCES};
use super::{Feature, Maker, put};

const CPU: [&str; 5] = ["0", "100m", "250m", "500m", "1"];
const MEMORY: [&str; 5] = ["0", "64Mi", "256Mi", "500M", "1Gi"];
/// Amounts that are read in more than one way, or rounded.
const ODD_CPU: [&str; 6] = ["0.1", "1e-1", "333333u", "1n", "0.0005", "2e-1"];
const ODD_MEMORY: [&str; 7] = ["1e8", "100000k", "0.5Gi", "1.5", "100m", "128.3Ki", "1E"];

impl Maker {
    pub(super) fn containers(&mut self) -> Vec<Value> {
        let count = self.random.pick(&[1, 1, 1, 2, 3]);
        let mut containers: Vec<Value> =
            (0..count).map(|number| self.container(&format!("main-{number}"))).collect();
        drop_twin_ports(&mut containers);
        containers
    }

    pub(super) fn init_containers(&mut self) -> Vec<Value> {
        let mut containers: Vec<Value> = (0..self.random.count(1, 3))
            .map(|number| {
                let mut container = self.container(&format!("init-{number}"));
                if self.random.chance(50) {
                    container["restartPolicy"] = json!("Always");
                }
                // Usually more than the containers after it; otherwise it decides nothing.
                if !self.has(Feature::OtherResources) && self.uses(Feature::Requests, 60) {
                    let cpu = self.random.pick(&["500m", "1", "1500m"]);
                    container["resources"] = json!({"requests": {"cpu": cpu}});
                }
                container
            })
            .collect();
        drop_twin_ports(&mut containers);
        containers
    }

    fn container(&mut self, name: &str) -> Value {
        let mut container = json!({"name": name, "image": "example.com/image"});
        let resources = self.container_resources();
        if resources != json!({}) {
            container["resources"] = resources;
        }
        if self.uses(Feature::Ports, 50) {
            let ports = (0..self.random.count(1, 2)).map(|_| self.port()).collect();
            put(&mut container, "ports", ports);
        }
        if name.starts_with("main") && self.uses(Feature::DeclaredFeatures, 80) {
            debug_assert!(DECLARED_FEATURE.starts_with("RestartAllContainers"), "this asks for that feature");
            container["restartPolicy"] = json!("Never");
            let exit_codes = json!({"operator": "In", "values": [42]});
            let action = self.random.pick(&["Restart", "RestartAllContainers"]);
            container["restartPolicyRules"] = json!([{"action": action, "exitCodes": exit_codes}]);
        }
        container
    }

    fn container_resources(&mut self) -> Value {
        let (mut requests, mut limits) = (json!({}), json!({}));
        if self.uses(Feature::Requests, 80) {
            // A resource with only a limit requests the same amount.
            let field = if self.random.chance(15) { &mut limits } else { &mut requests };
            if self.random.chance(70) {
                field["cpu"] = json!(self.random.pick(&CPU));
            }
            if self.random.chance(70) {
                field["memory"] = json!(self.random.pick(&MEMORY));
            }
        }
        if limits == json!({}) && self.uses(Feature::OddQuantities, 50) {
            requests["cpu"] = json!(self.random.pick(&ODD_CPU));
            requests["memory"] = json!(self.random.pick(&ODD_MEMORY));
        }
        if self.has(Feature::OtherResources) {
            self.other_requests(&mut requests, &mut limits);
        }
        let mut resources = json!({});
        for (field, amounts) in [("requests", requests), ("limits", limits)] {
            if amounts != json!({}) {
                resources[field] = amounts;
            }
        }
        resources
    }

    fn other_requests(&mut self, requests: &mut Value, limits: &mut Value) {
        for name in OTHER_RESOURCES {
            if self.random.chance(75) {
                continue;
            }
            let amount = match name {
                "hugepages-2Mi" => self.random.pick(&["0", "2Mi", "4Mi"]),
                "hugepages-1Gi" => self.random.pick(&["1Gi", "2Gi"]),
                "ephemeral-storage" => self.random.pick(&["0", "500Mi", "1Gi"]),
                _ => self.random.pick(&["0", "1", "2"]),
            };
            // A resource that cannot be shared has a limit, and requests exactly that.
            limits[name] = json!(amount);
            if self.random.chance(50) {
                requests[name] = json!(amount);
            }
            // Huge pages alone are not enough.
            if name.starts_with("hugepages") && limits["cpu"].is_null() && requests["cpu"].is_null() {
                requests["cpu"] = json!("10m");
            }
        }
    }

    fn port(&mut self) -> Value {
        let number = self.random.pick(&[8080, 8081, 8082]);
        let mut port = json!({"containerPort": number});
        if self.random.chance(85) {
            port["hostPort"] = json!(self.random.pick(&[80, 81, 82]));
        }
        if self.random.chance(50) {
            port["hostIP"] = json!(self.random.pick(&["0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1"]));
        }
        if self.random.chance(50) {
            port["protocol"] = json!(self.random.pick(&["TCP", "UDP", "SCTP"]));
        }
        port
    }

    /// Resources of a whole pod: usually enough for its containers, as the API server demands.
    pub(super) fn pod_level_resources(&mut self) -> Value {
        let mut requests = json!({});
        if self.random.chance(70) {
            requests["cpu"] = json!(self.random.pick(&["1", "2", "3"]));
        }
        if self.random.chance(70) {
            requests["memory"] = json!(self.random.pick(&["1Gi", "2Gi", "4Gi"]));
        }
        let mut resources = json!({});
        let field = if self.random.chance(25) { "limits" } else { "requests" };
        resources[field] = requests;
        if field == "requests" && self.uses(Feature::OtherResources, 30) {
            resources["limits"]["hugepages-2Mi"] = json!(self.random.pick(&["4Mi", "8Mi"]));
            resources["requests"]["cpu"] = json!("3");
        }
        resources
    }

    /// A kubelet's status of a pod that is being resized: what its containers have, and were granted.
    pub(super) fn resize_status(&mut self, pod: &Value) -> Value {
        let mut status = json!({"phase": "Running"});
        for (field, containers) in
            [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
        {
            let containers = pod["spec"][containers].as_array().cloned().unwrap_or_default();
            let mut statuses: Vec<Value> = containers.iter().map(|it| self.container_status(it)).collect();
            statuses.retain(|_| self.random.chance(85));
            put(&mut status, field, json!(statuses));
        }
        if self.random.chance(60) {
            let (kind, reason) = self.random.pick(&[
                ("PodResizePending", "Infeasible"),
                ("PodResizePending", "Deferred"),
                ("PodResizeInProgress", ""),
            ]);
            status["conditions"] = json!([{"type": kind, "status": "True", "reason": reason}]);
        }
        if !pod["spec"]["resources"].is_null() && self.random.chance(60) {
            status["allocatedResources"] = self.amounts();
            status["resources"] = json!({"requests": self.amounts()});
        }
        status
    }

    fn container_status(&mut self, container: &Value) -> Value {
        let mut status = json!({
            "name": container["name"], "ready": true, "restartCount": 0, "image": "", "imageID": "",
        });
        if self.random.chance(75) {
            status["resources"] = json!({"requests": self.amounts()});
        }
        if self.random.chance(75) {
            status["allocatedResources"] = self.amounts();
        }
        status
    }

    fn amounts(&mut self) -> Value {
        let mut amounts = json!({});
        if self.random.chance(80) {
            amounts["cpu"] = json!(self.random.pick(&CPU));
        }
        if self.random.chance(80) {
            amounts["memory"] = json!(self.random.pick(&MEMORY));
        }
        amounts
    }
}

/// Takes a port from a container if another of its kind has it too: that is not allowed.
fn drop_twin_ports(containers: &mut [Value]) {
    let mut taken: Vec<String> = Vec::new();
    for ports in containers.iter_mut().filter_map(|it| it.get_mut("ports")?.as_array_mut()) {
        ports.retain(|port| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP");
            let key = format!("{protocol} {} {}", port["hostIP"], port["hostPort"]);
            let is_free = port["hostPort"].is_null() || !taken.contains(&key);
            taken.push(key);
            is_free
        });
    }
}
