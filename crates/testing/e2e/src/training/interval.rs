//! Whether the checkpoints of a training without failures settled on the interval that loses least.

use super::journal::Journal;

/// The number of intervals at the end that are judged.
pub const SETTLED: usize = 10;
/// None of them may be longer or shorter than the best by more than this factor: one that is wastes 2.5 % more.
pub const SETTLED_WITHIN: f64 = 1.25;

/// The interval on which a training settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The interval that loses least.
    pub best_steps: f64,
    /// The last intervals.
    pub steps: Vec<u64>,
}

impl Settled {
    /// By which factor the worst interval is too long or too short.
    pub fn worst_factor(&self) -> f64 {
        let factor = |steps: &u64| {
            let ratio = f64::from(u32::try_from(*steps).unwrap_or(u32::MAX)) / self.best_steps;
            ratio.max(1.0 / ratio)
        };
        self.steps.iter().map(factor).fold(1.0, f64::max)
    }
}

/// Judged by Young's formula, on rank 0's own record of the first attempt; `None` with too few checkpoints.
pub fn settled(journal: &Journal, mtbf_seconds: f64) -> Option<Settled> {
    let commits = journal.events_of(1, "committed").filter(|event| event.rank == 0);
    let lengths: Vec<u64> = commits.map(|event| event.step - event.since).collect();
    // Training ends with a save that was not due.
    let due = lengths.get(..lengths.len().checked_sub(1)?)?;
    let steps = due.get(due.len().checked_sub(SETTLED)?..)?.to_vec();
    let stalls = journal.events_of(1, "stalled").filter(|event| event.rank == 0).map(|event| event.seconds);
    let times: Vec<f64> = journal.steps_of(1).filter(|step| step.rank == 0).map(|step| step.at).collect();
    let step_seconds = median(times.windows(2).map(|pair| pair[1] - pair[0]))?;
    let best_seconds = (2.0 * median(stalls)? * mtbf_seconds).sqrt();
    Some(Settled { best_steps: best_seconds / step_seconds, steps })
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::super::journal::{Event, Step};
    use super::*;

    /// Steps of a second, saves of half a second; one failure in a hundred seconds: best is one save in ten.
    fn journal(lengths: &[u64]) -> Journal {
        let event = |what: &str, since, step| Event {
            what: what.to_owned(),
            attempt: 1,
            rank: 0,
            at: 0.0,
            step,
            since,
            seconds: 0.5,
            fingerprint: None,
        };
        let mut journal = Journal::default();
        let mut safe = 0;
        for length in lengths {
            journal.events.extend([event("stalled", 0, 0), event("committed", safe, safe + length)]);
            safe += length;
        }
        let step = |step: u32| Step {
            attempt: 1,
            rank: 0,
            step: step.into(),
            world_size: 1,
            loss: 0,
            at: step.into(),
        };
        journal.steps = (1..100).map(step).collect();
        journal
    }

    #[test]
    fn the_last_intervals_are_judged_beside_the_best() {
        let mut lengths = vec![1, 30];
        lengths.extend([10; SETTLED]);
        lengths.push(3);
        let found = settled(&journal(&lengths), 100.0).unwrap();
        assert_eq!(found, Settled { best_steps: 10.0, steps: vec![10; SETTLED] });
        assert!((found.worst_factor() - 1.0).abs() < 1e-9);
        lengths[SETTLED] = 5;
        let found = settled(&journal(&lengths), 100.0).unwrap();
        assert!((found.worst_factor() - 2.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn few_checkpoints_settle_nothing() {
        assert_eq!(settled(&journal(&[10; SETTLED]), 100.0), None);
        assert_eq!(settled(&journal(&[]), 100.0), None);
    }
}
