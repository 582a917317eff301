//! An API server that is slow, but has no other fault: every request takes seconds.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use test_cluster::TestCluster;
use test_cluster::fault_proxy::Faults;
use test_cluster::platform::LeaseTimes;

use super::Findings;
use super::keeper::Keeper;
use super::load::Load;
use super::site::Site;
use crate::objects::h100_nodes;

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// For how long every request is slow.
    pub slow: Duration,
    /// How long each request takes then. A renewal of the lease is given up after 2.5 s.
    pub latency: Duration,
    /// Names the run.
    pub seed: u64,
}

/// Slows a leader at production's lease times; it must keep its lease, and go on placing.
pub async fn run(wanted: Size) -> anyhow::Result<Findings> {
    println!("latency: {wanted:?}");
    let site = Site::start(TestCluster::builder().nodes(h100_nodes("node", 8))).await?;
    let proxy = site.cluster.fault_proxy(&site.cluster.api_server_urls(), wanted.seed).await?;
    let mut load = Load::new(&site.client, wanted.seed, "6s");
    let mut keeper = Keeper::start(&site.cluster, proxy.url(), LeaseTimes::Production).await?;
    keeper.service.ready().await?;
    proxy.set(Faults { delay: wanted.latency, ..Faults::default() });
    let began = Instant::now();
    keeper
        .while_alive(async {
            while began.elapsed() < wanted.slow {
                load.create_gangs(2).await?;
                tokio::time::sleep(Duration::from_secs(4)).await;
            }
            Ok(())
        })
        .await?;
    let lost = keeper.service.read_lines().iter().any(|line| line["message"] == "Lost the lease.");
    ensure!(keeper.restarts == 0 && !lost, "the leader lost its lease to a slow API server");
    let placed_while_slow = crate::observe::bound(&site.client, super::site::NAMESPACE).await?;
    ensure!(placed_while_slow > 0, "nothing was placed while the API server was slow");
    proxy.set(Faults::default());
    let ended = Instant::now();
    site.settle().await;
    println!(
        "{placed_while_slow} pods were placed with {:?} for each request, and the lease was kept",
        wanted.latency
    );
    drop(keeper);
    site.finish("latency", ended).await.context("judging a slow API server")
}
