//! Evaluates a journal, without effects.

use std::collections::{BTreeMap, BTreeSet};

use super::journal::Journal;

/// Steps that any member did in an attempt and that had to be repeated: those after the start of the next
/// attempt that loaded. `None` if none followed.
pub fn lost(journal: &Journal, attempt: u32) -> Option<u64> {
    let next = (attempt + 1..=journal.last_attempt()).find_map(|next| journal.loaded(next))?;
    // An attempt that did no step lost none.
    Some(journal.reached(attempt).map_or(0, |reached| reached.saturating_sub(next)))
}

/// The same of rank 0 alone, which reports for all: of others that were killed together some may be a step ahead.
pub fn lost_by_rank_0(journal: &Journal, attempt: u32) -> Option<u64> {
    let alone = Journal {
        events: journal.events.clone(),
        steps: journal.steps.iter().filter(|step| step.rank == 0).cloned().collect(),
    };
    lost(&alone, attempt)
}

/// When the checkpoint that the attempt after this one began from was committed; `None` if that was the beginning.
pub fn loaded_committed_at(journal: &Journal, attempt: u32) -> Option<f64> {
    let loaded = (attempt + 1..=journal.last_attempt()).find_map(|next| journal.loaded(next))?;
    let is_it = |event: &&super::journal::Event| event.what == "committed" && event.step == loaded;
    journal.events.iter().rfind(is_it).map(|event| event.at)
}

/// Steps that lie in two commits.
pub fn committed_twice(journal: &Journal) -> BTreeSet<u64> {
    let mut times = BTreeMap::<u64, usize>::new();
    for event in journal.events.iter().filter(|event| event.what == "committed") {
        for step in event.since + 1..=event.step {
            *times.entry(step).or_default() += 1;
        }
    }
    times.into_iter().filter(|(_, times)| *times > 1).map(|(step, _)| step).collect()
}

/// Steps that no commit covers, but for those after the last one: a framework may end without a save.
pub fn never_committed(journal: &Journal) -> BTreeSet<u64> {
    let commits: Vec<_> = journal.events.iter().filter(|event| event.what == "committed").collect();
    let last = commits.iter().map(|event| event.step).max().unwrap_or(0);
    (1..=last).filter(|step| !commits.iter().any(|it| (it.since + 1..=it.step).contains(step))).collect()
}

/// Steps whose loss, of any rank in any attempt, differs from the other training in any bit.
pub fn different_losses(reference: &Journal, journal: &Journal) -> BTreeSet<u64> {
    let expected: BTreeMap<_, _> =
        reference.steps.iter().map(|step| ((step.rank, step.step), step.loss)).collect();
    let differs = |step: &&super::journal::Step| expected.get(&(step.rank, step.step)) != Some(&step.loss);
    journal.steps.iter().filter(differs).map(|step| step.step).collect()
}

/// From a moment until the last member of an attempt was told: by its own signal, or by the others, with whom it saved
/// and left before that came. `None` if not all of them wrote it down: a member that was told while it started
/// just ends.
pub fn told_after(journal: &Journal, attempt: u32, members: usize, since: f64) -> Option<f64> {
    let mut first = BTreeMap::<u32, f64>::new();
    for event in journal.events_of(attempt, "told").chain(journal.events_of(attempt, "left")) {
        first.entry(event.rank).or_insert(event.at);
    }
    let last = first.values().copied().reduce(f64::max)?;
    (first.len() == members).then_some(last - since)
}

/// How an attempt came back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resumed {
    /// From the end of the attempt before until every member had done its first step, without the import.
    pub seconds: f64,
    /// The longest import of a member.
    pub import_seconds: f64,
}

/// How an attempt came back after `since`. `None` if some member did no step.
pub fn resumed_after(journal: &Journal, attempt: u32, members: usize, since: f64) -> Option<Resumed> {
    let mut first = BTreeMap::<u32, f64>::new();
    for step in journal.steps_of(attempt) {
        first.entry(step.rank).or_insert(step.at);
    }
    let last = first.values().copied().reduce(f64::max)?;
    let import_seconds =
        journal.events_of(attempt, "imported").map(|event| event.seconds).reduce(f64::max)?;
    (first.len() == members).then_some(Resumed { seconds: last - since - import_seconds, import_seconds })
}

/// Ranges of steps, with the number of ranks that did them, in order.
pub fn world_sizes(journal: &Journal) -> Vec<(u64, u64, u32)> {
    let mut ranges: Vec<(u64, u64, u32)> = Vec::new();
    for step in journal.steps.iter().filter(|step| step.rank == 0) {
        match ranges.last_mut() {
            Some((_, to, size)) if *to + 1 == step.step && *size == step.world_size => *to = step.step,
            _ => ranges.push((step.step, step.step, step.world_size)),
        }
    }
    ranges
}

