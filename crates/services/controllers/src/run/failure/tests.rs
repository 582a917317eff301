use super::{OUT_OF_MEMORY, Verdict, judge};
use crate::run::member::Member;
use crate::run::memory::Exhausted;
use crate::run::sight::Sight;
use crate::run::testing::{NO_NODES, attempted, exited, running};

fn verdict(fail_on: &[i32], pods: &[Member]) -> Verdict {
    let mut run = attempted(Some("job-uid"));
    run.spec.fail_on = fail_on.to_vec();
    judge(Sight { run: &run, job: None, pods }, NO_NODES, "why")
}

#[test]
fn exit_codes_decide_whether_it_is_tried_again() {
    let killed = |index| Member { deleted: true, ..exited(index, 143, 51) };
    assert!(matches!(verdict(&[], &[exited(0, 1, 50), killed(1)]), Verdict::Failed(_)));
    assert!(matches!(verdict(&[2], &[exited(0, 1, 50)]), Verdict::Failed(_)));
    let Verdict::Final(why) = verdict(&[2, 3], &[exited(0, 1, 50), exited(1, 3, 51), killed(2)]) else {
        panic!("3 is in failOn");
    };
    assert_eq!(why.message, "member 0 on node-0 exited with 1 (Error); code 3 is in failOn");
    assert!(matches!(verdict(&[143], &[exited(0, 1, 50), killed(1)]), Verdict::Failed(_)), "it was ended");
}

#[test]
fn who_saved_and_left_is_queued_again() {
    let pods = [exited(0, 75, 50), exited(1, 75, 50)];
    let Verdict::Interrupted(why) = verdict(&[], &pods) else { panic!("no failure") };
    assert_eq!(why.reason, "Requeued");
    assert!(
        matches!(verdict(&[], &[exited(0, 75, 51), exited(1, 1, 50)]), Verdict::Failed(_)),
        "1 came first"
    );
}

#[test]
fn a_pod_that_somebody_deleted_did_not_fail() {
    let deleted = Member { deleted: true, ..exited(1, 143, 50) };
    let Verdict::Interrupted(why) = verdict(&[], &[running(0), deleted]) else { panic!("no failure") };
    assert_eq!(why.reason, "PodDeleted");
}

#[test]
fn the_time_limit_is_final_and_without_a_pod_the_jobs_word_counts() {
    let late = Member { reason: Some("DeadlineExceeded".to_owned()), ..exited(1, 137, 60) };
    assert!(matches!(verdict(&[], &[late]), Verdict::Final(why) if why.reason == "TimeLimitExceeded"));
    assert!(matches!(verdict(&[], &[]), Verdict::Failed(why) if why.reason == "JobFailed"));
}

#[test]
fn a_member_without_memory_is_named_before_those_that_failed_because_of_it() {
    let mut killed = exited(3, 137, 50);
    killed.exit.as_mut().unwrap().exhausted = Some(Exhausted::Host { limit: Some("64Gi".to_owned()) });
    let Verdict::Failed(why) = verdict(&[], &[exited(0, 1, 50), killed.clone()]) else {
        panic!("it costs a retry")
    };
    assert_eq!(why.reason, OUT_OF_MEMORY);
    let said = "member 3 on node-3 ran out of memory: its limit is 64Gi; set a larger `memory` in the job file, or use less";
    assert_eq!(why.message, said);
    let Verdict::Failed(why) = verdict(&[], &[exited(0, 1, 49), killed]) else { panic!("a retry") };
    assert_eq!(why.reason, "MemberFailed", "another one failed a second before");
}
