use api_types::run::{AttemptOutcome, MemberCounts, Reason, ReasonNumber, Waiting};
use api_types::{Run, RunPhase, RunStatus};

use super::{Sight, conclude, follow, lacks_evidence, with_attempt, with_job};
use crate::run::decide::Conclusion;
use crate::run::job::{JobEnd, JobFacts};
use crate::run::member::{Member, PodPhase};
use crate::run::testing::{NO_NODES, at, attempted, exited, job, run, running, starting, waiting, waits};

fn counts(waiting: u32, starting: u32, running: u32, succeeded: u32, failed: u32) -> MemberCounts {
    MemberCounts { waiting, starting, running, succeeded, failed }
}

fn followed(run: &Run, pods: &[Member]) -> RunStatus {
    follow(Sight { run, job: Some(&job()), pods }, at(100))
}

fn check(pods: &[Member], phase: RunPhase, members: MemberCounts, reason: Option<&str>) {
    let status = followed(&attempted(Some("job-uid")), pods);
    assert_eq!((status.phase, status.members, status.reason.as_deref()), (phase, members, reason));
}

/// The status after the members were seen in these states, one after another.
fn history(steps: &[&[Member]]) -> RunStatus {
    let mut run = attempted(Some("job-uid"));
    for pods in steps {
        run.status = Some(followed(&run, pods));
    }
    run.status.unwrap()
}

fn concluded(run: &Run, job: Option<&JobFacts>, pods: &[Member], conclusion: &Conclusion) -> RunStatus {
    conclude(Sight { run, job, pods }, conclusion, NO_NODES, at(100))
}

#[test]
fn the_phase_follows_the_member_that_is_furthest_behind() {
    use RunPhase::{Pending, Running, Starting};
    check(&[], Pending, counts(4, 0, 0, 0, 0), Some("PodsMissing"));
    let placing = [waiting(0), starting(1), running(2), running(3)];
    check(&placing, Pending, counts(1, 1, 2, 0, 0), None);
    check(&[starting(0), running(1), running(2), running(3)], Starting, counts(0, 1, 3, 0, 0), None);
    check(&[running(0), running(1), running(2), running(3)], Running, counts(0, 0, 4, 0, 0), None);
    check(&[exited(0, 0, 50), running(1), running(2), running(3)], Running, counts(0, 0, 3, 1, 0), None);
}

#[test]
fn a_member_that_ended_well_counts_after_its_pod_is_gone() {
    let run = attempted(Some("job-uid"));
    let job = JobFacts { completed: vec![(0, 1)], succeeded: 2, ..job() };
    let status = follow(Sight { run: &run, job: Some(&job), pods: &[running(2), running(3)] }, at(100));
    assert_eq!((status.phase, status.members), (RunPhase::Running, counts(0, 0, 2, 2, 0)));
}

#[test]
fn while_it_waits_the_schedulers_first_reason_is_shown() {
    let mut run = attempted(Some("job-uid"));
    let reason = |code: &str| Reason {
        code: code.to_owned(),
        message: "queue nlp holds 40 of 48 H100; requests 32".to_owned(),
        queue: Some("nlp".to_owned()),
        resource: Some("H100".to_owned()),
        ..Reason::default()
    };
    let waits = Waiting { reasons: vec![reason("QuotaExceeded"), reason("NotEnoughGpus")] };
    run.status.as_mut().unwrap().waiting = Some(waits.clone());
    let status = followed(&run, &[waiting(0), waiting(1), waiting(2), waiting(3)]);
    assert_eq!(status.reason.as_deref(), Some("QuotaExceeded"));
    let sentence = "waits: QuotaExceeded (queue nlp, H100); `warpyard why` has the numbers";
    assert_eq!(status.message.as_deref(), Some(sentence));
    assert_eq!(status.waiting, Some(waits), "not ours to change");
    let scheduled = status.conditions.iter().find(|condition| condition.type_ == "Scheduled").unwrap();
    assert_eq!((scheduled.status.as_str(), scheduled.reason.as_str()), ("False", "QuotaExceeded"));
    assert_eq!(scheduled.message, sentence);
    run.status = Some(status);
    let placed = followed(&run, &[starting(0), starting(1), starting(2), starting(3)]);
    assert_eq!((placed.reason, placed.message), (None, None), "a reason that no longer holds is gone");
}

