//! Abilities that a kubelet declares and some pods need, as kube-scheduler reads them from the pod.

use cluster_model::Features;
use slim_objects::{SlimNode, SlimPod};

/// The abilities that a node declares, if pods can ask for them.
pub(crate) fn declared(node: &SlimNode) -> Features {
    let read = |name: &String| match name.as_str() {
        "RestartAllContainersOnContainerExits" => Features::RESTARTS_ALL_CONTAINERS,
        "UserNamespacesHostNetworkSupport" => Features::USERS_ON_HOST_NETWORK,
        _ => Features::default(),
    };
    node.status.declared_features.iter().map(read).fold(Features::default(), Features::with)
}

/// What a pod needs.
pub(crate) fn needed(pod: &SlimPod) -> Features {
    let mut needed = Features::default();
    let spec = &pod.spec;
    if spec.containers.iter().chain(&spec.init_containers).any(|container| container.restarts_all) {
        needed = needed.with(Features::RESTARTS_ALL_CONTAINERS);
    }
    if spec.host_network && spec.host_users == Some(false) {
        needed = needed.with(Features::USERS_ON_HOST_NETWORK);
    }
    needed
}
