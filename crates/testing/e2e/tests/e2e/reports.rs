//! Members report into the record of their run, each with the token of its own pod.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_types::names::{self, REPORT_AUDIENCE};
use api_types::run::CheckpointVolume;
use api_types::{PriorityTier, Run, RunPhase};
use e2e::objects::{create_namespace, create_queue, create_run, h100_nodes, run};
use e2e::observe::{phase_reached, pods, run_status};
use e2e::users::create_team;
use e2e::wait;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use reqwest::StatusCode;
use serde_json::{Value, json};
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};

const BOUND: Duration = Duration::from_mins(1);
pub(crate) const TEAM: &str = "nlp";

#[tokio::test(flavor = "multi_thread")]
async fn a_member_reports_with_its_pods_token_and_nobody_else_does() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().user("alice", &[]).without_kwok().start().await?;
    let client = cluster.admin_client();
    create_team(&client, "alice", TEAM, None, &[("H100", 8)]).await?;
    let platform = Platform::debug(&cluster);
    let (_api_server, url) = platform.api_server("127.0.0.1:0").await?;
    let report_url = format!("--report-url={url}");
    let mut controllers = platform.controllers_with("controllers", |spec| spec.arg(report_url)).await?;
    controllers.ready().await?;
    let mut with_checkpoints = run(TEAM, 2, 1, None);
    with_checkpoints.checkpoint = Some(CheckpointVolume { claim: "shared".to_owned() });
    create_run(&client, TEAM, "train", with_checkpoints).await?;
    create_run(&client, TEAM, "other", run(TEAM, 1, 1, None)).await?;
    let (member, stranger) = tokio::try_join!(pod_of(&client, "train"), pod_of(&client, "other"))?;
    ensure!(variable(&member, "WARPYARD_CHECKPOINT_DIR").is_some(), "{:?}", member.spec);
    let address = variable(&member, "WARPYARD_REPORT_URL").context("members are told where to report")?;
    let site = Site { http: reqwest::Client::new(), address };

    // A member's report is in the run's status when it is answered.
    let token = token(&client, Some(&member), Some(REPORT_AUDIENCE)).await?;
    let first = json!({"run": "train", "attempt": 1, "rank": 0, "world_size": 2, "step": 0, "ranges": [],
                       "loaded": {"step": 0, "reached": 0}});
    // Its pod may not be in the API server's cache yet.
    wait::until("the first report is accepted", BOUND, || async {
        Ok((site.send(&token, &first).await? == StatusCode::ACCEPTED).then_some(()))
    })
    .await?;
    let second = json!({"run": "train", "attempt": 1, "rank": 0, "world_size": 2, "step": 20,
        "ranges": [{"from": 0, "to": 20, "world_size": 2, "seconds": 1.5}],
        "checkpoint": {"step": 20, "bytes": 7, "seconds": 0.5, "stall_seconds": 0.1,
                       "committed_at": "2026-01-01T00:00:00Z"}});
    for _ in 0..2 {
        ensure!(site.send(&token, &second).await? == StatusCode::ACCEPTED, "also the second time");
    }
    let status = run_status(&client, TEAM, "train").await?;
    let progress = status.progress.context("the run has progress")?;
    ensure!(progress.step == 20 && progress.ranges.len() == 1 && progress.loads.len() == 1, "{progress:?}");
    ensure!(progress.checkpoint.as_ref().is_some_and(|it| it.step == 20 && it.attempt == 1), "{progress:?}");
    ensure!(status.phase == RunPhase::Pending && status.attempts.len() == 1, "the rest is untouched");

    // Nobody else may.
    let alice = cluster.token_for_user("alice")?.to_owned();
    for (whose, token, expect) in [
        ("another run's member's", self::token(&client, Some(&stranger), Some(REPORT_AUDIENCE)).await?, 403),
        ("the member's for Kubernetes", self::token(&client, Some(&member), None).await?, 401),
        ("the member's for others", self::token(&client, Some(&member), Some("vault")).await?, 401),
        ("of no pod", self::token(&client, None, Some(REPORT_AUDIENCE)).await?, 403),
        ("alice's", alice, 401),
    ] {
        let status = site.send(&token, &second).await?;
        ensure!(status.as_u16() == expect, "{whose}: {status}");
    }
    let elsewhere = site.http.get(format!("{url}/v1/whoami")).bearer_auth(&token).send().await?.status();
    ensure!(elsewhere == StatusCode::UNAUTHORIZED, "a member's token opens nothing else: {elsewhere}");
    only_progress_may_be_written(&cluster).await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_could_give_way_the_one_with_the_newer_checkpoint_does() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 2)).start().await?;
    let client = cluster.admin_client();
    create_namespace(&client, TEAM).await?;
    create_queue(&client, TEAM, None, &[("H100", 16)], &[TEAM]).await?;
    let platform = Platform::debug(&cluster);
    let (_api_server, url) = platform.api_server("127.0.0.1:0").await?;
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let report_url = format!("--report-url={url}");
    let mut controllers = platform.controllers_with("controllers", |spec| spec.arg(report_url)).await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;

    // Who started first would lose more.
    for name in ["first", "second"] {
        let mut spec = run(TEAM, 1, 8, None);
        spec.priority = PriorityTier::Exploration;
        spec.checkpoint = Some(CheckpointVolume { claim: "shared".to_owned() });
        create_run(&client, TEAM, name, spec).await?;
        let started = phase_reached(&client, TEAM, name, RunPhase::Running).await?.started_at;
        let started = started.context("it runs since some time")?.0;
        wait::until("some seconds have passed", BOUND, || async {
            Ok((Timestamp::now().duration_since(started).as_secs() >= 3).then_some(()))
        })
        .await?;
    }
    let member = pod_of(&client, "first").await?;
    let address = variable(&member, "WARPYARD_REPORT_URL").context("members are told where to report")?;
    let site = Site { http: reqwest::Client::new(), address };
    let token = token(&client, Some(&member), Some(REPORT_AUDIENCE)).await?;
    let saved_at = Timestamp::from_second(Timestamp::now().as_second())?.to_string();
    let report = json!({"attempt": 1, "world_size": 8, "step": 20, "ranges": [],
                        "checkpoint": {"step": 20, "committed_at": saved_at}});
    ensure!(site.send(&token, &report).await? == StatusCode::ACCEPTED, "the report is accepted");
    wait::until("its pod says when it last saved", BOUND, || async {
        let pod = pod_of(&client, "first").await?;
        let said = pod.annotations().get(names::CHECKPOINTED_AT_ANNOTATION).cloned();
        Ok((said.as_ref() == Some(&saved_at)).then_some(()))
    })
    .await?;
    only_a_runs_checkpoint_may_be_told(&cluster, &member).await?;

    let mut urgent = run(TEAM, 1, 8, None);
    urgent.priority = PriorityTier::Production;
    create_run(&client, TEAM, "urgent", urgent).await?;
    phase_reached(&client, TEAM, "urgent", RunPhase::Running).await?;
    phase_reached(&client, TEAM, "first", RunPhase::Pending).await.context("who has saved gives way")?;
    let second = run_status(&client, TEAM, "second").await?;
    ensure!(second.phase == RunPhase::Running && second.attempts.len() == 1, "the other stays: {second:?}");
    cluster.stop().await;
    Ok(())
}

