//! Lost work: in the run's record and on the bill, to the second.

use std::time::Duration;

use anyhow::{Context, ensure};
use api_client::Client;
use api_types::names::REPORT_AUDIENCE;
use api_types::rest::UsageClass;
use api_types::run::{Attempt, CheckpointVolume};
use api_types::{Run, RunPhase};
use e2e::cli::Cli;
use e2e::objects::{create_prices, create_run, h100_nodes, run};
use e2e::observe::{phase_reached, pods, run_status};
use e2e::users::create_team;
use e2e::wait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use reqwest::StatusCode;
use serde_json::{Value, json};
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};
use test_cluster::postgres::Postgres;

use crate::reports::{Site, TEAM, token, variable};

const BOUND: Duration = Duration::from_mins(1);
const GPUS: i64 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn work_after_the_loaded_checkpoint_is_lost_in_the_record_and_on_the_bill() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().nodes(h100_nodes("node", 1)).user("ann", &[]).start().await?;
    let client = cluster.admin_client();
    create_team(&client, "ann", TEAM, None, &[("H100", 8)]).await?;
    create_prices(&client, "H100", "3600").await?;
    let postgres = Postgres::start(cluster.dir()).await?;
    let platform = Platform::debug(&cluster).with_ledger(&postgres);
    let (_api_server, url) = platform.api_server("127.0.0.1:0").await?;
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let report_url = format!("--report-url={url}");
    let mut controllers = platform.controllers_with("controllers", |spec| spec.arg(report_url)).await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    let mut spec = run(TEAM, 1, 8, None);
    spec.checkpoint = Some(CheckpointVolume { claim: "shared".to_owned() });
    create_run(&client, TEAM, "train", spec).await?;

    // Attempt 1 saves, goes on for some seconds, and is ended.
    let first = member_of(&client, 1).await?;
    report(&client, &first, 1, json!({"loaded": {"step": 0, "reached": 0}})).await?;
    let saved_at = Timestamp::from_second(Timestamp::now().as_second())?;
    let checkpoint = json!({"step": 20, "committed_at": saved_at.to_string()});
    report(&client, &first, 1, json!({"step": 20, "checkpoint": checkpoint})).await?;
    wait::until("some seconds have passed", BOUND, || async {
        Ok((Timestamp::now().duration_since(saved_at).as_secs() >= 4).then_some(()))
    })
    .await?;
    let runs: Api<Run> = Api::namespaced(client.clone(), TEAM);
    let restart = Patch::Merge(json!({"spec": {"restarts": 1}}));
    runs.patch("train", &PatchParams::default(), &restart).await?;

    // Attempt 2 reports its load, and how far the first had come.
    let second = member_of(&client, 2).await?;
    let loaded = json!({"step": 20, "reached": 25, "committed_at": saved_at.to_string()});
    report(&client, &second, 2, json!({"step": 20, "loaded": loaded})).await?;
    let attempt = wait::until("the first attempt's loss is recorded", BOUND, || async {
        let attempts = run_status(&client, TEAM, "train").await?.attempts;
        Ok(attempts.into_iter().next().filter(|attempt| attempt.lost.is_some()))
    })
    .await?;
    let ended_at = attempt.ended_at.clone().context("it has ended")?.0;
    let seconds = ended_at.as_second() - saved_at.as_second();
    let lost = attempt.lost.context("it was found above")?;
    ensure!((lost.steps, i64::try_from(lost.seconds)?) == (5, seconds), "{lost:?}, {seconds} seconds");
    ensure!(seconds >= 4, "it went on after the checkpoint: {seconds}");

    let ann = Client::new(&url, cluster.token_for_user("ann")?)?;
    let cost = wait::until("the bill has lost work", BOUND, || async {
        let cost = ann.run_cost(TEAM, "train").await?;
        let lost = cost.classes.iter().find(|class| class.class == UsageClass::Lost).cloned();
        Ok(lost.map(|lost| (cost, lost.cost)))
    })
    .await?;
    let (cost, lost) = cost;
    ensure!(lost.gpu_seconds == GPUS * seconds, "{lost:?}, {seconds} seconds");
    ensure!(lost.amount == (GPUS * seconds).to_string(), "a unit for each GPU and second: {lost:?}");
    let of_classes: i64 = cost.classes.iter().map(|class| class.cost.gpu_seconds).sum();
    ensure!(of_classes == cost.total.gpu_seconds, "every second has one class: {cost:?}");
    check_attempts(
        &cost.attempts.iter().map(|it| (it.attempt, it.cost.gpu_seconds)).collect::<Vec<_>>(),
        &attempt,
    )?;
    let home = tempfile::tempdir()?;
    let cli = Cli {
        binary: platform.binary("warpyard"),
        home: home.path().to_owned(),
        url: url.clone(),
        token: cluster.token_for_user("ann")?.to_owned(),
        namespace: TEAM.to_owned(),
    };
    let shown = cli.stdout(&["cost", "train"])?;
    ensure!(shown.lines().any(|line| line.starts_with("lost ")), "{shown}");
    cluster.stop().await;
    Ok(())
}

/// The first attempt is charged until its end, including its lost work.
fn check_attempts(charged: &[(u32, i64)], first: &Attempt) -> anyhow::Result<()> {
    let ran = first.ended_at.as_ref().zip(first.started_at.as_ref());
    let ran = ran.map(|(end, start)| end.0.as_second() - start.0.as_second()).context("it ran")?;
    let (_, gpu_seconds) = charged.iter().find(|(number, _)| *number == 1).context("attempt 1 is charged")?;
    ensure!(*gpu_seconds >= GPUS * ran, "{charged:?}: attempt 1 ran for {ran} seconds");
    Ok(())
}

/// The member of an attempt that runs.
async fn member_of(client: &kube::Client, attempt: u32) -> anyhow::Result<Pod> {
    wait::until(&format!("attempt {attempt} runs"), BOUND, || async {
        let status = run_status(client, TEAM, "train").await?;
        Ok((status.phase == RunPhase::Running && status.attempts.len() == attempt as usize).then_some(()))
    })
    .await?;
    phase_reached(client, TEAM, "train", RunPhase::Running).await?;
    let pods = pods(client, TEAM).await?;
    let is_of = |pod: &Pod| pod.labels().get(api_types::names::ATTEMPT_LABEL) == Some(&attempt.to_string());
    pods.into_iter().find(is_of).context("the attempt has a member")
}

async fn report(client: &kube::Client, pod: &Pod, attempt: u32, more: Value) -> anyhow::Result<()> {
    let address = variable(pod, "WARPYARD_REPORT_URL").context("members are told where to report")?;
    let site = Site { http: reqwest::Client::new(), address };
    let token = token(client, Some(pod), Some(REPORT_AUDIENCE)).await?;
    let mut report = json!({"attempt": attempt, "world_size": 8, "step": 0, "ranges": []});
    for (key, value) in more.as_object().into_iter().flatten() {
        report[key] = value.clone();
    }
    wait::until("the report is accepted", BOUND, || async {
        Ok((site.send(&token, &report).await? == StatusCode::ACCEPTED).then_some(()))
    })
    .await
}