#[test]
fn numbers_that_change_while_it_waits_change_nothing_of_ours() {
    let mut run = attempted(Some("job-uid"));
    let pods = [waiting(0), waiting(1), waiting(2), waiting(3)];
    let waits = |holds: i64| {
        let reason = Reason {
            code: "QuotaExceeded".to_owned(),
            message: format!("queue nlp holds {holds} of 48 H100; requests 32"),
            queue: Some("nlp".to_owned()),
            numbers: vec![ReasonNumber { value: holds, ..ReasonNumber::default() }],
            ..Reason::default()
        };
        Some(Waiting { reasons: vec![reason] })
    };
    run.status.as_mut().unwrap().waiting = waits(40);
    let before = followed(&run, &pods);
    run.status = Some(RunStatus { waiting: waits(44), ..before.clone() });
    assert_eq!(RunStatus { waiting: before.waiting.clone(), ..followed(&run, &pods) }, before);
}

#[test]
fn what_waiting_cannot_help_is_said_in_full() {
    let mut run = attempted(Some("job-uid"));
    let message = "queue nlp is not open to namespace vision".to_owned();
    let reason = Reason {
        code: "QueueNotOpen".to_owned(),
        message: message.clone(),
        never: true,
        ..Reason::default()
    };
    run.status.as_mut().unwrap().waiting = Some(Waiting { reasons: vec![reason] });
    let status = followed(&run, &[waiting(0), waiting(1), waiting(2), waiting(3)]);
    assert_eq!((status.reason.as_deref(), status.message), (Some("QueueNotOpen"), Some(message)));
}

#[test]
fn a_lost_member_puts_the_run_back_and_says_so_until_it_is_replaced() {
    let all = [running(0), running(1), running(2), running(3)];
    let gone =
        Member { phase: PodPhase::Failed, disruption: Some("DeletionByPodGC".to_owned()), ..running(2) };
    let dying = [running(0), running(1), gone.clone(), running(3)];
    let status = history(&[&all, &dying]);
    assert_eq!((status.phase, status.members), (RunPhase::Pending, counts(1, 0, 3, 0, 0)));
    assert_eq!(status.reason.as_deref(), Some("MemberLost"));
    assert_eq!(
        status.message.as_deref(),
        Some("member 2 on node-2 (DeletionByPodGC) was lost: its replacement waits for a node")
    );
    let known = status.message;
    let forgotten = history(&[&all, &dying, &[running(0), running(1), running(3)]]);
    assert_eq!(forgotten.message, known, "the sentence outlives the pod");
    let new = Member { pod: "new".to_owned(), created: Some(at(60)), ..waiting(2) };
    let replaced = [running(0), running(1), gone.clone(), new.clone(), running(3)];
    let status = history(&[&all, &dying, &replaced]);
    assert_eq!((status.phase, status.reason.as_deref()), (RunPhase::Pending, Some("MemberLost")));
    let back =
        Member { node: Some("node-9".to_owned()), phase: PodPhase::Running, started_at: Some(at(70)), ..new };
    let status = history(&[&all, &dying, &[running(0), running(1), back, running(3)]]);
    assert_eq!((status.phase, status.reason), (RunPhase::Running, None));
    assert_eq!(status.started_at.unwrap().0, at(10), "the first start stays");
}

#[test]
fn a_member_that_cannot_start_says_why() {
    let stuck = Member { stuck: Some(waits("ImagePullBackOff", "")), ..starting(1) };
    let status = history(&[&[running(0), stuck, running(2), running(3)]]);
    assert_eq!((status.phase, status.reason.as_deref()), (RunPhase::Starting, Some("ImagePullBackOff")));
    assert_eq!(
        status.message.as_deref(),
        Some(
            "member 1 on node-1 does not start (ImagePullBackOff); the attempt ends at 2027-01-15T08:30:05Z if it still does not"
        )
    );
}

#[test]
fn the_member_that_failed_first_is_named() {
    let run = attempted(Some("job-uid"));
    let job = JobFacts {
        end: Some(JobEnd::Failed { at: Some(at(61)), noticed: Some(at(51)), why: "why".to_owned() }),
        failed: 4,
        ..job()
    };
    let conclusion = Conclusion::Failed { at: Some(at(61)), why: "BackoffLimitExceeded: why".to_owned() };
    let pods = [exited(0, 137, 60), exited(2, 1, 50), running(3)];
    let status = concluded(&run, Some(&job), &pods, &conclusion);
    assert_eq!((status.phase, status.reason.as_deref()), (RunPhase::Failed, Some("MemberFailed")));
    assert_eq!(status.message.as_deref(), Some("member 2 on node-2 exited with 1 (Error)"));
    assert_eq!(status.members, counts(0, 0, 0, 0, 4));
    assert_eq!(status.attempts[0].outcome, Some(AttemptOutcome::Failed));
    assert_eq!(status.finished_at.unwrap().0, at(61));
    assert!(!lacks_evidence(Sight { run: &run, job: Some(&job), pods: &pods }, &conclusion));
    assert!(lacks_evidence(Sight { run: &run, job: Some(&job), pods: &[running(3)] }, &conclusion));
    let blind = concluded(&run, Some(&job), &[], &conclusion);
    assert_eq!(blind.reason.as_deref(), Some("JobFailed"));
    assert_eq!(blind.message.as_deref(), Some("the Job failed (BackoffLimitExceeded: why)"));
}

