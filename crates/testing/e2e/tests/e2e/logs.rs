//! Logs of a run's members on a real kubelet, read by the command line: over attempts, with the member that
//! failed first.

use std::fs::File;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::cli::Cli;
use e2e::users::{create_team, grant_everywhere};
use e2e::wait;
use serde_json::Value;
use test_cluster::platform::{LeaseTimes, Platform};
use test_cluster::{BUSYBOX_IMAGE, RealNode, TestCluster};

const BOUND: Duration = Duration::from_mins(2);

/// In attempt 1 member 1 fails; a member that is told to end prints so.
const TRAIN: &str = r#"
trap 'echo told; exit 75' TERM
echo "start $NODE_RANK of $WARPYARD_ATTEMPT"
if [ "$WARPYARD_ATTEMPT$NODE_RANK" = 11 ]; then sleep 2; echo broken; exit 3; fi
while :; do sleep 1 & wait $!; done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn logs_of_members_are_merged_over_attempts_for_those_who_may_read_them() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().user("alice", &[]).user("bob", &[]).real_nodes().without_kwok();
    let cluster = cluster.start().await?;
    let client = cluster.admin_client();
    create_team(&client, "alice", "nlp", None, &[("H100", 2)]).await?;
    grant_everywhere(&client, "bob", "warpyard-viewer").await?;
    let platform = Platform::debug(&cluster);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers = platform.controllers("controllers").await?;
    let (_api_server, url) = platform.api_server("127.0.0.1:0").await?;
    let node = RealNode { name: "real-0".into(), gpus: 2, ..RealNode::default() };
    let (_node, ()) = tokio::try_join!(async { Ok(cluster.add_real_node(node).await?) }, async {
        scheduler.ready().await?;
        anyhow::Ok(controllers.ready().await?)
    })?;
    let home = tempfile::tempdir()?;
    let cli = |user: &str| -> anyhow::Result<Cli> {
        Ok(Cli {
            binary: platform.binary("warpyard"),
            home: home.path().to_owned(),
            url: url.clone(),
            token: cluster.token_for_user(user)?.to_owned(),
            namespace: "nlp".to_owned(),
        })
    };
    let (alice, bob) = (cli("alice")?, cli("bob")?);
    let job = home.path().join("job.json");
    let fields = serde_json::json!({ "name": "train", "gpus": 1, "nodes": 2, "retries": 1, "grace": "10s",
        "image": BUSYBOX_IMAGE, "run": TRAIN });
    std::fs::write(&job, fields.to_string())?;
    alice.run(&["submit", job.to_str().context("the path is text")?], 0)?;

    // The first that failed is marked after its last line; what came later is below.
    runs(&alice, 2).await?;
    let printed =
        lines_of(&alice, &[], &["1/1 start 1 of 1", "2/0 start 0 of 2", "2/1 start 1 of 2"]).await?;
    let place = |text: &str| printed.iter().position(|line| line.ends_with(text));
    let (broken, mark) = (place("1/1 broken"), place("the first of attempt 1 to fail"));
    ensure!(broken.is_some() && mark == broken.map(|broken| broken + 1), "{printed:#?}");
    ensure!(mark < place("2/0 start 0 of 2"), "{printed:#?}");
    ensure!(printed[mark.unwrap_or(0)].contains("1/1 ✗ exited with 3"), "{printed:#?}");
    let one = lines_of(&alice, &["--attempt", "2", "--member", "1"], &["2/1 start 1 of 2"]).await?;
    ensure!(one.len() == 2, "a day and a line: {one:#?}");
    alice.run(&["logs", "train", "--attempt", "7"], 3)?;
    // A user who may only read runs does not see their logs.
    bob.run(&["show", "train"], 0)?;
    bob.run(&["logs", "train"], 4)?;

    // An attempt that was interrupted takes its logs along; who follows sees the next one, and the end.
    let followed = home.path().join("followed");
    let mut follow = alice.command(&["logs", "train", "-f"]);
    let mut follow = follow.stdout(File::create(&followed)?).spawn().context("failed to follow")?;
    let seen = || std::fs::read_to_string(&followed).context("failed to read what was followed");
    alice.run(&["resume", "train"], 5).context("a run that goes on is not resumed")?;
    alice.run(&["pause", "train"], 0)?;
    reached(&alice, "Paused").await?;
    alice.run(&["resume", "train"], 0)?;
    runs(&alice, 3).await?;
    lines_of(&alice, &["--attempt", "3"], &["3/0 start 0 of 3", "3/1 start 1 of 3"]).await?;
    let gone = alice.run(&["logs", "train", "--attempt", "2"], 0)?;
    ensure!(String::from_utf8_lossy(&gone.stderr).contains("attempt 2: its pods are gone"), "{gone:?}");
    println!("{}", stdout(&alice.run(&["show", "train"], 0)?));
    wait::until("who follows sees attempt 3", BOUND, || async {
        let seen = seen()?;
        Ok((seen.contains("3/0 start") && seen.contains("3/1 start")).then_some(()))
    })
    .await?;
    alice.run(&["stop", "train"], 0)?;
    let end = tokio::task::spawn_blocking(move || follow.wait()).await??;
    ensure!(end.success(), "who follows is let go with the end of the run: {end:?}");
    let seen = seen()?;
    println!("{seen}");
    ensure!(seen.matches('✗').count() == 1, "who is told to end did not fail: {seen}");
    for text in ["1/1 broken", "2/0 start 0 of 2", "3/1 start 1 of 3"] {
        ensure!(seen.matches(text).count() == 1, "{text} is shown once: {seen}");
    }
    cluster.stop().await;
    Ok(())
}

/// Waits until attempt `number` runs.
async fn runs(cli: &Cli, number: u64) -> anyhow::Result<()> {
    wait::until(&format!("attempt {number} runs"), BOUND, || async {
        let shown = shown(cli)?;
        let last = shown["attempts"].as_array().and_then(|attempts| attempts.last()).cloned();
        let is_newest = last.is_some_and(|attempt| attempt["number"] == number);
        Ok((shown["phase"] == "Running" && is_newest).then_some(()))
    })
    .await
}

async fn reached(cli: &Cli, phase: &str) -> anyhow::Result<()> {
    wait::until(&format!("the run is {phase}"), BOUND, || async {
        Ok((shown(cli)?["phase"] == phase).then_some(()))
    })
    .await
}

/// Waits until the logs have all of these texts.
async fn lines_of(cli: &Cli, arguments: &[&str], texts: &[&str]) -> anyhow::Result<Vec<String>> {
    let arguments: Vec<&str> = ["logs", "train"].iter().chain(arguments).copied().collect();
    wait::until(&format!("logs have {texts:?}"), BOUND, || async {
        let printed = stdout(&cli.run(&arguments, 0)?);
        let all = texts.iter().all(|text| printed.contains(text));
        Ok(all.then(|| printed.lines().map(str::to_owned).collect()))
    })
    .await
}

fn shown(cli: &Cli) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(&cli.run(&["show", "train", "-o", "json"], 0)?.stdout)?)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
