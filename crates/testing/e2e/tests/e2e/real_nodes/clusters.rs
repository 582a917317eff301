//! Clusters with real nodes: side by side, one after another, and killed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use test_cluster::{RealMachine, RealNode, TestCluster};

use super::{exec, simple_pod, traces, wait_for_phase};

#[tokio::test(flavor = "multi_thread")]
async fn clusters_side_by_side_have_real_nodes_of_the_same_name_and_address() -> anyhow::Result<()> {
    let (here, there) = tokio::try_join!(cluster_with_pod("here"), cluster_with_pod("there"))?;
    ensure!(here.address == there.address, "{} and {} do not collide", here.address, there.address);
    ensure!(exec(&here.cluster, "here", &["hostname"]).await? == "here\n", "it is another's pod");
    let processes = traces::processes_of(&[here.machine]);
    here.cluster.stop().await;
    ensure!(
        traces::processes_alive()?.is_disjoint(&processes),
        "processes are left of the cluster that ended"
    );
    ensure!(
        exec(&there.cluster, "there", &["hostname"]).await? == "there\n",
        "the other cluster lost its pod"
    );

    let again = cluster_with_pod("again").await?;
    ensure!(again.address == there.address, "a new cluster begins anew: {}", again.address);
    ensure!(exec(&again.cluster, "again", &["hostname"]).await? == "again\n", "it is another's pod");
    again.cluster.stop().await;
    there.cluster.stop().await;
    Ok(())
}

struct ClusterWithPod {
    cluster: TestCluster,
    machine: RealMachine,
    address: String,
}

async fn cluster_with_pod(pod: &str) -> anyhow::Result<ClusterWithPod> {
    let cluster = TestCluster::builder().real_nodes().without_kwok().without_install().start().await?;
    let machine = cluster.add_real_node(RealNode::default()).await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.admin_client());
    pods.create(&PostParams::default(), &simple_pod(pod, machine.name(), "Always")?).await?;
    wait_for_phase(&pods, pod, &["Running"]).await?;
    let address = pods.get(pod).await?.status.and_then(|status| status.pod_ip);
    Ok(ClusterWithPod { cluster, machine, address: address.context("a pod that runs has an address")? })
}

/// Set in the process that plays the parent; names the cluster's directory.
const PARENT_ROLE: &str = "WARPYARD_E2E_PARENT_OF_REAL_NODE_IN";

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_killed_with_sigkill_takes_its_real_node_along() -> anyhow::Result<()> {
    if let Some(dir) = std::env::var_os(PARENT_ROLE) {
        return be_the_parent(Path::new(&dir)).await;
    }
    let dir = tempfile::tempdir()?;
    let ready = dir.path().join("is-ready");
    // This same test, in a process of its own.
    let mut parent = tokio::process::Command::new(std::env::current_exe()?)
        .args([
            "--exact",
            "real_nodes::clusters::a_parent_killed_with_sigkill_takes_its_real_node_along",
            "--nocapture",
        ])
        .env(PARENT_ROLE, dir.path())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let told = wait::until("the parent has started its node", Duration::from_mins(2), || {
        let (told, ended) = (fs::read(&ready).ok(), parent.try_wait());
        async move {
            ensure!(ended?.is_none(), "the parent ended early");
            Ok(told)
        }
    })
    .await?;
    let told: Value = serde_json::from_slice(&told)?;
    let mut processes: BTreeSet<String> = serde_json::from_value(told["processes"].clone())?;
    let cgroups: Vec<PathBuf> = serde_json::from_value(told["cgroups"].clone())?;
    ensure!(processes.len() >= 4 && cgroups.iter().all(|path| path.is_dir()), "{told}");
    // Also the servers, DNS, and the process that holds the cluster's network.
    processes.extend(traces::children_of(parent.id().context("the parent runs")?)?);
    // On Linux this is SIGKILL; the parent gets no chance to clean up.
    parent.kill().await?;
    wait::until("no process of the cluster is left", wait::PATIENCE, || async {
        Ok(traces::processes_alive()?.is_disjoint(&processes).then_some(()))
    })
    .await?;
    // The next test removes what cannot end by itself.
    bare_cluster(None).await?.stop().await;
    let left: Vec<_> = cgroups.iter().filter(|path| path.exists()).collect();
    ensure!(left.is_empty(), "left: {left:?}");
    Ok(())
}

async fn be_the_parent(dir: &Path) -> anyhow::Result<()> {
    let cluster = bare_cluster(Some(&dir.join("cluster"))).await?;
    let machine = cluster.add_real_node(RealNode::default()).await?;
    let cgroups = machine.cgroups();
    let told = json!({ "processes": traces::processes_of(&[machine]), "cgroups": cgroups });
    // Renamed, so that nobody reads half of it.
    fs::write(dir.join("is-ready.new"), told.to_string())?;
    fs::rename(dir.join("is-ready.new"), dir.join("is-ready"))?;
    // Long enough to be killed; should the killer die first, this ends by itself.
    tokio::time::sleep(Duration::from_mins(1)).await;
    Ok(())
}

async fn bare_cluster(dir: Option<&Path>) -> Result<TestCluster, test_cluster::Error> {
    let builder = TestCluster::builder().real_nodes();
    let builder = builder.without_controller_manager().without_kwok().without_install();
    if let Some(dir) = dir { builder.dir(dir) } else { builder }.start().await
}
