//! X2 `philly-pool-queue`: October and November of the Philly trace on one pool, without anybody knowing run times.
//!
//! What jobs wait under first come, first served or skip-ahead depends on ties: run times half a per cent longer or shorter
//! move it by a tenth. So every figure is the mean of copies of the trace with run times off by at most half a per cent.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster_model::{EvictionTerms, Queue, Terms};
use jiff::Timestamp;
use placement::Policy;

use crate::traces::{Error, philly};
use crate::{Job, JobRecord, Options, Random, Spread, Workload, simulate};

/// The months that are reported; September is for tuning.
pub const REPORTED: (&str, &str) = ("2017-10-01T00:00:00Z", "2017-12-01T00:00:00Z");

/// September.
pub const TUNED: (&str, &str) = ("2017-09-01T00:00:00Z", "2017-10-01T00:00:00Z");

/// Where jobs may be made to give way, every one saves its state so often, and needs so long to start again: what is
/// lost each time is ten minutes on average, and half a minute in which it leaves.
pub const SAVES_SECONDS: u32 = 600;
/// See [`SAVES_SECONDS`].
pub const RESTART_SECONDS: u32 = 300;

/// What came of one copy of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// How long jobs waited: from submission to end, without the run time itself, so that lost work counts as waiting.
    pub wait: Spread,
    /// How often a job was made to give way.
    pub preemptions: u64,
    /// How often one and the same job was, at most.
    pub preemptions_max: u16,
    /// GPU time that was lost by it, in percent of what was spent.
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

/// What comes of each copy of the trace; the first one is the trace itself.
pub fn runs(workload: &Workload, policy: &Policy, copies: u64) -> Vec<Run> {
    let options = || Options { restart_seconds: RESTART_SECONDS, ..Options::default() };
    let run = |copy| {
        let outcome = simulate(jittered(workload, copy), policy.clone(), options());
        let waits = outcome.jobs.iter().zip(&outcome.records);
        Run {
            wait: Spread::of(waits.filter_map(|(job, record)| wait_seconds(job, record)).collect()),
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

/// The same jobs, if every one of them saves its state and may be made to give way.
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
    use super::{runs, saving};
    use crate::policies;
    use crate::synthetic::Recipe;

    #[test]
    fn nobody_gives_way_who_does_not_save_its_state() {
        let mut workload =
            Recipe { jobs: 600, nodes: 6, teams: 2, load_percent: 150, ..Recipe::default() }.workload();
        // One pool without quotas, as in the trace: what is left to give way for is expected work.
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
