//! The knowledge that a new leader takes over.

use std::time::{Duration, Instant};

use anyhow::ensure;
use api_types::Queue;
use api_types::queue::QueueAccounts;
use e2e::objects::{GangOfPods, create_namespace, create_queue, h100_nodes};
use e2e::observe::{bound, pods};
use e2e::wait;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, DeleteParams};
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};

const TEAM: &str = "team";

async fn accounts(client: &Client) -> anyhow::Result<Option<QueueAccounts>> {
    let queues: Api<Queue> = Api::all(client.clone());
    Ok(queues.get(TEAM).await?.status.and_then(|status| status.accounts))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_queue_used_survives_the_leader_that_saw_it() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 1)).start().await?;
    let client = cluster.admin_client();
    let platform = Platform::debug(&cluster);
    let mut first = platform.scheduler("first", LeaseTimes::Medium, "").await?;
    first.ready().await?;
    create_namespace(&client, TEAM).await?;
    create_queue(&client, TEAM, None, &[], &[TEAM]).await?;
    let unused = wait::until("the queue has accounts", wait::PATIENCE, || accounts(&client)).await?;
    let gang = GangOfPods { namespace: TEAM, name: "a", queue: TEAM, members: 1, gpus: 8, run_time: "1h" };
    let created = Instant::now();
    gang.create(&client).await?;
    wait::until("it is bound", wait::PATIENCE, || async {
        Ok((bound(&client, TEAM).await? == 1).then_some(()))
    })
    .await?;
    let seen_bound = Instant::now();
    let written = wait::until("the use is written down", wait::PATIENCE, || async {
        Ok(accounts(&client).await?.filter(|it| it.since_unix_millis > unused.since_unix_millis))
    })
    .await?;
    wait::holds("numbers that anybody can reckon are not written", Duration::from_secs(8), || async {
        Ok(accounts(&client).await? == Some(written))
    })
    .await?;
    first.kill();

    let mut second = platform.scheduler("second", LeaseTimes::Medium, "").await?;
    second.ready().await?;
    let pods_api: Api<Pod> = Api::namespaced(client.clone(), TEAM);
    let used_at_least = seen_bound.elapsed().as_secs_f64();
    pods_api.delete("a-0", &DeleteParams::default().grace_period(0)).await?;
    wait::until("the pod is gone", wait::PATIENCE, || async {
        Ok(pods(&client, TEAM).await?.is_empty().then_some(()))
    })
    .await?;
    let last = wait::until("its end is written down", wait::PATIENCE, || async {
        Ok(accounts(&client).await?.filter(|it| it.since_unix_millis > written.since_unix_millis))
    })
    .await?;
    #[expect(clippy::cast_precision_loss, reason = "some hundred GPU seconds")]
    let gpu_seconds = last.decayed_gpu_millis as f64 / 1000.0;
    let used_at_most = created.elapsed().as_secs_f64();
    println!(
        "used 8 GPUs for {used_at_least:.1} s to {used_at_most:.1} s; written: {gpu_seconds:.1} GPU seconds"
    );
    // Use fades with a half-life of days.
    let expected = 8.0 * used_at_least * 0.99..8.0 * used_at_most;
    ensure!(expected.contains(&gpu_seconds), "{gpu_seconds} of {expected:?} GPU seconds");
    cluster.stop().await;
    Ok(())
}
