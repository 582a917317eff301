//! The node agent on real servers: it writes the findings of the machine's endpoints and kernel log to its
//! Node, with the identity of its `DaemonSet`'s pod, which may write nothing else.

mod rights;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::names;
use e2e::metadata::Metadata;
use e2e::objects::h100_nodes;
use e2e::{agents, bounds, wait};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use test_cluster::TestCluster;
use test_cluster::process::Process;
use toolbox::figures;

/// How long is waited before it counts as never.
const BOUND: Duration = Duration::from_secs(40);
/// The test judges the median of this many, because other tests run at the same time.
const ROUNDS: u32 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn a_spot_notice_taints_the_node_in_time_and_goes_when_it_is_withdrawn() -> anyhow::Result<()> {
    let cluster = cluster_with(1).await?;
    let nodes: Api<Node> = Api::all(cluster.admin_client());
    let before = taints(&settled(&nodes).await?);
    let metadata = Metadata::start().await?;
    let login = agents::login_on(&cluster, "node-0").await?;
    let args = ["--cloud=aws".to_owned(), format!("--metadata-url={}", metadata.url)];
    let _agent = agents::start(&cluster, "agent", &login, "node-0", &args)?;
    told(&nodes, BOUND, |node| condition(node, names::NODE_NOTICE_CONDITION) == "False NoNotice").await?;

    let (mut after_answer, mut after_change) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let changed = Instant::now();
        metadata.say(Some(r#"{"action": "terminate", "time": "2030-01-01T00:02:00Z"}"#));
        let seen = told(&nodes, BOUND, |node| leaving(node) == Some("spot")).await?;
        let answered = metadata.answered().context("the endpoint was asked")?;
        after_answer.push(seen.saturating_duration_since(answered));
        after_change.push(seen - changed);
        told(&nodes, BOUND, |node| condition(node, names::NODE_NOTICE_CONDITION) == "True SpotInterruption")
            .await?;
        let node = nodes.get("node-0").await?;
        let at = node.annotations().get(names::LEAVING_AT_ANNOTATION).map(String::as_str);
        ensure!(at == Some("2030-01-01T00:02:00Z"), "the Node says until when: {at:?}");
        if round == 0 {
            // Somebody else taints meanwhile, and it stays.
            let mut taints = taints(&node);
            taints.push(Taint {
                key: "example.com/of-others".into(),
                effect: "NoSchedule".into(),
                ..Taint::default()
            });
            let patch = json!({ "spec": { "taints": taints } });
            nodes.patch("node-0", &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        metadata.say(None);
        told(&nodes, BOUND, |node| {
            leaving(node).is_none() && condition(node, names::NODE_NOTICE_CONDITION) == "False NoNotice"
        })
        .await?;
    }
    print("node_agent.answer_to_taint_seconds", &after_answer, "from the endpoint's first answer");
    print("node_agent.notice_to_taint_seconds", &after_change, "bar: 2; from its change, asked every second");
    ensure!(
        middle(&after_change) <= bounds::NODE_TAINTED.allowed(),
        "the Node says it in time: {after_change:?}"
    );
    let node = nodes.get("node-0").await?;
    let of_others: Vec<_> =
        taints(&node).into_iter().filter(|taint| taint.key != "example.com/of-others").collect();
    ensure!(of_others == before && taints(&node).len() == before.len() + 1, "others' taints stay: {node:?}");
    ensure!(!node.annotations().contains_key(names::LEAVING_AT_ANNOTATION), "nothing is left behind");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_xid_taints_for_a_sick_gpu_until_it_is_dismissed_or_the_machine_restarted() -> anyhow::Result<()> {
    let cluster = cluster_with(1).await?;
    let nodes: Api<Node> = Api::all(cluster.admin_client());
    let (kmsg, boot) = (cluster.dir().join("kmsg"), cluster.dir().join("boot-id"));
    fs::write(&kmsg, "6,1,0,-;Linux version 6.1.0\n")?;
    fs::write(&boot, "first\n")?;
    let login = agents::login_on(&cluster, "node-0").await?;
    let args = [format!("--kmsg={}", kmsg.display()), format!("--boot-id-file={}", boot.display())];
    let agent = agents::start(&cluster, "agent", &login, "node-0", &args)?;
    let is_well = |node: &Node| condition(node, names::GPU_HEALTHY_CONDITION) == "True NoFault";
    told(&nodes, BOUND, is_well).await?;

    log(&kmsg, 7, "31, pid=2041, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS")?;
    logged(&agent, "\"xid\":31").await?;
    wait::holds("an application's error is not the GPU's", Duration::from_secs(1), || async {
        let node = nodes.get("node-0").await?;
        Ok(is_well(&node) && sick(&node).is_none())
    })
    .await?;

    log(&kmsg, 8, "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")?;
    told(&nodes, BOUND, |node| {
        sick(node) == Some("restart-node")
            && condition(node, names::GPU_HEALTHY_CONDITION) == "False NodeNeedsRestart"
    })
    .await?;

    // Somebody looked at it. Also an agent that is started anew, and reads the log from its beginning, believes that.
    let untainted: Vec<_> = taints(&nodes.get("node-0").await?)
        .into_iter()
        .filter(|it| it.key != names::GPU_SICK_TAINT)
        .collect();
    let patch = json!({ "spec": { "taints": untainted } });
    nodes.patch("node-0", &PatchParams::default(), &Patch::Merge(patch)).await?;
    agent.terminate(BOUND).await;
    let agent = agents::start(&cluster, "agent-again", &login, "node-0", &args)?;
    told(&nodes, BOUND, is_well).await?;
    ensure!(sick(&nodes.get("node-0").await?).is_none(), "what was dismissed is not told again");
    log(&kmsg, 9, "79, GPU has fallen off the bus.")?;
    told(&nodes, BOUND, |node| sick(node) == Some("restart-node")).await?;

    // The machine is restarted: the log begins anew.
    agent.terminate(BOUND).await;
    fs::write(&kmsg, "6,1,0,-;Linux version 6.1.0\n")?;
    fs::write(&boot, "second\n")?;
    let _agent = agents::start(&cluster, "agent-after-boot", &login, "node-0", &args)?;
    told(&nodes, BOUND, |node| sick(node).is_none() && is_well(node)).await?;
    cluster.stop().await;
    Ok(())
}

fn print(id: &str, times: &[Duration], from: &str) {
    let longest = times.iter().max().copied().unwrap_or_default().as_secs_f64();
    let note = format!(
        "{from}, until the Node is read with the taint; the longest of {}: {longest:.3}",
        times.len()
    );
    figures::print(id, middle(times).as_secs_f64(), "s", &note);
}

fn middle(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}

/// A cluster with this many nodes, on which the agent is installed as in its guide.
async fn cluster_with(nodes: usize) -> anyhow::Result<TestCluster> {
    let cluster = TestCluster::builder()
        .nodes(h100_nodes("node", nodes))
        // As in nearly every cluster; kube-apiserver's own default is to refuse privileged pods.
        .api_server_flag("--allow-privileged=true")
        .start()
        .await?;
    agents::install(&cluster)?;
    Ok(cluster)
}

/// The Node once Kubernetes has taken back the taints that a new one has.
async fn settled(nodes: &Api<Node>) -> anyhow::Result<Node> {
    told(nodes, BOUND, |node| !taints(node).iter().any(|it| it.key.starts_with("node.kubernetes.io/")))
        .await?;
    Ok(nodes.get("node-0").await?)
}

/// Adds a record to a kernel log.
fn log(kmsg: &Path, sequence: u32, xid: &str) -> anyhow::Result<()> {
    let mut file = OpenOptions::new().append(true).open(kmsg)?;
    writeln!(file, "3,{sequence},5140900,-;NVRM: Xid (PCI:0000:cb:00): {xid}")?;
    writeln!(file, " SUBSYSTEM=pci\n DEVICE=+pci:0000:cb:00.0")?;
    Ok(())
}

/// Waits until the agent has logged this.
async fn logged(agent: &Process, words: &str) -> anyhow::Result<()> {
    wait::until("the agent logs it", BOUND, || async {
        Ok(fs::read_to_string(agent.log())?.contains(words).then_some(()))
    })
    .await
}

/// Waits until the Node says it, and returns when it was read.
async fn told(
    nodes: &Api<Node>,
    bound: Duration,
    is_told: impl Fn(&Node) -> bool,
) -> anyhow::Result<Instant> {
    let began = Instant::now();
    loop {
        let node = nodes.get("node-0").await?;
        let now = Instant::now();
        if is_told(&node) {
            return Ok(now);
        }
        ensure!(
            now - began < bound,
            "waited {bound:?} in vain; the Node says {:?} {:?}",
            node.spec,
            node.status
        );
        // Not by `wait::until`, whose pause is longer than the measured time.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn taints(node: &Node) -> Vec<Taint> {
    node.spec.clone().and_then(|spec| spec.taints).unwrap_or_default()
}

fn taint_value<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let taints = node.spec.as_ref()?.taints.as_ref()?;
    taints.iter().find(|taint| taint.key == key)?.value.as_deref()
}

fn leaving(node: &Node) -> Option<&str> {
    taint_value(node, names::LEAVING_TAINT)
}

fn sick(node: &Node) -> Option<&str> {
    taint_value(node, names::GPU_SICK_TAINT)
}

/// A condition as `status reason`.
fn condition(node: &Node, type_: &str) -> String {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let found = conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or_else(String::new, |NodeCondition { status, reason, .. }| {
        format!("{status} {}", reason.as_deref().unwrap_or_default())
    })
}
