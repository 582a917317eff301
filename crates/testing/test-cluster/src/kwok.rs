//! KWOK, which plays the kubelets of the fake nodes by the stages in `stages/`.
//!
//! ```text
//!   bound ─► Running ─┬─ annotation run-time ─► Succeeded / Failed (annotation exit-code)
//!                     └─ deleted ─► Failed, containers terminated with a time ─► removed with grace 0
//! ```

use toolbox::engine_bin;

use crate::control_plane::{Identities, Layout};
use crate::process::{Process, ProcessSpec};
use crate::{Error, files};

const STAGES: &[&str] = &[
    include_str!("../stages/node-ready.yaml"),
    include_str!("../stages/node-heartbeat.yaml"),
    include_str!("../stages/pod-start.yaml"),
    include_str!("../stages/pod-end.yaml"),
    include_str!("../stages/pod-stop.yaml"),
    include_str!("../stages/pod-remove.yaml"),
];

/// The annotation that makes KWOK the kubelet of a node.
pub(crate) const FAKE_NODE_ANNOTATION: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// Starts KWOK; the caller waits for the nodes.
pub(crate) fn start(
    layout: &Layout,
    identities: &Identities,
    url: &str,
    node_lease_seconds: u32,
) -> Result<Process, Error> {
    let name = "kwok";
    // It acts as every kubelet; upstream gives it rights over all nodes, pods and leases.
    let kubeconfig = identities.write_kubeconfig(layout, url, name, "kwok", Some("system:masters"))?;
    let config = layout.root.join("kwok.yaml");
    files::write_private(&config, configuration(node_lease_seconds).as_bytes())?;
    // Without --server-address and --node-port it listens nowhere.
    let spec = ProcessSpec::new(name, engine_bin::find(name)?)
        .path_arg("kubeconfig", &kubeconfig)
        .path_arg("config", &config)
        // KWOK looks for a default configuration in the home directory.
        .env("HOME", &layout.root);
    Process::spawn(spec, &layout.logs)
}

fn configuration(node_lease_seconds: u32) -> String {
    let (annotation, value) = FAKE_NODE_ANNOTATION;
    let options = format!(
        "apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  manageNodesWithAnnotationSelector: {annotation}={value}
  nodeLeaseDurationSeconds: {node_lease_seconds}
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 16
  nodeLeaseParallelism: 16
  podsOnNodeSyncParallelism: 16
"
    );
    std::iter::once(options.as_str()).chain(STAGES.iter().copied()).collect::<Vec<_>>().join("---\n")
}
