#![expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "a table reads better without the ceremony"
)]

use api_types::Run;
use api_types::RunPhase;
use api_types::run::AttemptOutcome;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Conclusion, Step, next};
use crate::nodes::{Leaving, NodeFacts};
use crate::run::interruption::Interruption;
use crate::run::job::{JobEnd, JobFacts};
use crate::run::member::Member;
use crate::run::sight::{Sight, World};
use crate::run::testing::{at, attempted, exited, job, nodes, run, running, starting, world};
use crate::run::validate::Invalid;

fn stopped(mut run: Run) -> Run {
    run.spec.stop = true;
    run
}

fn over(mut run: Run) -> Run {
    run.status.get_or_insert_default().phase = RunPhase::Failed;
    run
}

fn failed(noticed: i64) -> Option<JobEnd> {
    Some(JobEnd::Failed { at: Some(at(noticed + 1)), noticed: Some(at(noticed)), why: "why".to_owned() })
}

fn complete() -> Option<JobEnd> {
    Some(JobEnd::Complete { at: Some(at(9)) })
}

fn deleted(seconds: i64) -> JobFacts {
    JobFacts { deleting_since: Some(at(seconds)), ..job() }
}

fn decided(run: &Run, job: Option<&JobFacts>, pods: &[Member]) -> Step {
    next(Sight { run, job, pods }, Ok(()), &world())
}

fn check(run: &Run, job: Option<JobFacts>, expect: Step) {
    assert_eq!(decided(run, job.as_ref(), &[]), expect, "job: {job:?}");
}

#[test]
fn a_new_run_is_recorded_before_anything_is_created() {
    let mut with_finalizer = run();
    with_finalizer.metadata.finalizers = attempted(None).metadata.finalizers;
    check(&run(), None, Step::AddFinalizer);
    check(&with_finalizer, None, Step::RecordAttempt);
    check(&attempted(None), None, Step::CreateChildren);
}

#[test]
fn a_job_starts_only_after_its_uid_is_recorded() {
    let suspended = JobFacts { suspended: true, ..job() };
    check(&attempted(None), Some(suspended.clone()), Step::RecordJob { uid: "job-uid".to_owned() });
    check(&attempted(Some("job-uid")), Some(suspended), Step::ResumeJob);
    check(&attempted(Some("job-uid")), Some(job()), Step::Follow);
}

#[test]
fn a_recorded_job_that_is_gone_is_never_created_again() {
    check(&attempted(Some("job-uid")), None, Step::Conclude(Conclusion::Deleted { at: None }));
    check(&over(attempted(Some("job-uid"))), None, Step::Rest);
    check(&over(run()), None, Step::Rest);
}

#[test]
fn a_second_job_is_discarded_and_does_not_run() {
    let second = JobFacts { uid: "other".to_owned(), suspended: true, ..job() };
    check(&attempted(Some("job-uid")), Some(second.clone()), Step::DiscardJob { uid: "other".to_owned() });
    check(
        &over(attempted(Some("job-uid"))),
        Some(second.clone()),
        Step::DiscardJob { uid: "other".to_owned() },
    );
    check(&over(attempted(None)), Some(second), Step::DiscardJob { uid: "other".to_owned() });
}

#[test]
fn a_job_of_somebody_else_is_not_touched() {
    let theirs = JobFacts { owner_uid: Some("else".to_owned()), ..job() };
    let going = JobFacts { deleting_since: Some(at(0)), ..theirs.clone() };
    let orphan = JobFacts { owner_uid: None, ..job() };
    for job in [theirs.clone(), orphan] {
        let Step::Conclude(Conclusion::Refused { reason, .. }) = decided(&attempted(None), Some(&job), &[])
        else {
            panic!("expected a refusal");
        };
        assert_eq!(reason, "NameTaken");
    }
    check(&attempted(None), Some(going), Step::AwaitName);
    check(&over(attempted(None)), Some(theirs.clone()), Step::Rest);
    check(&stopped(attempted(None)), Some(theirs.clone()), Step::Conclude(Conclusion::Stopped));
    check(
        &attempted(Some("job-uid")),
        Some(JobFacts { uid: "x".to_owned(), ..theirs }),
        Step::Conclude(Conclusion::Deleted { at: None }),
    );
}

