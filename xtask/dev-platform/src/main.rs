//! The whole platform on this machine, with fake GPU nodes, three teams, prices and a running mix of jobs, until Ctrl-C.
//!
//! `cargo xtask dev` reads the arguments, builds this program and our binaries, and starts it.

mod machines;
mod teams;
mod welcome;
mod workload;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::Value;
use test_cluster::platform::{Platform, Service};
use test_cluster::postgres::Postgres;
use test_cluster::process::ProcessSpec;
use test_cluster::{FakeNodes, TestCluster};
use xtask::dev::DevArgs;

use crate::teams::{LEAD, TEAMS};

/// There is only one scheduler here, and a machine that compiles may stand still for longer than the installed
/// times.
const LEASE: [&str; 3] = ["--lease-duration=60s", "--lease-renew-deadline=40s", "--lease-retry=2s"];
/// How many errors are shown from the log of an ended process.
const ERRORS_SHOWN: usize = 3;

/// The arguments of the verb.
#[derive(Parser)]
#[command(name = "cargo xtask dev", bin_name = "cargo xtask dev")]
struct Arguments {
    #[command(flatten)]
    dev: DevArgs,
}

fn main() -> anyhow::Result<()> {
    let args = Arguments::parse().dev;
    // The scheduler would report it too, but only after its servers have started.
    scheduler::policy::read(args.policy.as_deref())?;
    let runtime = tokio::runtime::Runtime::new().context("failed to start the async runtime")?;
    runtime.block_on(bring_up(&args))
}

/// The nodes that the teams share: the fake nodes, and machines that may be bought.
fn owned_nodes(args: &DevArgs) -> u32 {
    if args.buy_machines { args.nodes + machines::MACHINES_MAX } else { args.nodes }
}

async fn bring_up(args: &DevArgs) -> anyhow::Result<()> {
    let began = Instant::now();
    eprintln!("starting PostgreSQL, etcd, API server, controller-manager and {} fake nodes …", args.nodes);
    let nodes = FakeNodes { count: args.nodes as usize, racks: args.racks, ..FakeNodes::default() };
    let mut builder = TestCluster::builder().nodes(nodes);
    for user in TEAMS.iter().map(|team| team.user).chain([LEAD]) {
        builder = builder.user(user, &[]);
    }
    if args.buy_machines {
        builder = builder.karpenter(machines::cloud());
    }
    let cluster = builder.start().await?;
    let postgres = Postgres::start(cluster.dir()).await?;
    teams::create(&cluster, owned_nodes(args)).await?;
    if args.buy_machines {
        machines::offer(&cluster).await?;
    }

    eprintln!("starting scheduler, controllers and REST API …");
    let platform = Platform::debug(&cluster).with_ledger(&postgres);
    let with_arguments = |spec| scheduler_spec(spec, args);
    let mut scheduler = platform.scheduler_as_installed("warpyard-scheduler", with_arguments).await?;
    let mut controllers = platform.controllers("warpyard-controllers").await?;
    let (mut api_server, url) = platform.api_server(&args.listen).await?;
    let metrics = scheduler.health_address().await?;
    tokio::try_join!(scheduler.ready(), controllers.ready())?;

    let logins = welcome::write_logins(&cluster, &platform.binary(""), &url)?;
    let addresses = welcome::Addresses { portal: &url, metrics: &metrics };
    welcome::print(&cluster, &logins, &addresses, owned_nodes(args), began.elapsed().as_secs_f64());
    tokio::select! {
        waited = tokio::signal::ctrl_c() => waited.context("failed to wait for Ctrl-C")?,
        error = workload(args, &cluster, &url) => return Err(error),
        // Dropping the cluster keeps its logs.
        ended = first_to_end([&mut scheduler, &mut controllers, &mut api_server]) => bail!(ended),
    }
    eprintln!("\nstopping …");
    scheduler.terminate().await;
    controllers.terminate().await;
    drop(postgres);
    cluster.stop().await;
    Ok(())
}

/// As installed, except for its lease and a more detailed log.
fn scheduler_spec(spec: ProcessSpec, args: &DevArgs) -> ProcessSpec {
    let spec = spec.args(LEASE).env("RUST_LOG", "info,scheduler=debug,cluster_apply=debug");
    let spec = if args.buy_machines { spec.args(["--buy-machines"]) } else { spec };
    match &args.policy {
        Some(file) => spec.path_arg("policy", file),
        None => spec,
    }
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

/// Waits until one of our processes ends; returns its name, its last errors, and the path of its log.
async fn first_to_end(mut services: [&mut Service; 3]) -> String {
    loop {
        for service in &mut services {
            let process = service.process();
            if let Some(status) = process.exit_status() {
                let (name, log) = (process.name(), process.log().display());
                return format!(
                    "{name} ended with {status}; its log is {log}\n\n{}",
                    errors(&process.log_tail())
                );
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The last errors at the end of a log, or the whole end if there are none.
fn errors(tail: &str) -> String {
    let is_error =
        |line: &&str| serde_json::from_str::<Value>(line).is_ok_and(|line| line["level"] == "ERROR");
    let errors: Vec<&str> = tail.lines().filter(is_error).collect();
    if errors.is_empty() {
        return tail.to_owned();
    }
    errors[errors.len().saturating_sub(ERRORS_SHOWN)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::errors;

    #[test]
    fn of_a_log_the_errors_are_shown_or_its_end() {
        let info = r#"{"level":"INFO","message":"Serving."}"#;
        let error = r#"{"level":"ERROR","message":"Lost the lease."}"#;
        assert_eq!(errors(&[info, error, info].join("\n")), error);
        assert_eq!(errors(&[error; 5].join("\n")), [error; 3].join("\n"));
        let panic = "thread 'main' panicked";
        assert_eq!(errors(panic), panic);
    }
}
