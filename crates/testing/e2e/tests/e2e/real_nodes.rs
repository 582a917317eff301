//! Real nodes: real kubelets run real containers, lose their power, and are removed without a trace.

mod clusters;
mod traces;

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::{bounds, wait};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::Api;
use kube::api::{DeleteParams, LogParams, PostParams};
use serde_json::{Value, json};
use test_cluster::{BUSYBOX_IMAGE, MACHINE_IMAGE, RealMachine, RealNode, TestCluster};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use toolbox::figures;

/// Tells its GPUs, answers whoever connects, and takes a second to save when it is asked to end.
const SERVE: &str = r#"
echo "gpus $NVIDIA_VISIBLE_DEVICES"
trap 'sleep 1; echo "saved by $HOSTNAME" > "$SHARED/saved"; echo told; exit 0' TERM
while :; do echo "hello from $HOSTNAME" | nc -l -p 7000; done &
while :; do sleep 1 & wait $!; done
"#;

/// Is asked to end, and does not.
const STAY: &str = "trap '' TERM; touch \"$SHARED/stays\"; while :; do sleep 1; done";

/// With the machine's own Python: asks its peer by name, a server on the host, and the API server by its Service.
const ASK: &str = r#"
import json, os, socket, ssl, time, urllib.request

def ask(host, port):
    for _ in range(150):
        try:
            with socket.create_connection((host, port), 2) as connection:
                return connection.makefile().readline().strip()
        except OSError as error:
            last = error
            time.sleep(0.2)
    raise last

print("gpus", os.environ["NVIDIA_VISIBLE_DEVICES"])
print("peer:", ask("peer-1.peers", 7000))
host, port = os.environ["HOST_SERVER"].rsplit(":", 1)
print("host:", ask(host, int(port)))
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
request = urllib.request.Request("https://kubernetes.default.svc/version")
request.add_header("Authorization", "Bearer " + open(account + "token").read())
trust = ssl.create_default_context(cafile=account + "ca.crt")
print("version", json.load(urllib.request.urlopen(request, context=trust))["gitVersion"])
"#;

#[tokio::test(flavor = "multi_thread")]
async fn pods_on_two_real_nodes_find_each_other_and_nothing_is_left_of_them() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().real_nodes().start().await?;
    let (links, mounts, shared) = (traces::links()?, traces::mounts()?, tempfile::tempdir()?);
    let node = |name: &str| RealNode {
        name: name.into(),
        gpus: 2,
        shared: vec![shared.path().to_owned()],
        ..RealNode::default()
    };
    let began = Instant::now();
    let (first, second) =
        tokio::try_join!(cluster.add_real_node(node("real-0")), cluster.add_real_node(node("real-1")))?;
    let took = began.elapsed().as_secs_f64();
    figures::print("realnodes.ready_seconds", took, "s", "two nodes at once; bar: 15");
    ensure!(took < bounds::REAL_NODES_READY.allowed_seconds(), "ready after {took} s");
    // A node without a link to the host has no way out of it.
    ensure!(traces::links()? == links, "the host has links to nodes");

    peers_find_each_other(&cluster, shared.path()).await?;
    a_pod_is_told_to_end_and_may_save(&cluster, shared.path()).await?;
    a_pod_that_does_not_end_is_killed_after_its_grace(&cluster, shared.path()).await?;

    let group = first.cgroups()[0].parent().context("a node's cgroup is in its test's")?.to_owned();
    nothing_is_left_of(&cluster, vec![first, second]).await?;
    ensure!(traces::links()? == links, "the host's links changed");
    // A namespace without processes lasts as long as a mount stands for it.
    let dir = cluster.dir().display().to_string();
    let is_ours = |mount: &String| mount.contains(" nsfs ") || mount.contains(&dir);
    let left: Vec<_> =
        traces::mounts()?.difference(&mounts).filter(|mount| is_ours(mount)).cloned().collect();
    ensure!(left.is_empty(), "mounts are left: {left:?}");
    ensure!(group.is_dir(), "{} is there while the cluster is", group.display());
    cluster.stop().await;
    ensure!(!group.exists(), "{} is left", group.display());
    Ok(())
}

