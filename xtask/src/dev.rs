//! `cargo xtask dev`: the whole platform on this machine, with fake GPU nodes, three teams, prices and a running mix
//! of jobs, until Ctrl-C.

mod teams;
mod welcome;
mod workload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use test_cluster::platform::{LeaseTimes, Platform, Service};
use test_cluster::postgres::Postgres;
use test_cluster::{FakeNodes, TestCluster};

use crate::commands::{self, cargo};
use crate::dev::teams::{LEAD, TEAMS};
use crate::{packages, portal};

/// Arguments of `cargo xtask dev`.
#[derive(Args)]
pub struct DevArgs {
    /// How many fake nodes with eight GPUs each.
    #[arg(long, default_value_t = 64)]
    nodes: u32,
    /// Over how many racks they are spread.
    #[arg(long, default_value_t = 4)]
    racks: usize,
    /// Where the portal and the REST API listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// Submit no jobs: an empty cluster.
    #[arg(long)]
    empty: bool,
}

/// Builds the portal and the binaries, starts everything, prints a login, waits for Ctrl-C.
pub fn run(args: &DevArgs) -> anyhow::Result<()> {
    std::net::TcpListener::bind(&args.listen).with_context(|| {
        format!(
            "{} cannot be listened on; choose another address with --listen, such as 127.0.0.1:8081",
            args.listen
        )
    })?;
    packages::install()?;
    portal::build_if_stale()?;
    eprintln!("building …");
    // The whole workspace, so that dependencies keep the features that tests build them with.
    commands::run(&mut cargo(&["build", "--workspace", "--bins"]))?;
    let runtime = tokio::runtime::Runtime::new().context("failed to start the async runtime")?;
    runtime.block_on(bring_up(args))
}

async fn bring_up(args: &DevArgs) -> anyhow::Result<()> {
    let began = Instant::now();
    eprintln!("starting PostgreSQL, etcd, API server, controller-manager and {} fake nodes …", args.nodes);
    let nodes = FakeNodes { count: args.nodes as usize, racks: args.racks, ..FakeNodes::default() };
    let mut builder = TestCluster::builder().nodes(nodes);
    for user in TEAMS.iter().map(|team| team.user).chain([LEAD]) {
        builder = builder.user(user, &[]);
    }
    let cluster = builder.start().await?;
    let postgres = Postgres::start(cluster.dir()).await?;
    teams::create(&cluster, args.nodes).await?;

    eprintln!("starting scheduler, controllers and REST API …");
    let platform = Platform::debug(&cluster).with_ledger(&postgres);
    let mut scheduler = platform.scheduler("warpyard-scheduler", LeaseTimes::Production, "").await?;
    let mut controllers = platform.controllers("warpyard-controllers").await?;
    let (mut api_server, url) = platform.api_server(&args.listen).await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;

    let logins = welcome::write_logins(&cluster, &platform.binary(""), &url)?;
    welcome::print(&cluster, &logins, &url, args.nodes, began.elapsed().as_secs_f64());
    tokio::select! {
        waited = tokio::signal::ctrl_c() => waited.context("failed to wait for Ctrl-C")?,
        error = workload(args, &cluster, &url) => return Err(error),
        // Dropping the cluster keeps its logs.
        log = first_to_end([&mut scheduler, &mut controllers, &mut api_server]) => {
            bail!("a server has ended; its log is {}", log.display());
        }
    }
    eprintln!("\nstopping …");
    scheduler.terminate().await;
    controllers.terminate().await;
    drop(postgres);
    cluster.stop().await;
    Ok(())
}

/// Submits the mix of jobs; ends only with an error.
async fn workload(args: &DevArgs, cluster: &TestCluster, url: &str) -> anyhow::Error {
    if args.empty {
        return std::future::pending().await;
    }
    let token = |user| Ok::<_, test_cluster::Error>((user, cluster.token_for_user(user)?.to_owned()));
    let tokens: Result<BTreeMap<_, _>, _> = TEAMS.iter().map(|team| token(team.user)).collect();
    let submitted = match tokens {
        Ok(tokens) => workload::submit(url, &tokens).await,
        Err(error) => Err(error.into()),
    };
    submitted.err().unwrap_or_else(|| anyhow::anyhow!("the mix of jobs has ended"))
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
