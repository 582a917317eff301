//! Priorities between teams: nobody gets the quota of another by calling work urgent.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::run::PriorityTier;
use api_types::{Queue, Run, RunPhase, RunSpec};
use e2e::objects::{create_lending_teams, create_run, h100_nodes, run};
use e2e::observe::{phase_reached, placed, run_status};
use e2e::wait;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};

/// A run on a whole node.
fn urgent(queue: &str) -> RunSpec {
    RunSpec { priority: PriorityTier::Production, ..run(queue, 1, 8, None) }
}

/// The most urgent work that a team's queue takes.
async fn set_highest_priority(client: &Client, queue: &str, tier: &str) -> anyhow::Result<()> {
    let queues: Api<Queue> = Api::all(client.clone());
    let patch = Patch::Merge(json!({ "spec": { "highestPriority": tier } }));
    queues.patch(queue, &PatchParams::default(), &patch).await.context("failed to set the tier")?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_that_calls_all_its_work_production_takes_only_what_others_borrow() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 3)).start().await?;
    let client = cluster.admin_client();
    let platform = Platform::debug(&cluster);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers = platform.controllers("controllers").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    // Of the third node nobody owns anything.
    create_lending_teams(&client, ("acme", 24), &[("speech", 8), ("nlp", 8)], 24, 0).await?;

    for name in ["first", "second", "third"] {
        create_run(&client, "speech", name, run("speech", 1, 8, None)).await?;
        phase_reached(&client, "speech", name, RunPhase::Running).await?;
    }
    for name in ["rob-1", "rob-2", "rob-3"] {
        create_run(&client, "nlp", name, urgent("nlp")).await?;
    }
    wait::until("what speech borrows is taken", wait::PATIENCE, || async {
        Ok((placed(&client, "nlp").await? == 2).then_some(()))
    })
    .await?;
    wait::holds("what speech owns stays with it", Duration::from_secs(5), || async {
        Ok(placed(&client, "speech").await? == 1 && placed(&client, "nlp").await? == 2)
    })
    .await?;

    set_highest_priority(&client, "nlp", "research").await?;
    let runs: Api<Run> = Api::namespaced(client.clone(), "nlp");
    let late = Run::new("late", urgent("nlp"));
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let refused = wait::until("no more production is admitted", wait::PATIENCE, || async {
        Ok(runs.create(&params, &late).await.err())
    })
    .await?;
    let said = refused.to_string();
    ensure!(said.contains("queue nlp takes no run above priority research"), "{said}");
    wait::until("the run that waits says so", wait::PATIENCE, || async {
        let mut waiting = None;
        for name in ["rob-1", "rob-2", "rob-3"] {
            let status = run_status(&client, "nlp", name).await?;
            waiting = waiting.or(status.reason.filter(|reason| reason == "PriorityTooHigh"));
        }
        Ok(waiting)
    })
    .await?;
    create_run(&client, "nlp", "modest", run("nlp", 1, 8, None)).await?;
    cluster.stop().await;
    Ok(())
}
