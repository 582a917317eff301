//! Gangs and quota, from a Run to bound pods.

use std::time::Duration;

use anyhow::ensure;
use api_types::{Run, RunPhase};
use e2e::objects::{create_namespace, create_queue, create_run, h100_nodes, run};
use e2e::observe::{bound, phase_reached, pods};
use e2e::wait;
use kube::api::Api;
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_without_room_for_all_holds_nothing_and_blocks_nobody() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 4)).start().await?;
    let client = cluster.admin_client();
    let platform = Platform::debug(&cluster);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers = platform.controllers("controllers").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    for team in ["nlp", "vision"] {
        create_namespace(&client, team).await?;
        create_queue(&client, team, None, &[("H100", 64)], &[team]).await?;
    }

    // One of the four nodes is half taken, so that three are free. By a run, because pods without a priority give way to
    // runs.
    create_run(&client, "vision", "squatter", run("vision", 1, 4, Some("1h"))).await?;
    wait::until("the half node is taken", wait::PATIENCE, || async {
        Ok((bound(&client, "vision").await? == 1).then_some(()))
    })
    .await?;

    create_run(&client, "nlp", "big", run("nlp", 4, 8, None)).await?;
    wait::until("all members of the gang exist", wait::PATIENCE, || async {
        Ok((pods(&client, "nlp").await?.len() == 4).then_some(()))
    })
    .await?;
    create_run(&client, "vision", "small", run("vision", 1, 1, None)).await?;
    let (held, started) = tokio::join!(
        wait::holds("nothing of the gang is bound", Duration::from_secs(20), || async {
            Ok(bound(&client, "nlp").await? == 0)
        }),
        phase_reached(&client, "vision", "small", RunPhase::Running),
    );
    held?;
    started?;

    cluster.add_fake_nodes(&h100_nodes("late", 1)).await?;
    phase_reached(&client, "nlp", "big", RunPhase::Running).await?;
    ensure!(bound(&client, "nlp").await? == 4, "all four members have a node");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_at_its_quota_waits_and_why_names_the_numbers() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 4)).start().await?;
    let client = cluster.admin_client();
    let platform = Platform::debug(&cluster);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers = platform.controllers("controllers").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    create_namespace(&client, "nlp").await?;
    create_queue(&client, "acme", None, &[("H100", 32)], &[]).await?;
    create_queue(&client, "nlp", Some("acme"), &[("H100", 12)], &["nlp"]).await?;

    create_run(&client, "nlp", "first", run("nlp", 1, 8, None)).await?;
    phase_reached(&client, "nlp", "first", RunPhase::Running).await?;
    create_run(&client, "nlp", "second", run("nlp", 1, 8, None)).await?;
    let reason = wait::until("the second run says why it waits", wait::PATIENCE, || async {
        let runs: Api<Run> = Api::namespaced(client.clone(), "nlp");
        let status = runs.get("second").await?.status.unwrap_or_default();
        Ok(status
            .waiting
            .and_then(|waiting| waiting.reasons.into_iter().find(|reason| reason.code == "QuotaExceeded")))
    })
    .await?;
    ensure!(
        reason.queue.as_deref() == Some("nlp") && reason.resource.as_deref() == Some("H100"),
        "{reason:?}"
    );
    let numbers: Vec<_> = reason.numbers.iter().map(|it| (it.label.as_str(), it.value)).collect();
    ensure!(numbers == [("requests", 8), ("queue holds", 8), ("queue may hold", 12)], "{reason:?}");
    ensure!(reason.message == "queue nlp holds 8 of 12 H100; requests 8", "{reason:?}");
    ensure!(bound(&client, "nlp").await? == 1, "only the first run holds GPUs");

    // The same from the user's side, and in kubectl's words.
    let kubectl = std::process::Command::new(cluster.kubectl()?)
        .args(["--kubeconfig".as_ref(), cluster.admin_kubeconfig().as_os_str()])
        .args(["get", "runs,queues", "-n", "nlp"])
        .output()?;
    let table = String::from_utf8(kubectl.stdout)?;
    println!("{table}");
    ensure!(table.contains("QuotaExceeded"), "kubectl shows why: {table}");

    let queues: Api<api_types::Queue> = Api::all(client.clone());
    wait::until("the queues show what is held, up the tree", wait::PATIENCE, || async {
        let mut used = Vec::new();
        for name in ["acme", "nlp"] {
            used.push(queues.get(name).await?.status.map(|status| (status.gpus_used, status.gangs_waiting)));
        }
        Ok((used == [Some((8, 1)), Some((8, 1))]).then_some(()))
    })
    .await?;
    cluster.stop().await;
    Ok(())
}
