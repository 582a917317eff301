//! X6 `blended-cost`: the cost of a useful GPU-hour if teams share a pool and a part of the work may run on
//! spot, compared with on-demand machines that each team owns.
//!
//! ```text
//!   75 nodes, each team on its own, first come first served ──► cost per useful GPU-hour ──────────────┐
//!   jobs ──┬─ drawn, a share s of the GPU-hours ──► spot, each with a deadline, in a stitched market ──┤ saving, at s
//!          └─ the rest ──► a pool of 72 · (1 - s) on-demand nodes, the whole scheduler ────────────────┘
//! ```
//!
//! Costs are in on-demand GPU-hours per useful one. Nodes are paid for from the first arrival to the last, busy
//! or idle, and the work done in that time counts. On spot the cost includes launches, lost work, on-demand
//! hours, and unused GPUs of a machine: machines have 1, 4 or 8.

use std::cmp::Reverse;

use cluster_model::{Amounts, GpuType, Queue, QueueName, Reclaim};
use placement::Policy;
use simulator::ratio;
use simulator::traces::Error;
use simulator::traces::philly::{self, GPU_TYPE};
use simulator::{Job, Options, Random, Simulation, Workload, simulate};

use crate::pool_queue;
use crate::quota_vs_pool::Team;

/// All teams' nodes in the layout of the comparison.
pub const PARTITIONED_NODES: u32 = 75;

/// Nodes of a pool for all jobs.
pub const POOLED_NODES: u32 = 72;

/// Shorter jobs are not drawn: a quarter of their length is hardly more than a launch and a lost machine take.
pub const SPOT_SECONDS_MIN: u32 = 2 * 3_600;

const GPUS_PER_NODE: u64 = 8;

/// The teams with their nodes, exactly `layout_nodes` together: whole nodes by share, and the rest to the
/// largest remainders; ties in the order of the table.
pub fn teams(team_nodes: &str, layout_nodes: u32) -> Result<Vec<Team>, Error> {
    let all = philly::read_team_nodes(team_nodes)?;
    let sum = all.iter().map(|(_, nodes)| nodes).sum::<u32>().max(1);
    let mut remainders: Vec<(Reverse<u32>, usize)> = all
        .iter()
        .enumerate()
        .map(|(place, (_, nodes))| (Reverse(nodes * layout_nodes % sum), place))
        .collect();
    remainders.sort_unstable();
    let mut teams: Vec<Team> =
        all.into_iter().map(|(name, nodes)| Team { name, nodes: nodes * layout_nodes / sum }).collect();
    let left = layout_nodes.saturating_sub(teams.iter().map(|team| team.nodes).sum());
    for (_, place) in remainders.into_iter().take(left as usize) {
        teams[place].nodes += 1;
    }
    Ok(teams)
}

/// The jobs that fit on their team's own nodes; others are left out on both sides.
pub fn that_fit(workload: &Workload, teams: &[Team]) -> Workload {
    let nodes_of = |job: &Job| teams.iter().find(|team| *team.name == *job.queue.as_str()).map(|it| it.nodes);
    let fits = |job: &&Job| nodes_of(job).is_some_and(|nodes| gpus(job) <= u64::from(nodes) * GPUS_PER_NODE);
    let jobs = workload.jobs.iter().filter(fits).cloned().collect();
    Workload { jobs, ..workload.clone() }
}

/// The cost of a useful GPU-hour if each team has its own nodes.
pub fn partitioned_cost(workload: &Workload, teams: &[Team], fifo: &Policy) -> f64 {
    let (first, last) = arrivals(workload);
    let mut useful = 0;
    for team in teams {
        let jobs = workload.jobs.iter().filter(|job| job.queue.as_str() == &*team.name).cloned().collect();
        let nodes = workload.nodes.iter().take(team.nodes as usize).cloned().collect();
        let alone = Workload { nodes, jobs, ..Workload::default() };
        let outcome = simulate(alone, fifo.clone(), Options::default());
        for (job, record) in outcome.jobs.iter().zip(&outcome.records) {
            // No job gives way here: each runs from its start to its end.
            let Some(started) = record.started else { continue };
            let from = record.submitted + i64::from(started);
            let until = (from + i64::from(job.run_seconds)).min(last);
            useful += gpus(job) * u64::try_from(until - from).unwrap_or(0);
        }
    }
    let nodes: u32 = teams.iter().map(|team| team.nodes).sum();
    ratio(u64::from(nodes) * GPUS_PER_NODE * (last - first).unsigned_abs(), useful)
}

