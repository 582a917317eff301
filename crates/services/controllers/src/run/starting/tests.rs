use api_types::Run;
use api_types::run::Attempt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{failed_start, judge, next_look, trouble};
use crate::run::cause::{Interruption, Verdict};
use crate::run::job::JobFacts;
use crate::run::member::Member;
use crate::run::sight::Sight;
use crate::run::testing::{at, attempted, exited, job, running, starting, waiting, waits};

const GONE: &str = r#"failed to resolve reference "registry.example.com/nlp/train:1": registry.example.com/nlp/train:1: not found"#;
const AWAY: &str =
    "unexpected status from HEAD request to https://registry.example.com/v2/x: 503 Service Unavailable";

fn pulling(index: u32, message: &str) -> Member {
    Member { stuck: Some(waits("ErrImagePull", message)), ..starting(index) }
}

fn attempt_of_four() -> Run {
    attempted(Some("job-uid"))
}

fn end(pods: &[Member], seconds: i64) -> Option<Interruption> {
    let run = attempt_of_four();
    failed_start(Sight { run: &run, job: Some(&job()), pods }, at(seconds))
}

#[test]
fn an_image_that_can_never_be_had_ends_the_attempt_at_once_with_the_registrys_words() {
    let pods = [running(0), running(1), pulling(2, GONE), starting(3)];
    let why = end(&pods, 6).unwrap();
    assert_eq!(why.reason, "ImageNotFound");
    let said = "member 2 on node-2 cannot get its image: registry.example.com/nlp/train:1: not found; push the image or correct `image`, and submit again";
    assert_eq!(why.message, said);
    let run = attempt_of_four();
    let sight = Sight { run: &run, job: None, pods: &pods };
    assert!(matches!(judge(sight, why), Verdict::Final(_)), "a retry would not help");
}

#[test]
fn a_registry_that_is_away_ends_nothing_before_the_deadline() {
    let pods = [running(0), running(1), pulling(2, AWAY), starting(3)];
    assert_eq!(end(&pods, 5 + 1799), None);
    let why = end(&pods, 5 + 1800).unwrap();
    assert_eq!(why.reason, "StartDeadlineExceeded");
    let said = format!(
        "member 2 on node-2 did not start within 30 min after all members had nodes (ErrImagePull: {AWAY}); check that its node reaches the registry, or set a longer `startDeadline`"
    );
    assert_eq!(why.message, said);
}

#[test]
fn while_it_waits_the_status_says_until_when() {
    let run = attempt_of_four();
    let pods = [running(0), running(1), pulling(2, AWAY), starting(3)];
    let sight = Sight { run: &run, job: Some(&job()), pods: &pods };
    let said = format!(
        "member 2 on node-2 does not start (ErrImagePull: {AWAY}); the attempt ends at 2027-01-15T08:30:05Z if it still does not"
    );
    assert_eq!(trouble(sight), Some(("ErrImagePull".to_owned(), said)));
    assert_eq!(next_look(sight, at(1000)).map(|wait| wait.as_secs()), Some(805));
    assert_eq!(next_look(sight, at(1805)), None, "it is due");
}

#[test]
fn the_deadline_counts_from_the_last_node_and_not_from_the_queue() {
    let ages_ago = Member { bound_at: Some(at(-90_000)), ..starting(0) };
    let pods = |last| [ages_ago.clone(), running(1), running(2), last];
    assert_eq!(end(&pods(waiting(3)), 900_000), None, "one waits for its node");
    assert_eq!(end(&pods(starting(3)), 5 + 1799), None);
    assert!(end(&pods(starting(3)), 5 + 1800).is_some());
    assert_eq!(end(&[ages_ago.clone(), running(1), running(2)], 900_000), None, "one has no pod yet");
    let unknown = Member { bound_at: None, ..starting(3) };
    assert_eq!(end(&pods(unknown), 900_000), None);
}

#[test]
fn the_run_may_set_its_own_deadline() {
    let mut run = attempt_of_four();
    run.spec.start_deadline_seconds = Some(45);
    let pods = [starting(0), running(1), running(2), running(3)];
    let sight = Sight { run: &run, job: Some(&job()), pods: &pods };
    assert_eq!(failed_start(sight, at(49)), None);
    let why = failed_start(sight, at(50)).unwrap();
    assert!(why.message.starts_with("member 0 on node-0 did not start within 45 s"), "{}", why.message);
    assert!(why.message.contains("involvedObject.name=train-1-0-x"), "{}", why.message);
}

#[test]
fn members_that_run_are_leaving_or_fail_are_not_late() {
    let all = [running(0), running(1), running(2), running(3)];
    assert_eq!(end(&all, 900_000), None);
    let leaving = Member { deleted: true, ..pulling(3, GONE) };
    assert_eq!(end(&[running(0), running(1), running(2), leaving], 900_000), None);
    assert_eq!(end(&[running(0), running(1), exited(2, 1, 60), pulling(3, GONE)], 900_000), None);
    let run = attempt_of_four();
    let failing = JobFacts { failing_since: Some(at(60)), ..job() };
    let pods = [running(0), running(1), running(2), pulling(3, GONE)];
    assert_eq!(failed_start(Sight { run: &run, job: Some(&failing), pods: &pods }, at(900_000)), None);
    let replaced = [pulling(2, GONE), Member { created: Some(at(50)), pod: "new".to_owned(), ..running(2) }];
    let pods = [&[running(0), running(1), running(3)], replaced.as_slice()].concat();
    assert_eq!(end(&pods, 900_000), None, "only the newest pod of a member counts");
}

#[test]
fn a_first_late_start_is_free_and_a_second_in_a_row_costs_a_retry() {
    let verdict = |before: &[(&str, bool)]| {
        let mut run = attempt_of_four();
        let attempts = &mut run.status.as_mut().unwrap().attempts;
        let ended = |(reason, has_started): &(&str, bool)| Attempt {
            reason: Some((*reason).to_owned()),
            started_at: has_started.then(|| Time(at(9))),
            ..Attempt::default()
        };
        attempts.splice(0..0, before.iter().map(ended));
        let why = Interruption::new("StartDeadlineExceeded", "late");
        judge(Sight { run: &run, job: None, pods: &[] }, why)
    };
    let is_free = |before: &[(&str, bool)]| matches!(verdict(before), Verdict::Interrupted(_));
    assert!(is_free(&[]));
    assert!(is_free(&[("StartDeadlineExceeded", true), ("SpotNotice", true)]), "one started in between");
    assert!(!is_free(&[("StartDeadlineExceeded", true)]));
    assert!(!is_free(&[("StartDeadlineExceeded", false), ("Shrinking", false)]), "that one did not start");
    let Verdict::Failed(why) = verdict(&[("StartDeadlineExceeded", false)]) else { panic!("a retry") };
    assert_eq!(why.message, "late. The attempt before did not start either");
}

#[test]
fn other_interruptions_stay_free() {
    let run = attempt_of_four();
    let why = Interruption::new("SpotNotice", "gone");
    let verdict = judge(Sight { run: &run, job: None, pods: &[] }, why.clone());
    assert_eq!(verdict, Verdict::Interrupted(why));
}
