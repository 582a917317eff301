#![expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "a table reads better without the ceremony"
)]

use api_types::Run;
use api_types::RunPhase;

use super::{Conclusion, Step, next};
use crate::run::job::{JobEnd, JobFacts};
use crate::run::testing::{at, attempted, job, run};
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

fn check(run: &Run, job: Option<JobFacts>, expect: Step) {
    assert_eq!(next(run, Ok(()), job.as_ref(), || false), expect, "job: {job:?}");
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
        let Step::Conclude(Conclusion::Refused { reason, .. }) =
            next(&attempted(None), Ok(()), Some(&job), || true)
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
    assert_eq!(next(&run, Ok(()), Some(&awaits_pods), || true), Step::Conclude(Conclusion::Stopped));
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
    let step = next(&run(), Err(&invalid), None, || false);
    assert_eq!(step, Step::Conclude(Conclusion::from(&invalid)));
}