/// The controllers' rights to write on the pod of a run.
async fn only_a_runs_checkpoint_may_be_told(cluster: &TestCluster, pod: &Pod) -> anyhow::Result<()> {
    let account = (names::SYSTEM_NAMESPACE, names::CONTROLLERS_SERVICE_ACCOUNT);
    let kubeconfig = cluster.kubeconfig_for_service_account(account.0, account.1).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client_for(&kubeconfig).await?, TEAM);
    for wrong in [
        json!({ names::NEVER_EVICT_ANNOTATION: "true" }),
        json!({ names::CHECKPOINTS_ANNOTATION: null }),
        json!({ names::CHECKPOINTED_AT_ANNOTATION: null }),
        json!({ names::CHECKPOINTED_AT_ANNOTATION: "2026-01-01T00:00:00Z", "a": "b" }),
    ] {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": wrong } }));
        let answer = pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await;
        let refused = matches!(&answer, Err(kube::Error::Api(status)) if status.code == 403);
        ensure!(refused, "{wrong}: {answer:?}");
    }
    Ok(())
}

/// The rights of the API server's own identity.
async fn only_progress_may_be_written(cluster: &TestCluster) -> anyhow::Result<()> {
    let account = (names::SYSTEM_NAMESPACE, names::API_SERVER_SERVICE_ACCOUNT);
    let kubeconfig = cluster.kubeconfig_for_service_account(account.0, account.1).await?;
    let runs: Api<Run> = Api::namespaced(cluster.client_for(&kubeconfig).await?, TEAM);
    let patch = async |status: Value| {
        let patch = Patch::Merge(json!({ "status": status }));
        match runs.patch_status("train", &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 403 => Err(status.message),
            Err(error) => Err(format!("something else: {error}")),
        }
    };
    let ours = "the API server as itself may change only status.progress of a run";
    for wrong in [
        json!({"phase": "Succeeded"}),
        json!({"attempts": null}),
        json!({"message": "made up"}),
        json!({"waiting": {"reasons": []}}),
        json!({"progress": {"step": 21}, "phase": "Running"}),
    ] {
        let answer = patch(wrong.clone()).await;
        ensure!(answer.as_ref().is_err_and(|message| message.contains(ours)), "{wrong}: {answer:?}");
    }
    patch(json!({"progress": {"step": 21}})).await.map_err(anyhow::Error::msg)?;
    let spec =
        runs.patch("train", &PatchParams::default(), &Patch::Merge(json!({"spec": {"stop": true}}))).await;
    ensure!(matches!(&spec, Err(kube::Error::Api(status)) if status.code == 403), "{spec:?}");
    Ok(())
}

