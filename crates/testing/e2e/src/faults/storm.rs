//! Three requests in ten conflict, are throttled, or have an unknown outcome: measures the binds per second.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, pin_mut, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use slim_objects::SlimPod;
use test_cluster::TestCluster;
use test_cluster::fault_proxy::Faults;
use test_cluster::platform::LeaseTimes;
use tokio::sync::oneshot;

use super::Findings;
use super::keeper::Keeper;
use super::load::Load;
use super::site::{NAMESPACE, Site};
use crate::objects::h100_nodes;

const CREATES_IN_FLIGHT_MAX: usize = 32;
/// All pods must be bound within this time.
const PATIENCE: Duration = Duration::from_mins(5);

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Waiting gangs of four one-GPU pods; eight GPUs to a node.
    pub gangs: usize,
    /// Names the run.
    pub seed: u64,
}

/// The same load without faults and in the storm. Returns the judge's findings in the storm, and the ratio of
/// the rates.
pub async fn run(wanted: Size) -> anyhow::Result<(Findings, f64)> {
    println!("storm: {wanted:?}, {:?}", Faults::STORM);
    let (calm, found_calm) = drain(wanted, "calm", Faults::default()).await?;
    found_calm.must_be_clean()?;
    let (storm, findings) = drain(wanted, "storm", Faults::STORM).await?;
    Ok((findings, storm / calm))
}

/// Pods bound per second, over the middle nine tenths: at the end a few unlucky pods wait for their next try.
async fn drain(wanted: Size, name: &str, faults: Faults) -> anyhow::Result<(f64, Findings)> {
    let builder = TestCluster::builder()
        .nodes(h100_nodes("node", wanted.gangs.div_ceil(2)))
        .without_kwok()
        // Without KWOK nobody renews the nodes' leases.
        .controller_manager_flag("--controllers=*,-node-lifecycle-controller");
    let site = Site::start(builder).await?;
    let proxy = site.cluster.fault_proxy(&site.cluster.api_server_urls(), wanted.seed).await?;
    create(&site.client, wanted).await?;
    let (watching, begin) = oneshot::channel();
    let times = tokio::spawn(bound_times(site.client.clone(), wanted.gangs * 4, watching));
    begin.await.context("the watch did not begin")?;
    proxy.set(faults);
    let mut keeper = Keeper::start(&site.cluster, proxy.url(), LeaseTimes::Production).await?;
    let times = keeper
        .while_alive(async {
            tokio::time::timeout(PATIENCE, times).await.context("not all pods were bound in time")??
        })
        .await?;
    let (early, late) = (times.len() / 20, times.len() - 1 - times.len() / 20);
    let count = f64::from(u32::try_from(late - early)?);
    let rate = count / (times[late] - times[early]).as_secs_f64();
    let last = (times[times.len() - 1] - times[0]).as_secs_f64();
    let counts = proxy.counts();
    println!(
        "{name}: {rate:.0} pods/s over the middle nine tenths, all {} in {last:.1} s; {} of {} requests got a fault ({counts:?}); \
         started again {} times",
        times.len(),
        counts.faults(),
        counts.requests,
        keeper.restarts,
    );
    ensure!(
        faults == Faults::default() || counts.faults() * 100 >= counts.requests * 20,
        "no storm: {counts:?}"
    );
    let ended = Instant::now();
    drop(keeper);
    Ok((rate, site.finish(name, ended).await?))
}

async fn create(client: &Client, wanted: Size) -> anyhow::Result<()> {
    let load = Load::new(client, wanted.seed, "1h");
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let all: Vec<Pod> =
        (0..wanted.gangs).flat_map(|index| load.gang(&format!("gang-{index:05}"), 4, 1).pods()).collect();
    stream::iter(all)
        .map(|pod| {
            let pods = pods.clone();
            async move { pods.create(&PostParams::default(), &pod).await.map(drop) }
        })
        .buffer_unordered(CREATES_IN_FLIGHT_MAX)
        .try_collect::<()>()
        .await
        .context("failed to create the pods")
}

/// When each of `count` pods was first seen with a node, in order. Says `watching` once it has listed them all.
async fn bound_times(
    client: Client,
    count: usize,
    watching: oneshot::Sender<()>,
) -> anyhow::Result<Vec<Instant>> {
    let pods: Api<SlimPod> = Api::namespaced(client, NAMESPACE);
    let events = watcher(pods, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut watching = Some(watching);
    let mut bound = std::collections::BTreeSet::new();
    let mut times = Vec::new();
    while let Some(event) = events.next().await {
        match event.context("the watch broke")? {
            watcher::Event::InitDone => {
                watching.take().map(|watching| watching.send(()));
            }
            watcher::Event::Apply(pod) if pod.spec.node_name.is_some() && bound.insert(pod.name_any()) => {
                times.push(Instant::now());
                if times.len() == count {
                    return Ok(times);
                }
            }
            _ => {}
        }
    }
    anyhow::bail!("the watch ended early")
}
