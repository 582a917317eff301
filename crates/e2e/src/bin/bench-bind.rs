//! `cargo xtask bench bind`: pods bound per second by us, by kube-scheduler on the same pods, and by bare bind calls.
//!
//! Each contender gets a fresh cluster with the same nodes and the same waiting pods. The clock runs from the first
//! bound pod that a watch sees to the last, so start-up and leader election do not count.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::names;
use clap::Parser;
use cluster_convert::SlimPod;
use e2e::objects::{GangOfPods, create_namespace, create_queue, h100_nodes};
use futures::{StreamExt, TryStreamExt, pin_mut, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;
use test_cluster::platform::{LeaseTimes, Platform};
use test_cluster::{TestCluster, figures};
use tokio::sync::oneshot;

const NAMESPACE: &str = "load";
const KUBE_SCHEDULER: &str = "default-scheduler";
/// So many calls at once: more no longer raises the API server's rate here.
const IN_FLIGHT_MAX: usize = 64;
/// kube-scheduler's client limit, and the controller-manager's: far above what they reach.
const CLIENT_QPS: u32 = 5_000;
/// Node leases are renewed at a quarter of this; at 1,000 nodes that is 10 writes a second.
const NODE_LEASE_SECONDS: u32 = 400;
const PATIENCE: Duration = Duration::from_mins(5);

/// Pods bound per second.
#[derive(Parser)]
struct Args {
    /// Fake nodes with eight GPUs each.
    #[arg(long)]
    nodes: usize,
    /// Waiting pods of one GPU each.
    #[arg(long)]
    pods: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Bare,
    KubeScheduler,
    Ours,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    ensure!(args.pods <= args.nodes * 8, "{} pods do not fit on {} nodes", args.pods, args.nodes);
    println!(
        "{} nodes × 8 GPUs, {} pods × 1 GPU; {IN_FLIGHT_MAX} calls in flight; kube-scheduler qps and burst \
         {CLIENT_QPS}; node leases {NODE_LEASE_SECONDS} s; etcd without fsync; {} cores",
        args.nodes,
        args.pods,
        std::thread::available_parallelism()?,
    );
    let bare = measure(Contender::Bare, &args).await?;
    let kube_scheduler = measure(Contender::KubeScheduler, &args).await?;
    let ours = measure(Contender::Ours, &args).await?;
    let size = format!("{} nodes, {} pods, one run", args.nodes, args.pods);
    figures::print("bind.bare_per_second", bare, "pods/s", &size);
    figures::print("bind.kube_scheduler_per_second", kube_scheduler, "pods/s", &size);
    figures::print("bind.ours_per_second", ours, "pods/s", &size);
    figures::print("bind.ours_over_bare", ours / bare, "ratio", &size);
    figures::print("bind.ours_over_kube_scheduler", ours / kube_scheduler, "ratio", &size);
    Ok(())
}

/// Pods bound per second by one contender, on a cluster of its own.
async fn measure(contender: Contender, args: &Args) -> anyhow::Result<f64> {
    let cluster = TestCluster::builder()
        .nodes(h100_nodes("node", args.nodes))
        .node_lease_seconds(NODE_LEASE_SECONDS)
        .start()
        .await?;
    let client = cluster.admin_client();
    create_namespace(&client, NAMESPACE).await?;
    create_queue(&client, NAMESPACE, None, &[], &[NAMESPACE]).await?;
    create_pods(&client, contender, args.pods).await?;
    eprintln!("{contender:?}: {} pods wait", args.pods);

    let (watching, begin) = oneshot::channel();
    let rate = tokio::spawn(watch_rate(client.clone(), args.pods, watching));
    begin.await.context("the watch did not begin")?;
    match contender {
        Contender::Bare => bind_all(&client, args).await?,
        Contender::KubeScheduler => cluster.start_kube_scheduler(CLIENT_QPS)?,
        Contender::Ours => {}
    }
    let platform = Platform::release(&cluster);
    let _scheduler = match contender {
        Contender::Ours => Some(platform.scheduler("scheduler", LeaseTimes::Production, "").await?),
        Contender::Bare | Contender::KubeScheduler => None,
    };
    let rate = tokio::time::timeout(PATIENCE, rate).await.context("not all pods were bound in time")???;
    eprintln!("{contender:?}: {rate:.0} pods/s");
    cluster.stop().await;
    Ok(rate)
}

async fn create_pods(client: &Client, contender: Contender, count: usize) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    stream::iter(0..count)
        .map(|index| {
            let name = format!("pod-{index:05}");
            let gang = GangOfPods {
                namespace: NAMESPACE,
                name: &name,
                queue: NAMESPACE,
                members: 1,
                gpus: 1,
                run_time: "1h",
            };
            let mut pod = gang.pods().remove(0);
            let scheduler = match contender {
                Contender::Bare => "nobody",
                Contender::KubeScheduler => KUBE_SCHEDULER,
                Contender::Ours => names::SCHEDULER_NAME,
            };
            pod.spec.get_or_insert_default().scheduler_name = Some(scheduler.to_owned());
            let pods = pods.clone();
            async move { pods.create(&PostParams::default(), &pod).await.map(drop) }
        })
        .buffer_unordered(IN_FLIGHT_MAX)
        .try_collect::<()>()
        .await
        .context("failed to create the pods")
}

/// Binds every pod to a node worked out beforehand, eight to a node.
async fn bind_all(client: &Client, args: &Args) -> anyhow::Result<()> {
    stream::iter(0..args.pods)
        .map(|index| {
            let body = json!({
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"namespace": NAMESPACE, "name": format!("pod-{index:05}-0")},
                "target": {"apiVersion": "v1", "kind": "Node", "name": format!("node-{}", index / 8)},
            });
            let request =
                http::Request::post(format!("/api/v1/namespaces/{NAMESPACE}/pods/pod-{index:05}-0/binding"))
                    .header(http::header::CONTENT_TYPE, "application/json")
                    .body(body.to_string().into_bytes())
                    .expect("the names make a valid URL");
            let client = client.clone();
            async move { client.request::<serde_json::Value>(request).await.map(drop) }
        })
        .buffer_unordered(IN_FLIGHT_MAX)
        .try_collect::<()>()
        .await
        .context("failed to bind a pod")
}

/// Pods per second between the first bound pod that a watch sees and the last of `count`.
/// Says `watching` once it has listed them all.
async fn watch_rate(client: Client, count: usize, watching: oneshot::Sender<()>) -> anyhow::Result<f64> {
    let pods: Api<SlimPod> = Api::namespaced(client, NAMESPACE);
    let events = watcher(pods, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut watching = Some(watching);
    let mut bound = BTreeSet::new();
    let mut first = None;
    while let Some(event) = events.next().await {
        let pod = match event.context("the watch broke")? {
            watcher::Event::InitDone => {
                watching.take().map(|watching| watching.send(()));
                continue;
            }
            watcher::Event::Apply(pod) => pod,
            watcher::Event::Init | watcher::Event::InitApply(_) | watcher::Event::Delete(_) => continue,
        };
        if pod.spec.node_name.is_none() || !bound.insert(pod.name_any()) {
            continue;
        }
        let began = *first.get_or_insert_with(Instant::now);
        if bound.len() == count {
            let pods = u32::try_from(count - 1).context("too many pods")?;
            return Ok(f64::from(pods) / began.elapsed().as_secs_f64());
        }
    }
    anyhow::bail!("the watch ended early")
}
