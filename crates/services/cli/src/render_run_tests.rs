use api_types::rest::{Cost, RunCostView, RunSummary, RunView};
use api_types::run::{
    Attempt, AttemptOutcome, Checkpoint, CheckpointVolume, Load, LostWork, MemberCounts, Progress, Reason,
    StepRange,
};
use api_types::{PriorityTier, RunPhase};
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use super::{run, seconds};

fn now() -> Timestamp {
    "2026-01-01T12:14:00Z".parse().expect("a time")
}

/// A time of Kubernetes, whose crate this one does not link.
fn at<Time: DeserializeOwned>(clock: &str) -> Time {
    serde_json::from_value(format!("2026-01-01T{clock}Z").into()).expect("a time")
}

/// Four members of eight GPUs, no attempts yet.
fn view(phase: RunPhase) -> RunView {
    RunView {
        summary: RunSummary {
            namespace: "team-nlp".to_owned(),
            name: "llama-ft".to_owned(),
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
            created_at: "2026-01-01T10:00:00Z".to_owned(),
            started_at: None,
            finished_at: None,
            submitted_by: Some("alice".to_owned()),
            archived: false,
        },
        time_limit_seconds: Some(86_400),
        checkpoint: None,
        spot: None,
        max_price: None,
        deadline: None,
        grace_seconds: None,
        retries: 0,
        failures: 0,
        used_seconds: 0,
        fail_on: vec![],
        min_members: None,
        restarts: 0,
        image: "pytorch:2".to_owned(),
        command: vec!["/bin/sh".to_owned(), "-c".to_owned(), "set -e\ntorchrun train.py".to_owned()],
        attempts: vec![],
        next_attempt_at: None,
        progress: None,
        reasons: vec![],
    }
}

fn attempt(number: u32, started: &str) -> Attempt {
    Attempt {
        number,
        job_name: format!("llama-ft-{number}"),
        members: 4,
        started_at: Some(at(started)),
        ..Attempt::default()
    }
}

fn interrupted(number: u32, started: &str, ended: &str, reason: &str, lost: Option<(u64, u64)>) -> Attempt {
    Attempt {
        ended_at: Some(at(ended)),
        outcome: Some(AttemptOutcome::Interrupted),
        reason: Some(reason.to_owned()),
        message: Some(format!("sentence on {reason}")),
        lost: lost.map(|(steps, seconds)| LostWork { steps, seconds }),
        ..attempt(number, started)
    }
}

fn load(attempt: u32, step: u64) -> Load {
    Load { attempt, step, committed_at: None, reached: step }
}

/// The output after the lines about the request.
fn story(view: &RunView) -> String {
    let text = run(view, None, now());
    let (_, story) = text.split_once("by alice\n").expect("a run is submitted by somebody");
    story.to_owned()
}

