use api_types::run::{Attempt, AttemptOutcome, Load, Progress};
use api_types::{Run, RunPhase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{KEPT_MAX, begin, close, ending, tell, time_left};
use crate::run::decide::Conclusion;
use crate::run::interruption::Interruption;
use crate::run::sight::Sight;
use crate::run::testing::{NO_NODES, at, attempted, exited};

fn failed() -> Conclusion {
    Conclusion::Failed { at: Some(at(60)), why: "why".to_owned() }
}

fn notice() -> Conclusion {
    Conclusion::Interrupted(Interruption::new("SpotNotice", "why"))
}

/// The Run after an attempt from second 10 to second 50 with this conclusion, and its phase if it is over.
fn after(run: &Run, conclusion: &Conclusion) -> (Run, Option<RunPhase>) {
    let mut run = run.clone();
    let uid = run.status.as_ref().and_then(|status| status.attempts.last()?.job_uid.clone());
    let pods = [crate::run::member::Member { job_uid: uid.unwrap_or_default(), ..exited(0, 1, 50) }];
    let sight = Sight { run: &run, job: None, pods: &pods };
    let (status, ending) = close(sight, ending(sight, conclusion, NO_NODES), at(60));
    run.status = Some(status);
    (run, ending.over)
}

fn again(run: &Run) -> Run {
    let mut run = run.clone();
    let mut status = begin(&run, 4);
    status.attempts.last_mut().unwrap().job_uid = Some("next".to_owned());
    run.status = Some(status);
    run
}

#[test]
fn own_failures_cost_retries_and_interruptions_do_not() {
    let mut run = attempted(Some("job-uid"));
    run.spec.retries = 1;
    let (run, over) = after(&run, &notice());
    assert_eq!((over, run.status.as_ref().unwrap().failures), (None, 0));
    assert_eq!(run.status.as_ref().unwrap().attempts[0].outcome, Some(AttemptOutcome::Interrupted));
    let (run, over) = after(&again(&run), &failed());
    assert_eq!((over, run.status.as_ref().unwrap().failures), (None, 1));
    assert_eq!(run.status.as_ref().unwrap().next_attempt_at, Some(Time(at(65))));
    let (run, over) = after(&again(&run), &failed());
    assert_eq!(over, Some(RunPhase::Failed), "no retry is left");
    let numbers: Vec<u32> = run.status.unwrap().attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn the_time_limit_holds_over_all_attempts() {
    let mut run = attempted(Some("job-uid"));
    run.spec.time_limit_seconds = Some(80);
    assert_eq!(time_left(&run), Some(80));
    let (run, over) = after(&run, &notice());
    assert_eq!((over, time_left(&run)), (None, Some(40)), "it ran from second 10 to second 50");
    let (run, over) = after(&again(&run), &notice());
    assert_eq!((over, run.status.unwrap().used_seconds), (Some(RunPhase::Failed), 80));
}

#[test]
fn a_step_to_resume_from_is_for_one_attempt_and_a_restart_counts_failures_anew() {
    let mut run = attempted(Some("job-uid"));
    run.status.as_mut().unwrap().failures = 3;
    (run.spec.restarts, run.spec.resume_step) = (1, Some(120));
    run = again(&run);
    let status = run.status.as_ref().unwrap();
    assert_eq!((status.restarts, status.failures, status.attempts[1].resume_step), (1, 0, Some(120)));
    let next = |run: &Run| again(run).status.unwrap().attempts[2].resume_step;
    assert_eq!(next(&run), Some(120), "it ended before it had loaded anything");
    let attempt = &mut run.status.as_mut().unwrap().attempts[1];
    (attempt.started_at, attempt.ended_at) = (Some(Time(at(0))), Some(Time(at(120))));
    assert_eq!(next(&run), None, "it says nothing, and must have loaded");
    run.status.as_mut().unwrap().attempts[1].ended_at = Some(Time(at(119)));
    assert_eq!(next(&run), Some(120));
    let load = Load { attempt: 2, step: 120, committed_at: None, reached: 500 };
    let progress =
        Progress { step: 130, reported_at: Time(at(9)), checkpoint: None, ranges: vec![], loads: vec![load] };
    run.status.as_mut().unwrap().progress = Some(progress);
    assert_eq!(next(&run), None, "it did as it was asked");
}

#[test]
fn why_it_was_told_is_recorded_and_what_was_recorded_stays() {
    let mut run = attempted(Some("job-uid"));
    run.status = Some(tell(&run, &Interruption::new("GpuSick", "why"), at(20)));
    let attempt = &run.status.as_ref().unwrap().attempts[0];
    assert_eq!((attempt.told_at.clone(), attempt.reason.as_deref()), (Some(Time(at(20))), Some("GpuSick")));
    let (run, _) = after(&run, &notice());
    let (stopped, over) = after(&run, &Conclusion::Stopped);
    assert_eq!(over, Some(RunPhase::Stopped));
    assert_eq!(stopped.status.unwrap().attempts, run.status.unwrap().attempts, "it had ended before");
}

#[test]
fn attempts_are_kept_in_bounds() {
    let mut run = attempted(Some("job-uid"));
    let attempt = |number| Attempt { number, ..Attempt::default() };
    run.status.as_mut().unwrap().attempts = (1..=64).map(attempt).collect();
    let attempts = again(&run).status.unwrap().attempts;
    assert_eq!((attempts.len(), attempts[0].number, attempts[63].number), (KEPT_MAX, 2, 65));
}
