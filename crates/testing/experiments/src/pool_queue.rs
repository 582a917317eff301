//! X2 `philly-pool-queue`: October and November of the Philly trace on one pool, with unknown run times.
//!
//! Under first come, first served or skip-ahead, waits depend on ties: run times half a percent longer or
//! shorter change them by a tenth. So every figure is the mean over copies of the trace, with run times changed
//! by at most half a percent.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster_model::{EvictionTerms, Queue, Terms};
use jiff::Timestamp;
use placement::Policy;
use simulator::traces::{Error, philly};
use simulator::{Job, JobRecord, Options, Percentiles, Random, Workload, simulate};

/// The months that are reported; September is for tuning.
pub const REPORTED: (&str, &str) = ("2017-10-01T00:00:00Z", "2017-12-01T00:00:00Z");

/// September.
pub const TUNED: (&str, &str) = ("2017-09-01T00:00:00Z", "2017-10-01T00:00:00Z");

/// If jobs may be evicted, each saves its state this often. With [`RESTART_SECONDS`], an eviction loses ten
/// minutes on average, and half a minute in which the job leaves.
pub const SAVES_SECONDS: u32 = 600;
/// How long an evicted job needs to start again.
pub const RESTART_SECONDS: u32 = 300;

/// The outcome of one copy of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Waits of jobs, from submission to end without the run time itself, so that lost work counts as waiting.
    pub wait: Percentiles,
    /// How often a job was evicted.
    pub preemptions: u64,
    /// The most evictions of one job.
    pub preemptions_max: u16,
    /// GPU time that evictions lost, in percent of all GPU time.
    pub preempted_percent: f64,
}

/// Reads the jobs of the eleven teams with nodes of their own, submitted in `[from, until)`, into one pool.
pub fn read(trace: &str, team_nodes: &str, nodes: u32, months: (&str, &str)) -> Result<Workload, Error> {
    let mut workload = read_by_team(trace, team_nodes, nodes, months)?;
    let teams: BTreeSet<Arc<str>> = workload.jobs.iter().map(|job| Arc::from(job.queue.as_str())).collect();
    let pool = Queue { namespaces: teams, ..Queue::new("pool") };
    for job in &mut workload.jobs {
        job.team = Some(job.queue.as_str().into());
        job.queue = pool.name.clone();
    }
    workload.queues = vec![pool];
    Ok(workload)
}

/// The same jobs, each in the queue of its team.
pub fn read_by_team(
    trace: &str,
    team_nodes: &str,
    nodes: u32,
    months: (&str, &str),
) -> Result<Workload, Error> {
    let teams: BTreeSet<String> =
        philly::read_team_nodes(team_nodes)?.into_iter().map(|(team, _)| team.to_string()).collect();
    let moment = |text: &str| -> Option<Timestamp> { text.parse().ok() };
    let selection = philly::Selection {
        from: moment(months.0),
        until: moment(months.1),
        teams,
        nodes,
        ..philly::Selection::default()
    };
    philly::read(trace, &selection)
}

/// The outcome of each copy of the trace; the first copy is the trace itself.
pub fn runs(workload: &Workload, policy: &Policy, copies: u64) -> Vec<Run> {
    let options = || Options { restart_seconds: RESTART_SECONDS, ..Options::default() };
    let run = |copy| {
        let outcome = simulate(jittered(workload, copy), policy.clone(), options());
        let waits = outcome.jobs.iter().zip(&outcome.records);
        Run {
            wait: Percentiles::of(waits.filter_map(|(job, record)| wait_seconds(job, record)).collect()),
            preemptions: outcome.summary.preemptions,
            preemptions_max: outcome.records.iter().map(|record| record.preemptions).max().unwrap_or(0),
            preempted_percent: outcome.summary.preempted_percent,
        }
    };
    (0..copies).map(run).collect()
}

/// From submission to end, without the run time itself; `None` for a job that did not end.
pub fn wait_seconds(job: &Job, record: &JobRecord) -> Option<u32> {
    Some(record.ended?.saturating_sub(job.run_seconds))
}

/// The same jobs, each of which saves its state and may be evicted.
pub fn saving(workload: &Workload) -> Workload {
    let eviction = EvictionTerms { checkpoints: true, ..EvictionTerms::default() };
    let terms = Arc::new(Terms { eviction, ..Terms::default() });
    let mut saving = workload.clone();
    for job in &mut saving.jobs {
        job.checkpoint_seconds = Some(SAVES_SECONDS);
        job.terms = terms.clone();
    }
    saving
}

/// Run times times 0.995 to 1.005, by seed; seed 0 changes nothing.
pub fn jittered(workload: &Workload, seed: u64) -> Workload {
    let mut copy = workload.clone();
    if seed > 0 {
        let mut random = Random::new(seed);
        for job in &mut copy.jobs {
            let thousandths_of_thousandths = 995_000 + random.below(10_001);
            let seconds = u64::from(job.run_seconds) * thousandths_of_thousandths / 1_000_000;
            job.run_seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        }
    }
    copy
}

#[cfg(test)]
mod tests {
    use simulator::policies;
    use simulator::synthetic::Recipe;

    use super::{runs, saving};

    #[test]
    fn nobody_gives_way_who_does_not_save_its_state() {
        let mut workload =
            Recipe { jobs: 600, nodes: 6, teams: 2, load_percent: 150, ..Recipe::default() }.workload();
        // One pool without quotas, as in the trace: jobs give way only for less expected work.
        let pool = cluster_model::Queue::new("pool");
        for job in &mut workload.jobs {
            job.queue = pool.name.clone();
            job.terms = super::Arc::default();
            job.checkpoint_seconds = None;
        }
        workload.queues = vec![pool];
        let full = policies::preset("full").unwrap();
        assert_eq!(runs(&workload, &full, 1)[0].preemptions, 0);
        assert!(runs(&saving(&workload), &full, 1)[0].preemptions > 0);
    }
}
