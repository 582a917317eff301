//! Checks reports, and converts them to the units of the run's progress. Pure.

use api_types::report::{Report, ReportedCheckpoint, ReportedLoad, ReportedRange};
use api_types::run::{Checkpoint, Load, StepRange};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The largest number that JSON readers of all languages keep exactly.
const STEP_MAX: u64 = 1 << 53;
/// More would not fit a report of 16 KiB anyway.
const RANGES_MAX: usize = 64;
/// Thirty years: a clock that was set back and forth.
const SECONDS_MAX: f64 = 1e9;
/// The most that a run can have: 10,000 members × 64 GPUs, and some processes for each.
const WORLD_SIZE_MAX: u32 = 10_000_000;

/// The content of a checked report, about one attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The attempt.
    pub attempt: u32,
    /// Steps done.
    pub step: u64,
    /// The ranges of steps that were done.
    pub ranges: Vec<StepRange>,
    /// The checkpoint that was saved.
    pub checkpoint: Option<Checkpoint>,
    /// The checkpoint that it began from.
    pub load: Option<Load>,
}

/// Why a report can never be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(String);

/// Checks what a member of this attempt of this run reports.
pub fn check(report: Report, run: &str, sender_attempt: u32, now: Timestamp) -> Result<Told, Wrong> {
    let wrong = |text: String| Err(Wrong(text));
    if report.run.as_deref().is_some_and(|named| named != run) {
        return wrong("the report names another run".to_owned());
    }
    if !(1..=sender_attempt).contains(&report.attempt) {
        return wrong(format!("`attempt` must be 1 to {sender_attempt}, the sender's own"));
    }
    if !(1..=WORLD_SIZE_MAX).contains(&report.world_size) || report.step > STEP_MAX {
        return wrong("`world_size` or `step` is out of range".to_owned());
    }
    if report.ranges.len() > RANGES_MAX {
        return wrong(format!("there are more than {RANGES_MAX} ranges"));
    }
    let attempt = report.attempt;
    Ok(Told {
        attempt,
        step: report.step,
        ranges: report.ranges.iter().map(|it| range(it, attempt)).collect::<Result<_, _>>()?,
        checkpoint: report.checkpoint.map(|it| checkpoint(&it, attempt, now)).transpose()?,
        load: report.loaded.map(|it| load(&it, attempt, now)).transpose()?,
    })
}

fn range(it: &ReportedRange, attempt: u32) -> Result<StepRange, Wrong> {
    let (from, to, world_size) = (it.from, it.to, it.world_size);
    if from >= to || to > STEP_MAX || !(1..=WORLD_SIZE_MAX).contains(&world_size) {
        return Err(Wrong(format!("the range from {from} to {to} by {world_size} is not possible")));
    }
    Ok(StepRange { attempt, from, to, world_size, milliseconds: milliseconds(it.seconds)? })
}

fn checkpoint(it: &ReportedCheckpoint, attempt: u32, now: Timestamp) -> Result<Checkpoint, Wrong> {
    Ok(Checkpoint {
        step: step(it.step)?,
        attempt,
        committed_at: past(it.committed_at.as_ref(), now).unwrap_or(Time(now)),
        bytes: it.bytes.min(STEP_MAX),
        milliseconds: milliseconds(it.seconds)?,
        stall_milliseconds: milliseconds(it.stall_seconds)?,
    })
}

fn load(it: &ReportedLoad, attempt: u32, now: Timestamp) -> Result<Load, Wrong> {
    let loaded = step(it.step)?;
    let committed_at = past(it.committed_at.as_ref(), now).filter(|_| loaded > 0);
    Ok(Load { attempt, step: loaded, committed_at, reached: step(it.reached.unwrap_or(loaded))?.max(loaded) })
}

fn step(step: u64) -> Result<u64, Wrong> {
    if step > STEP_MAX { Err(Wrong(format!("there is no step {step}"))) } else { Ok(step) }
}

