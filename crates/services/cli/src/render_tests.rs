use std::collections::BTreeMap;

use api_types::Spend;
use api_types::rest::{QueueView, RunSummary, Why};
use api_types::run::{MemberCounts, Reason, WaitNature};
use api_types::{PriorityTier, RunPhase};
use cluster_model::plan::WaitReason;
use jiff::Timestamp;

use super::{clean, counted, gpus, period, queues, runs, state, why};

fn now() -> Timestamp {
    "2026-01-01T12:14:00Z".parse().expect("a time")
}

fn summary(name: &str, phase: RunPhase) -> RunSummary {
    RunSummary {
        namespace: "team-nlp".to_owned(),
        name: name.to_owned(),
        queue: Some("nlp".to_owned()),
        priority: PriorityTier::Research,
        phase,
        reason: None,
        message: None,
        stop: false,
        pause: false,
        members: 4,
        gpus_per_member: 8,
        gpu_type: Some("H100".to_owned()),
        member_counts: MemberCounts::default(),
        created_at: "2026-01-01T12:00:00Z".to_owned(),
        started_at: None,
        finished_at: None,
        submitted_by: None,
        archived: false,
    }
}

fn quota() -> Reason {
    Reason {
        code: "QuotaExceeded".to_owned(),
        topic: Some("quota".to_owned()),
        message: "queue nlp holds 40 of 48 H100; requests 32".to_owned(),
        ..Reason::default()
    }
}

fn why_of(phase: RunPhase, reasons: Vec<Reason>) -> Why {
    Why {
        namespace: "team-nlp".to_owned(),
        name: "llama-ft".to_owned(),
        phase,
        queue: Some("nlp".to_owned()),
        created_at: "2026-01-01T12:00:00Z".to_owned(),
        started_at: None,
        finished_at: None,
        message: None,
        member_counts: MemberCounts::default(),
        reasons,
        outlook: None,
    }
}

