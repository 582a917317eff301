//! SIGKILL of the leader with binds in flight, again and again.

use std::time::{Duration, Instant};

use anyhow::ensure;
use test_cluster::TestCluster;
use test_cluster::platform::LeaseTimes;

use super::Findings;
use super::leaders::Leaders;
use super::load::Load;
use super::site::Site;
use crate::objects::h100_nodes;

/// A kill lands up to this long after the first bind of a leader.
const DELAY_MICROS_MAX: u64 = 60_000;

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Kills with a lease so short that there can be many.
    pub short: usize,
    /// Kills at production's lease times.
    pub production: usize,
    /// Gangs that are created before each kill, unless many wait; 64 GPUs hold only a few at a time.
    pub gangs_per_kill: usize,
    /// Names the run.
    pub seed: u64,
}

/// Kills until as many found binds in flight as are wanted.
pub async fn run(wanted: Size) -> anyhow::Result<Findings> {
    println!("kills: {wanted:?}");
    let site = Site::start(TestCluster::builder().nodes(h100_nodes("node", 8))).await?;
    let mut load = Load::new(&site.client, wanted.seed, "6s");
    let mut leaders = Leaders::new(&site.cluster, site.cluster.url()).await?;
    let all = wanted.short + wanted.production;
    // A kill that found no bind in flight does not count, and half as many may be wasted.
    let wasted_max = all / 2 + 5;
    while leaders.counted < all {
        let is_short = leaders.counted < wanted.short;
        // With a short lease the rest of a gang is bound while its first members run. At production values some end
        // before, which is the harder case: half of them.
        load.run_time = if is_short || leaders.counted.is_multiple_of(2) { "6s" } else { "20s" };
        load.create_gangs(wanted.gangs_per_kill).await?;
        let delay = Duration::from_micros(load.random.below(DELAY_MICROS_MAX));
        let times = if is_short { LeaseTimes::Short } else { LeaseTimes::Production };
        leaders.kill_in_the_middle(times, delay).await?;
        ensure!(leaders.wasted <= wasted_max, "{} kills found no bind in flight", leaders.wasted);
    }
    let killed = Instant::now();
    let times = if wanted.production > 0 { LeaseTimes::Production } else { LeaseTimes::Short };
    leaders.finish_alone(times, site.settle()).await?;
    println!(
        "{} kills with binds in flight, {} without; {} binds in flight at death, of which the API server had done {}",
        leaders.counted, leaders.wasted, leaders.in_flight, leaders.landed
    );
    println!("from a kill to the successor's first bind, production's lease times: {:?}", leaders.takeovers);
    let (kills, takeovers) = (leaders.counted, std::mem::take(&mut leaders.takeovers));
    drop(leaders);
    let findings = site.finish("kills", killed).await?;
    Ok(Findings { kills, takeovers, ..findings })
}