#[test]
fn the_end_of_a_job_is_recorded_then_the_job_released() {
    let run = attempted(Some("job-uid"));
    check(
        &run,
        Some(JobFacts { end: complete(), ..job() }),
        Step::Conclude(Conclusion::Succeeded { at: Some(at(9)) }),
    );
    let failure = Conclusion::Failed { at: Some(at(6)), why: "why".to_owned() };
    check(&run, Some(JobFacts { end: failed(5), ..job() }), Step::Conclude(failure));
    check(&over(attempted(Some("job-uid"))), Some(job()), Step::ReleaseJob);
    check(&over(attempted(Some("job-uid"))), Some(JobFacts { held: false, ..job() }), Step::Rest);
}

#[test]
fn a_job_deleted_from_outside_ends_the_run_unless_it_had_ended() {
    let run = attempted(Some("job-uid"));
    check(&run, Some(deleted(7)), Step::Conclude(Conclusion::Deleted { at: Some(at(7)) }));
    let ended = JobFacts { end: complete(), ..deleted(7) };
    check(&run, Some(ended), Step::Conclude(Conclusion::Succeeded { at: Some(at(9)) }));
    let failed_before = JobFacts { end: failed(5), ..deleted(7) };
    let failure = Conclusion::Failed { at: Some(at(6)), why: "why".to_owned() };
    check(&run, Some(failed_before), Step::Conclude(failure));
    let failed_because = JobFacts { end: failed(8), ..deleted(7) };
    check(&run, Some(failed_because), Step::Conclude(Conclusion::Deleted { at: Some(at(7)) }));
}

#[test]
fn a_stopped_run_is_over_when_its_pods_are_over_also_if_somebody_keeps_them() {
    let run = stopped(attempted(Some("job-uid")));
    check(&run, Some(job()), Step::DeleteJob);
    let awaits_pods = JobFacts { awaits_pods: true, ..deleted(7) };
    check(&run, Some(awaits_pods.clone()), Step::Follow);
    assert_eq!(decided(&run, Some(&awaits_pods), &[running(0)]), Step::Follow);
    let over = [exited(0, 143, 50)];
    assert_eq!(decided(&run, Some(&awaits_pods), &over), Step::Conclude(Conclusion::Stopped));
    check(&run, Some(deleted(7)), Step::Conclude(Conclusion::Stopped));
    check(&run, Some(JobFacts { end: failed(8), ..deleted(7) }), Step::Conclude(Conclusion::Stopped));
    check(&run, None, Step::Conclude(Conclusion::Stopped));
    let ended = JobFacts { end: complete(), ..job() };
    check(&run, Some(ended), Step::Conclude(Conclusion::Succeeded { at: Some(at(9)) }));
}

#[test]
fn a_run_stopped_before_it_began_never_begins() {
    for run in [run(), attempted(None)] {
        check(&stopped(run), None, Step::Conclude(Conclusion::Stopped));
    }
    let suspended = JobFacts { suspended: true, ..job() };
    check(&stopped(attempted(None)), Some(suspended.clone()), Step::RecordJob { uid: "job-uid".to_owned() });
    check(&stopped(attempted(Some("job-uid"))), Some(suspended), Step::DeleteJob);
}

#[test]
fn an_invalid_run_fails_before_anything_is_created() {
    let invalid = Invalid::Name("a.b".to_owned());
    let run = run();
    let step = next(Sight { run: &run, job: None, pods: &[] }, Err(&invalid), &world());
    assert_eq!(step, Step::Conclude(Conclusion::from(&invalid)));
}

/// A Run whose attempt was told to end.
fn told(reason: &str) -> Run {
    let mut run = attempted(Some("job-uid"));
    let attempt = &mut run.status.as_mut().unwrap().attempts[0];
    (attempt.told_at, attempt.reason) = (Some(Time(at(90))), Some(reason.to_owned()));
    attempt.message = Some("why".to_owned());
    run
}