#[test]
fn failures_that_are_not_exit_codes_are_named_too() {
    let mut run = attempted(Some("job-uid"));
    run.spec.time_limit_seconds = Some(60);
    let conclusion = Conclusion::Failed { at: Some(at(61)), why: "why".to_owned() };
    let late = Member { reason: Some("DeadlineExceeded".to_owned()), ..exited(1, 137, 60) };
    let status = concluded(&run, Some(&job()), &[late], &conclusion);
    assert_eq!(status.reason.as_deref(), Some("TimeLimitExceeded"));
    assert_eq!(status.message.as_deref(), Some("member 1 ran past the run's time limit of 60 s"));
    let refused =
        Member { phase: PodPhase::Failed, reason: Some("PodOSNotSupported".to_owned()), ..starting(1) };
    let status = concluded(&run, Some(&job()), &[refused], &conclusion);
    assert_eq!(status.message.as_deref(), Some("member 1 on node-1 failed (PodOSNotSupported)"));
}

#[test]
fn while_the_others_are_being_ended_the_failure_is_already_shown() {
    let status = history(&[&[running(0), exited(1, 3, 50), running(2), running(3)]]);
    assert_eq!((status.phase, status.members), (RunPhase::Running, counts(0, 0, 3, 0, 1)));
    assert_eq!(status.message.as_deref(), Some("member 1 on node-1 exited with 3 (Error)"));
}

#[test]
fn the_member_that_failed_is_told_from_those_ended_in_the_same_second() {
    let all = [running(0), running(1), running(2), running(3)];
    let ended = |index| Member { deleted: true, ..exited(index, 143, 50) };
    let status = history(&[&all, &[ended(0), exited(1, 3, 50), ended(2)]]);
    assert_eq!(status.message.as_deref(), Some("member 1 on node-1 exited with 3 (Error)"));
    assert_eq!((status.phase, status.members), (RunPhase::Running, counts(0, 0, 0, 0, 4)));
    assert!(
        status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Scheduled" && condition.status == "True")
    );
}

#[test]
fn a_failure_is_remembered_after_its_pod_is_gone() {
    let all = [running(0), running(1), running(2), running(3)];
    let killed = Member { deleted: true, ..exited(2, 143, 50) };
    let mut run = attempted(Some("job-uid"));
    run.status = Some(history(&[&all, &[running(0), running(1), killed, running(3)]]));
    let conclusion = Conclusion::Failed { at: Some(at(61)), why: "why".to_owned() };
    let status = concluded(&run, Some(&job()), &[], &conclusion);
    assert_eq!(
        status.message.as_deref(),
        Some("member 2 on node-2 exited with 143 (Error) after its pod was deleted")
    );
}

#[test]
fn a_run_that_is_being_stopped_does_not_look_as_if_it_waited() {
    let all = [running(0), running(1), running(2), running(3)];
    let mut run = attempted(Some("job-uid"));
    run.status = Some(history(&[&all]));
    run.spec.stop = true;
    let status = followed(&run, &[running(0)]);
    assert_eq!((status.phase, status.reason.as_deref()), (RunPhase::Running, Some("Stopping")));
    assert_eq!(status.members, counts(0, 0, 1, 0, 3));
    assert!(
        status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Scheduled" && condition.status == "True")
    );
}

#[test]
fn pods_of_another_job_of_the_same_name_do_not_count() {
    let stranger = Member { job_uid: "older".to_owned(), ..exited(0, 1, 5) };
    let status = history(&[&[stranger, starting(0), starting(1), starting(2), starting(3)]]);
    assert_eq!(
        (status.phase, status.members, status.reason),
        (RunPhase::Starting, counts(0, 4, 0, 0, 0), None)
    );
}

#[test]
fn success_keeps_real_times() {
    let mut run = attempted(Some("job-uid"));
    run.status = Some(history(&[&[running(0), running(1), running(2), running(3)]]));
    let job = JobFacts { end: Some(JobEnd::Complete { at: Some(at(90)) }), succeeded: 4, ..job() };
    let status = concluded(&run, Some(&job), &[], &Conclusion::Succeeded { at: Some(at(90)) });
    assert_eq!((status.phase, status.reason.as_deref()), (RunPhase::Succeeded, None));
    assert_eq!((status.started_at.unwrap().0, status.finished_at.unwrap().0), (at(10), at(90)));
    assert_eq!(status.members, counts(0, 0, 0, 4, 0));
    assert_eq!(status.attempts[0].outcome, Some(AttemptOutcome::Succeeded));
}

