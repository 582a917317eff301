//! Adds a report to a run's progress. Pure.
//!
//! Reports come late, twice and out of order; the result is the same. Full lists lose their oldest entries.

use api_types::run::{Load, Progress, StepRange};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::check::Told;

/// A range has some 80 bytes in the Run, a load some 100: 256 of both are 46 KiB of the 1.5 MiB of an object.
const RANGES_MAX: usize = 256;
const LOADS_MAX: usize = 256;

/// The progress with this report added.
pub fn record(progress: Option<Progress>, told: &Told, now: Timestamp) -> Progress {
    let mut progress = progress.unwrap_or_else(|| Progress {
        step: told.step,
        reported_at: Time(now),
        checkpoint: None,
        ranges: Vec::new(),
        loads: Vec::new(),
    });
    progress.reported_at = progress.reported_at.max(Time(now));
    progress.step = match newest_attempt(&progress) {
        Some(newest) if told.attempt < newest => progress.step,
        Some(newest) if told.attempt == newest => progress.step.max(told.step),
        // A newer attempt may have begun further back.
        _ => told.step,
    };
    if let Some(new) = &told.checkpoint {
        let is_newer = |old: &api_types::run::Checkpoint| (new.attempt, new.step) > (old.attempt, old.step);
        if progress.checkpoint.as_ref().is_none_or(is_newer) {
            progress.checkpoint = Some(new.clone());
        }
    }
    for range in &told.ranges {
        cover(&mut progress.ranges, *range);
    }
    if let Some(load) = &told.load {
        note_load(&mut progress.loads, load);
    }
    drop_oldest(&mut progress.ranges, RANGES_MAX);
    drop_oldest(&mut progress.loads, LOADS_MAX);
    progress
}

/// The newest attempt in the progress.
fn newest_attempt(progress: &Progress) -> Option<u32> {
    let ranges = progress.ranges.last().map(|range| range.attempt);
    let loads = progress.loads.last().map(|load| load.attempt);
    let checkpoint = progress.checkpoint.as_ref().map(|checkpoint| checkpoint.attempt);
    [ranges, loads, checkpoint].into_iter().flatten().max()
}

/// Adds the steps that no range of the attempt has yet, and merges adjoining ranges.
fn cover(ranges: &mut Vec<StepRange>, new: StepRange) {
    let pieces: Vec<StepRange> = gaps(ranges, &new).map(|(from, to)| part(&new, from, to)).collect();
    ranges.extend(pieces);
    ranges.sort_by_key(|range| (range.attempt, range.from));
    ranges.dedup_by(|next, last| {
        let adjoins = (last.attempt, last.world_size, last.to) == (next.attempt, next.world_size, next.from);
        if adjoins {
            last.to = next.to;
            last.milliseconds = last.milliseconds.saturating_add(next.milliseconds);
        }
        adjoins
    });
}

/// The parts of `new` that are in none of the ranges, which are sorted.
fn gaps(ranges: &[StepRange], new: &StepRange) -> impl Iterator<Item = (u64, u64)> {
    let overlaps = |old: &&StepRange| old.attempt == new.attempt && old.from < new.to && old.to > new.from;
    let known: Vec<&StepRange> = ranges.iter().filter(overlaps).collect();
    let begins = std::iter::once(new.from).chain(known.iter().map(|old| old.to)).collect::<Vec<_>>();
    let ends = known.iter().map(|old| old.from).chain([new.to]).collect::<Vec<_>>();
    begins.into_iter().zip(ends).filter(|(from, to)| from < to)
}

/// A part of a range, with its share of the time.
fn part(whole: &StepRange, from: u64, to: u64) -> StepRange {
    let share = u128::from(whole.milliseconds) * u128::from(to - from) / u128::from(whole.to - whole.from);
    StepRange { from, to, milliseconds: u64::try_from(share).unwrap_or(u64::MAX), ..*whole }
}

/// An attempt begins once. If it reports two beginnings, its members were restarted, and the first one counts.
fn note_load(loads: &mut Vec<Load>, new: &Load) {
    match loads.binary_search_by_key(&new.attempt, |load| load.attempt) {
        Ok(at) if (new.step, new.reached) < (loads[at].step, loads[at].reached) => loads[at] = new.clone(),
        Ok(_) => {}
        Err(at) => loads.insert(at, new.clone()),
    }
}

fn drop_oldest<T>(list: &mut Vec<T>, max: usize) {
    list.drain(..list.len().saturating_sub(max));
}

#[cfg(test)]
mod tests;