async fn peers_find_each_other(cluster: &TestCluster, shared: &Path) -> anyhow::Result<()> {
    let services: Api<Service> = Api::default_namespaced(cluster.admin_client());
    let service = json!({
        "metadata": { "name": "peers" },
        "spec": { "clusterIP": "None", "publishNotReadyAddresses": true, "selector": { "app": "peer" } },
    });
    services.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let exposed = cluster.expose_to_pods(listener.local_addr()?)?;
    let greeter = tokio::spawn(greet(listener));

    let pods: Api<Pod> = Api::default_namespaced(cluster.admin_client());
    for (index, image, command) in [
        (0, MACHINE_IMAGE, json!(["python3", "-u", "-c", ASK])),
        (1, BUSYBOX_IMAGE, json!(["sh", "-c", SERVE])),
    ] {
        pods.create(&PostParams::default(), &peer(index, image, &command, exposed, shared)?).await?;
    }
    let asked = wait_for_phase(&pods, "peer-0", &["Succeeded", "Failed"]).await;
    let log = pods.logs("peer-0", &LogParams::default()).await?;
    ensure!(asked? == "Succeeded", "{log}");
    greeter.abort();
    ensure!(log.contains("peer: hello from peer-1\n"), "{log}");
    ensure!(log.contains("host: hello from the host\n"), "{log}");
    ensure!(log.contains("version v1."), "{log}");
    for (pod, node) in [("peer-0", "real-0"), ("peer-1", "real-1")] {
        let log = pods.logs(pod, &LogParams::default()).await?;
        let gpus = log.lines().find_map(|line| line.strip_prefix("gpus ")).context("it tells its GPUs")?;
        let expected = BTreeSet::from([format!("{node}-gpu-0"), format!("{node}-gpu-1")]);
        ensure!(gpus.split(',').map(str::to_owned).collect::<BTreeSet<_>>() == expected, "{pod}: {gpus}");
    }
    let answer = exec(cluster, "peer-1", &["hostname"]).await?;
    ensure!(answer == "peer-1\n", "{answer:?}");
    Ok(())
}

async fn greet(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let _ = stream.write_all(b"hello from the host\n").await;
    }
}

async fn a_pod_is_told_to_end_and_may_save(cluster: &TestCluster, shared: &Path) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(cluster.admin_client());
    ensure!(!shared.join("saved").exists(), "nobody has told it yet");
    pods.delete("peer-1", &DeleteParams::default()).await?;
    wait_until_gone(&pods, "peer-1").await?;
    let saved = fs::read_to_string(shared.join("saved")).context("it was not given the time to save")?;
    ensure!(saved == "saved by peer-1\n", "{saved:?}");
    Ok(())
}

async fn a_pod_that_does_not_end_is_killed_after_its_grace(
    cluster: &TestCluster,
    shared: &Path,
) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(cluster.admin_client());
    let mut pod = peer(1, BUSYBOX_IMAGE, &json!(["sh", "-c", STAY]), ([127, 0, 0, 1], 1).into(), shared)?;
    pod.spec.as_mut().context("it has a spec")?.termination_grace_period_seconds = Some(3);
    pods.create(&PostParams::default(), &pod).await?;
    wait::until("it ignores that it is told to end", Duration::from_mins(1), || async {
        Ok(shared.join("stays").exists().then_some(()))
    })
    .await?;
    let began = Instant::now();
    pods.delete("peer-1", &DeleteParams::default()).await?;
    wait_until_gone(&pods, "peer-1").await?;
    let took = began.elapsed();
    // One second less: the API server keeps times in whole seconds.
    ensure!(took > Duration::from_secs(2), "it was killed before its grace was over: {took:?}");
    Ok(())
}

