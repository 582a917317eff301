//! Nodes that vanish and come back under the same name while their pods still exist, and nodes that shrink
//! below their use.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use seeded_random::Random;
use serde_json::json;
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};

use super::Findings;
use super::keeper::Keeper;
use super::site::{NAMESPACE, Site};
use crate::objects::{create_run, h100_nodes, run as run_of};

const NODES: u64 = 8;

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many times something happens to a node.
    pub rounds: usize,
    /// Names the run.
    pub seed: u64,
}

/// Disturbs the nodes while runs come and go. It uses runs because their pods are replaced when their node
/// vanishes.
pub async fn run(wanted: Size) -> anyhow::Result<Findings> {
    println!("nodes: {wanted:?}");
    let site = Site::start(TestCluster::builder().nodes(h100_nodes("node", 8))).await?;
    let mut random = Random::new(wanted.seed);
    let mut keeper = Keeper::start(&site.cluster, site.cluster.url(), LeaseTimes::Production).await?;
    let mut controllers = Platform::same_build(&site.cluster).controllers("controllers").await?;
    tokio::try_join!(keeper.service.ready(), controllers.ready())?;
    keeper
        .while_alive(async {
            for round in 0..wanted.rounds {
                for index in 0..3 {
                    let (members, gpus) = (1 + random.below(6), 1 + random.below(4));
                    let spec = run_of(NAMESPACE, u32::try_from(members)?, u32::try_from(gpus)?, Some("8s"));
                    create_run(&site.client, NAMESPACE, &format!("run-{round}-{index}"), spec).await?;
                }
                tokio::time::sleep(Duration::from_millis(random.below(1_500))).await;
                trouble(&site, &mut random).await?;
            }
            Ok(())
        })
        .await?;
    let ended = Instant::now();
    keeper.settle(&site).await?;
    drop(keeper);
    drop(controllers);
    site.finish("nodes", ended).await
}

/// Disturbs a random node, and repairs it some seconds later.
async fn trouble(site: &Site, random: &mut Random) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(site.client.clone());
    let name = format!("node-{}", random.below(NODES));
    let pause = Duration::from_millis(500 + random.below(2_500));
    if random.below(2) == 0 {
        let mut node = nodes.get(&name).await?;
        site.cluster.remove_node(&name).await?;
        tokio::time::sleep(pause).await;
        node.metadata.resource_version = None;
        node.metadata.uid = None;
        node.metadata.managed_fields = None;
        nodes.create(&PostParams::default(), &node).await?;
    } else {
        set_gpus(&nodes, &name, 2).await?;
        tokio::time::sleep(pause).await;
        set_gpus(&nodes, &name, 8).await?;
    }
    Ok(())
}

async fn set_gpus(nodes: &Api<Node>, name: &str, gpus: u32) -> anyhow::Result<()> {
    let status = json!({ "status": { "allocatable": { api_types::names::GPU_RESOURCE: gpus.to_string() } } });
    nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}