pub(crate) struct Site {
    pub http: reqwest::Client,
    pub address: String,
}

impl Site {
    /// Reports, and says how it was answered.
    pub async fn send(&self, token: &str, report: &Value) -> anyhow::Result<StatusCode> {
        let request = self.http.post(&self.address).bearer_auth(token).json(report);
        Ok(request.send().await.context("failed to report")?.status())
    }
}

/// A token of the namespace's default account, as the kubelet would ask for it.
pub(crate) async fn token(
    client: &Client,
    pod: Option<&Pod>,
    audience: Option<&str>,
) -> anyhow::Result<String> {
    let bound =
        pod.map(|pod| json!({"apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid()}));
    let spec = json!({ "audiences": audience.into_iter().collect::<Vec<_>>(), "boundObjectRef": bound });
    let request: TokenRequest = serde_json::from_value(json!({ "metadata": {}, "spec": spec }))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), TEAM);
    let answer = accounts.create_token_request("default", &PostParams::default(), &request).await?;
    answer.status.and_then(|status| status.token).context("a token was made")
}

pub(crate) async fn pod_of(client: &Client, run: &str) -> anyhow::Result<Pod> {
    wait::until("the run has a pod", BOUND, || async {
        let pods = pods(client, TEAM).await?;
        Ok(pods.into_iter().find(|pod| pod.labels().get(names::RUN_LABEL).is_some_and(|it| it == run)))
    })
    .await
}

pub(crate) fn variable(pod: &Pod, name: &str) -> Option<String> {
    let env = pod.spec.as_ref()?.containers.first()?.env.as_ref()?;
    env.iter().find(|variable| variable.name == name)?.value.clone()
}
