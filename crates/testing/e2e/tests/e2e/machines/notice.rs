//! The cloud takes back a machine that was bought for a gang.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::run::AttemptOutcome;
use api_types::{RunSpec, names};
use e2e::machines::billed;
use e2e::objects::{create_run, run};
use e2e::observe::{node_of, pods, run_status};
use e2e::wait;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};

use super::{BOUND, TEAM, members_run, start};

const NOTICE: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_whose_machine_is_taken_back_leaves_within_the_notice_and_goes_on_on_another()
-> anyhow::Result<()> {
    let (cluster, _scheduler, _controllers) = start().await?;
    let (client, karpenter) = (cluster.admin_client(), cluster.karpenter()?);
    let spec = run(TEAM, 2, 8, Some("600s"));
    create_run(&client, TEAM, "train", RunSpec { spot: Some(true), grace_seconds: Some(2), ..spec }).await?;
    members_run(&client, "train", 2).await?;
    let bought = billed(karpenter)?;
    ensure!(
        bought.iter().all(|it| it.offer.capacity_type == "spot"),
        "the cheapest for who asks: {bought:?}"
    );
    wait::until("its machines are ordinary ones", BOUND, || async {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
        let is_kept = |node: &Node| {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
            taints.is_some_and(|taints| taints.iter().any(|taint| taint.key == names::FOR_GANG_TAINT))
        };
        Ok((!nodes.iter().any(is_kept)).then_some(()))
    })
    .await?;
    let first = pods(&client, TEAM).await?;
    let struck = first.first().and_then(node_of).context("its first member has a node")?.to_owned();
    let deadline = karpenter.notice(&struck, NOTICE).await?;
    let status = wait::until("it goes on", BOUND, || async {
        let status = run_status(&client, TEAM, "train").await?;
        Ok((status.attempts.len() == 2 && status.members.running == 2).then_some(status))
    })
    .await?;
    let ended = &status.attempts[0];
    ensure!(ended.outcome == Some(AttemptOutcome::Interrupted), "{ended:?}");
    ensure!(ended.ended_at.as_ref().is_some_and(|at| at.0 <= deadline), "it left in time: {ended:?}");
    let now = pods(&client, TEAM).await?;
    let runs = now.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    ensure!(runs.filter_map(node_of).all(|node| node != struck), "{struck} is leaving");
    wait::until("two machines are paid for, and not that one", BOUND, || async {
        let billed = billed(karpenter)?;
        Ok((billed.len() == 2 && billed.iter().all(|life| life.node != struck)).then_some(()))
    })
    .await?;
    let lives = karpenter.lives()?;
    ensure!(lives.len() == 3, "one machine was replaced by one: {lives:?}");
    cluster.stop().await;
    Ok(())
}
