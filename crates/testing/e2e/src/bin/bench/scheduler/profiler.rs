//! Profiles a drain: the API server profiles itself; `perf` profiles all processes.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::AsyncReadExt;
use kube::Client;

use tokio::process::Command;
use toolbox::checkout::target_folder;

use crate::scheduler::contender::Contender;
use crate::scheduler::observer::Observer;
use crate::scheduler::yard::{NAMESPACE, PATIENCE};

/// From the first bind on; all contenders still bind when it ends.
const SPAN: Duration = Duration::from_secs(4);

/// How many of the API server's functions are shown, those with the most cumulative time first.
const SHOWN: &str = "-nodecount=60";

/// Waits for the first bind, profiles for a while, and prints the result.
pub async fn take(client: Client, contender: Contender) -> anyhow::Result<()> {
    Observer::start(&client, NAMESPACE).await?.bound("", 1, PATIENCE).await?;
    let folder = target_folder().join("profiles");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let of_server = folder.join(format!("{contender:?}.pprof"));
    let of_all = folder.join(format!("{contender:?}.perf"));
    tokio::try_join!(profile_server(&client, &of_server), profile_all(&of_all))?;
    println!("{contender:?}: the API server by itself, {}", of_server.display());
    print(Command::new("go").args(["tool", "pprof", "-top", "-cum", SHOWN]).arg(&of_server)).await?;
    println!("{contender:?}: all processes, {}", of_all.display());
    let by = ["report", "--stdio", "--sort=comm,symbol", "--percent-limit=0.4", "--input"];
    print(Command::new("perf").args(by).arg(&of_all)).await
}

async fn profile_server(client: &Client, to: &Path) -> anyhow::Result<()> {
    let path = format!("/debug/pprof/profile?seconds={}", SPAN.as_secs());
    let answer = client.request_stream(http::Request::get(path).body(Vec::new())?).await?;
    let mut profile = Vec::new();
    std::pin::pin!(answer).read_to_end(&mut profile).await.context("the API server's profile broke off")?;
    std::fs::write(to, profile).with_context(|| format!("cannot write {}", to.display()))
}

async fn profile_all(to: &Path) -> anyhow::Result<()> {
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--all-cpus", "--event=cpu-clock", "--freq=997", "--output"]).arg(to);
    perf.arg("--").arg("sleep").arg(SPAN.as_secs().to_string()).stdout(Stdio::null());
    let status = perf.status().await.context("cannot start perf\n\nhint: install linux-perf, and be root")?;
    ensure!(status.success(), "perf failed: {status}");
    Ok(())
}

async fn print(command: &mut Command) -> anyhow::Result<()> {
    let status =
        command.stderr(Stdio::null()).status().await.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
