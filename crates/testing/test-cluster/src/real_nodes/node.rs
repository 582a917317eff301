//! Configuration files of a node's programs, made from data without effects.

use std::path::Path;

use api_types::names;
use serde_json::{Value, json};

use super::image::{MACHINE_ALTERNATIVES, MACHINE_USR, PAUSE_IMAGE};
use super::{RealNode, dns, network};
use crate::pki::CertifiedKey;

/// The paths for a node's programs.
pub(super) struct Paths<'a> {
    /// The folder of the node's own settings.
    pub settings: &'a Path,
    /// The data that a node keeps when it is switched off.
    pub disk: &'a Path,
    /// The CNI plugins.
    pub cni: &'a Path,
}

/// containerd's settings. Version 2 is read by containerd 1.6 and newer, and by 2.x.
pub(super) fn containerd(paths: &Paths) -> String {
    const CRI: &str = "plugins.\"io.containerd.grpc.v1.cri\"";
    let text = |path: &Path| json!(path).to_string();
    // Without restrict_oom_score_adj, runc dies where root may not lower scores, as in most sandboxes.
    format!(
        "version = 2
root = {root}
state = \"/run/containerd\"
[grpc]
address = \"/run/containerd/containerd.sock\"
[{CRI}]
sandbox_image = \"{PAUSE_IMAGE}\"
disable_apparmor = true
restrict_oom_score_adj = true
[{CRI}.cni]
bin_dir = {cni}
conf_dir = {network}
[{CRI}.containerd]
snapshotter = \"overlayfs\"
default_runtime_name = \"runc\"
[{CRI}.containerd.runtimes.runc]
runtime_type = \"io.containerd.runc.v2\"
base_runtime_spec = {base}
[{CRI}.containerd.runtimes.runc.options]
SystemdCgroup = false
",
        root = text(&paths.disk.join("containerd")),
        cni = text(paths.cni),
        network = text(&paths.settings.join("cni")),
        base = text(&paths.settings.join("container.json")),
    )
}

/// The settings of every container: containerd's default, with this machine's programs and the shared folders.
pub(super) fn container(default: Value, node: &RealNode) -> Value {
    let mut spec = default;
    let bind = |from: &Path, to: &Path, mode: &str| json!({ "type": "bind", "source": from, "destination": to, "options": ["rbind", mode] });
    let machine = [("/usr", MACHINE_USR), ("/etc/alternatives", MACHINE_ALTERNATIVES)]
        .map(|(from, to)| bind(Path::new(from), Path::new(to), "ro"));
    let shared = node.shared.iter().map(|folder| bind(folder, folder, "rw"));
    let read_only = node.shared_read_only.iter().map(|folder| bind(folder, folder, "ro"));
    if let Some(mounts) = spec["mounts"].as_array_mut() {
        mounts.extend(machine.into_iter().chain(shared).chain(read_only));
    }
    // The default of 1,024 open files is for manually started containers; the kubelet's have containerd's own
    // limit.
    if let Some(process) = spec["process"].as_object_mut() {
        process.remove("rlimits");
    }
    spec
}

/// The network of a node's pods: a bridge, with addresses of the node's own range.
pub(super) fn pod_network(number: u8) -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [{
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "ipMasq": false,
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "ranges": [[{ "subnet": network::pods_of(number) }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    })
}

/// The kubelet's settings. It asks the API server about its callers' rights, as in production.
pub(super) fn kubelet(
    node: &RealNode,
    number: u8,
    cgroup: &str,
    authority: &Path,
    serving: &CertifiedKey,
    lease_seconds: u32,
) -> Value {
    let taint = json!({ "key": names::GPU_NODE_TAINT, "value": "true", "effect": "NoSchedule" });
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": network::address_of(number),
        "port": 10250,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "tlsCertFile": serving.cert,
        "tlsPrivateKeyFile": serving.key,
        "authentication": {
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
            "x509": { "clientCAFile": authority },
        },
        "authorization": { "mode": "Webhook" },
        "failCgroupV1": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "failSwapOn": false,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "makeIPTablesUtilChains": false,
        "resolvConf": "",
        "clusterDNS": [network::DNS],
        "clusterDomain": dns::DOMAIN,
        "nodeLeaseDurationSeconds": lease_seconds,
        "nodeStatusUpdateFrequency": "5s",
        "registerWithTaints": if node.gpus > 0 { json!([taint]) } else { json!([]) },
        // The disk is the developer's, and images cannot be pulled again.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
        },
    })
}

/// The labels that the kubelet gives its node, in the form of its flag.
pub(super) fn labels(node: &RealNode) -> String {
    let mut labels = node.labels.clone();
    if node.gpus > 0 {
        labels.entry(names::GPU_PRODUCT_LABEL.into()).or_insert_with(|| node.gpu_product.clone());
    }
    labels.entry(names::RACK_LABEL.into()).or_insert_with(|| "rack-0".into());
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_see_the_machine_to_read_and_shared_folders_to_write() {
        let node = RealNode {
            shared: vec!["/data/checkpoints".into()],
            shared_read_only: vec!["/data/environment".into()],
            ..RealNode::default()
        };
        let default =
            json!({ "process": { "rlimits": [1], "cwd": "/" }, "mounts": [{ "destination": "/proc" }] });
        let spec = container(default, &node);
        let mounts: Vec<_> = spec["mounts"].as_array().unwrap()[1..]
            .iter()
            .map(|mount| format!("{} {} {}", mount["source"], mount["destination"], mount["options"][1]))
            .collect();
        let expected = [
            r#""/usr" "/machine/usr" "ro""#,
            r#""/etc/alternatives" "/machine/alternatives" "ro""#,
            r#""/data/checkpoints" "/data/checkpoints" "rw""#,
            r#""/data/environment" "/data/environment" "ro""#,
        ];
        assert_eq!(mounts, expected);
        assert_eq!(spec["process"], json!({ "cwd": "/" }));
    }

    #[test]
    fn the_kubelet_lets_nobody_in_unasked() {
        let serving = CertifiedKey { cert: "c".into(), key: "k".into() };
        let config = kubelet(&RealNode::default(), 3, "/group", Path::new("ca"), &serving, 40);
        assert_eq!(config["authentication"]["anonymous"]["enabled"], false);
        assert_eq!(config["authorization"]["mode"], "Webhook");
        assert_eq!(config["readOnlyPort"], 0);
        assert_eq!(config["address"], "10.77.0.13");
    }

    #[test]
    fn a_node_without_gpus_has_neither_their_taint_nor_their_label() {
        let serving = CertifiedKey { cert: "c".into(), key: "k".into() };
        let node = RealNode { gpus: 0, ..RealNode::default() };
        let config = kubelet(&node, 1, "/group", Path::new("ca"), &serving, 40);
        assert_eq!(config["registerWithTaints"], json!([]));
        assert_eq!(labels(&node), "topology.warpyard.dev/rack=rack-0");
        let with = kubelet(&RealNode::default(), 1, "/group", Path::new("ca"), &serving, 40);
        assert_eq!(with["registerWithTaints"][0]["key"], names::GPU_NODE_TAINT);
    }
}
