//! X3 `philly-quota-vs-pool`: how many fewer nodes are enough if teams share a pool under quotas instead of
//! owning nodes.
//!
//! ```text
//!   106 nodes, each team on its own, first come first served ──► the wait of each team
//!                                                                        │ no team may wait longer
//!   N nodes, one queue per team: quota, borrowing, reclaim ──────────────┘
//! ```
//!
//! Waits include the cost of giving way: they count from submission to end without the run time, so that lost
//! work and restarts count as waiting.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_model::plan::Plan;
use cluster_model::{Amounts, ClusterState, GangKey, GpuType, Queue, QueueName, Reclaim, ResourceName};
use jiff::Timestamp;
use placement::Policy;
use simulator::ratio;
use simulator::traces::philly::GPU_TYPE;
use simulator::traces::{Error, philly};
use simulator::{Happening, Options, Outcome, Simulation, Watch, Workload, simulate};

use crate::pool_queue;

/// Nodes in the layout of the comparison: the trace's teams need these if each owns its nodes.
pub const LAYOUT_NODES: u32 = 106;

/// Within this time a gang within its team's quota must start.
pub const BOUND_SECONDS: u32 = 300;

/// Teams with no more nodes of their own keep all of them as quota: their largest gangs need them.
const SMALL_NODES: u32 = 5;

const GPUS_PER_NODE: i64 = 8;

/// A team and the nodes that it owns in the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Team {
    /// Its name.
    pub name: Arc<str>,
    /// Its nodes.
    pub nodes: u32,
}

/// The settings of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terrain {
    /// How many nodes the pool has.
    pub nodes: u32,
    /// How long a gang within quota waits before others give way for it.
    pub grace_seconds: u32,
    /// How long a borrower is protected from eviction.
    pub min_run_seconds: u32,
}

/// The outcome of the pool.
#[derive(Clone, Debug, Default)]
pub struct Pooled {
    /// How long each team's jobs waited on average, lost work included, in the order of the teams.
    pub wait_mean_seconds: Vec<f64>,
    /// Gangs that waited although their team was within its quota.
    pub entitled: u64,
    /// Gangs of these that waited beyond the bound.
    pub entitled_late: u64,
    /// The longest of these waits.
    pub entitled_wait_seconds_max: u32,
    /// GPU time lost by evictions, in percent.
    pub preempted_percent: f64,
    /// The number of evictions.
    pub preemptions: u64,
}

/// The teams with their nodes in a layout of about `layout_nodes`, in the order of the table.
pub fn teams(team_nodes: &str, layout_nodes: u32) -> Result<Vec<Team>, Error> {
    let all = philly::read_team_nodes(team_nodes)?;
    let sum: u32 = all.iter().map(|(_, nodes)| nodes).sum();
    let part = |nodes: u32| (2 * nodes * layout_nodes + sum) / (2 * sum.max(1));
    Ok(all.into_iter().map(|(name, nodes)| Team { name, nodes: part(nodes) }).collect())
}

/// How long each team's jobs wait on average, alone on its own nodes, first come first served.
pub fn partitioned(workload: &Workload, teams: &[Team], fifo: &Policy) -> Vec<f64> {
    let alone = |team: &Team| {
        let jobs = workload.jobs.iter().filter(|job| job.queue.as_str() == &*team.name).cloned().collect();
        let nodes = workload.nodes.iter().take(team.nodes as usize).cloned().collect();
        let outcome =
            simulate(Workload { nodes, jobs, ..Workload::default() }, fifo.clone(), Options::default());
        outcome.summary.wait.mean_seconds
    };
    teams.iter().map(alone).collect()
}

/// The same jobs on one pool with a queue for each team.
pub fn pooled(workload: &Workload, teams: &[Team], terrain: Terrain, policy: &Policy) -> Pooled {
    let pool = Workload {
        nodes: workload.nodes.iter().take(terrain.nodes as usize).cloned().collect(),
        queues: queues(teams, terrain),
        ..pool_queue::saving(workload)
    };
    let options = Options { restart_seconds: pool_queue::RESTART_SECONDS, ..Options::default() };
    let mut entitled = EntitledWaits::default();
    let mut simulation = Simulation::new(pool, policy.clone(), options);
    simulation.run(&mut entitled);
    let outcome = simulation.finish();
    Pooled {
        wait_mean_seconds: teams.iter().map(|team| wait_mean_seconds(&outcome, team)).collect(),
        entitled: entitled.count,
        entitled_late: entitled.late,
        entitled_wait_seconds_max: entitled.seconds_max,
        preempted_percent: outcome.summary.preempted_percent,
        preemptions: outcome.summary.preemptions,
    }
}

/// The nodes that the jobs would fill from the first arrival to the last, packed without a gap: fewer cannot do
/// the work in that time.
pub fn work_bound_nodes(workload: &Workload) -> u32 {
    let submitted = || workload.jobs.iter().map(|job| job.submitted.as_second());
    let (Some(first), Some(last)) = (submitted().min(), submitted().max()) else { return 0 };
    let node_millis = 1000 * GPUS_PER_NODE.unsigned_abs();
    let work: u64 = workload.jobs.iter().map(|job| job.gpu_millis() * u64::from(job.run_seconds)).sum();
    u32::try_from(work.div_ceil(((last - first).unsigned_abs() * node_millis).max(1))).unwrap_or(u32::MAX)
}

