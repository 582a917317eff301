//! Machines are bought for gangs through Karpenter, all of a gang's or none, and go when they are unused.

mod away;
mod caps;
mod idle;
mod lies;
mod notice;
mod policy;

use std::time::Duration;

use anyhow::ensure;
use api_types::RunStatus;
use api_types::run::RunPhase;
use e2e::machines::{Times, billed, claims_by_launch, offer};
use e2e::objects::{create_namespace, create_queue, create_run, run};
use e2e::observe::run_status;
use e2e::wait;
use kube::Client;
use test_cluster::karpenter::{Fate, KarpenterSettings, Offerings};
use test_cluster::platform::{Platform, Service};
use test_cluster::{FakeNodes, TestCluster};

const TEAM: &str = "nlp";
const BOUND: Duration = Duration::from_mins(2);
const TIMES: Times = Times { boot_seconds: 5, idle_seconds: 10 };

/// A cluster without a single node, where H100 machines can be bought.
async fn start() -> anyhow::Result<(TestCluster, Service, Service)> {
    start_with(TIMES).await
}

/// The same, with other times of the machines.
async fn start_with(times: Times) -> anyhow::Result<(TestCluster, Service, Service)> {
    let cluster = cluster_with(FakeNodes { count: 0, ..FakeNodes::default() }).await?;
    offer(&cluster.admin_client(), "p5.48xlarge", times).await?;
    let (scheduler, controllers) = platform(&cluster).await?;
    Ok((cluster, scheduler, controllers))
}

/// A cluster with these nodes and Karpenter, without a machine type, and a team that may use machines.
async fn cluster_with(nodes: FakeNodes) -> anyhow::Result<TestCluster> {
    let settings = KarpenterSettings { boot_time: Duration::from_secs(2), ..KarpenterSettings::default() };
    let cluster = TestCluster::builder().nodes(nodes).karpenter(settings).start().await?;
    let client = cluster.admin_client();
    create_namespace(&client, TEAM).await?;
    create_queue(&client, TEAM, None, &[("H100", 64), ("A100", 64)], &[TEAM]).await?;
    Ok(cluster)
}

/// A scheduler that buys machines, and the controllers.
async fn platform(cluster: &TestCluster) -> anyhow::Result<(Service, Service)> {
    let platform = Platform::debug(cluster);
    let mut scheduler = platform.scheduler_with("scheduler", &["--buy-machines"]).await?;
    let mut controllers = platform.controllers("controllers").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    Ok((scheduler, controllers))
}

/// Waits until this many members of a run are running.
async fn members_run(client: &Client, name: &str, members: u32) -> anyhow::Result<RunStatus> {
    wait::until(&format!("{members} members of {name} run"), BOUND, || async {
        let status = run_status(client, TEAM, name).await?;
        Ok((status.members.running == members).then_some(status))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_gets_all_of_its_machines_at_the_lowest_price_and_they_go_when_idle() -> anyhow::Result<()> {
    let (cluster, _scheduler, _controllers) = start().await?;
    let client = cluster.admin_client();
    create_run(&client, TEAM, "train", run(TEAM, 3, 8, Some("15s"))).await?;
    members_run(&client, "train", 3).await?;
    let machines = billed(cluster.karpenter()?)?;
    ensure!(machines.len() == 3, "{machines:?}");
    ensure!(
        machines.iter().all(|it| it.offer.capacity_type == "on-demand"),
        "spot is for who asks: {machines:?}"
    );
    ensure!(machines.iter().all(|it| it.micros_per_hour == 55_040_000), "{machines:?}");
    wait::until("the run ends", BOUND, || async {
        let status = run_status(&client, TEAM, "train").await?;
        ensure!(status.attempts.len() == 1, "one attempt was enough: {status:?}");
        Ok((status.phase == RunPhase::Succeeded).then_some(()))
    })
    .await?;
    wait::until("the machines are given back", BOUND, || async {
        Ok((claims_by_launch(&client).await?.is_empty() && billed(cluster.karpenter()?)?.is_empty())
            .then_some(()))
    })
    .await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_machine_is_not_to_be_had_none_is_kept_and_the_gang_starts_elsewhere() -> anyhow::Result<()>
{
    let (cluster, _scheduler, _controllers) = start().await?;
    let client = cluster.admin_client();
    let karpenter = cluster.karpenter()?;
    karpenter.next_launches([Fate::Well, Fate::StockOut])?;
    karpenter.stock(Offerings::of_type("p5.48xlarge").in_zone("zone-a"), 1)?;
    create_run(&client, TEAM, "train", run(TEAM, 2, 8, Some("600s"))).await?;
    members_run(&client, "train", 2).await?;
    wait::until("what was bought in vain is given back", BOUND, || async {
        let (claims, billed) = (claims_by_launch(&client).await?, billed(karpenter)?);
        Ok((claims.values().sum::<usize>() == 2 && billed.len() == 2).then_some(()))
    })
    .await?;
    ensure!(karpenter.lives()?.len() > 2, "the first launch met a fault");
    cluster.stop().await;
    Ok(())
}
