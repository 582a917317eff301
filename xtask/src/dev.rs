//! `cargo xtask dev`: the whole platform on this machine, with fake GPU nodes and three teams, until Ctrl-C.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use e2e::objects::{create_namespace, create_queue};
use e2e::users::{grant_namespace, grant_queue};
use test_cluster::figures::target_folder;
use test_cluster::platform::{LeaseTimes, Platform, Service};
use test_cluster::{FakeNodes, TestCluster};

use crate::commands::{self, cargo};

/// Arguments of `cargo xtask dev`.
#[derive(Args)]
pub struct DevArgs {
    /// How many fake nodes with eight GPUs each.
    #[arg(long, default_value_t = 64)]
    nodes: usize,
    /// Over how many racks they are spread.
    #[arg(long, default_value_t = 4)]
    racks: usize,
    /// Where the REST API listens.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
}

/// A team: its queue and namespace have its name.
struct Team {
    name: &'static str,
    user: &'static str,
    h100: u32,
}

/// They share the organisation's 512 GPUs.
const TEAMS: [Team; 3] = [
    Team { name: "nlp", user: "alice", h100: 256 },
    Team { name: "vision", user: "bob", h100: 192 },
    Team { name: "speech", user: "carol", h100: 64 },
];
const ORGANISATION: &str = "acme";

/// Builds the binaries, starts everything, prints a login, waits for Ctrl-C.
pub fn run(args: &DevArgs) -> anyhow::Result<()> {
    std::net::TcpListener::bind(&args.listen).with_context(|| {
        format!(
            "{} cannot be listened on; choose another address with --listen, such as 127.0.0.1:8081",
            args.listen
        )
    })?;
    eprintln!("building …");
    // The whole workspace, so that dependencies keep the features that tests build them with.
    commands::run(&mut cargo(&["build", "--workspace", "--bins"]))?;
    let runtime = tokio::runtime::Runtime::new().context("failed to start the async runtime")?;
    runtime.block_on(bring_up(args))
}

async fn bring_up(args: &DevArgs) -> anyhow::Result<()> {
    let began = Instant::now();
    eprintln!("starting etcd, API server, controller-manager and {} fake nodes …", args.nodes);
    let nodes = FakeNodes { count: args.nodes, racks: args.racks, ..FakeNodes::default() };
    let mut builder = TestCluster::builder().nodes(nodes);
    for team in &TEAMS {
        builder = builder.user(team.user, &[]);
    }
    let cluster = builder.start().await?;
    create_teams(&cluster).await?;

    eprintln!("starting scheduler, controllers and REST API …");
    let platform = Platform::debug(&cluster);
    let mut scheduler = platform.scheduler("warpyard-scheduler", LeaseTimes::Production, "").await?;
    let mut controllers = platform.controllers("warpyard-controllers").await?;
    let (mut api_server, url) = platform.api_server(&args.listen).await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;

    let login_folder = write_logins(&cluster)?;
    print_welcome(&cluster, &platform, &login_folder, &url, began)?;
    tokio::select! {
        waited = tokio::signal::ctrl_c() => waited.context("failed to wait for Ctrl-C")?,
        // Dropping the cluster keeps its logs.
        log = first_to_end([&mut scheduler, &mut controllers, &mut api_server]) => {
            bail!("a server has ended; its log is {}", log.display());
        }
    }
    eprintln!("\nstopping …");
    scheduler.terminate().await;
    controllers.terminate().await;
    cluster.stop().await;
    Ok(())
}

/// Waits until one of our processes ends, and gives its log.
async fn first_to_end(mut services: [&mut Service; 3]) -> PathBuf {
    loop {
        for service in &mut services {
            if service.process().exit_status().is_some() {
                return service.process().log().to_owned();
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn create_teams(cluster: &TestCluster) -> anyhow::Result<()> {
    let client = cluster.admin_client();
    let all: u32 = TEAMS.iter().map(|team| team.h100).sum();
    create_queue(&client, ORGANISATION, None, &[("H100", all)], &[]).await?;
    for team in &TEAMS {
        create_namespace(&client, team.name).await?;
        create_queue(&client, team.name, Some(ORGANISATION), &[("H100", team.h100)], &[team.name]).await?;
        grant_namespace(&client, team.user, team.name).await?;
        grant_queue(&client, team.user, team.name).await?;
        grant_queue(&client, team.user, ORGANISATION).await?;
    }
    Ok(())
}

/// One token file per user, readable by its owner only; tokens are not printed.
fn write_logins(cluster: &TestCluster) -> anyhow::Result<PathBuf> {
    let folder = target_folder().join("dev");
    test_cluster::files::create_dir(&folder)?;
    for team in &TEAMS {
        let token = cluster.token_for_user(team.user)?;
        test_cluster::files::write_private(&folder.join(format!("{}.token", team.user)), token.as_bytes())?;
    }
    Ok(folder)
}

fn print_welcome(
    cluster: &TestCluster,
    platform: &Platform<'_>,
    logins: &Path,
    url: &str,
    began: Instant,
) -> anyhow::Result<()> {
    let binaries = platform.binary("");
    link_kubectl(cluster, logins)?;
    println!("Warpyard is up after {:.0} s. In another terminal:\n", began.elapsed().as_secs_f64());
    println!("  export PATH={}:{}:$PATH", binaries.display(), logins.display());
    println!("  export KUBECONFIG={}      # kubectl as the admin", cluster.admin_kubeconfig().display());
    println!("\nand log in as one of the teams (a later login replaces an earlier one):\n");
    for team in &TEAMS {
        println!(
            "  warpyard login --server {url} --namespace {:<6} --token-file {}   # {} of team {}, {} H100",
            team.name,
            logins.join(format!("{}.token", team.user)).display(),
            team.user,
            team.name,
            team.h100,
        );
    }
    println!("\nThen `warpyard submit examples/hello.yaml`. Logs are in {}.", cluster.logs().display());
    println!("Ctrl-C here stops everything.");
    Ok(())
}

/// In the cache its name ends with a hash; here it is called as people call it.
fn link_kubectl(cluster: &TestCluster, folder: &Path) -> anyhow::Result<()> {
    let link = folder.join("kubectl");
    if link.is_symlink() {
        std::fs::remove_file(&link).with_context(|| format!("failed to remove {}", link.display()))?;
    }
    std::os::unix::fs::symlink(cluster.kubectl()?, &link)
        .with_context(|| format!("failed to link {}", link.display()))
}
