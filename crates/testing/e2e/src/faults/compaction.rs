//! API servers that are killed under load, and a watch that is cut off while the store compacts the revisions
//! that it missed.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use test_cluster::TestCluster;
use test_cluster::fault_proxy::Faults;
use test_cluster::platform::LeaseTimes;

use super::Findings;
use super::keeper::Keeper;
use super::load::Load;
use super::site::{NAMESPACE, Site};
use crate::objects::h100_nodes;
use crate::observe::{node_of, pods};
use crate::wait;

const SERVER: &str = "kube-apiserver";

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How often the API server is killed in the middle of binds.
    pub restarts: usize,
    /// How often a watch is cut off, and the store compacted behind its back.
    pub compactions: usize,
    /// Names the run.
    pub seed: u64,
}

/// Kills the API server again and again, then compacts again and again.
pub async fn run(wanted: Size) -> anyhow::Result<Findings> {
    println!("compaction: {wanted:?}");
    // Without its cache the API server knows only the store's past.
    let builder = TestCluster::builder().nodes(h100_nodes("node", 8)).api_server_flag("--watch-cache=false");
    let site = Site::start(builder).await?;
    let proxy = site.cluster.fault_proxy(&site.cluster.api_server_urls(), wanted.seed).await?;
    let mut load = Load::new(&site.client, wanted.seed, "8s");
    let mut keeper = Keeper::start(&site.cluster, proxy.url(), LeaseTimes::Production).await?;
    keeper.service.ready().await?;
    for _ in 0..wanted.restarts {
        load.create_gangs(4).await?;
        let delay = Duration::from_millis(load.random.below(300));
        let restarted = async {
            tokio::time::sleep(delay).await;
            restart(&site).await
        };
        keeper.while_alive(restarted).await?;
    }
    keeper.settle(&site).await?;
    for round in 0..wanted.compactions {
        forget_under_a_cut_watch(&site, &proxy, &mut keeper, &load, round).await?;
    }
    let ended = Instant::now();
    keeper.settle(&site).await?;
    println!(
        "the API server was killed {} times; the scheduler was started again {} times",
        wanted.restarts, keeper.restarts
    );
    drop(keeper);
    site.finish("compaction", ended).await
}

/// The cluster is full. While the scheduler sees nothing, all pods go and the store forgets their deletion; the
/// waiting pods need all of their GPUs.
async fn forget_under_a_cut_watch(
    site: &Site,
    proxy: &test_cluster::fault_proxy::FaultProxy,
    keeper: &mut Keeper<'_>,
    load: &Load,
    round: usize,
) -> anyhow::Result<()> {
    let (filler, heir) = (format!("filler-{round}"), format!("heir-{round}"));
    let mut whole = load.gang(&filler, 8, 8);
    whole.run_time = "1h";
    whole.create(&site.client).await?;
    keeper.while_alive(until_placed(site, &filler)).await?;
    proxy.set(Faults { no_watches: true, ..Faults::default() });
    let pods_api: Api<Pod> = Api::namespaced(site.client.clone(), NAMESPACE);
    for pod in whole.pods() {
        pods_api.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
    }
    load.gang(&heir, 8, 8).create(&site.client).await?;
    let etcd = site.cluster.etcd();
    let before = keeper.restarts;
    keeper
        .while_alive(async {
            wait::until("the deleted pods are gone", wait::PATIENCE, || async {
                let left = pods(&site.client, NAMESPACE).await?;
                Ok((!left.iter().any(|pod| pod.name_any().starts_with(&filler))).then_some(()))
            })
            .await?;
            Ok(etcd.compact(etcd.revision().await?).await?)
        })
        .await?;
    proxy.set(Faults::default());
    keeper.while_alive(until_placed(site, &heir)).await.context("the deletions were forgotten")?;
    ensure!(proxy.counts().watches_cut > 0, "no watch was cut");
    // One that lost its lease meanwhile has listed everything at its start.
    let lines = keeper.service.read_lines();
    let found = lines.iter().any(|line| line["message"] == "Listed." && line["vanished"].as_u64() > Some(0));
    ensure!(found || keeper.restarts > before, "no list found out what the watch had missed");
    Ok(())
}

/// The API server is killed and comes back, and fake nodes with it.
async fn restart(site: &Site) -> anyhow::Result<()> {
    site.cluster.restart_api_server(SERVER).await?;
    Ok(site.cluster.restart_kwok()?)
}

async fn until_placed(site: &Site, gang: &str) -> anyhow::Result<()> {
    wait::until(&format!("{gang} is placed"), Duration::from_mins(1), || async {
        let pods = pods(&site.client, NAMESPACE).await?;
        let mut members = pods.iter().filter(|pod| pod.name_any().starts_with(gang)).peekable();
        Ok((members.peek().is_some() && members.all(|pod| node_of(pod).is_some())).then_some(()))
    })
    .await
}
