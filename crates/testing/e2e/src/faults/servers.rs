//! Two API servers on one store, one of which reads everything late. Schedulers use both, and their leaders are
//! killed, or stopped until another one leads: one server can admit a successor while the other still knows the
//! former leader.

use std::time::{Duration, Instant};

use test_cluster::TestCluster;
use test_cluster::platform::LeaseTimes;

use super::Findings;
use super::leaders::Leaders;
use super::load::Load;
use super::site::Site;
use super::stops::LINGER;
use crate::objects::h100_nodes;

/// How late the second server is. Less than a new leader's settle time minus the write timeout (0.7 s and 0.5 s with short
/// leases, 5 s and 3 s in production): that is what the settle time is for.
const LATE: Duration = Duration::from_millis(150);

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Kills of the leader; after every third one comes a stop.
    pub kills: usize,
    /// Names the run.
    pub seed: u64,
}

/// Kills and stops leaders whose requests go to either server.
pub async fn run(wanted: Size) -> anyhow::Result<Findings> {
    println!("servers: {wanted:?}, the second server {LATE:?} late");
    let builder = TestCluster::builder().nodes(h100_nodes("node", 8)).api_servers(2);
    let site = Site::start(builder).await?;
    let proxy = site.cluster.fault_proxy(&site.cluster.api_server_urls(), wanted.seed).await?;
    site.cluster.delay_store(LATE)?;
    let mut load = Load::new(&site.client, wanted.seed, "6s");
    let mut leaders = Leaders::new(&site.cluster, proxy.url()).await?;
    leaders.failpoints = LINGER;
    while leaders.counted < wanted.kills && leaders.wasted <= wanted.kills + 5 {
        load.create_gangs(4).await?;
        let delay = Duration::from_micros(load.random.below(60_000));
        if leaders.counted > 3 * leaders.stopped {
            leaders.stop_in_the_middle(LeaseTimes::Short, delay).await?;
        } else {
            leaders.kill_in_the_middle(LeaseTimes::Short, delay).await?;
        }
    }
    println!("{} leaders were killed, {} stopped", leaders.counted, leaders.stopped);
    let ended = Instant::now();
    leaders.finish_alone(LeaseTimes::Short, site.settle()).await?;
    let kills = leaders.counted;
    anyhow::ensure!(kills == wanted.kills, "{} kills found no bind in flight", leaders.wasted);
    drop(leaders);
    let findings = site.finish("servers", ended).await?;
    Ok(Findings { kills, ..findings })
}
