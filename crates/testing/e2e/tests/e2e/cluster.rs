//! The test cluster itself: it starts fast, is isolated, ends with its parent, and has realistic kubelets.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::names::{FAKE_EXIT_CODE_ANNOTATION, FAKE_RUN_TIME_ANNOTATION};
use e2e::{bounds, wait};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Namespace, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use serde_json::json;
use test_cluster::{FakeNodes, TestCluster};
use toolbox::figures;

const SERVERS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_cluster_is_ready_in_time() -> anyhow::Result<()> {
    let mut quickest = f64::INFINITY;
    // The first start reads 300 MB of servers from the disk, and other tests run at the same time.
    for _ in 0..4 {
        let cluster = cluster_of(64).await?;
        quickest = quickest.min(cluster.ready_after().as_secs_f64());
        cluster.stop().await;
        if quickest < bounds::CLUSTER_READY.real.as_secs_f64() {
            break;
        }
    }
    figures::print("testcluster.ready_seconds", quickest, "s", "64 nodes, the best of at most four; bar: 10");
    ensure!(quickest < bounds::CLUSTER_READY.allowed_seconds(), "ready after {quickest} s");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_run_side_by_side_and_one_may_panic() -> anyhow::Result<()> {
    let (first, second) = tokio::try_join!(cluster_of(1), cluster_of(1))?;
    ensure!(first.url() != second.url(), "each has a port of its own");
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some("only-here".to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    let namespaces = |cluster: &TestCluster| Api::<Namespace>::all(cluster.admin_client());
    namespaces(&first).create(&PostParams::default(), &namespace).await?;
    ensure!(namespaces(&second).get_opt("only-here").await?.is_none(), "they share nothing");

    let dir = first.dir().to_owned();
    ensure!(processes_of(&dir)?.len() == SERVERS, "{:?}", processes_of(&dir)?);
    let owner = tokio::spawn(async move {
        let _owned = first;
        panic!("on purpose: what the panicking task owned must go");
    });
    ensure!(owner.await.is_err_and(|error| error.is_panic()), "the task panics");
    ensure!(processes_of(&dir)?.is_empty(), "left behind: {:?}", processes_of(&dir)?);
    ensure!(dir.join("logs/kube-apiserver.log").is_file(), "logs of a failed test are kept");
    std::fs::remove_dir_all(&dir)?;
    ensure!(namespaces(&second).get_opt("default").await?.is_some(), "the other one lives on");
    second.stop().await;
    Ok(())
}

/// Set in the process that acts as the parent; names the cluster's directory.
const PARENT_ROLE: &str = "WARPYARD_E2E_PARENT_OF_CLUSTER_IN";

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_killed_with_sigkill_leaves_no_server_behind() -> anyhow::Result<()> {
    if let Some(dir) = std::env::var_os(PARENT_ROLE) {
        return be_the_parent(Path::new(&dir)).await;
    }
    let dir = tempfile::tempdir()?;
    let cluster_dir = dir.path().join("cluster");
    // This same test, in a process of its own.
    let mut parent = tokio::process::Command::new(std::env::current_exe()?)
        .args(["--exact", "cluster::a_parent_killed_with_sigkill_leaves_no_server_behind", "--nocapture"])
        .env(PARENT_ROLE, &cluster_dir)
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    wait::until("the parent has started its cluster", Duration::from_mins(1), || {
        let (ready, ended) = (cluster_dir.join("is-ready").exists(), parent.try_wait());
        async move {
            ensure!(ended?.is_none(), "the parent ended early");
            Ok(ready.then_some(()))
        }
    })
    .await?;
    ensure!(processes_of(&cluster_dir)?.len() == SERVERS, "{:?}", processes_of(&cluster_dir)?);
    // On Linux this is SIGKILL; the parent gets no chance to clean up.
    parent.kill().await?;
    wait::until("no server is left", wait::PATIENCE, || async {
        Ok(processes_of(&cluster_dir)?.is_empty().then_some(()))
    })
    .await
}

async fn be_the_parent(dir: &Path) -> anyhow::Result<()> {
    let _cluster = TestCluster::builder().dir(dir).start().await?;
    std::fs::write(dir.join("is-ready"), "")?;
    // Long enough to be killed; should the killer die first, this ends by itself.
    tokio::time::sleep(Duration::from_mins(1)).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fake_pods_end_as_under_a_kubelet() -> anyhow::Result<()> {
    let cluster = cluster_of(1).await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.admin_client());
    for pod in [
        fake_pod("succeeds", &[(FAKE_RUN_TIME_ANNOTATION, "1s")]),
        fake_pod("fails", &[(FAKE_RUN_TIME_ANNOTATION, "1s"), (FAKE_EXIT_CODE_ANNOTATION, "3")]),
        fake_pod("runs-on", &[]),
    ] {
        pods.create(&PostParams::default(), &pod).await?;
    }
    for (name, phase, exit_code) in [("succeeds", "Succeeded", 0), ("fails", "Failed", 3)] {
        let ended = ended_with_phase(&pods, name, phase).await?;
        ensure!(ended.exit_code == exit_code && ended.finished_at.is_some(), "{name}: {ended:?}");
    }
    wait::until("a pod without a run time runs on", wait::PATIENCE, || async {
        Ok((phase_of(&pods.get("runs-on").await?) == Some("Running")).then_some(()))
    })
    .await?;
    // Its grace is far longer than the wait.
    pods.delete("runs-on", &DeleteParams::default().grace_period(600)).await?;
    wait::until("the deleted pod is gone long before its grace ends", wait::PATIENCE, || async {
        Ok(pods.get_opt("runs-on").await?.is_none().then_some(()))
    })
    .await?;
    job_pods_deleted_while_running_are_counted_and_go(&cluster).await?;
    cluster.stop().await;
    Ok(())
}

/// The Job counts a pod from its last status, then takes its finalizer off: only with both does the pod go.
async fn job_pods_deleted_while_running_are_counted_and_go(cluster: &TestCluster) -> anyhow::Result<()> {
    let jobs: Api<Job> = Api::default_namespaced(cluster.admin_client());
    let pods: Api<Pod> = Api::default_namespaced(cluster.admin_client());
    let of_job = ListParams::default().labels("batch.kubernetes.io/job-name=job");
    let job = serde_json::from_value(json!({
        "metadata": { "name": "job" },
        "spec": { "backoffLimit": 0, "podReplacementPolicy": "Failed", "template": { "spec": pod_spec() } },
    }))?;
    jobs.create(&PostParams::default(), &job).await?;
    let pod = wait::until("the Job's pod runs", wait::PATIENCE, || async {
        let found = pods.list(&of_job).await?.items.pop();
        Ok(found.filter(|pod| phase_of(pod) == Some("Running")))
    })
    .await?;
    pods.delete(&pod.metadata.name.context("a pod has a name")?, &DeleteParams::default()).await?;
    wait::until("the Job has counted its pod and let go of it", wait::PATIENCE, || async {
        let failed = jobs.get("job").await?.status.and_then(|status| status.failed);
        Ok((failed == Some(1) && pods.list(&of_job).await?.items.is_empty()).then_some(()))
    })
    .await
}

async fn cluster_of(count: usize) -> Result<TestCluster, test_cluster::Error> {
    TestCluster::builder().nodes(FakeNodes { count, ..FakeNodes::default() }).start().await
}

fn fake_pod(name: &str, annotations: &[(&str, &str)]) -> Pod {
    let annotations: std::collections::BTreeMap<_, _> = annotations.iter().copied().collect();
    serde_json::from_value(
        json!({ "metadata": { "name": name, "annotations": annotations }, "spec": pod_spec() }),
    )
    .expect("the pod is well formed")
}

/// On a node without asking any scheduler: here only the kubelet's part counts.
fn pod_spec() -> serde_json::Value {
    json!({
        "nodeName": "node-0",
        "restartPolicy": "Never",
        "tolerations": [{ "operator": "Exists" }],
        "containers": [{ "name": "main", "image": "none" }],
    })
}

async fn ended_with_phase(
    pods: &Api<Pod>,
    name: &str,
    phase: &str,
) -> anyhow::Result<ContainerStateTerminated> {
    let pod = wait::until(&format!("{name} is {phase}"), wait::PATIENCE, || async {
        Ok(Some(pods.get(name).await?).filter(|pod| phase_of(pod) == Some(phase)))
    })
    .await?;
    let status = pod.status.context("it has a status")?;
    let container = status.container_statuses.unwrap_or_default().pop().context("it has a container")?;
    container.state.and_then(|state| state.terminated).context("its container has terminated")
}

fn phase_of(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

/// The processes that serve the cluster in `dir`: each has a path in it among its arguments.
/// A zombie has no arguments any more, and is as good as gone.
fn processes_of(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let path = entry?.path();
        let is_process = path.file_name().is_some_and(|name| name.as_bytes().iter().all(u8::is_ascii_digit));
        // A process may end while we look at it.
        let arguments =
            if is_process { std::fs::read(path.join("cmdline")).unwrap_or_default() } else { Vec::new() };
        if contains(&arguments, dir.as_os_str()) {
            found.push(path);
        }
    }
    Ok(found)
}

fn contains(arguments: &[u8], path: &OsStr) -> bool {
    arguments.windows(path.len()).any(|window| window == path.as_bytes())
}