/// Which jobs may run on spot: drawn by a seed, up to this part of all GPU-hours in thousandths.
pub fn draw(workload: &Workload, share_thousandths: u64, seed: u64) -> Vec<bool> {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..workload.jobs.len()).collect();
    for place in (1..order.len()).rev() {
        let other = usize::try_from(random.below(place as u64 + 1)).unwrap_or(place);
        order.swap(place, other);
    }
    let mut left = workload.jobs.iter().map(gpu_seconds).sum::<u64>() * share_thousandths / 1_000;
    let mut drawn = vec![false; workload.jobs.len()];
    for number in order {
        let job = &workload.jobs[number];
        let work = gpu_seconds(job);
        if job.run_seconds >= SPOT_SECONDS_MIN && work <= left {
            left -= work;
            drawn[number] = true;
        }
    }
    drawn
}

/// The outcome of the pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool {
    /// Its nodes.
    pub nodes: u32,
    /// The cost of a useful GPU-hour in it.
    pub cost: f64,
    /// How long its jobs waited on average, lost work included.
    pub wait_mean_seconds: f64,
    /// Jobs that never started.
    pub never_started: u64,
}

/// Runs the jobs that were not drawn in a pool of on-demand nodes with a queue for each team. Its size depends
/// only on the share.
pub fn pool(workload: &Workload, teams: &[Team], drawn: &[bool], policy: &Policy) -> Pool {
    let rest: Vec<Job> =
        workload.jobs.iter().zip(drawn).filter(|(_, drawn)| !**drawn).map(|(job, _)| job.clone()).collect();
    let work = |jobs: &[Job]| jobs.iter().map(gpu_seconds).sum::<u64>();
    let (part, all) = (work(&rest), work(&workload.jobs).max(1));
    let nodes = u32::try_from((u64::from(POOLED_NODES) * part).div_ceil(all)).unwrap_or(POOLED_NODES);
    let pool = pool_queue::saving(&Workload {
        nodes: workload.nodes.iter().take(nodes as usize).cloned().collect(),
        queues: queues(teams, nodes),
        jobs: rest,
        ..Workload::default()
    });
    let options = Options { restart_seconds: pool_queue::RESTART_SECONDS, ..Options::default() };
    let mut simulation = Simulation::new(pool, policy.clone(), options);
    simulation.run(&mut ());
    let outcome = simulation.finish();
    let (mut done, mut vain) = (0, 0);
    let (mut waited, mut ended) = (0, 0);
    for (job, record) in outcome.jobs.iter().zip(&outcome.records) {
        let Some(wait) = pool_queue::wait_seconds(job, record) else { continue };
        waited += u64::from(wait);
        ended += 1;
        done += gpu_seconds(job);
        let restarts = u64::from(record.preemptions) * u64::from(pool_queue::RESTART_SECONDS);
        vain += record.lost_gpu_seconds + restarts * gpus(job);
    }
    let useful = outcome.summary.utilisation_percent / 100.0 * ratio(done, done + vain);
    Pool {
        nodes,
        cost: 1.0 / useful.max(f64::MIN_POSITIVE),
        wait_mean_seconds: ratio(waited, ended),
        never_started: outcome.summary.jobs_never_started,
    }
}

/// Quotas in proportion to the teams' own nodes; every team may borrow everything.
fn queues(teams: &[Team], nodes: u32) -> Vec<Queue> {
    let all: u32 = teams.iter().map(|team| team.nodes).sum();
    let gpus = |nodes: u64| i64::try_from(nodes * GPUS_PER_NODE).unwrap_or(i64::MAX);
    let amounts = |count: i64| Amounts {
        gpus: [(GpuType::from(GPU_TYPE), count)].into_iter().collect(),
        ..Amounts::default()
    };
    let queue = |team: &Team| {
        let quota = gpus(u64::from(nodes)) * i64::from(team.nodes) / i64::from(all.max(1));
        Queue {
            weight: team.nodes.max(1),
            quota: Some(amounts(quota)),
            limit: Some(amounts(gpus(u64::from(nodes)))),
            reclaim: Reclaim { grace_seconds: 240, min_run_seconds: 240 },
            ..Queue::new(QueueName::from(&*team.name))
        }
    };
    teams.iter().map(queue).collect()
}

