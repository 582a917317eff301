//! The whole path of a researcher's job: a job file, the command line, and back.

use std::process::Output;

use anyhow::{Context, ensure};
use e2e::cli::Cli;
use e2e::objects::h100_nodes;
use e2e::users::create_team;
use e2e::wait;
use serde_json::Value;
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_file_becomes_a_finished_run() -> anyhow::Result<()> {
    let cluster = TestCluster::builder().user("alice", &[]).nodes(h100_nodes("node", 4)).start().await?;
    let client = cluster.admin_client();
    create_team(&client, "alice", "nlp", None, &[("H100", 32)]).await?;
    let platform = Platform::debug(&cluster);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers = platform.controllers("controllers").await?;
    let (_api_server, url) = platform.api_server("127.0.0.1:0").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;

    let home = tempfile::tempdir()?;
    let cli = Cli {
        binary: platform.binary("warpyard"),
        home: home.path().to_owned(),
        url,
        token: cluster.token_for_user("alice")?.to_owned(),
        namespace: "nlp".to_owned(),
    };
    let job = home.path().join("job.yaml");
    std::fs::write(
        &job,
        "name: llama-ft\ngpus: 8x H100\nnodes: 2\ntime: 24h\nrun: torchrun train.py\n\
         annotations: {fake.warpyard.dev/run-time: 3s}\n",
    )?;
    let job = job.to_str().context("the path is text")?;

    let submitted = cli.run(&["submit", job, "-o", "name"], 0)?;
    ensure!(stdout(&submitted).trim().ends_with("llama-ft"), "submit names the run: {submitted:?}");
    cli.run(&["submit", job], 5).context("the same name again is a conflict")?;
    wait::until("the run has succeeded", wait::PATIENCE, || async {
        let shown: Value = serde_json::from_slice(&cli.run(&["show", "llama-ft", "-o", "json"], 0)?.stdout)?;
        Ok((shown["phase"] == "Succeeded").then_some(()))
    })
    .await?;
    let listed = cli.run(&["ls"], 0)?;
    println!("{}", stdout(&listed));
    ensure!(stdout(&listed).contains("llama-ft"), "{listed:?}");

    // One that waits for ever says so and says why, and can be stopped.
    let too_many = home.path().join("big.yaml");
    std::fs::write(&too_many, "name: big\ngpus: 8x H100\nnodes: 9\nrun: train\n")?;
    cli.run(&["submit", too_many.to_str().context("text")?], 0)?;
    wait::until("why names the queue and the numbers", wait::PATIENCE, || async {
        let why = cli.run(&["why", "big"], 0)?;
        Ok(stdout(&why)
            .contains("queue nlp holds 0 of 32 H100; requests 72")
            .then(|| println!("{}", stdout(&why))))
    })
    .await?;
    cli.run(&["stop", "big"], 0)?;
    wait::until("the run is stopped", wait::PATIENCE, || async {
        let shown: Value = serde_json::from_slice(&cli.run(&["show", "big", "-o", "json"], 0)?.stdout)?;
        Ok((shown["phase"] == "Stopped").then_some(()))
    })
    .await?;

    cli.run(&["show", "no-such-run"], 3)?;
    cli.run(&["ls", "-n", "kube-system"], 4)?;
    cli.run(&["submit", "no-such-file.yaml"], 2)?;
    Cli { token: "not-a-token".to_owned(), ..cli }.run(&["ls"], 4)?;
    cluster.stop().await;
    Ok(())
}

fn stdout(output: &Output) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&output.stdout)
}
