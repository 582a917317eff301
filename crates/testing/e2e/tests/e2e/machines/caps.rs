//! Caps on what is bought, and the off-switch.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::buying_policy::BuyingBounds;
use api_types::{Queue, names};
use e2e::claims::node_claims;
use e2e::machines::{Times, allow, billed, change_policy, claims_by_launch, machine_type, offer_with};
use e2e::objects::{create_run, run};
use e2e::wait;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use test_cluster::platform::{LeaseTimes, Platform};
use test_cluster::{FakeNodes, TestCluster};

use super::away::says_why;
use super::{BOUND, TEAM, cluster_with, members_run, platform};

const INSTANCE_TYPE: &str = "p5.48xlarge";
const TIMES: Times = Times { boot_seconds: 5, idle_seconds: 10 };
/// Longer than several decisions.
const QUIET: Duration = Duration::from_secs(8);

/// A cluster in which two machines may be bought at a time.
async fn two_machines() -> anyhow::Result<TestCluster> {
    let cluster = cluster_with(FakeNodes { count: 0, ..FakeNodes::default() }).await?;
    allow(&cluster.admin_client(), 2, "1000").await?;
    offer_with(&cluster.admin_client(), machine_type(INSTANCE_TYPE, TIMES)?).await?;
    Ok(cluster)
}

async fn bought(client: &Client) -> anyhow::Result<usize> {
    Ok(claims_by_launch(client).await?.values().sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_bought_than_the_policy_the_type_and_the_queue_allow() -> anyhow::Result<()> {
    let cluster = two_machines().await?;
    let client = cluster.admin_client();
    let _platform = platform(&cluster).await?;
    create_run(&client, TEAM, "large", run(TEAM, 3, 8, Some("600s"))).await?;
    says_why(
        &client,
        "large",
        "in the whole cluster 2 machines are allowed, 0 are there, and 3 would be needed",
    )
    .await?;
    create_run(&client, TEAM, "fits", run(TEAM, 2, 8, Some("600s"))).await?;
    members_run(&client, "fits", 2).await?;
    ensure!(bought(&client).await? == 2);

    // Money: two cost 110.08 an hour, five 275.20.
    change_policy(&client, json!({ "mostMachines": 100, "mostPerHour": "275.19" })).await?;
    says_why(&client, "large", "275.19 an hour are allowed, 110.08 are spent, and 165.12 would be needed")
        .await?;
    let types: Api<api_types::MachineType> = Api::all(client.clone());
    let name = INSTANCE_TYPE.replace('.', "-");
    let bounds = |most| {
        Patch::Merge(
            json!({ "spec": { "bounds": BuyingBounds { most_machines: most, most_per_hour: None } } }),
        )
    };
    types.patch(&name, &PatchParams::default(), &bounds(Some(4))).await?;
    change_policy(&client, json!({ "mostPerHour": "275.20" })).await?;
    says_why(&client, "large", "of type p5-48xlarge 4 machines are allowed").await?;
    let queues: Api<Queue> = Api::all(client.clone());
    let machines = |most| Patch::Merge(json!({ "spec": { "machines": { "mostMachines": most } } }));
    queues.patch(TEAM, &PatchParams::default(), &machines(4)).await?;
    types.patch(&name, &PatchParams::default(), &Patch::Merge(json!({ "spec": { "bounds": null } }))).await?;
    says_why(&client, "large", "for queue nlp 4 machines are allowed").await?;
    ensure!(bought(&client).await? == 2, "nothing more was bought");
    queues.patch(TEAM, &PatchParams::default(), &machines(5)).await?;
    members_run(&client, "large", 3).await?;
    ensure!(bought(&client).await? == 5);
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn while_buying_is_paused_nothing_is_bought_and_what_nobody_uses_is_given_back() -> anyhow::Result<()> {
    let cluster = two_machines().await?;
    let (client, karpenter) = (cluster.admin_client(), cluster.karpenter()?);
    let (mut scheduler, _controllers) = platform(&cluster).await?;
    create_run(&client, TEAM, "first", run(TEAM, 2, 8, Some("5s"))).await?;
    members_run(&client, "first", 2).await?;
    change_policy(&client, json!({ "paused": true })).await?;
    wait::until("the machines are given back", BOUND, || async {
        Ok((bought(&client).await? == 0 && billed(karpenter)?.is_empty()).then_some(()))
    })
    .await?;
    create_run(&client, TEAM, "second", run(TEAM, 2, 8, Some("600s"))).await?;
    says_why(&client, "second", "buying is paused by the BuyingPolicy").await?;
    wait::holds("nothing is bought", QUIET, || async { Ok(bought(&client).await? == 0) }).await?;
    change_policy(&client, json!({ "paused": false })).await?;
    members_run(&client, "second", 2).await?;

    // A scheduler that buys nothing still gives back what an earlier one bought.
    scheduler.kill();
    let platform = Platform::debug(&cluster);
    let mut buys_nothing = platform.scheduler("buys-nothing", LeaseTimes::Patient, "").await?;
    buys_nothing.ready().await?;
    let runs: Api<api_types::Run> = Api::namespaced(client.clone(), TEAM);
    let stop = Patch::Merge(json!({ "spec": { "stop": true } }));
    runs.patch("second", &PatchParams::default(), &stop).await?;
    wait::until("these machines are given back as well", BOUND, || async {
        Ok((bought(&client).await? == 0 && billed(karpenter)?.is_empty()).then_some(()))
    })
    .await?;
    drop(buys_nothing);
    change_policy(&client, json!({ "paused": true })).await?;
    the_api_server_refuses_orders(&cluster).await?;
    cluster.stop().await;
    Ok(())
}

/// The API server itself refuses an order while buying is paused, whatever the scheduler believes. Without the fence, which
/// would refuse it first.
async fn the_api_server_refuses_orders(cluster: &TestCluster) -> anyhow::Result<()> {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(cluster.admin_client());
    bindings.delete("warpyard-fence", &DeleteParams::default()).await?;
    let kubeconfig = cluster
        .kubeconfig_for_service_account(names::SYSTEM_NAMESPACE, names::SCHEDULER_SERVICE_ACCOUNT)
        .await?;
    let scheduler = cluster.client_for(&kubeconfig).await?;
    let claim: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": { "name": "by-hand", "labels": { names::LAUNCH_LABEL: "by-hand-1" } },
        "spec": {
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" },
            "requirements": [],
        },
    }))?;
    wait::until("the off-switch refuses it", wait::PATIENCE, || async {
        let refused = node_claims(&scheduler).create(&PostParams::default(), &claim).await;
        let error = refused.err().context("the order went through")?.to_string();
        Ok(error.contains("buying is paused").then_some(()))
    })
    .await
}
