//! The attempts of a run as a table, one row each. Attempts that only had an interruption without loss share a
//! row. Pure: the time is an argument.

use std::collections::BTreeMap;

use api_types::rest::RunView;
use api_types::run::{Attempt, AttemptOutcome, LostWork};
use jiff::Timestamp;

use crate::render::{counted, gpus, none, period, table as plain_table};

/// At least this many uneventful attempts in a row share a table row.
const TOGETHER_MIN: usize = 3;

/// The table; `None` if the run simply went on.
pub fn table(view: &RunView, now: Timestamp) -> Option<String> {
    let is_story = |attempt: &Attempt| match attempt.outcome {
        None => attempt.told_at.is_some(),
        Some(outcome) => outcome != AttemptOutcome::Succeeded,
    };
    if view.attempts.len() < 2 && !view.attempts.iter().any(is_story) {
        return None;
    }
    let story: Vec<Told<'_>> = view.attempts.iter().map(|attempt| Told::of(attempt, view, now)).collect();
    let with_start = story.iter().any(|told| told.from.is_some());
    let with_loss = story.iter().any(|told| told.attempt.lost.is_some());
    let mut header = vec!["ATTEMPT", "GPUS", "STARTED", "RAN", "FROM", "LOST", "ENDED"];
    header.retain(|column| (with_start || *column != "FROM") && (with_loss || *column != "LOST"));
    let rows = together(&story).into_iter().map(|group| {
        let row =
            [number(group), group[0].gpus.clone(), started(group), ran(group), from(group), lost(group)];
        let mut row: Vec<String> = row.into_iter().chain([ended(group, now)]).collect();
        if !with_loss {
            row.remove(5);
        }
        if !with_start {
            row.remove(4);
        }
        row
    });
    Some(plain_table(header, rows))
}

/// An attempt, with the facts about it from other fields.
struct Told<'a> {
    attempt: &'a Attempt,
    gpus: String,
    /// The step that it began from, or was asked to begin from.
    from: Option<u64>,
    /// How long it ran; absent before it started.
    seconds: Option<i64>,
}

impl<'a> Told<'a> {
    fn of(attempt: &'a Attempt, view: &RunView, now: Timestamp) -> Self {
        let run = &view.summary;
        // Old records have no number: they had all of the run's members.
        let members = if attempt.members == 0 { run.members } else { attempt.members };
        let loads = view.progress.as_ref().map(|progress| progress.loads.as_slice()).unwrap_or_default();
        let loaded = loads.iter().rev().find(|load| load.attempt == attempt.number).map(|load| load.step);
        let asked = attempt.resume_step.and_then(|step| u64::try_from(step).ok());
        let end = attempt.ended_at.as_ref().map_or(now, |end| end.0);
        let seconds = attempt.started_at.as_ref().map(|start| end.as_second() - start.0.as_second());
        Self {
            attempt,
            gpus: gpus(members, run.gpus_per_member, run.gpu_type.as_deref()),
            from: loaded.or(asked),
            seconds,
        }
    }

    /// Whether it was only interrupted, without loss.
    fn is_uneventful(&self) -> bool {
        self.attempt.outcome == Some(AttemptOutcome::Interrupted)
            && self.attempt.lost.is_some_and(|lost| lost.steps == 0)
    }
}

/// Groups for rows: consecutive uneventful attempts of the same size, or one attempt.
fn together<'a, 'b>(story: &'a [Told<'b>]) -> Vec<&'a [Told<'b>]> {
    let alike = |a: &Told<'_>, b: &Told<'_>| a.is_uneventful() && b.is_uneventful() && a.gpus == b.gpus;
    story
        .chunk_by(alike)
        .flat_map(
            |group| if group.len() < TOGETHER_MIN { group.chunks(1) } else { group.chunks(group.len()) },
        )
        .collect()
}

fn number(group: &[Told<'_>]) -> String {
    match group {
        [first, .., last] => format!("{}–{}", first.attempt.number, last.attempt.number),
        _ => group[0].attempt.number.to_string(),
    }
}

fn started(group: &[Told<'_>]) -> String {
    let first = group.iter().find_map(|told| told.attempt.started_at.as_ref());
    first.map_or_else(none, |at| at.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn ran(group: &[Told<'_>]) -> String {
    let known: Vec<i64> = group.iter().filter_map(|told| told.seconds).collect();
    if known.is_empty() { none() } else { period(known.iter().sum()) }
}

fn from(group: &[Told<'_>]) -> String {
    match group[0].from {
        None => none(),
        Some(0) => "beginning".to_owned(),
        Some(step) => format!("step {step}"),
    }
}

fn lost(group: &[Told<'_>]) -> String {
    let known = group.iter().filter_map(|told| told.attempt.lost);
    let sum = |sum: LostWork, lost: LostWork| LostWork {
        steps: sum.steps.saturating_add(lost.steps),
        seconds: sum.seconds.saturating_add(lost.seconds),
    };
    match known.reduce(sum) {
        None => none(),
        Some(LostWork { steps: 0, seconds: 0 }) => "nothing".to_owned(),
        Some(LostWork { steps, seconds }) => {
            format!("{} ({})", counted(steps, "step"), period(i64::try_from(seconds).unwrap_or(i64::MAX)))
        }
    }
}

fn ended(group: &[Told<'_>], now: Timestamp) -> String {
    let [told] = group else { return interruptions(group) };
    let attempt = told.attempt;
    let why = attempt.message.as_ref().or(attempt.reason.as_ref());
    let because = |what: &str| why.map_or(what.to_owned(), |why| format!("{what}: {why}"));
    match (attempt.outcome, &attempt.told_at) {
        (None, Some(at)) => {
            let since = period(now.as_second().saturating_sub(at.0.as_second()));
            because(&format!("told {since} ago to save and leave"))
        }
        (None, None) if attempt.started_at.is_some() => "goes on".to_owned(),
        (None, None) => "not started yet".to_owned(),
        (Some(AttemptOutcome::Succeeded), _) => "succeeded".to_owned(),
        (Some(AttemptOutcome::Failed), _) => because("failed"),
        (Some(AttemptOutcome::Deleted), _) => because("its Job was deleted"),
        (Some(AttemptOutcome::Stopped), _) => "stopped".to_owned(),
        (Some(AttemptOutcome::Interrupted), _) => because("interrupted"),
    }
}

/// `interrupted 12 times: SpotNotice 10, Preempted 2`, the most frequent first.
fn interruptions(group: &[Told<'_>]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for told in group {
        *counts.entry(told.attempt.reason.as_deref().unwrap_or("Unknown")).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    // Stable: equally frequent reasons stay in the order of their names.
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let counts: Vec<String> = counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    format!("interrupted {} times: {}", group.len(), counts.join(", "))
}