/// The largest difference of losses between the trainings, relative to the first one's largest loss.
pub fn largest_difference(reference: &Journal, journal: &Journal) -> f64 {
    let loss = |bits: u64| f64::from_bits(bits);
    let expected: BTreeMap<_, _> = reference.steps.iter().map(|step| (step.step, loss(step.loss))).collect();
    let scale = expected.values().copied().fold(f64::MIN_POSITIVE, f64::max);
    let difference = |step: &super::journal::Step| {
        expected.get(&step.step).map_or(f64::INFINITY, |expected| (expected - loss(step.loss)).abs() / scale)
    };
    journal.steps.iter().map(difference).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::journal::{Event, Journal, Step};
    use super::*;

    fn event(what: &str, attempt: u32, rank: u32, at: f64) -> Event {
        let what = what.to_owned();
        Event { what, attempt, rank, at, step: 0, since: 0, seconds: 0.0, fingerprint: None }
    }

    fn commit(attempt: u32, since: u64, step: u64) -> Event {
        Event { step, since, ..event("committed", attempt, 0, 0.0) }
    }

    fn step(attempt: u32, rank: u32, step: u64, at: f64) -> Step {
        Step { attempt, rank, step, world_size: 2, loss: step, at }
    }

    #[test]
    fn steps_after_what_the_next_attempt_loaded_are_lost() {
        let loaded = |attempt, step| Event { step, ..event("loaded", attempt, 0, 0.0) };
        let journal = Journal {
            events: vec![loaded(1, 0), loaded(3, 4)],
            steps: vec![step(1, 0, 5, 1.0), step(1, 1, 6, 1.0), step(3, 0, 5, 2.0)],
        };
        assert_eq!(lost(&journal, 1), Some(2), "attempt 2 got nowhere");
        assert_eq!(lost(&journal, 3), None);
        assert_eq!(journal.steps_done(3), 1);
    }

    #[test]
    fn commits_are_next_to_each_other() {
        let journal = |events| Journal { events, ..Journal::default() };
        assert!(committed_twice(&journal(vec![commit(1, 0, 4), commit(2, 4, 9)])).is_empty());
        let twice = committed_twice(&journal(vec![commit(1, 0, 4), commit(2, 3, 9)]));
        assert_eq!(twice.into_iter().collect::<Vec<_>>(), [4]);
        let never = never_committed(&journal(vec![commit(1, 0, 2), commit(2, 3, 4)]));
        assert_eq!(never.into_iter().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn the_last_member_counts_and_all_must_have_written() {
        let mut journal = Journal {
            events: vec![event("told", 1, 0, 11.0), event("told", 1, 0, 19.0)],
            ..Journal::default()
        };
        assert_eq!(told_after(&journal, 1, 2, 10.0), None);
        journal.events.push(event("told", 1, 1, 12.5));
        assert_eq!(told_after(&journal, 1, 2, 10.0), Some(2.5), "the first signal of each");
        journal.events.push(event("left", 1, 1, 13.0));
        assert_eq!(told_after(&journal, 1, 2, 10.0), Some(2.5), "it was told before it left");
        journal.events.push(event("left", 1, 2, 12.75));
        assert_eq!(told_after(&journal, 1, 3, 10.0), Some(2.75), "the others told it");
    }

    #[test]
    fn an_import_is_told_apart_from_the_way_back() {
        let imported = |rank, seconds| Event { seconds, ..event("imported", 2, rank, 0.0) };
        let journal = Journal {
            events: vec![imported(0, 3.0), imported(1, 4.0)],
            steps: vec![step(2, 0, 5, 107.0), step(2, 1, 5, 109.0), step(2, 1, 6, 120.0)],
        };
        let expected = Resumed { seconds: 5.0, import_seconds: 4.0 };
        assert_eq!(resumed_after(&journal, 2, 2, 100.0), Some(expected));
        assert_eq!(resumed_after(&journal, 2, 3, 100.0), None);
    }

    #[test]
    fn another_loss_of_any_rank_is_found() {
        let reference = Journal { steps: vec![step(1, 0, 1, 0.0), step(1, 1, 1, 0.0)], ..Journal::default() };
        let mut other = reference.clone();
        assert!(different_losses(&reference, &other).is_empty());
        other.steps[1].loss ^= 1;
        assert_eq!(different_losses(&reference, &other).len(), 1);
    }

    #[test]
    fn ranges_are_told_in_the_order_in_which_they_were_done() {
        let of = |number, world_size| Step { world_size, ..step(1, 0, number, 0.0) };
        let journal = Journal { steps: vec![of(1, 4), of(2, 4), of(2, 2), of(3, 2)], ..Journal::default() };
        assert_eq!(world_sizes(&journal), [(1, 2, 4), (2, 3, 2)]);
    }
}
