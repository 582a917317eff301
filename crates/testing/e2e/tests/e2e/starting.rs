//! Members that do not start, and one without memory. Fake nodes hold the pods, and the tests say what a kubelet
//! would say.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api_types::run::{Attempt, AttemptOutcome};
use api_types::{RunPhase, RunSpec, RunStatus, names};
use e2e::objects::{annotation, create_namespace, create_queue, create_run, h100_nodes, run};
use e2e::observe::{bound, phase_reached, pods, run_status};
use e2e::{bounds, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use test_cluster::platform::{LeaseTimes, Platform, Service};
use test_cluster::{RealNode, TestCluster};

const TEAM: &str = "nlp";
const IMAGE: &str = "registry.example.com/nlp/train:1";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_image_is_not_there_fails_soon_with_the_registrys_words() -> anyhow::Result<()> {
    let (cluster, _services) = yard().await?;
    let client = cluster.admin_client();
    let member = bound_and_held(&client, RunSpec { retries: 3, ..held() }).await?;
    let began = Instant::now();
    pull_fails(&client, &member, &format!("{IMAGE}: not found")).await?;
    let status = phase_reached(&client, TEAM, "train", RunPhase::Failed).await?;
    let took = began.elapsed();
    ensure!(took <= bounds::IMAGE_FAULT_ENDED.allowed(), "it failed after {took:?}");
    ensure!(status.reason.as_deref() == Some("ImageNotFound"), "{status:?}");
    let message = status.message.clone().unwrap_or_default();
    ensure!(message.contains(&format!("cannot get its image: {IMAGE}: not found; push")), "{message}");
    ensure!(status.attempts.len() == 1, "no retry would help: {status:?}");
    println!("starting.image_fault_to_failed_seconds {:.3}", took.as_secs_f64());
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_away_for_a_while_fails_no_run() -> anyhow::Result<()> {
    let (cluster, _services) = yard().await?;
    let client = cluster.admin_client();
    let member = bound_and_held(&client, held()).await?;
    let away =
        "unexpected status from HEAD request to https://registry.example.com/v2/: 503 Service Unavailable";
    pull_fails(&client, &member, away).await?;
    wait::until("the run says what the registry said", wait::PATIENCE, || async {
        let status = run_status(&client, TEAM, "train").await?;
        let said = status.message.as_ref().is_some_and(|message| message.contains("503 Service Unavailable"));
        Ok((said && status.phase == RunPhase::Starting).then_some(()))
    })
    .await?;
    wait::holds("nobody is told to leave", Duration::from_secs(5), || async {
        Ok(run_status(&client, TEAM, "train").await?.attempts[0].told_at.is_none())
    })
    .await?;
    for pod in pods(&client, TEAM).await? {
        release(&client, &pod.name_any()).await?;
    }
    let status = phase_reached(&client, TEAM, "train", RunPhase::Running).await?;
    ensure!((status.attempts.len(), status.failures, status.reason.clone()) == (1, 0, None), "{status:?}");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_start_is_free_once_and_ends_the_run_the_second_time() -> anyhow::Result<()> {
    let (cluster, _services) = yard().await?;
    let client = cluster.admin_client();
    bound_and_held(&client, RunSpec { start_deadline_seconds: Some(10), ..held() }).await?;
    let status = phase_reached(&client, TEAM, "train", RunPhase::Failed).await?;
    let ends: Vec<_> = status.attempts.iter().map(end_of).collect();
    let late = Some("StartDeadlineExceeded");
    let expected = [(Some(AttemptOutcome::Interrupted), late), (Some(AttemptOutcome::Failed), late)];
    ensure!(ends == expected, "{status:?}");
    ensure!((status.failures, status.reason.as_deref()) == (1, late), "{status:?}");
    ensure!(waited_seconds(&status) >= 10, "the second one had its whole time too: {status:?}");
    let message = status.message.unwrap_or_default();
    ensure!(message.contains("did not start within 10 s") && message.contains("node-"), "{message}");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_killed_for_its_memory_fails_its_run_and_names_the_limit() -> anyhow::Result<()> {
    let (cluster, _services) = yard().await?;
    let client = cluster.admin_client();
    create_run(&client, TEAM, "train", RunSpec { memory: Some("64Gi".to_owned()), ..run(TEAM, 2, 8, None) })
        .await?;
    phase_reached(&client, TEAM, "train", RunPhase::Running).await?;
    let member = pods(&client, TEAM).await?.first().context("a member")?.name_any();
    let now = jiff::Timestamp::now().to_string();
    let killed = json!({ "exitCode": 137, "reason": "OOMKilled", "startedAt": now, "finishedAt": now });
    let status =
        json!({ "phase": "Failed", "containerStatuses": [container(&json!({ "terminated": killed }))] });
    change_status(&client, &member, status).await?;
    let status = phase_reached(&client, TEAM, "train", RunPhase::Failed).await?;
    ensure!(status.reason.as_deref() == Some("OutOfMemory"), "{status:?}");
    let message = status.message.unwrap_or_default();
    ensure!(message.contains("its limit is 64Gi; set a larger `memory`"), "{message}");
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_kubelet_has_the_words_that_we_read() -> anyhow::Result<()> {
    let cluster = TestCluster::builder()
        .real_nodes()
        .without_kwok()
        .controller_manager_flag("--node-monitor-grace-period=10m")
        .start()
        .await?;
    let _services = platform(&cluster).await?;
    let client = cluster.admin_client();
    cluster.add_real_node(RealNode { gpus: 2, ..RealNode::default() }).await?;
    let of = |image: &str| RunSpec { image: image.to_owned(), ..run(TEAM, 1, 1, None) };
    create_run(&client, TEAM, "typo", of("registry.example.com/Nlp/Train:1")).await?;
    create_run(&client, TEAM, "away", of(IMAGE)).await?;
    let typo = phase_reached(&client, TEAM, "typo", RunPhase::Failed).await?;
    ensure!(typo.reason.as_deref() == Some("InvalidImage"), "{typo:?}");
    let words = typo.message.unwrap_or_default();
    ensure!(words.contains("invalid reference format") && words.contains("correct `image`"), "{words}");
    // Nodes of tests reach no network, so the registry has no address.
    for reason in ["ErrImagePull", "ImagePullBackOff"] {
        let words = wait::until(&format!("the kubelet says {reason}"), wait::PATIENCE, || async {
            let status = run_status(&client, TEAM, "away").await?;
            ensure!(status.attempts.iter().all(|attempt| attempt.told_at.is_none()), "{status:?}");
            Ok(status.message.filter(|_| status.reason.as_deref() == Some(reason)))
        })
        .await?;
        ensure!(words.contains("dial tcp") && !words.contains("failed to pull"), "{words}");
    }
    cluster.stop().await;
    Ok(())
}

async fn yard() -> anyhow::Result<(TestCluster, [Service; 2])> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 2)).start().await?;
    let services = platform(&cluster).await?;
    Ok((cluster, services))
}

async fn platform(cluster: &TestCluster) -> anyhow::Result<[Service; 2]> {
    let client = cluster.admin_client();
    create_namespace(&client, TEAM).await?;
    create_queue(&client, TEAM, None, &[("H100", 16)], &[TEAM]).await?;
    let platform = Platform::debug(cluster);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers = platform.controllers("controllers").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    Ok([scheduler, controllers])
}

/// A run of two members that no fake kubelet starts.
fn held() -> RunSpec {
    let annotations = vec![annotation(names::FAKE_HELD_ANNOTATION, "yes")];
    RunSpec { image: IMAGE.to_owned(), annotations, ..run(TEAM, 2, 8, None) }
}

/// Creates the run, and gives a pod's name once both have nodes.
async fn bound_and_held(client: &Client, spec: RunSpec) -> anyhow::Result<String> {
    create_run(client, TEAM, "train", spec).await?;
    wait::until("both members have nodes", wait::PATIENCE, || async {
        Ok((bound(client, TEAM).await? == 2).then_some(()))
    })
    .await?;
    Ok(pods(client, TEAM).await?.last().context("a member")?.name_any())
}

/// Says what a kubelet says when a pull fails.
async fn pull_fails(client: &Client, pod: &str, answer: &str) -> anyhow::Result<()> {
    let lead = format!(r#"failed to pull and unpack image "{IMAGE}": failed to resolve reference "{IMAGE}""#);
    let message = format!("rpc error: code = Unknown desc = {lead}: {answer}");
    let waiting = json!({ "waiting": { "reason": "ErrImagePull", "message": message } });
    change_status(client, pod, json!({ "containerStatuses": [container(&waiting)] })).await
}

fn container(state: &Value) -> Value {
    json!({ "name": "main", "image": IMAGE, "imageID": "", "ready": false, "restartCount": 0, "state": state })
}

async fn change_status(client: &Client, pod: &str, status: Value) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), TEAM);
    let patch = Patch::Merge(json!({ "status": status }));
    pods.patch_status(pod, &PatchParams::default(), &patch).await.context("failed to say how a pod fares")?;
    Ok(())
}

/// Lets the fake kubelet start it.
async fn release(client: &Client, pod: &str) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), TEAM);
    let patch = json!({ "metadata": { "annotations": { names::FAKE_HELD_ANNOTATION: null } } });
    pods.patch(pod, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .context("failed to release a pod")?;
    Ok(())
}

fn end_of(attempt: &Attempt) -> (Option<AttemptOutcome>, Option<&str>) {
    (attempt.outcome, attempt.reason.as_deref())
}

/// From the end of the first attempt until the second was told to leave.
fn waited_seconds(status: &RunStatus) -> i64 {
    let (first, second) = (&status.attempts[0], &status.attempts[1]);
    let (Some(ended), Some(told)) = (&first.ended_at, &second.told_at) else { return 0 };
    told.0.as_second() - ended.0.as_second()
}
