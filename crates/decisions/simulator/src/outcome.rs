//! The result: a record per job, series over time, and the figures people ask for.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use trace_format::Job;

use crate::series::Series;

/// The result of a simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The jobs as they were given, in the order of their arrival.
    pub jobs: Vec<Job>,
    /// What happened to each, in the same order. 48 bytes each.
    pub records: Vec<JobRecord>,
    /// How things went over time.
    pub series: Series,
    /// The figures.
    pub summary: Summary,
}

/// What happened to one job. Times are in seconds of the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobRecord {
    /// When it was submitted.
    pub submitted: i64,
    /// When it first started.
    pub started: Option<u32>,
    /// When it ended, after the submission.
    pub ended: Option<u32>,
    /// All the time it waited for a node, after preemptions too.
    pub waited_seconds: u32,
    /// How often it was made to give way.
    pub preemptions: u16,
    /// How often it lost a node.
    pub failures: u16,
    /// GPU-seconds that were spent and led to nothing: since the last checkpoint, and to start again.
    pub lost_gpu_seconds: u64,
}

impl JobRecord {
    /// From submission to the first start.
    pub fn wait_seconds(&self) -> Option<u32> {
        self.started
    }

    /// From submission to the end.
    pub fn completion_seconds(&self) -> Option<u32> {
        self.ended
    }
}

/// The figures of one simulation. Waits are from submission to the first start, of jobs that started.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Jobs that were submitted.
    pub jobs: u64,
    /// Jobs that ended.
    pub jobs_ended: u64,
    /// Jobs that never started.
    pub jobs_never_started: u64,
    /// The first arrival.
    pub first_arrival: Option<Timestamp>,
    /// From the first arrival to the last end.
    pub makespan_seconds: u64,
    /// How long jobs waited.
    pub wait: Percentiles,
    /// How long jobs took from submission to end.
    pub completion: Percentiles,
    /// Busy GPU time over all GPU time that was there, between the first and the last arrival.
    pub utilisation_percent: f64,
    /// How often a job was made to give way.
    pub preemptions: u64,
    /// How often a job lost a node.
    pub failures: u64,
    /// GPU time that was spent and led to nothing, over all that was spent.
    pub lost_percent: f64,
    /// GPU time of attempts that were preempted and not saved, over all that was spent.
    pub preempted_percent: f64,
    /// Jobs with a deadline that ended after it.
    pub deadlines_missed: u64,
    /// Hours that nodes with pods on them were on.
    pub powered_node_hours: f64,
    /// How many plans were made.
    pub plans: u64,
    /// How many moments were simulated.
    pub moments: u64,
}

/// What one queue did, and how long its jobs waited.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueSummary {
    /// The queue.
    pub name: String,
    /// Jobs that were submitted.
    pub jobs: u64,
    /// GPU time of jobs that ended, without what had to be done again.
    pub useful_gpu_seconds: u64,
    /// The same as a part of that of all queues.
    pub useful_percent: f64,
    /// How long its jobs waited.
    pub wait: Percentiles,
    /// How often one of its jobs gave way or lost a node.
    pub interruptions: u64,
}

impl Outcome {
    /// Every queue that had jobs, the one with the most GPU time first; ties by name.
    pub fn queues(&self) -> Vec<QueueSummary> {
        let mut queues: BTreeMap<&str, (QueueSummary, Vec<u32>)> = BTreeMap::new();
        for (job, record) in self.jobs.iter().zip(&self.records) {
            let (queue, waits) = queues.entry(job.queue.as_str()).or_default();
            queue.jobs += 1;
            if record.ended.is_some() {
                let seconds = u64::from(job.run_seconds_within_limit());
                queue.useful_gpu_seconds += job.gpu_millis() * seconds / 1000;
            }
            waits.extend(record.started);
            queue.interruptions += u64::from(record.preemptions) + u64::from(record.failures);
        }
        let all: u64 = queues.values().map(|(queue, _)| queue.useful_gpu_seconds).sum();
        let finish = |(name, (queue, waits)): (&str, (QueueSummary, Vec<u32>))| QueueSummary {
            name: name.to_owned(),
            useful_percent: 100.0 * ratio(queue.useful_gpu_seconds, all),
            wait: Percentiles::of(waits),
            ..queue
        };
        let mut queues: Vec<_> = queues.into_iter().map(finish).collect();
        queues.sort_by_key(|queue| Reverse(queue.useful_gpu_seconds));
        queues
    }
}

/// A distribution by some of its points, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Percentiles {
    /// The mean.
    pub mean_seconds: f64,
    /// Half are shorter.
    pub p50_seconds: u32,
    /// Nine of ten are shorter.
    pub p90_seconds: u32,
    /// Ninety-nine of a hundred are shorter.
    pub p99_seconds: u32,
    /// The longest.
    pub max_seconds: u32,
}

impl Percentiles {
    /// Of values in any order.
    pub fn of(mut values: Vec<u32>) -> Self {
        values.sort_unstable();
        let Some(&max_seconds) = values.last() else { return Self::default() };
        // The smallest value that at least this many hundredths of all do not exceed.
        let percentile = |percent: usize| values[(values.len() * percent).div_ceil(100).max(1) - 1];
        let sum: u64 = values.iter().map(|value| u64::from(*value)).sum();
        Self {
            mean_seconds: ratio(sum, values.len() as u64),
            p50_seconds: percentile(50),
            p90_seconds: percentile(90),
            p99_seconds: percentile(99),
            max_seconds,
        }
    }
}

/// `a ÷ b` for people; nothing over nothing is nothing.
#[expect(clippy::cast_precision_loss, reason = "a figure for people, to a few digits")]
pub fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

#[cfg(test)]
mod tests {
    use super::Percentiles;

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let spread = Percentiles::of((1..=100).rev().collect());
        assert_eq!((spread.p50_seconds, spread.p90_seconds, spread.p99_seconds), (50, 90, 99));
        assert_eq!(spread.max_seconds, 100);
        assert!((spread.mean_seconds - 50.5).abs() < 1e-9);
        assert_eq!(Percentiles::of(vec![7]).p50_seconds, 7);
        assert_eq!(Percentiles::of(Vec::new()), Percentiles::default());
    }
}
