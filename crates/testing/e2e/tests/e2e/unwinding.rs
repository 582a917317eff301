//! Gangs that cannot go on as they are give back their nodes. There is no kubelet here, not even a fake one:
//! bound pods never start, and never end.

use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::objects::{GangOfPods, create_namespace, create_queue, h100_nodes};
use e2e::observe::{bound, pods};
use e2e::wait;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use test_cluster::TestCluster;
use test_cluster::platform::{Platform, Service};

const TEAM: &str = "team";

/// A cluster of two nodes, a queue without bounds, and a scheduler that unwinds after 3 s.
async fn start() -> anyhow::Result<TestCluster> {
    let cluster = TestCluster::builder()
        .nodes(h100_nodes("node", 2))
        .without_kwok()
        .controller_manager_flag("--node-monitor-grace-period=10m")
        .start()
        .await?;
    let client = cluster.admin_client();
    create_namespace(&client, TEAM).await?;
    create_queue(&client, TEAM, None, &[], &[TEAM]).await?;
    Ok(cluster)
}

async fn scheduler(cluster: &TestCluster) -> anyhow::Result<Service> {
    let platform = Platform::debug(cluster);
    let mut scheduler = platform.scheduler_with("scheduler", &["--unwind-after=3s"]).await?;
    scheduler.ready().await?;
    Ok(scheduler)
}

fn gang(name: &str, members: u32, gpus: u32) -> GangOfPods<'_> {
    GangOfPods { namespace: TEAM, name, queue: TEAM, members, gpus, run_time: "1h" }
}

async fn all_bound(client: &Client, count: usize) -> anyhow::Result<()> {
    wait::until("all are bound", wait::PATIENCE, || async {
        Ok((bound(client, TEAM).await? == count).then_some(()))
    })
    .await
}

/// The sentence with which a pod was unwound.
async fn unwound(client: &Client, pod: &str) -> anyhow::Result<String> {
    let api: Api<Pod> = Api::namespaced(client.clone(), TEAM);
    wait::until(&format!("{pod} is unwound"), wait::PATIENCE, || async {
        let Some(pod) = api.get_opt(pod).await? else { anyhow::bail!("{pod} vanished untold") };
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        let told = conditions.into_iter().find(|it| it.type_ == "DisruptionTarget");
        let told = told.filter(|it| it.reason.as_deref() == Some("GangStartFailed"));
        Ok(told.filter(|_| pod.metadata.deletion_timestamp.is_some()).and_then(|it| it.message))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_in_part_whose_rest_finds_no_room_gives_back_what_it_has() -> anyhow::Result<()> {
    let cluster = start().await?;
    let client = cluster.admin_client();
    let _scheduler = scheduler(&cluster).await?;
    let whole = gang("whole", 2, 8);
    whole.create(&client).await?;
    all_bound(&client, 2).await?;

    // One member is lost, its node takes no pods any more, and the member comes anew.
    let nodes: Api<Node> = Api::all(client.clone());
    let all = pods(&client, TEAM).await?;
    let lost = all.first().context("a member")?;
    let node = lost.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("its node")?;
    let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    nodes.patch(&node, &PatchParams::default(), &cordon).await?;
    let api: Api<Pod> = Api::namespaced(client.clone(), TEAM);
    api.delete(&lost.name_any(), &DeleteParams::default().grace_period(0)).await?;
    let anew = whole.pods().into_iter().find(|pod| pod.name_any() == lost.name_any()).context("it")?;
    api.create(&PostParams::default(), &anew).await?;

    let left = all.last().context("the other member")?.name_any();
    let why = unwound(&client, &left).await?;
    ensure!(why.contains("1 of its members had a node") && why.contains("1 found no room"), "{why}");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_node_that_lost_gpus_the_newest_gang_that_has_not_started_goes() -> anyhow::Result<()> {
    let cluster = start().await?;
    let client = cluster.admin_client();
    let _scheduler = scheduler(&cluster).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let cordon = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    nodes.patch("node-1", &PatchParams::default(), &cordon).await?;
    for (number, name) in ["first", "second", "third"].into_iter().enumerate() {
        gang(name, 1, 2).create(&client).await?;
        all_bound(&client, number + 1).await?;
        // Bind times have whole seconds.
        wait::holds("a second passes", Duration::from_millis(1_100), || async { Ok(true) }).await?;
    }
    // The newest runs already, so the next newest has to go.
    let api: Api<Pod> = Api::namespaced(client.clone(), TEAM);
    let running = Patch::Merge(json!({ "status": { "phase": "Running" } }));
    api.patch_status("third-0", &PatchParams::default(), &running).await?;
    let fewer = Patch::Merge(json!({ "status": { "allocatable": { "nvidia.com/gpu": "4" } } }));
    nodes.patch_status("node-0", &PatchParams::default(), &fewer).await?;

    let why = unwound(&client, "second-0").await?;
    ensure!(why.contains("node-0"), "{why}");
    for pod in ["first-0", "third-0"] {
        ensure!(api.get(pod).await?.metadata.deletion_timestamp.is_none(), "{pod} stays");
    }
    cluster.stop().await;
    Ok(())
}
