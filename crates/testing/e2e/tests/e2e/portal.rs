//! The portal in a real browser on the real platform: pages show what happens. The steps in the browser are in
//! `portal/e2e`.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::objects::{create_prices, h100_nodes};
use e2e::users::{create_team, grant_map};
use test_cluster::TestCluster;
use test_cluster::platform::{LeaseTimes, Platform};
use test_cluster::postgres::Postgres;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use toolbox::figures;

/// The browser's steps take less than a minute on two idle cores.
const BROWSER_WITHIN: Duration = Duration::from_mins(6);

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_followed_to_its_end_on_an_open_page_without_reload() -> anyhow::Result<()> {
    let cluster = TestCluster::builder()
        .nodes(h100_nodes("node", 4))
        .user("alice", &[])
        .user("bob", &[])
        .start()
        .await?;
    let postgres = Postgres::start(cluster.dir()).await?;
    let client = cluster.admin_client();
    create_prices(&client, "H100", "2.99").await?;
    for (user, namespace) in [("alice", "nlp"), ("bob", "vision")] {
        create_team(&client, user, namespace, None, &[("H100", 32)]).await?;
        grant_map(&client, user).await?;
    }
    let platform = Platform::debug(&cluster).with_ledger(&postgres);
    let mut scheduler = platform.scheduler("scheduler", LeaseTimes::Patient, "").await?;
    let mut controllers = platform.controllers("controllers").await?;
    let (_api_server, url) = platform.api_server("127.0.0.1:0").await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;

    let browsed = tokio::time::timeout(BROWSER_WITHIN, browse(&cluster, &url)).await;
    browsed.with_context(|| format!("the browser's steps took longer than {BROWSER_WITHIN:?}"))??;
    cluster.stop().await;
    Ok(())
}

/// Runs Playwright's project `real`.
async fn browse(cluster: &TestCluster, url: &str) -> anyhow::Result<()> {
    let portal = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../portal");
    let mut npm = Command::new("npm");
    npm.args(["run", "e2e:real"])
        .current_dir(portal)
        .env("WARPYARD_URL", url)
        .env("WARPYARD_TOKEN", cluster.token_for_user("alice")?)
        .env("WARPYARD_NAMESPACE", "nlp")
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut browser = npm.spawn().context("failed to start npm; `cargo xtask e2e` installs what it needs")?;
    let output = browser.stdout.take().context("npm has no output to read")?;
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await.context("failed to read what npm prints")? {
        if !figures::keep(&line) {
            println!("{line}");
        }
    }
    let status = browser.wait().await.context("failed to wait for npm")?;
    ensure!(status.success(), "the browser's steps failed; what it saw is in portal/test-results");
    Ok(())
}