/// Removes nodes in the middle of their work.
async fn nothing_is_left_of(cluster: &TestCluster, machines: Vec<RealMachine>) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(cluster.admin_client());
    for machine in &machines {
        let pod = simple_pod(&format!("at-work-{}", machine.name()), machine.name(), "Always")?;
        pods.create(&PostParams::default(), &pod).await?;
    }
    for machine in &machines {
        wait_for_phase(&pods, &format!("at-work-{}", machine.name()), &["Running"]).await?;
    }
    let (processes, namespaces) = (traces::processes_of(&machines), traces::namespaces_of(&machines));
    // Of each node at least unshare's child, containerd, the kubelet, the GPU plugin; a pod's shim, pause and program.
    ensure!(processes.len() >= 2 * 7, "{processes:?}");
    // Of each node net, mount, pid, uts and ipc; most are there again for each pod.
    ensure!(namespaces.len() >= 2 * 8, "{namespaces:?}");
    let names: Vec<_> = machines.iter().map(|machine| machine.name().to_owned()).collect();
    for machine in machines {
        let kept = machine.clone();
        machine.remove().await?;
        ensure!(kept.processes().is_empty(), "left: {:?}", kept.processes());
        ensure!(kept.cgroups().is_empty(), "left: {:?}", kept.cgroups());
    }
    let left: Vec<_> = traces::processes_alive()?.intersection(&processes).cloned().collect();
    ensure!(left.is_empty(), "processes are left: {left:?}");
    let left: Vec<_> = traces::namespaces_alive()?.intersection(&namespaces).cloned().collect();
    ensure!(left.is_empty(), "namespaces are left: {left:?}");
    ensure!(fs::read_dir(cluster.dir().join("nodes"))?.next().is_none(), "a node's disk is left");
    let nodes: Api<Node> = Api::all(cluster.admin_client());
    for name in names {
        ensure!(nodes.get_opt(&name).await?.is_none(), "the Node {name} is left");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_node_that_loses_its_power_is_noticed_and_comes_back() -> anyhow::Result<()> {
    // A lease of 8 s is renewed every 2 s: five renewals are missed before the node is given up.
    let cluster = TestCluster::builder()
        .real_nodes()
        .node_lease_seconds(8)
        .controller_manager_flag("--node-monitor-grace-period=10s")
        .controller_manager_flag("--node-monitor-period=1s")
        .start()
        .await?;
    let machine = cluster.add_real_node(RealNode { name: "real-0".into(), ..RealNode::default() }).await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.admin_client());
    for (name, restart_policy) in [("returns", "Always"), ("ends", "Never")] {
        pods.create(&PostParams::default(), &simple_pod(name, machine.name(), restart_policy)?).await?;
    }
    for name in ["returns", "ends"] {
        wait_for_phase(&pods, name, &["Running"]).await?;
    }
    let leases: Api<Lease> = Api::namespaced(cluster.admin_client(), "kube-node-lease");
    // On a busy machine the namespace of the leases may come later than the node and its pods.
    wait::until("the node has a lease", wait::PATIENCE, || async {
        Ok(leases.get_opt("real-0").await?.and_then(|lease| lease.spec?.renew_time))
    })
    .await?;
    let began = Instant::now();
    machine.power_off().await;
    ensure!(machine.processes().is_empty(), "left: {:?}", machine.processes());
    let nodes: Api<Node> = Api::all(cluster.admin_client());
    wait::until("the node is given up", wait::PATIENCE, || async {
        Ok((readiness(&nodes.get("real-0").await?) == Some("Unknown")).then_some(()))
    })
    .await?;
    let noticed = began.elapsed().as_secs_f64();
    figures::print("realnodes.power_cut_noticed_seconds", noticed, "s", "with a grace period of 10 s");
    // By silence alone. The grace period begins when the last renewal is seen, however busy this machine is.
    let renewed =
        leases.get("real-0").await?.spec.and_then(|spec| spec.renew_time).context("it was renewed")?;
    let silent = Timestamp::now().duration_since(renewed.0);
    ensure!(silent.as_secs() >= 9, "the node said goodbye: given up after a silence of {silent}");

    machine.power_on().await?;
    ensure!(readiness(&nodes.get("real-0").await?) == Some("True"), "it says that it is ready");
    ensure!(wait_for_phase(&pods, "ends", &["Succeeded", "Failed"]).await? == "Failed", "it was cut short");
    wait::until("the other pod runs anew", Duration::from_mins(1), || async {
        let status = pods.get("returns").await?.status.unwrap_or_default();
        let containers = status.container_statuses.unwrap_or_default();
        let runs = |it: &k8s_openapi::api::core::v1::ContainerStatus| it.ready && it.restart_count > 0;
        Ok(containers.iter().any(runs).then_some(()))
    })
    .await?;
    cluster.stop().await;
    Ok(())
}

fn peer(
    index: usize,
    image: &str,
    command: &Value,
    host_server: SocketAddr,
    shared: &Path,
) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": format!("peer-{index}"), "labels": { "app": "peer" } },
        "spec": {
            "nodeName": format!("real-{index}"),
            "hostname": format!("peer-{index}"),
            "subdomain": "peers",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 10,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{
                "name": "main",
                "image": image,
                "command": command,
                "env": [
                    { "name": "SHARED", "value": shared },
                    { "name": "HOST_SERVER", "value": host_server.to_string() },
                ],
                "resources": { "limits": { "nvidia.com/gpu": 2 } },
            }],
        },
    }))?)
}

fn simple_pod(name: &str, node: &str, restart_policy: &str) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "nodeName": node,
            "restartPolicy": restart_policy,
            "tolerations": [{ "operator": "Exists" }],
            "containers": [{ "name": "main", "image": BUSYBOX_IMAGE, "command": ["sleep", "3600"] }],
        },
    }))?)
}

async fn wait_for_phase(pods: &Api<Pod>, name: &str, phases: &[&str]) -> anyhow::Result<String> {
    wait::until(&format!("{name} is {phases:?}"), Duration::from_mins(1), || async {
        let phase = pods.get(name).await?.status.and_then(|status| status.phase);
        Ok(phase.filter(|phase| phases.contains(&phase.as_str())))
    })
    .await
}

async fn wait_until_gone(pods: &Api<Pod>, name: &str) -> anyhow::Result<()> {
    wait::until(&format!("{name} is gone"), wait::PATIENCE, || async {
        Ok(pods.get_opt(name).await?.is_none().then_some(()))
    })
    .await
}

/// Kubernetes' own client speaks the streams that commands in pods need; ours has no use for them.
async fn exec(cluster: &TestCluster, pod: &str, command: &[&str]) -> anyhow::Result<String> {
    let output = tokio::process::Command::new(cluster.kubectl()?)
        .arg("--kubeconfig")
        .arg(cluster.admin_kubeconfig())
        .args(["exec", pod, "--"])
        .args(command)
        .output()
        .await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn readiness(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|it| it.type_ == "Ready").map(|it| it.status.as_str())
}