#[test]
fn show_says_all_that_is_known() {
    let view = RunView {
        summary: RunSummary {
            member_counts: MemberCounts { waiting: 4, ..MemberCounts::default() },
            ..view(RunPhase::Pending).summary
        },
        reasons: vec![Reason {
            code: "QuotaExceeded".to_owned(),
            topic: Some("quota".to_owned()),
            message: "queue nlp holds 40 of 48 H100; requests 32".to_owned(),
            ..Reason::default()
        }],
        attempts: vec![Attempt { started_at: None, ..attempt(1, "10:00:00") }],
        ..view(RunPhase::Pending)
    };
    let cost = RunCostView {
        namespace: "team-nlp".to_owned(),
        name: "llama-ft".to_owned(),
        currency: Some("USD".to_owned()),
        as_of: now().to_string(),
        total: Cost {
            amount: "12.34".to_owned(),
            per_hour: "2.99".to_owned(),
            gpu_seconds: 14_858,
            ..Cost::default()
        },
        classes: vec![],
        attempts: vec![],
    };
    let cost_line = "Cost        12.34 USD so far (2.99 USD/h)\n";
    assert_eq!(run(&view, Some(&cost), now()).replace(cost_line, ""), run(&view, None, now()));
    assert!(run(&view, Some(&cost), now()).contains(cost_line));
    insta::assert_snapshot!(run(&view, None, now()), @r"
    Run         team-nlp/llama-ft
    State       Pending
    Queue       nlp
    GPUs        4×8 H100
    Members     4 waiting
    Priority    research
    Time limit  24h
    Image       pytorch:2
    Command     /bin/sh -c set -e
                torchrun train.py
    Submitted   2026-01-01T10:00:00Z (2h14m ago) by alice
     ✗ quota     queue nlp holds 40 of 48 H100; requests 32
    ");
}

#[test]
fn show_says_how_machines_are_bought_for_it() {
    let view = RunView {
        spot: Some(true),
        max_price: Some("29.40".to_owned()),
        deadline: Some("2026-01-01T18:14:00Z".to_owned()),
        ..view(RunPhase::Pending)
    };
    let text = run(&view, None, now());
    for line in
        ["Spot        bought\n", "Max price   29.40 an hour\n", "Deadline    2026-01-01T18:14:00Z (in 6h)\n"]
    {
        assert!(text.contains(line), "{line}{text}");
    }
    let late = RunView { spot: Some(false), deadline: Some("2026-01-01T12:00:00Z".to_owned()), ..view };
    let text = run(&late, None, now());
    assert!(
        text.contains("Spot        refused\n") && text.contains("2026-01-01T12:00:00Z (over)\n"),
        "{text}"
    );
}

#[test]
fn show_tells_the_story_of_a_run_that_was_interrupted() {
    let failed = Attempt {
        ended_at: Some(at("11:30:10")),
        outcome: Some(AttemptOutcome::Failed),
        reason: Some("MemberFailed".to_owned()),
        message: Some("member 2 exited with 1".to_owned()),
        lost: Some(LostWork { steps: 40, seconds: 95 }),
        members: 2,
        ..attempt(2, "11:12:00")
    };
    let view = RunView {
        checkpoint: Some(CheckpointVolume { claim: "ckpt".to_owned() }),
        grace_seconds: Some(120),
        retries: 3,
        failures: 1,
        used_seconds: 4_700,
        fail_on: vec![64, 65],
        min_members: Some(2),
        attempts: vec![
            interrupted(1, "10:00:10", "11:00:20", "SpotNotice", Some((0, 0))),
            failed,
            attempt(3, "11:31:00"),
        ],
        progress: Some(Progress {
            step: 2_340,
            reported_at: at("12:13:55"),
            checkpoint: Some(Checkpoint {
                step: 2_300,
                attempt: 3,
                committed_at: at("12:13:20"),
                bytes: 1,
                milliseconds: 3_140,
                stall_milliseconds: 80,
            }),
            ranges: vec![StepRange {
                attempt: 3,
                from: 2_300,
                to: 2_340,
                world_size: 32,
                milliseconds: 52_000,
            }],
            loads: vec![load(1, 0), load(2, 1_200), load(3, 1_900)],
        }),
        ..view(RunPhase::Running)
    };
    insta::assert_snapshot!(run(&view, None, now()), @r"
    Run         team-nlp/llama-ft
    State       Running
    Queue       nlp
    GPUs        4×8 H100, or as few as 2×8
    Members     4, none created yet
    Priority    research
    Time limit  24h, of which 2h1m are used
    Checkpoints volume ckpt, 2m to save and leave
    Retries     3, of which 1 is used; exit codes 64, 65 end it at once
    Image       pytorch:2
    Command     /bin/sh -c set -e
                torchrun train.py
    Submitted   2026-01-01T10:00:00Z (2h14m ago) by alice

    ATTEMPT   GPUS       STARTED                RAN   FROM        LOST             ENDED
    1         4×8 H100   2026-01-01T10:00:10Z   60m   beginning   nothing          interrupted: sentence on SpotNotice
    2         2×8 H100   2026-01-01T11:12:00Z   18m   step 1200   40 steps (95s)   failed: member 2 exited with 1
    3         4×8 H100   2026-01-01T11:31:00Z   43m   step 1900   -                goes on

    Progress    step 2340, 1.3s each (told 5s ago)
    Saved       step 2300, 40s ago, in 3.1s; training waited 80ms
    ");
}

#[test]
fn interruptions_that_cost_nothing_are_told_together() {
    let nothing = Some((0, 1));
    let view = RunView {
        attempts: vec![
            interrupted(1, "10:00:00", "10:10:00", "SpotNotice", Some((7, 20))),
            interrupted(2, "10:11:00", "10:20:00", "SpotNotice", nothing),
            interrupted(3, "10:21:00", "10:30:00", "Preempted", nothing),
            interrupted(4, "10:31:00", "10:40:00", "SpotNotice", nothing),
            Attempt { members: 2, ..interrupted(5, "10:41:00", "10:50:00", "Grows", nothing) },
            Attempt {
                ended_at: None,
                outcome: None,
                told_at: Some(at("12:13:51")),
                ..interrupted(6, "10:51:00", "10:51:00", "Paused", None)
            },
        ],
        ..view(RunPhase::Running)
    };
    insta::assert_snapshot!(story(&view).trim_start(), @r"
    ATTEMPT   GPUS       STARTED                RAN   LOST            ENDED
    1         4×8 H100   2026-01-01T10:00:00Z   10m   7 steps (20s)   interrupted: sentence on SpotNotice
    2–4       4×8 H100   2026-01-01T10:11:00Z   27m   0 steps (3s)    interrupted 3 times: SpotNotice 2, Preempted 1
    5         2×8 H100   2026-01-01T10:41:00Z   9m    0 steps (1s)    interrupted: sentence on Grows
    6         4×8 H100   2026-01-01T10:51:00Z   83m   -               told 9s ago to save and leave: sentence on Paused
    ");
}

#[test]
fn show_says_what_is_ahead() {
    let paused = RunSummary { pause: true, ..view(RunPhase::Paused).summary };
    let waits = RunView {
        attempts: vec![Attempt { lost: None, ..interrupted(1, "12:00:00", "12:13:00", "NodeLost", None) }],
        next_attempt_at: Some("2026-01-01T12:14:20Z".to_owned()),
        ..view(RunPhase::Pending)
    };
    let due = RunView { next_attempt_at: Some(now().to_string()), ..view(RunPhase::Pending) };
    let stories = [
        story(&RunView { summary: paused, ..view(RunPhase::Paused) }),
        story(&view(RunPhase::Failed)),
        story(&view(RunPhase::Succeeded)),
        story(&waits),
        story(&due),
    ];
    insta::assert_snapshot!(stories.join("--\n"), @r"
    Next        continues when resumed: warpyard resume team-nlp/llama-ft
    --
    Next        stays failed, unless retried: warpyard retry team-nlp/llama-ft
    --
    --

    ATTEMPT   GPUS       STARTED                RAN   ENDED
    1         4×8 H100   2026-01-01T12:00:00Z   13m   interrupted: sentence on NodeLost

    Next        attempt 2 begins in 20s
    --
    Next        attempt 1 begins any moment
    ");
}

#[test]
fn a_run_that_went_through_at_once_needs_no_table() {
    let done = Attempt { outcome: Some(AttemptOutcome::Succeeded), ..attempt(1, "10:00:00") };
    for attempts in [vec![], vec![attempt(1, "10:00:00")], vec![done]] {
        assert_eq!(story(&RunView { attempts, ..view(RunPhase::Succeeded) }), "");
    }
}

#[test]
fn what_members_and_machines_say_cannot_steer_the_terminal() {
    let mut attempt = interrupted(1, "10:00:00", "10:10:00", "SpotNotice", None);
    attempt.message = Some("a\u{1b}[2J\nb".to_owned());
    let text = story(&RunView { attempts: vec![attempt], ..view(RunPhase::Pending) });
    assert!(text.contains("a\u{fffd}[2J\u{fffd}b") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn short_times_have_few_digits() {
    for (milliseconds, expect) in
        [(0, "0ms"), (999, "999ms"), (1_250, "1.2s"), (9_999, "9.9s"), (61_000, "61s")]
    {
        assert_eq!(seconds(milliseconds), expect);
    }
}
