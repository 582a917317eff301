//! What a new leader knows of the time before it.

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
    let mut first = platform.scheduler("first", LeaseTimes::Short, "").await?;
    first.ready().await?;
    create_namespace(&client, TEAM).await?;
    create_queue(&client, TEAM, None, &[], &[TEAM]).await?;
    let unused = wait::until("the queue has accounts", Duration::from_secs(20), || accounts(&client)).await?;
    let gang = GangOfPods { namespace: TEAM, name: "a", queue: TEAM, members: 1, gpus: 8, run_time: "1h" };
    gang.create(&client).await?;
    wait::until("it is bound", Duration::from_secs(20), || async {
        Ok((bound(&client, TEAM).await? == 1).then_some(()))
    })
    .await?;
    let started = Instant::now();
    let written = wait::until("the use is written down", Duration::from_secs(20), || async {
        Ok(accounts(&client).await?.filter(|it| it.since_unix_millis > unused.since_unix_millis))
    })
    .await?;
    wait::holds("numbers that anybody can reckon are not written", Duration::from_secs(8), || async {
        Ok(accounts(&client).await? == Some(written))
    })
    .await?;
    first.kill();

    let mut second = platform.scheduler("second", LeaseTimes::Short, "").await?;
    second.ready().await?;
    let pods_api: Api<Pod> = Api::namespaced(client.clone(), TEAM);
    pods_api.delete("a-0", &DeleteParams::default().grace_period(0)).await?;
    wait::until("the pod is gone", Duration::from_secs(20), || async {
        Ok(pods(&client, TEAM).await?.is_empty().then_some(()))
    })
    .await?;
    let used_seconds = started.elapsed().as_secs_f64();
    let last = wait::until("its end is written down", Duration::from_secs(20), || async {
        Ok(accounts(&client).await?.filter(|it| it.since_unix_millis > written.since_unix_millis))
    })
    .await?;
    #[expect(clippy::cast_precision_loss, reason = "some hundred GPU seconds")]
    let gpu_seconds = last.decayed_gpu_millis as f64 / 1000.0;
    println!("used 8 GPUs for {used_seconds:.1} s; written down: {gpu_seconds:.1} GPU seconds");
    let expected = 8.0 * used_seconds;
    // A few seconds for what the test itself sees late.
    ensure!((gpu_seconds - expected).abs() < 8.0 * 4.0, "{gpu_seconds} of {expected} GPU seconds");
    cluster.stop().await;
    Ok(())
}