/// GPUs of the machines that are paid for, where machines have 1, 4 or 8 at one price for each GPU.
pub fn bought_gpus(asked: u64) -> u64 {
    match asked {
        0 | 1 => asked,
        2..=4 => 4,
        _ => asked.next_multiple_of(GPUS_PER_NODE),
    }
}

/// The saving in percent, if a share of the work costs `spot` for each useful GPU-hour and the rest `pool`.
pub fn saving_percent(share: f64, spot: f64, pool: f64, partitioned: f64) -> f64 {
    100.0 * (1.0 - (share * spot + (1.0 - share) * pool) / partitioned)
}

/// From the first arrival to the last.
pub fn arrivals(workload: &Workload) -> (i64, i64) {
    let submitted = || workload.jobs.iter().map(|job| job.submitted.as_second());
    (submitted().min().unwrap_or(0), submitted().max().unwrap_or(0))
}

/// GPUs of all members.
pub fn gpus(job: &Job) -> u64 {
    job.gpu_millis() / 1_000
}

/// The useful work of a job.
pub fn gpu_seconds(job: &Job) -> u64 {
    gpus(job) * u64::from(job.run_seconds)
}

#[cfg(test)]
mod tests {
    use cluster_model::Resources;
    use jiff::Timestamp;
    use simulator::{Job, Random, Workload};

    use super::{bought_gpus, draw, gpu_seconds, saving_percent, teams};

    #[test]
    fn the_published_arithmetic_comes_out() {
        // Packing saves 21.5 %; spot that saves 60 % of a pooled hour adds up to 45 and 59 %.
        let (partitioned, pooled) = (1.0 / 0.623, 1.0 / 0.794);
        let saving = |share: f64| saving_percent(share, 0.4 * pooled, pooled, partitioned);
        assert!((saving(0.0) - 21.5).abs() < 0.1);
        assert!((saving(0.5) - 45.1).abs() < 0.1);
        assert!((saving(0.8) - 59.2).abs() < 0.1);
    }

    #[test]
    fn teams_have_as_many_nodes_together_as_the_layout() {
        let table = "vc,node num\na,3\nb,3\nc,1\n";
        let nodes = |layout| teams(table, layout).unwrap().iter().map(|team| team.nodes).collect::<Vec<_>>();
        assert_eq!(nodes(7), [3, 3, 1]);
        assert_eq!(nodes(75), [32, 32, 11]);
        assert_eq!(nodes(8), [4, 3, 1], "equal remainders are served in the order of the table");
    }

    #[test]
    fn gpus_that_are_not_used_are_paid_for() {
        let bought: Vec<u64> = [1, 2, 4, 5, 8, 12, 16].into_iter().map(bought_gpus).collect();
        assert_eq!(bought, [1, 4, 4, 8, 8, 16, 16]);
    }

    #[test]
    fn a_draw_is_the_share_of_gpu_hours_and_depends_on_the_seed() {
        let mut random = Random::new(1);
        let mut job = |number: u32| Job {
            run_seconds: u32::try_from(3_600 + random.below(100_000)).unwrap(),
            requests: Resources { gpus: 1, pods: 1, ..Resources::default() },
            ..Job::new(number.to_string(), "q", Timestamp::UNIX_EPOCH)
        };
        let workload = Workload { jobs: (0..2_000).map(&mut job).collect(), ..Workload::default() };
        let all: u64 = workload.jobs.iter().map(gpu_seconds).sum();
        let one = draw(&workload, 500, 1);
        let of = |drawn: &[bool]| -> u64 {
            workload.jobs.iter().zip(drawn).filter(|(_, it)| **it).map(|(job, _)| gpu_seconds(job)).sum()
        };
        assert!(of(&one) <= all / 2 && of(&one) > all / 2 - all / 1_000);
        let is_long = |(job, drawn): (&Job, &bool)| !drawn || job.run_seconds >= super::SPOT_SECONDS_MIN;
        assert!(workload.jobs.iter().zip(&one).all(is_long));
        assert_ne!(one, draw(&workload, 500, 2));
        assert_eq!(one, draw(&workload, 500, 1));
    }
}
