//! kube-scheduler and our scheduler, each on nodes of its own; ours is killed meanwhile, kube-scheduler goes
//! on.

use std::time::{Duration, Instant};

use anyhow::ensure;
use kube::ResourceExt;
use test_cluster::platform::LeaseTimes;
use test_cluster::{FakeNodes, TestCluster};

use super::Findings;
use super::leaders::Leaders;
use super::load::{Load, create_foreign_pod};
use super::site::{NAMESPACE, Site};
use crate::objects::h100_nodes;
use crate::observe::{node_of, pods};

/// The scheduler that a node is for.
const POOL: &str = "example.com/pool";
const CLIENT_QPS: u32 = 500;

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Kills of our leader.
    pub kills: usize,
    /// Names the run.
    pub seed: u64,
}

/// Loads both.
pub async fn run(wanted: Size) -> anyhow::Result<Findings> {
    println!("neighbours: {wanted:?}");
    let theirs =
        FakeNodes { labels: [(POOL.to_owned(), "theirs".to_owned())].into(), ..h100_nodes("theirs", 4) };
    let site = Site::start(TestCluster::builder().nodes(h100_nodes("node", 4)).nodes(theirs)).await?;
    // Our pods do not know of pools: what keeps them off is that these nodes are closed to them.
    close_to_us(&site).await?;
    site.cluster.start_kube_scheduler(CLIENT_QPS)?;
    let mut load = Load::new(&site.client, wanted.seed, "6s");
    let mut leaders = Leaders::new(&site.cluster, site.cluster.url()).await?;
    let mut foreign = 0;
    while leaders.counted < wanted.kills && leaders.wasted <= wanted.kills + 5 {
        for _ in 0..4 {
            let name = format!("theirs-{foreign:03}");
            create_foreign_pod(&site.client, &load.gang(&name, 1, 4), (POOL, "theirs")).await?;
            foreign += 1;
        }
        load.create_gangs(3).await?;
        let delay = Duration::from_micros(load.random.below(60_000));
        leaders.kill_in_the_middle(LeaseTimes::Short, delay).await?;
    }
    let ended = Instant::now();
    leaders.finish_alone(LeaseTimes::Short, site.settle()).await?;
    for pod in pods(&site.client, NAMESPACE).await? {
        let on_theirs = node_of(&pod).is_some_and(|node| node.starts_with("theirs"));
        let is_theirs = pod.name_any().starts_with("theirs");
        ensure!(on_theirs == is_theirs, "pod {} is on the other scheduler's node", pod.name_any());
    }
    let kills = leaders.counted;
    ensure!(kills == wanted.kills, "{} kills found no bind in flight", leaders.wasted);
    drop(leaders);
    let findings = site.finish("neighbours", ended).await?;
    Ok(Findings { kills, ..findings })
}

/// Puts another taint on their nodes, which only their pods tolerate.
async fn close_to_us(site: &Site) -> anyhow::Result<()> {
    use k8s_openapi::api::core::v1::Node;
    use kube::api::{Api, Patch, PatchParams};
    let nodes: Api<Node> = Api::all(site.client.clone());
    for index in 0..4 {
        let taints = serde_json::json!({ "spec": { "taints": [
            { "key": POOL, "value": "theirs", "effect": "NoSchedule" },
        ]}});
        nodes.patch(&format!("theirs-{index}"), &PatchParams::default(), &Patch::Merge(&taints)).await?;
    }
    Ok(())
}
