//! Starts node agents as processes of a test, each with the identity of its `DaemonSet`'s pod.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::names;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Binding, Pod, ServiceAccount};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use test_cluster::TestCluster;
use test_cluster::platform::Platform;
use test_cluster::process::{Process, ProcessSpec};

use crate::wait;

/// After this long an event counts as missing.
const BOUND: Duration = Duration::from_secs(40);

/// Installs the agent as its guide says.
pub fn install(cluster: &TestCluster) -> anyhow::Result<()> {
    let folder = toolbox::checkout::repository_root().join("deploy/node-agent");
    for path in [folder.join("namespace.yaml"), folder] {
        let applied = Command::new(cluster.kubectl()?)
            .arg("--kubeconfig")
            .arg(cluster.admin_kubeconfig())
            .args(["apply", "-f"])
            .arg(&path)
            .output()?;
        ensure!(applied.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&applied.stderr));
    }
    Ok(())
}

/// A login as the `DaemonSet`'s own pod on a node.
pub async fn login_on(cluster: &TestCluster, node: &str) -> anyhow::Result<PathBuf> {
    let admin = cluster.admin_client();
    let pods: Api<Pod> = Api::namespaced(admin.clone(), names::NODES_NAMESPACE);
    let wanted = format!("[\"{node}\"]");
    let pod = wait::until("the DaemonSet has a pod for the node", BOUND, || async {
        let is_for_node = |pod: &Pod| {
            let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
            serde_json::to_string(&affinity).is_ok_and(|text| text.contains(&wanted))
        };
        Ok(pods.list(&ListParams::default()).await?.into_iter().find(is_for_node))
    })
    .await?;
    let binding: Binding = serde_json::from_value(json!({
        "metadata": { "name": pod.name_any() },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    }))?;
    pods.create_subresource::<Binding, Value>("binding", &pod.name_any(), &PostParams::default(), &binding)
        .await?;
    let request: TokenRequest = serde_json::from_value(json!({ "metadata": {}, "spec": {
        "audiences": [],
        "boundObjectRef": { "apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid() },
    }}))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(admin, names::NODES_NAMESPACE);
    let made = accounts
        .create_token_request(names::NODE_AGENT_SERVICE_ACCOUNT, &PostParams::default(), &request)
        .await?;
    let token = made.status.and_then(|status| status.token).context("a token")?;
    let mut config: Value = serde_norway::from_str(&fs::read_to_string(cluster.admin_kubeconfig())?)?;
    config["users"][0]["user"] = json!({ "token": token });
    let path = cluster.dir().join(format!("{}.kubeconfig", pod.name_any()));
    fs::write(&path, serde_json::to_string(&config)?)?;
    Ok(path)
}

/// Starts an agent for a node.
pub fn start(
    cluster: &TestCluster,
    name: &str,
    kubeconfig: &Path,
    node: &str,
    args: &[String],
) -> anyhow::Result<Process> {
    let spec = ProcessSpec::new(name, Platform::same_build(cluster).binary("warpyard-node-agent"))
        .path_arg("kubeconfig", kubeconfig)
        .arg("--log-format=json")
        .arg(format!("--node-name={node}"))
        // Nobody answers there: metadata are not asked for by way of a proxy.
        .env("http_proxy", "http://127.0.0.1:9")
        .args(args);
    Ok(Process::spawn(spec, cluster.logs())?)
}
