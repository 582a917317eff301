//! The leader answers why and when; its snapshot can be planned again, and its recorded history simulated
//! again.

use anyhow::{Context, ensure};
use api_types::names::{
    LEADER_ADDRESS_ANNOTATION, LEADER_CERTIFICATE_ANNOTATION, LEADER_TLS_NAME, SCHEDULER_EPOCH,
};
use api_types::{RunPhase, SchedulerEpoch};
use e2e::cli::Cli;
use e2e::collector::Collector;
use e2e::objects::{create_run, h100_nodes, run};
use e2e::observe::phase_reached;
use e2e::users::{create_team, grant_everywhere};
use e2e::wait;
use kube::api::Api;
use kube::{Client, ResourceExt};
use serde_json::Value;
use test_cluster::TestCluster;
use test_cluster::platform::Platform;

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_told_its_place_its_start_and_what_would_start_it_now() -> anyhow::Result<()> {
    let cluster = TestCluster::builder()
        .user("alice", &[])
        .user("root", &[])
        .nodes(h100_nodes("node", 2))
        .start()
        .await?;
    let client = cluster.admin_client();
    create_team(&client, "alice", "nlp", None, &[("H100", 16)]).await?;
    grant_everywhere(&client, "root", "cluster-admin").await?;
    let platform = Platform::debug(&cluster);
    let home = tempfile::tempdir()?;
    let collector = Collector::start().await?;
    let trace = home.path().join("trace.jsonl");
    let trace_text = trace.to_str().context("the path is text")?.to_owned();
    let arguments = [format!("--record={trace_text}"), format!("--otlp-endpoint={}", collector.url)];
    let mut scheduler =
        platform.scheduler_with("scheduler", &arguments.each_ref().map(String::as_str)).await?;
    let mut controllers = platform.controllers("controllers").await?;
    let (_api_server, url) = platform.api_server("127.0.0.1:0").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;
    let alice = Cli {
        binary: platform.binary("warpyard"),
        home: home.path().to_owned(),
        url,
        token: cluster.token_for_user("alice")?.to_owned(),
        namespace: "nlp".to_owned(),
    };
    let root = Cli { token: cluster.token_for_user("root")?.to_owned(), ..alice.clone() };

    create_run(&client, "nlp", "whole", run("nlp", 1, 8, None)).await?;
    create_run(&client, "nlp", "half", run("nlp", 1, 4, None)).await?;
    for name in ["whole", "half"] {
        phase_reached(&client, "nlp", name, RunPhase::Running).await?;
    }
    create_run(&client, "nlp", "waits", run("nlp", 1, 8, None)).await?;

    let why = wait::until("the leader says when it starts", wait::PATIENCE, || async {
        // Our API server may not have heard of the run yet: it was made behind its back.
        let Ok(why) = alice.stdout(&["why", "waits", "-o", "json"]) else { return Ok(None) };
        let why: Value = serde_json::from_str(&why)?;
        Ok(why["outlook"]["forecast"].is_object().then_some(why))
    })
    .await?;
    println!("{why:#}");
    ensure!(why["outlook"]["jobsAhead"] == 0 && why["outlook"]["jobsWaiting"] == 1, "{why}");
    let offers = why["outlook"]["forecast"]["wouldStartNow"].to_string();
    ensure!(offers.contains("with 4 GPUs per member"), "there is room for half of it: {why}");
    ensure!(!why["reasons"].as_array().context("reasons")?.is_empty(), "{why}");
    // Without the leader's answer within a second, the rest is shown without it.
    let said = wait::until("a person is told too", wait::PATIENCE, || async {
        let said = alice.stdout(&["why", "waits"])?;
        let is_told =
            said.contains("1st of 1 job, 0 GPUs ahead") && said.contains("would start: with 4 GPUs");
        Ok(is_told.then_some(said))
    })
    .await?;
    println!("{said}");
    // What queues hold is written into their status at a pace.
    let board = wait::until("the board shows who holds what", wait::PATIENCE, || async {
        let board = alice.stdout(&["queue"])?;
        Ok((board.contains("12/16 H100") && board.contains("nlp/waits")).then_some(board))
    })
    .await?;
    println!("{board}");

    refuses_others(&client, &alice.token).await?;
    alice.run(&["snapshot"], 4).context("a snapshot names everything, so it is for administrators")?;
    let snapshot = home.path().join("snapshot.json");
    std::fs::write(&snapshot, root.stdout(&["snapshot"])?)?;
    let again = root.stdout(&["simulate", "--snapshot", snapshot.to_str().context("text")?])?;
    println!("{again}");
    ensure!(again.contains("The same plan") && again.contains("1 wait"), "{again}");
    let changed = std::fs::read_to_string(&snapshot)?.replacen("\"gpus\":8", "\"gpus\":9", 1);
    std::fs::write(&snapshot, changed)?;
    root.run(&["simulate", "--snapshot", snapshot.to_str().context("text")?], 1)?;

    for span in ["plan", "bind", "bound", "warpyard-scheduler"] {
        wait::until("the collector has the span", wait::PATIENCE, || async {
            Ok(collector.has(span).then_some(()))
        })
        .await
        .with_context(|| format!("span {span}"))?;
    }

    // Without a leader its answers are missed, and nothing else.
    scheduler.terminate().await;
    let why: Value = serde_json::from_str(&alice.stdout(&["why", "waits", "-o", "json"])?)?;
    ensure!(why["outlook"].is_null() && !why["reasons"].as_array().context("reasons")?.is_empty(), "{why}");
    let board = alice.stdout(&["queue"])?;
    ensure!(board.contains("nlp/waits"), "{board}");

    let simulated: Value = serde_json::from_str(&root.stdout(&["simulate", &trace_text, "-o", "json"])?)?;
    println!("{simulated:#}");
    let text = std::fs::read_to_string(&trace)?;
    ensure!(
        text.lines().filter(|line| line.starts_with("{\"job\"")).count() == 2,
        "two runs started: {text}"
    );
    ensure!(simulated["summary"]["jobs"] == 2, "{simulated}");
    cluster.stop().await;
    Ok(())
}

/// Nobody but the API server is answered, also not with a token that Kubernetes accepts.
async fn refuses_others(client: &Client, token: &str) -> anyhow::Result<()> {
    for path in ["/v1/line", "/v1/snapshot", "/v1/runs/nlp/waits", "/nothing"] {
        for token in [None, Some(token)] {
            let status = ask_leader(client, path, token).await?;
            ensure!(status == 401 || (status == 404 && path == "/nothing"), "{path}: {status}");
        }
    }
    Ok(())
}

/// Asks the leader as another caller than the API server; returns the status of its answer.
pub async fn ask_leader(client: &Client, path: &str, token: Option<&str>) -> anyhow::Result<u16> {
    let epochs: Api<SchedulerEpoch> = Api::all(client.clone());
    let epoch = epochs.get(SCHEDULER_EPOCH).await?;
    let annotation =
        |name: &str| epoch.annotations().get(name).cloned().context("the leader says where it is");
    let address: std::net::SocketAddr = annotation(LEADER_ADDRESS_ANNOTATION)?.parse()?;
    let certificate = reqwest::Certificate::from_pem(annotation(LEADER_CERTIFICATE_ANNOTATION)?.as_bytes())?;
    let http = reqwest::Client::builder()
        .tls_certs_only([certificate])
        .resolve(LEADER_TLS_NAME, address)
        .no_proxy()
        .build()?;
    let mut request = http.get(format!("https://{LEADER_TLS_NAME}:{}{path}", address.port()));
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    Ok(request.send().await?.status().as_u16())
}