/// Small teams keep their nodes as quota; the others share the rest in proportion. Every team may borrow
/// everything.
pub fn queues(teams: &[Team], terrain: Terrain) -> Vec<Queue> {
    let is_small = |team: &&Team| team.nodes <= SMALL_NODES;
    let kept: u32 = teams.iter().filter(is_small).map(|team| team.nodes).sum();
    let large: u32 = teams.iter().filter(|team| !is_small(team)).map(|team| team.nodes).sum();
    let left_gpus = i64::from(terrain.nodes.saturating_sub(kept)) * GPUS_PER_NODE;
    let queue = |team: &Team| {
        let quota = if is_small(&team) {
            i64::from(team.nodes) * GPUS_PER_NODE
        } else {
            left_gpus * i64::from(team.nodes) / i64::from(large.max(1))
        };
        Queue {
            weight: u32::try_from(quota).unwrap_or(1).max(1),
            quota: Some(gpus(quota)),
            limit: Some(gpus(i64::from(terrain.nodes) * GPUS_PER_NODE)),
            reclaim: Reclaim {
                grace_seconds: terrain.grace_seconds,
                min_run_seconds: terrain.min_run_seconds,
            },
            ..Queue::new(QueueName::from(&*team.name))
        }
    };
    teams.iter().map(queue).collect()
}

fn gpus(count: i64) -> Amounts {
    Amounts { gpus: [(GpuType::from(GPU_TYPE), count)].into_iter().collect(), ..Amounts::default() }
}

/// From submission to end, without the run time itself.
fn wait_mean_seconds(outcome: &Outcome, team: &Team) -> f64 {
    let mine = outcome.jobs.iter().zip(&outcome.records).filter(|(job, _)| job.queue.as_str() == &*team.name);
    let waits = mine.filter_map(|(job, record)| pool_queue::wait_seconds(job, record));
    let (mut sum, mut count) = (0, 0);
    for wait in waits {
        sum += u64::from(wait);
        count += 1;
    }
    ratio(sum, count)
}

/// Waits of gangs that fit into their queue's quota. Of equal gangs only the next one counts. The time starts
/// with the plan that leaves the gang waiting, and is void if others of the same queue start and use up the
/// quota.
#[derive(Default)]
pub struct EntitledWaits {
    since: BTreeMap<GangKey, i64>,
    /// The number of waits.
    pub count: u64,
    /// The number of waits longer than [`BOUND_SECONDS`].
    pub late: u64,
    /// The longest.
    pub seconds_max: u32,
}

impl Watch for EntitledWaits {
    fn happened(&mut self, at: Timestamp, what: &Happening<'_>) {
        let Happening::Started { placement, .. } = what else { return };
        let Some(since) = self.since.remove(&placement.gang) else { return };
        let waited = u32::try_from(at.as_second() - since).unwrap_or(0);
        self.count += 1;
        self.late += u64::from(waited > BOUND_SECONDS);
        self.seconds_max = self.seconds_max.max(waited);
    }

    fn planned(&mut self, state: &mut ClusterState, plan: &Plan) {
        let mut now = BTreeMap::new();
        let held = state.held_gangs().map(|(gang, _)| gang);
        let next = state.waiting_classes().into_iter().filter_map(|class| {
            let (_, gang) = class.first()?;
            is_within_quota(state, class.queue()?, gang).then_some(gang)
        });
        for gang in next {
            now.insert(gang.clone(), self.since.get(gang).copied().unwrap_or(plan.made_at.as_second()));
        }
        // Nodes held for a gang already count as its queue's.
        for gang in held {
            if let Some(since) = self.since.get(gang) {
                now.insert(gang.clone(), *since);
            }
        }
        self.since = now;
    }
}

fn is_within_quota(state: &ClusterState, queue: &QueueName, gang: &GangKey) -> bool {
    let (Some((queue, usage)), Some(gang)) = (state.queue(queue), state.gang(gang)) else { return false };
    let asks: i64 = gang.pending().map(|pod| state.pod(pod).pod().requests.gpus).sum();
    let resource = ResourceName::Gpu(GpuType::from(GPU_TYPE));
    let quota = queue.quota.as_ref().and_then(|quota| quota.get(&resource));
    quota.is_some_and(|quota| usage.held(&resource) + asks <= quota)
}

#[cfg(test)]
mod tests {
    use super::{LAYOUT_NODES, Terrain, queues, teams};

    const TABLE: &str = "vc,node num\n6214e9,64\n7f04ca,32\n11cb48,16\nb436b2,64\nee9e8c,64\ne13805,16\n\
        6c71a0,32\n2869ce,16\ned69ec,8\n103959,8\n0e4a51,32\n";

    #[test]
    fn the_layout_is_that_of_the_trace_in_proportion() {
        let nodes: Vec<u32> = teams(TABLE, LAYOUT_NODES).unwrap().iter().map(|team| team.nodes).collect();
        assert_eq!(nodes, [19, 10, 5, 19, 19, 5, 10, 5, 2, 2, 10]);
        assert_eq!(nodes.iter().sum::<u32>(), LAYOUT_NODES);
    }

    #[test]
    fn quotas_fit_into_the_pool_and_small_teams_keep_what_they_had() {
        let teams = teams(TABLE, LAYOUT_NODES).unwrap();
        let terrain = Terrain { nodes: 74, grace_seconds: 240, min_run_seconds: 600 };
        let quotas: Vec<i64> = queues(&teams, terrain)
            .iter()
            .map(|queue| queue.quota.as_ref().unwrap().gpus.values().sum())
            .collect();
        assert_eq!(quotas[5], 40);
        let sum: i64 = quotas.iter().sum();
        assert!((74 * 8 - 6..=74 * 8).contains(&sum), "{quotas:?}");
    }
}