#[test]
fn deletion_and_stop_say_who_ended_it() {
    let mut run = attempted(Some("job-uid"));
    run.status = Some(history(&[&[running(0), running(1), running(2), waiting(3)]]));
    let status = concluded(&run, None, &[], &Conclusion::Deleted { at: None });
    assert_eq!((status.phase, status.reason.as_deref()), (RunPhase::Failed, Some("JobDeleted")));
    assert!(status.message.unwrap().contains("Job train-1 was deleted from outside"));
    assert_eq!(status.attempts[0].outcome, Some(AttemptOutcome::Deleted));
    assert_eq!(status.members, counts(0, 0, 0, 0, 3), "the one that waited never ended");
    let status = concluded(&run, None, &[], &Conclusion::Stopped);
    assert_eq!((status.phase, status.reason.as_deref()), (RunPhase::Stopped, Some("StoppedByUser")));
    assert_eq!(status.finished_at.unwrap().0, at(100));
    let never = concluded(&self::run(), None, &[], &Conclusion::Stopped);
    assert_eq!((never.phase, never.attempts.len()), (RunPhase::Stopped, 0));
}

#[test]
fn computing_twice_changes_nothing() {
    let pods = [running(0), starting(1), waiting(2), waiting(3)];
    let mut run = attempted(Some("job-uid"));
    run.status = Some(followed(&run, &pods));
    let later = follow(Sight { run: &run, job: Some(&job()), pods: &pods }, at(200));
    assert_eq!(Some(later), run.status);
}

#[test]
fn the_attempt_is_recorded_first_and_its_job_next() {
    let status = with_attempt(&run(), 4, at(0));
    assert_eq!((status.attempts[0].number, status.attempts[0].job_name.as_str()), (1, "train-1"));
    assert_eq!(status.attempts[0].job_uid, None);
    let mut run = run();
    run.status = Some(status);
    assert_eq!(with_job(&run, "u").attempts[0].job_uid.as_deref(), Some("u"));
}

#[test]
fn a_run_that_gives_way_says_for_whom_until_all_its_members_have_a_node_again() {
    let told = |index: u32, phase: PodPhase| Member {
        phase,
        deleted: true,
        disruption: Some("PreemptionByWarpyard".to_owned()),
        disruption_message: Some("gives way for gang nlp/b-1".to_owned()),
        ..running(index)
    };
    let new = |index: u32| Member { pod: format!("new-{index}"), created: Some(at(60)), ..waiting(index) };
    let all = [running(0), running(1), running(2), running(3)];
    let leaving: Vec<Member> = (0..4).map(|index| told(index, PodPhase::Running)).collect();
    let gone: Vec<Member> = (0..4).map(|index| told(index, PodPhase::Failed)).collect();
    let anew: Vec<Member> = (0..4).map(new).collect();
    let back: Vec<Member> = (0..4).map(|index| Member { created: Some(at(60)), ..running(index) }).collect();
    let expect = (Some("Preempted".to_owned()), Some("gives way for gang nlp/b-1".to_owned()));
    for seen in [&[&all, leaving.as_slice()][..], &[&all, &leaving, &gone], &[&all, &leaving, &anew]] {
        let status = history(seen);
        assert_eq!((status.reason, status.message), expect, "{seen:?}");
    }
    assert_eq!(history(&[&all, &leaving]).phase, RunPhase::Running);
    assert_eq!(history(&[&all, &leaving, &anew]).phase, RunPhase::Pending, "it waits, and has not failed");
    let status = history(&[&all, &leaving, &anew, &back]);
    assert_eq!((status.phase, status.reason), (RunPhase::Running, None));
}

#[test]
fn an_attempt_that_begins_anew_has_lost_no_member() {
    let mut run = attempted(Some("job-uid"));
    run.status = Some(history(&[&[running(0), running(1), running(2), running(3)]]));
    let conclusion = Conclusion::Failed { at: Some(at(61)), why: "why".to_owned() };
    run.status = Some(concluded(&run, Some(&job()), &[exited(1, 3, 50)], &conclusion));
    run.spec.restarts = 1;
    let status = with_attempt(&run, 4, at(70));
    assert_eq!((status.phase, status.reason.as_deref()), (RunPhase::Pending, Some("PodsMissing")));
}
