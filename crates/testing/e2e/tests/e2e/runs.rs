//! A Run's status is right whatever happens to its Job, even while the controller is down.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::run::AttemptOutcome;
use api_types::{RunPhase, names};
use e2e::objects::{annotation, create_namespace, create_queue, create_run, h100_nodes, run};
use e2e::observe::{node_of, phase_reached, pods, run_status};
use e2e::wait;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt};
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform, Service};

const NAMESPACE: &str = "nlp";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_ends_or_vanishes_while_the_controller_is_down_is_told_truly_and_never_run_twice()
-> anyhow::Result<()> {
    let (cluster, mut scheduler) = yard(4).await?;
    let client = cluster.admin_client();
    let platform = Platform::debug(&cluster);
    let mut controllers = platform.controllers("controllers-1").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    create_run(&client, NAMESPACE, "finishes", run("nlp", 2, 1, Some("20s"))).await?;
    create_run(&client, NAMESPACE, "vanishes", run("nlp", 2, 1, None)).await?;
    create_run(&client, NAMESPACE, "ends-and-vanishes", run("nlp", 1, 1, Some("20s"))).await?;
    for name in ["finishes", "vanishes", "ends-and-vanishes"] {
        phase_reached(&client, NAMESPACE, name, RunPhase::Running).await?;
    }

    controllers.kill();
    for name in ["finishes-1", "ends-and-vanishes-1"] {
        job_finished(&client, name).await?;
    }
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    for name in ["vanishes-1", "ends-and-vanishes-1"] {
        jobs.delete(name, &DeleteParams::background())
            .await
            .context("failed to delete a Job from outside")?;
    }
    let mut controllers = platform.controllers("controllers-2").await?;
    controllers.ready().await?;

    for (name, phase, outcome) in [
        ("finishes", RunPhase::Succeeded, AttemptOutcome::Succeeded),
        ("vanishes", RunPhase::Failed, AttemptOutcome::Deleted),
        ("ends-and-vanishes", RunPhase::Succeeded, AttemptOutcome::Succeeded),
    ] {
        let status = phase_reached(&client, NAMESPACE, name, phase).await?;
        let outcomes: Vec<_> = status.attempts.iter().map(|attempt| attempt.outcome).collect();
        ensure!(outcomes == [Some(outcome)], "{name}: one attempt, {outcome:?}; but {outcomes:?}");
    }
    // Deleted objects go, and nothing comes back: only the record of the finished Job stays.
    let only_the_record_is_left = async || -> anyhow::Result<bool> {
        let alive: Vec<_> =
            jobs.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        let unfinished = pods(&client, NAMESPACE).await?.iter().filter(|pod| !is_finished(pod)).count();
        Ok(alive == ["finishes-1"] && unfinished == 0)
    };
    wait::until("what was deleted is gone", wait::PATIENCE, || async {
        Ok(only_the_record_is_left().await?.then_some(()))
    })
    .await?;
    wait::holds("nothing is run again", Duration::from_secs(8), only_the_record_is_left).await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_tells_of_failed_members_lost_nodes_stops_and_deletions() -> anyhow::Result<()> {
    let (cluster, mut scheduler) = yard(4).await?;
    let client = cluster.admin_client();
    let mut controllers = Platform::debug(&cluster).controllers("controllers").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;

    let mut failing = run("nlp", 2, 1, Some("2s"));
    failing.annotations.push(annotation(names::FAKE_EXIT_CODE_ANNOTATION, "3"));
    create_run(&client, NAMESPACE, "fails", failing).await?;
    let status = phase_reached(&client, NAMESPACE, "fails", RunPhase::Failed).await?;
    let message = status.message.context("a failed run says why")?;
    ensure!(message.contains("exited with 3"), "the message names the exit code: {message}");

    create_run(&client, NAMESPACE, "loses-a-node", run("nlp", 2, 8, None)).await?;
    phase_reached(&client, NAMESPACE, "loses-a-node", RunPhase::Running).await?;
    let all = pods(&client, NAMESPACE).await?;
    let lost =
        all.iter().find(|pod| pod.name_any().starts_with("loses-a-node-1-0")).context("member 0 exists")?;
    cluster.remove_node(node_of(lost).context("member 0 has a node")?).await?;
    wait::until("the run goes on, in a second attempt", Duration::from_secs(90), || async {
        let status = run_status(&client, NAMESPACE, "loses-a-node").await?;
        Ok((status.attempts.len() == 2 && status.phase == RunPhase::Running).then_some(()))
    })
    .await?;
    let status = run_status(&client, NAMESPACE, "loses-a-node").await?;
    let first = &status.attempts[0];
    let told = (first.outcome, first.reason.as_deref());
    ensure!(told == (Some(AttemptOutcome::Interrupted), Some("NodeLost")), "a lost node is told: {first:?}");
    ensure!(status.failures == 0, "and costs no retry: {status:?}");

    let runs: Api<api_types::Run> = Api::namespaced(client.clone(), NAMESPACE);
    let stop = kube::api::Patch::Merge(serde_json::json!({"spec": {"stop": true}}));
    runs.patch("loses-a-node", &kube::api::PatchParams::default(), &stop).await?;
    phase_reached(&client, NAMESPACE, "loses-a-node", RunPhase::Stopped).await?;
    wait::until("a stopped run holds no node", wait::PATIENCE, || async {
        let alive = pods(&client, NAMESPACE).await?.iter().filter(|pod| !is_finished(pod)).count();
        Ok((alive == 0).then_some(()))
    })
    .await?;

    runs.delete("loses-a-node", &DeleteParams::default()).await?;
    wait::until("a deleted run leaves nothing behind", wait::PATIENCE, || async {
        let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
        let gone =
            runs.get_opt("loses-a-node").await?.is_none() && jobs.get_opt("loses-a-node-2").await?.is_none();
        Ok(gone.then_some(()))
    })
    .await?;
    ensure!(
        run_status(&client, NAMESPACE, "fails").await?.phase == RunPhase::Failed,
        "another run's record stays"
    );
    cluster.stop().await;
    Ok(())
}

async fn yard(nodes: usize) -> anyhow::Result<(TestCluster, Service)> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", nodes)).start().await?;
    let client = cluster.admin_client();
    create_namespace(&client, NAMESPACE).await?;
    create_queue(&client, "nlp", None, &[("H100", 64)], &[NAMESPACE]).await?;
    let scheduler = Platform::debug(&cluster).scheduler("scheduler", LeaseTimes::Patient, "").await?;
    Ok((cluster, scheduler))
}

async fn job_finished(client: &Client, name: &str) -> anyhow::Result<()> {
    let jobs: Api<Job> = Api::namespaced(client.clone(), NAMESPACE);
    wait::until(&format!("Job {name} has finished"), wait::PATIENCE, || async {
        let conditions =
            jobs.get(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        let finished =
            conditions.iter().any(|condition| condition.type_ == "Complete" && condition.status == "True");
        Ok(finished.then_some(()))
    })
    .await
}

fn is_finished(pod: &k8s_openapi::api::core::v1::Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