#[test]
fn ls_is_a_table_with_the_reason_last() {
    let waiting = RunSummary { message: Some(quota().message), ..summary("llama-ft", RunPhase::Pending) };
    let running = RunSummary {
        members: 1,
        gpus_per_member: 1,
        gpu_type: None,
        queue: None,
        ..summary("a", RunPhase::Running)
    };
    let stopping = RunSummary { stop: true, ..summary("bert", RunPhase::Running) };
    insta::assert_snapshot!(runs(&[waiting.clone(), running, stopping], false, now()), @r"
    NAME       QUEUE   STATE      GPUS       AGE   WHY
    llama-ft   nlp     Pending    4×8 H100   14m   queue nlp holds 40 of 48 H100; requests 32
    a          -       Running    1          14m
    bert       nlp     Stopping   4×8 H100   14m
    ");
    insta::assert_snapshot!(runs(&[waiting], true, now()), @r"
    NAMESPACE   NAME       QUEUE   STATE     GPUS       AGE   WHY
    team-nlp    llama-ft   nlp     Pending   4×8 H100   14m   queue nlp holds 40 of 48 H100; requests 32
    ");
}

#[test]
fn a_state_says_where_the_run_goes_when_somebody_asked() {
    for (phase, stop, pause, expect) in [
        (RunPhase::Running, false, false, "Running"),
        (RunPhase::Running, false, true, "Pausing"),
        (RunPhase::Running, true, true, "Stopping"),
        (RunPhase::Paused, false, true, "Paused"),
        (RunPhase::Paused, false, false, "Resuming"),
        (RunPhase::Paused, true, true, "Stopping"),
        (RunPhase::Failed, true, true, "Failed"),
    ] {
        assert_eq!(state(&RunSummary { stop, pause, ..summary("a", phase) }), expect);
    }
}

#[test]
fn why_lists_every_reason() {
    let reason = |code: &str, nature, topic: Option<&str>, message: &str| Reason {
        code: code.to_owned(),
        nature: Some(nature),
        topic: topic.map(str::to_owned),
        message: message.to_owned(),
        ..Reason::default()
    };
    let machines = Some("machines");
    let coming = reason("MachinesComing", WaitNature::Coming, machines, "2 machines were bought for it");
    let nodes = reason("NotEnoughGpus", WaitNature::Room, Some("gpus"), "4 members of 8 H100 each: 2 fit");
    let newer = reason("OfANewerServer", WaitNature::Time, None, "a comet passes");
    insta::assert_snapshot!(why(&why_of(RunPhase::Pending, vec![coming, quota(), nodes, newer]), now()), @r"
    PENDING 14m · queue nlp
     → machines  2 machines were bought for it
     ✗ quota     queue nlp holds 40 of 48 H100; requests 32
     ✗ gpus      4 members of 8 H100 each: 2 fit
     → OfANewerServer a comet passes
    ");
}

#[test]
fn every_reason_has_a_row_in_the_guide() {
    let guide = include_str!("../../../../docs/guides/submit-a-job.md");
    for code in WaitReason::CODES {
        assert!(guide.contains(&format!("`{code}`")), "{code} is missing in the guide");
    }
}

#[test]
fn why_says_when_waiting_will_not_help() {
    let never = Reason {
        code: "QueueNotOpen".to_owned(),
        topic: Some("queue".to_owned()),
        message: "queue nlp does not list namespace team-x".to_owned(),
        never: true,
        ..Reason::default()
    };
    insta::assert_snapshot!(why(&why_of(RunPhase::Pending, vec![never]), now()), @r"
    PENDING 14m · queue nlp
     ✗ queue     queue nlp does not list namespace team-x (waiting will not help)
    ");
}

#[test]
fn why_of_a_run_that_does_not_wait_says_how_it_fares() {
    let members = |running, failed| MemberCounts { running, failed, ..MemberCounts::default() };
    let started_at = Some("2026-01-01T12:04:00Z".to_owned());
    let running = Why {
        member_counts: members(4, 0),
        started_at: started_at.clone(),
        ..why_of(RunPhase::Running, vec![])
    };
    let failed = Why {
        member_counts: members(3, 1),
        started_at,
        finished_at: Some("2026-01-01T12:09:00Z".to_owned()),
        message: Some("member 2 exited with 1".to_owned()),
        ..why_of(RunPhase::Failed, vec![])
    };
    let text = [running, failed, why_of(RunPhase::Pending, vec![]), why_of(RunPhase::Succeeded, vec![])]
        .map(|view| why(&view, now()))
        .concat();
    insta::assert_snapshot!(text, @r"
    RUNNING 10m · queue nlp
     ✓ 4 of 4 members run
    FAILED after 5m, 5m ago · queue nlp
     ✗ member 2 exited with 1
    PENDING 14m · queue nlp
     … the scheduler has not looked at it yet
    SUCCEEDED 14m ago · queue nlp
     ✓ every member succeeded
    ");
}

#[test]
fn queues_show_what_they_hold_of_what_they_own() {
    let queue = |name: &str, used: &[(&str, u32)], quota: Option<&[(&str, u32)]>| QueueView {
        name: name.to_owned(),
        parent: Some("research".to_owned()).filter(|_| name == "nlp"),
        weight: 1,
        quota_gpus: quota.map(amounts),
        limit_gpus: None,
        used_gpus: amounts(used),
        borrowed_gpus: BTreeMap::new(),
        spend: None,
        gangs_running: 3,
        gangs_waiting: 1,
        namespaces: vec!["team-nlp".to_owned(), "team-x".to_owned()],
    };
    let text = queues(&[
        queue("nlp", &[("H100", 40)], Some(&[("A100", 8), ("H100", 48)])),
        queue("research", &[("H100", 40)], None),
        queue("empty", &[], None),
    ]);
    insta::assert_snapshot!(text, @r"
    NAME       PARENT     GPUS                   RUNNING   WAITING   NAMESPACES
    nlp        research   0/8 A100, 40/48 H100   3         1         team-nlp,team-x
    research   -          40 H100                3         1         team-nlp,team-x
    empty      -          -                      3         1         team-nlp,team-x
    ");
}

#[test]
fn queues_show_what_they_spent_once_any_did() {
    let queue = |name: &str, spend: Option<Spend>| QueueView {
        name: name.to_owned(),
        parent: None,
        weight: 1,
        quota_gpus: None,
        limit_gpus: None,
        used_gpus: BTreeMap::new(),
        borrowed_gpus: BTreeMap::new(),
        spend,
        gangs_running: 0,
        gangs_waiting: 0,
        namespaces: vec![],
    };
    let spend = Spend {
        month: "2026-01".to_owned(),
        amount: "1234.567".to_owned(),
        currency: "USD".to_owned(),
        gpu_hours: "400".to_owned(),
    };
    insta::assert_snapshot!(queues(&[queue("nlp", Some(spend)), queue("new", None)]), @r"
    NAME   PARENT   GPUS   RUNNING   WAITING   SPEND         NAMESPACES
    nlp    -        -      0         0         1234.57 USD   -
    new    -        -      0         0         -             -
    ");
}

fn amounts(pairs: &[(&str, u32)]) -> BTreeMap<String, u32> {
    pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn gpus_read_as_people_say_them() {
    for (members, each, gpu_type, expect) in [
        (4, 8, Some("H100"), "4×8 H100"),
        (1, 8, Some("H100"), "8 H100"),
        (1, 1, None, "1"),
        (2, 0, None, "2×0"),
    ] {
        assert_eq!(gpus(members, each, gpu_type), expect);
    }
}

#[test]
fn one_gpu_is_not_one_gpus() {
    assert_eq!([0, 1, 2].map(|number| counted(number, "GPU")), ["0 GPUs", "1 GPU", "2 GPUs"]);
}

#[test]
fn ages_have_one_or_two_units() {
    for (seconds, expect) in [
        (-5, "0s"),
        (119, "119s"),
        (120, "2m"),
        (7_199, "119m"),
        (7_200, "2h"),
        (9_000, "2h30m"),
        (86_400, "24h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (864_000, "10d"),
    ] {
        assert_eq!(period(seconds), expect, "{seconds}");
    }
}

#[test]
fn names_from_elsewhere_cannot_steer_the_terminal() {
    assert_eq!(clean("a\u{1b}[31m\n\u{202e}b"), "a\u{fffd}[31m\u{fffd}\u{fffd}b");
}
