//! A cluster for manual tests:
//! `cargo run -p test-cluster --example up -- --dir DIR [--nodes 4] [--racks 2] [--real-nodes 0] [--karpenter no]`.
//!
//! Prints the path of an admin kubeconfig on stdout once the cluster is ready, and runs until standard input closes
//! or SIGTERM or SIGINT arrives. DIR also has a kubeconfig for each of our service accounts in `deploy/` and
//! for the users alice and bob, and logs/.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api_types::names;
use futures::future::try_join_all;
use test_cluster::karpenter::KarpenterSettings;
use test_cluster::{FakeNodes, RealNode, TestCluster};
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::from_args()?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let builder = TestCluster::builder();
    let builder = if options.real_nodes > 0 { builder.real_nodes() } else { builder };
    let builder = if options.karpenter { builder.karpenter(KarpenterSettings::default()) } else { builder };
    let start = builder
        .dir(&options.dir)
        .nodes(FakeNodes { count: options.nodes, racks: options.racks, ..FakeNodes::default() })
        .user("alice", &["vision"])
        .user("bob", &["language"])
        .start();
    let cluster = tokio::select! {
        cluster = start => cluster?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    eprintln!("Ready after {:.1} s.", cluster.ready_after().as_secs_f64());
    let names = (0..options.real_nodes).map(|index| format!("real-{index}"));
    try_join_all(names.map(|name| cluster.add_real_node(RealNode { name, ..RealNode::default() }))).await?;
    for user in ["alice", "bob"] {
        eprintln!("{user}: {}", cluster.kubeconfig_for_user(user)?.display());
    }
    for account in [
        names::SCHEDULER_SERVICE_ACCOUNT,
        names::CONTROLLERS_SERVICE_ACCOUNT,
        names::API_SERVER_SERVICE_ACCOUNT,
    ] {
        match cluster.kubeconfig_for_service_account(names::SYSTEM_NAMESPACE, account).await {
            Ok(path) => {
                let copy = options.dir.join(format!("{account}.kubeconfig"));
                std::fs::rename(path, &copy)?;
                eprintln!("{account}: {}", copy.display());
            }
            Err(error) => eprintln!("{account}: {:#}", anyhow::Error::from(error)),
        }
    }
    println!("{}", cluster.admin_kubeconfig().display());
    tokio::select! {
        () = standard_input_closes() => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    cluster.stop().await;
    Ok(())
}

/// A shell starts background jobs with /dev/null as input, which is always "closed" and means nothing.
async fn standard_input_closes() {
    if std::fs::read_link("/proc/self/fd/0").is_ok_and(|target| target == Path::new("/dev/null")) {
        std::future::pending::<()>().await;
    }
    let (mut input, mut buffer) = (tokio::io::stdin(), [0_u8; 64]);
    while input.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}

struct Options {
    dir: PathBuf,
    nodes: usize,
    racks: usize,
    real_nodes: usize,
    karpenter: bool,
}

impl Options {
    fn from_args() -> anyhow::Result<Self> {
        let (mut dir, mut nodes, mut racks, mut real_nodes, mut karpenter) = (None, 4, 2, 0, false);
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let value = args.next().with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--dir" => dir = Some(PathBuf::from(value)),
                "--nodes" => nodes = value.parse().context("--nodes needs a number")?,
                "--racks" => racks = value.parse().context("--racks needs a number")?,
                "--real-nodes" => real_nodes = value.parse().context("--real-nodes needs a number")?,
                "--karpenter" => karpenter = value == "yes",
                _ => bail!("unknown option {name}"),
            }
        }
        Ok(Self { dir: dir.context("--dir DIR is needed")?, nodes, racks, real_nodes, karpenter })
    }
}
