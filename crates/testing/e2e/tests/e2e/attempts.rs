//! A run goes on in another attempt: after a notice, a pause, a failure; and attempts never overlap.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::run::{Attempt, AttemptOutcome};
use api_types::{Run, RunPhase, RunStatus, names};
use e2e::objects::{annotation, create_namespace, create_queue, create_run, h100_nodes, run};
use e2e::observe::{node_of, phase_reached, pods, run_status};
use e2e::{bounds, wait};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform, Service};

const NAMESPACE: &str = "nlp";

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_tells_all_members_at_once_and_the_run_goes_on_elsewhere() -> anyhow::Result<()> {
    let (cluster, _services) = yard().await?;
    let client = cluster.admin_client();
    create_run(&client, NAMESPACE, "train", run("nlp", 3, 8, None)).await?;
    phase_reached(&client, NAMESPACE, "train", RunPhase::Running).await?;
    let members = pods(&client, NAMESPACE).await?;
    let node = node_of(&members[1]).context("member 1 has a node")?.to_owned();

    let began = Instant::now();
    taint(&client, &node, &json!([{ "key": names::LEAVING_TAINT, "value": "spot", "effect": "NoSchedule" }]))
        .await?;
    wait::until("all members are told", wait::PATIENCE, || async {
        let left = pods(&client, NAMESPACE).await?;
        let is_running = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none();
        Ok((of_attempt(&left, 1).filter(is_running).count() == 0).then_some(()))
    })
    .await?;
    let told = began.elapsed();
    ensure!(told <= bounds::MEMBERS_TOLD.allowed(), "all members were told after {told:?}");

    let status = attempt_runs(&client, "train", 2).await?;
    let first = &status.attempts[0];
    ensure!(end_of(first) == (Some(AttemptOutcome::Interrupted), Some("SpotNotice")), "{first:?}");
    ensure!(first.message.as_ref().is_some_and(|message| message.contains(&node)), "{first:?}");
    ensure!(first.told_at.is_some() && first.started_at.is_some() && first.ended_at.is_some(), "{first:?}");
    ensure!(status.failures == 0, "a notice costs no retry");
    let now = pods(&client, NAMESPACE).await?;
    ensure!(of_attempt(&now, 1).all(has_ended), "attempts never overlap");
    ensure!(of_attempt(&now, 2).all(|pod| node_of(pod) != Some(&node)), "not on the machine that goes");
    println!("attempts.taint_to_told_seconds {:.3}", told.as_secs_f64());
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_paused_resumed_from_a_step_and_tried_again_after_failures() -> anyhow::Result<()> {
    let (cluster, _services) = yard().await?;
    let client = cluster.admin_client();
    let mut spec = run("nlp", 2, 8, None);
    spec.checkpoint = Some(api_types::run::CheckpointVolume { claim: "checkpoints".to_owned() });
    create_run(&client, NAMESPACE, "rests", spec).await?;
    phase_reached(&client, NAMESPACE, "rests", RunPhase::Running).await?;
    change(&client, "rests", json!({ "pause": true })).await?;
    let paused = phase_reached(&client, NAMESPACE, "rests", RunPhase::Paused).await?;
    ensure!(end_of(&paused.attempts[0]) == (Some(AttemptOutcome::Interrupted), Some("Paused")), "{paused:?}");
    let held = pods(&client, NAMESPACE).await?;
    ensure!(held.iter().all(has_ended), "a paused run holds nothing");
    change(&client, "rests", json!({ "pause": false, "restarts": 1, "resumeStep": 120 })).await?;
    let status = attempt_runs(&client, "rests", 2).await?;
    ensure!(status.attempts[1].resume_step == Some(120), "{status:?}");
    let members = pods(&client, NAMESPACE).await?;
    let member = of_attempt(&members, 2).next().context("attempt 2 has members")?;
    ensure!(
        variable(member, "WARPYARD_RESUME_STEP").as_deref() == Some("120"),
        "the member is told the step"
    );
    change(&client, "rests", json!({ "stop": true })).await?;
    phase_reached(&client, NAMESPACE, "rests", RunPhase::Stopped).await?;

    let mut spec = run("nlp", 2, 1, Some("1s"));
    spec.annotations.push(annotation(names::FAKE_EXIT_CODE_ANNOTATION, "3"));
    spec.retries = 1;
    create_run(&client, NAMESPACE, "fails", spec.clone()).await?;
    let status = phase_reached(&client, NAMESPACE, "fails", RunPhase::Failed).await?;
    ensure!((status.attempts.len(), status.failures) == (2, 2), "one retry: {status:?}");
    change(&client, "fails", json!({ "restarts": 1 })).await?;
    wait::until("it was tried again on request", Duration::from_mins(1), || async {
        let status = run_status(&client, NAMESPACE, "fails").await?;
        Ok((status.phase == RunPhase::Failed && status.attempts.len() == 4).then_some(()))
    })
    .await?;
    spec.fail_on = vec![3];
    create_run(&client, NAMESPACE, "fails-at-once", spec).await?;
    let status = phase_reached(&client, NAMESPACE, "fails-at-once", RunPhase::Failed).await?;
    ensure!(status.attempts.len() == 1, "its exit code is in failOn: {status:?}");
    cluster.stop().await;
    Ok(())
}

async fn yard() -> anyhow::Result<(TestCluster, [Service; 2])> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 4)).start().await?;
    let client = cluster.admin_client();
    create_namespace(&client, NAMESPACE).await?;
    create_queue(&client, "nlp", None, &[("H100", 64)], &[NAMESPACE]).await?;
    let platform = Platform::debug(&cluster);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers = platform.controllers("controllers").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    Ok((cluster, [scheduler, controllers]))
}

/// Waits until attempt `number` runs.
async fn attempt_runs(client: &Client, name: &str, number: usize) -> anyhow::Result<RunStatus> {
    wait::until(&format!("attempt {number} of {name} runs"), Duration::from_mins(1), || async {
        let status = run_status(client, NAMESPACE, name).await?;
        let runs = status.phase == RunPhase::Running && status.attempts.len() == number;
        Ok(runs.then_some(status))
    })
    .await
}

async fn change(client: &Client, name: &str, spec: Value) -> anyhow::Result<()> {
    let runs: Api<Run> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({ "spec": spec }));
    runs.patch(name, &PatchParams::default(), &patch)
        .await
        .with_context(|| format!("failed to change {name}"))?;
    Ok(())
}

async fn taint(client: &Client, node: &str, taints: &Value) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({ "spec": { "taints": taints } }));
    nodes.patch(node, &PatchParams::default(), &patch).await.context("failed to taint a node")?;
    Ok(())
}

fn end_of(attempt: &Attempt) -> (Option<AttemptOutcome>, Option<&str>) {
    (attempt.outcome, attempt.reason.as_deref())
}

fn of_attempt(pods: &[Pod], number: u32) -> impl Iterator<Item = &Pod> {
    let number = number.to_string();
    pods.iter().filter(move |pod| pod.labels().get(names::ATTEMPT_LABEL) == Some(&number))
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn variable(pod: &Pod, name: &str) -> Option<String> {
    let container = pod.spec.as_ref()?.containers.first()?;
    container.env.as_ref()?.iter().find(|variable| variable.name == name)?.value.clone()
}