/// A member's clock may be ahead of ours, but no checkpoint was committed in the future.
fn past(time: Option<&Time>, now: Timestamp) -> Option<Time> {
    time.map(|time| Time(time.0.min(now)))
}

fn milliseconds(seconds: f64) -> Result<u64, Wrong> {
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(Wrong("a number of seconds is out of range".to_owned()));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok((seconds * 1000.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use api_types::report::Report;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{Told, Wrong, check};

    /// The example of the contract, with changes.
    fn told(changes: &Value) -> Result<Told, Wrong> {
        let mut report = json!({
            "run": "llama-ft", "attempt": 3, "rank": 0, "world_size": 4, "step": 120,
            "ranges": [{"from": 100, "to": 120, "world_size": 4, "seconds": 12.3}],
            "checkpoint": {"step": 120, "since": 100, "bytes": 1_048_576, "seconds": 1.2, "stall_seconds": 0.1,
                           "committed_at": "2027-01-15T08:00:00.25Z"},
            "loaded": {"step": 100, "attempt": 2, "committed_at": "2027-01-15T07:00:00Z", "reached": 104},
        });
        for (key, value) in changes.as_object().unwrap() {
            report[key] = value.clone();
        }
        let report: Report = serde_json::from_value(report).unwrap();
        check(report, "llama-ft", 3, "2027-01-15T08:00:01Z".parse().unwrap())
    }

    #[test]
    fn the_example_of_the_contract_is_read() {
        let told = told(&json!({})).unwrap();
        assert_eq!(told.ranges[0].milliseconds, 12_300);
        let checkpoint = told.checkpoint.unwrap();
        assert_eq!((checkpoint.milliseconds, checkpoint.stall_milliseconds), (1_200, 100));
        assert_eq!(checkpoint.committed_at.0.to_string(), "2027-01-15T08:00:00.25Z");
        let load = told.load.unwrap();
        assert_eq!((load.attempt, load.step, load.reached), (3, 100, 104));
    }

    #[test]
    fn an_earlier_attempt_may_be_told_of_and_a_later_one_not() {
        assert_eq!(told(&json!({"attempt": 1})).unwrap().ranges[0].attempt, 1);
        for attempt in [0, 4] {
            assert!(told(&json!({"attempt": attempt})).is_err());
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let range = |from: u64, to: u64, seconds: f64| json!({"ranges": [{"from": from, "to": to, "world_size": 1, "seconds": seconds}]});
        for wrong in [
            json!({"run": "another"}),
            json!({"world_size": 0}),
            json!({"step": u64::MAX}),
            range(5, 5, 1.0),
            range(6, 5, 1.0),
            range(0, u64::MAX, 1.0),
            range(0, 5, -1.0),
            range(0, 5, 1e12),
            json!({"ranges": vec![json!({"from": 0, "to": 1, "world_size": 1, "seconds": 0}); 65]}),
            json!({"checkpoint": {"step": u64::MAX}}),
            json!({"loaded": {"step": 1, "reached": u64::MAX}}),
        ] {
            assert!(told(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_was_committed_in_the_future_and_the_beginning_never_was() {
        let now: Timestamp = "2027-01-15T08:00:01Z".parse().unwrap();
        let ahead = json!({"checkpoint": {"step": 1, "committed_at": "2027-01-15T09:00:00Z"}});
        assert_eq!(told(&ahead).unwrap().checkpoint.unwrap().committed_at.0, now);
        let unsaid = json!({"checkpoint": {"step": 1}});
        assert_eq!(told(&unsaid).unwrap().checkpoint.unwrap().committed_at.0, now);
        let beginning = json!({"loaded": {"step": 0, "committed_at": "2027-01-15T07:00:00Z", "reached": 9}});
        let load = told(&beginning).unwrap().load.unwrap();
        assert_eq!((load.committed_at, load.reached), (None, 9));
    }
}