/// A Run that is not over, between two attempts.
fn between(reason: &str) -> Run {
    let mut run = told(reason);
    run.status.as_mut().unwrap().attempts[0].outcome = Some(AttemptOutcome::Interrupted);
    run
}

fn interrupted(reason: &str) -> Step {
    Step::Conclude(Conclusion::Interrupted(Interruption::new(reason, "why")))
}

/// The Job after it was suspended, with this many pods still ending.
fn suspended(terminating: u32) -> JobFacts {
    JobFacts { suspended: true, told: true, is_idle: true, terminating, ..job() }
}

#[test]
fn a_notice_is_recorded_then_told_and_ends_the_attempt_when_all_members_are_over() {
    let leaving = Leaving { why: "spot".to_owned(), at: None };
    let nodes = nodes([("node-2", NodeFacts { leaving: Some(leaving), ..NodeFacts::default() })]);
    let world = World { nodes: &nodes, ..world() };
    let run = attempted(Some("job-uid"));
    let pods = [running(0), running(1), running(2), running(3)];
    let step = next(Sight { run: &run, job: Some(&job()), pods: &pods }, Ok(()), &world);
    let Step::RecordTold(Interruption { reason, message }) = step else { panic!("{step:?}") };
    assert_eq!(reason, "SpotNotice");
    assert_eq!(message, "member 2 is on node-2, which the cloud takes back");
    let run = told("SpotNotice");
    assert_eq!(decided(&run, Some(&job()), &pods), Step::SuspendJob);
    assert_eq!(decided(&run, Some(&suspended(4)), &pods), Step::Follow);
    let ending = [exited(0, 75, 95), exited(1, 75, 95), exited(2, 75, 95), running(3)];
    assert_eq!(decided(&run, Some(&suspended(1)), &ending), Step::Follow, "one still saves");
    let over = [exited(0, 75, 95), exited(1, 75, 95), exited(2, 75, 95), exited(3, 143, 96)];
    assert_eq!(decided(&run, Some(&suspended(1)), &over), Step::Follow, "the Job knows of one more");
    assert_eq!(decided(&run, Some(&suspended(0)), &over), interrupted("SpotNotice"));
    let unseen = JobFacts { is_idle: false, ..suspended(0) };
    assert_eq!(decided(&run, Some(&unseen), &[]), Step::Follow, "the Job controller has not seen it yet");
    let failed = JobFacts { end: failed(95), ..suspended(0) };
    assert_eq!(decided(&run, Some(&failed), &over), interrupted("SpotNotice"), "they had to fail");
    let done = JobFacts { end: complete(), ..suspended(0) };
    assert_eq!(decided(&run, Some(&done), &[]), Step::Conclude(Conclusion::Succeeded { at: Some(at(9)) }));
}

#[test]
fn a_told_job_is_never_resumed_whatever_the_record_says() {
    check(&attempted(Some("job-uid")), Some(suspended(0)), Step::Follow);
    check(&told("Paused"), Some(suspended(0)), interrupted("Paused"));
    check(&stopped(told("Paused")), Some(suspended(2)), Step::DeleteJob);
}

#[test]
fn a_member_on_a_silent_machine_is_waited_for_during_its_grace_and_not_for_ever() {
    let run = told("NodeLost");
    let silent = |seconds: i64| NodeFacts { lost_since: Some(at(seconds)), ..NodeFacts::default() };
    let pods = [exited(0, 143, 95), Member { deleted: true, ..running(1) }];
    for (since, expect) in [(61, Step::Follow), (60, interrupted("NodeLost"))] {
        let nodes = nodes([("node-1", silent(since))]);
        let world = World { nodes: &nodes, ..world() };
        let sight = Sight { run: &run, job: Some(&suspended(1)), pods: &pods };
        assert_eq!(next(sight, Ok(()), &world), expect, "silent since {since}");
    }
}

