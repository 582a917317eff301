//! SIGSTOP of the leader in the middle of its binds, for longer than its lease; then it goes on while its
//! successor leads.

use std::time::{Duration, Instant};

use anyhow::ensure;
use test_cluster::TestCluster;
use test_cluster::platform::LeaseTimes;

use super::Findings;
use super::leaders::Leaders;
use super::load::Load;
use super::site::Site;
use crate::objects::h100_nodes;

/// A stopped leader wakes up without its lease, and pauses wherever it could notice that, so that it really
/// sends its planned binds while its successor sends its own.
pub(super) const LINGER: &str = "before-binds=50%sleep(50);lease-lost=sleep(2000);fenced=sleep(2000)";
/// Among this many stops, at least one leader still sends a bind.
const FENCED_AMONG: usize = 20;
/// A stop lands up to this long after the first bind of a leader: before, among and after its binds.
const DELAY_MICROS_MAX: u64 = 40_000;

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// How many leaders are stopped.
    pub stops: usize,
    /// Names the run.
    pub seed: u64,
}

/// Stops one leader after the other.
pub async fn run(wanted: Size) -> anyhow::Result<Findings> {
    println!("stops: {wanted:?}");
    let site = Site::start(TestCluster::builder().nodes(h100_nodes("node", 8))).await?;
    let mut load = Load::new(&site.client, wanted.seed, "6s");
    let mut leaders = Leaders::new(&site.cluster, site.cluster.url()).await?;
    leaders.failpoints = LINGER;
    for _ in 0..wanted.stops {
        load.create_gangs(6).await?;
        let delay = Duration::from_micros(load.random.below(DELAY_MICROS_MAX));
        leaders.stop_in_the_middle(LeaseTimes::Short, delay).await?;
    }
    let stopped = Instant::now();
    leaders.finish_alone(LeaseTimes::Short, site.settle()).await?;
    println!(
        "{} leaders were stopped and went on; the fence refused {} of their binds",
        leaders.stopped, leaders.fenced
    );
    // In a few stops there may be none by chance.
    let shows_something = leaders.fenced > 0 || wanted.stops < FENCED_AMONG;
    ensure!(shows_something, "no leader that was stopped sent a bind: this shows nothing");
    drop(leaders);
    site.finish("stops", stopped).await
}
