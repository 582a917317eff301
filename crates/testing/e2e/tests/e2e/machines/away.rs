//! Nothing can be bought, because buying is off or because nothing is offered: gangs that wait for machines say
//! so, and others are not affected.

use anyhow::ensure;
use api_types::RunSpec;
use e2e::machines::{Times, billed, claims_by_launch, machine_type, offer_with};
use e2e::objects::{create_run, h100_nodes, run};
use e2e::observe::{phase_reached, run_status};
use e2e::wait;
use kube::Client;
use test_cluster::TestCluster;
use test_cluster::karpenter::Offerings;

use super::{BOUND, TEAM, cluster_with, members_run, platform};

const MACHINE: &str = "p4d.24xlarge";
const TIMES: Times = Times { boot_seconds: 5, idle_seconds: 600 };

/// Of a type that no node has, but machines that can be bought.
fn of_a100s() -> RunSpec {
    RunSpec { gpu_type: Some("A100".to_owned()), ..run(TEAM, 2, 8, Some("600s")) }
}

/// One node of H100, and A100 to be bought, on demand in one zone.
async fn one_node_and_one_zone() -> anyhow::Result<TestCluster> {
    let cluster = cluster_with(h100_nodes("node", 1)).await?;
    let mut machine = machine_type(MACHINE, TIMES)?;
    machine.spec.offerings.retain(|it| it.zone == "zone-a" && it.capacity_type.as_str() == "on-demand");
    offer_with(&cluster.admin_client(), machine).await?;
    Ok(cluster)
}

/// Waits until the run says that no machines are bought for it, and why.
pub(super) async fn says_why(client: &Client, name: &str, words: &str) -> anyhow::Result<()> {
    wait::until(&format!("{name} says {words:?}"), BOUND, || async {
        let waiting = run_status(client, TEAM, name).await?.waiting.unwrap_or_default();
        let says = waiting.reasons.iter().any(|it| it.code == "NoMachines" && it.message.contains(words));
        Ok(says.then_some(()))
    })
    .await
}

/// A run on the node that is there starts as always.
async fn others_start(client: &Client) -> anyhow::Result<()> {
    create_run(client, TEAM, "other", run(TEAM, 1, 8, Some("2s"))).await?;
    phase_reached(client, TEAM, "other", api_types::RunPhase::Succeeded).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_karpenter_waiting_runs_say_so_others_start_and_it_goes_on_when_it_is_back()
-> anyhow::Result<()> {
    let cluster = one_node_and_one_zone().await?;
    let (client, karpenter) = (cluster.admin_client(), cluster.karpenter()?);
    let _platform = platform(&cluster).await?;
    karpenter.stop();
    create_run(&client, TEAM, "train", of_a100s()).await?;
    others_start(&client).await?;
    says_why(&client, "train", "does Karpenter run?").await?;
    wait::until("nothing is left on order", wait::PATIENCE, || async {
        Ok(claims_by_launch(&client).await?.is_empty().then_some(()))
    })
    .await?;
    karpenter.start_again().await?;
    members_run(&client, "train", 2).await?;
    ensure!(billed(karpenter)?.len() == 2, "{:?}", karpenter.lives()?);
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_to_be_had_is_said_and_nothing_is_paid_for() -> anyhow::Result<()> {
    let cluster = one_node_and_one_zone().await?;
    let (client, karpenter) = (cluster.admin_client(), cluster.karpenter()?);
    karpenter.stock_out(Offerings::of_type(MACHINE))?;
    let _platform = platform(&cluster).await?;
    create_run(&client, TEAM, "train", of_a100s()).await?;
    let too_large = RunSpec { gpu_type: Some("A100".to_owned()), ..run(TEAM, 2, 16, Some("600s")) };
    create_run(&client, TEAM, "too-large", too_large).await?;
    others_start(&client).await?;
    says_why(&client, "train", "was not available").await?;
    says_why(&client, "too-large", "no machine type suits even one of its members").await?;
    ensure!(karpenter.lives()?.is_empty(), "{:?}", karpenter.lives()?);
    cluster.stop().await;
    Ok(())
}