#[test]
fn a_stop_does_not_wait_for_a_silent_machine_for_ever_either() {
    let run = stopped(attempted(Some("job-uid")));
    let job = JobFacts { deleting_since: Some(at(20)), awaits_pods: true, ..job() };
    let pods = [Member { deleted: true, ..running(1) }];
    for (since, expect) in [(61, Step::Follow), (60, Step::Conclude(Conclusion::Stopped))] {
        let silent = NodeFacts { lost_since: Some(at(since)), ..NodeFacts::default() };
        let nodes = nodes([("node-1", silent)]);
        let world = World { nodes: &nodes, ..world() };
        let sight = Sight { run: &run, job: Some(&job), pods: &pods };
        assert_eq!(next(sight, Ok(()), &world), expect, "silent since {since}");
    }
}

#[test]
fn a_retry_waits_for_members_whose_job_was_deleted_and_that_still_save() {
    let mut run = over(attempted(Some("job-uid")));
    run.spec.restarts = 1;
    assert_eq!(decided(&run, None, &[Member { deleted: true, ..running(1) }]), Step::AwaitDue);
    assert_eq!(decided(&run, None, &[exited(1, 75, 50)]), Step::RecordAttempt);
}

#[test]
fn between_attempts_the_job_goes_before_the_next_one_is_recorded() {
    check(&between("SpotNotice"), Some(suspended(0)), Step::ReleaseAttempt);
    check(&between("SpotNotice"), Some(JobFacts { held: false, ..suspended(0) }), Step::RecordAttempt);
    check(&between("SpotNotice"), None, Step::RecordAttempt);
    check(&stopped(between("SpotNotice")), None, Step::Conclude(Conclusion::Stopped));
    let mut waits = between("MemberFailed");
    waits.status.as_mut().unwrap().next_attempt_at = Some(Time(at(101)));
    check(&waits, None, Step::AwaitDue);
    waits.spec.restarts = 1;
    check(&waits, None, Step::RecordAttempt);
}

#[test]
fn a_pause_tells_waits_and_lets_go_on() {
    let mut run = attempted(Some("job-uid"));
    run.spec.pause = true;
    let asked = Interruption::new("Paused", "paused on request");
    check(&run, Some(job()), Step::RecordTold(asked.clone()));
    check(&run, Some(JobFacts { suspended: true, ..job() }), Step::RecordTold(asked.clone()));
    run = attempted(None);
    run.spec.pause = true;
    check(&run, None, Step::Conclude(Conclusion::Interrupted(asked)));
    run = between("Paused");
    run.spec.pause = true;
    check(&run, None, Step::Pause);
    run.status.as_mut().unwrap().phase = RunPhase::Paused;
    check(&run, None, Step::Rest);
    run.spec.pause = false;
    check(&run, None, Step::RecordAttempt);
}

#[test]
fn a_failed_run_is_tried_again_on_request_and_a_stopped_one_is_not() {
    let mut run = over(attempted(Some("job-uid")));
    run.spec.restarts = 1;
    check(&run, Some(JobFacts { end: failed(5), ..job() }), Step::ReleaseJob);
    check(&run, Some(JobFacts { end: failed(5), held: false, ..job() }), Step::RecordAttempt);
    check(&run, None, Step::RecordAttempt);
    check(&stopped(run.clone()), None, Step::Rest);
    run.status.as_mut().unwrap().restarts = 1;
    check(&run, None, Step::Rest);
}

#[test]
fn a_restart_of_a_run_that_goes_on_interrupts_it() {
    let mut run = attempted(Some("job-uid"));
    run.spec.restarts = 1;
    let asked = Interruption::new("Restarted", "begun again on request");
    assert_eq!(decided(&run, Some(&job()), &[running(0)]), Step::RecordTold(asked));
}

#[test]
fn before_it_began_a_member_that_is_taken_away_is_just_replaced() {
    let taken = Member { deleted: true, disruption: Some("GangStartFailed".to_owned()), ..starting(0) };
    assert_eq!(decided(&attempted(Some("job-uid")), Some(&job()), &[taken]), Step::Follow);
}
