use std::collections::BTreeMap;

use api_types::outlook::{Offer, Outlook, QueueShare, StartForecast};
use api_types::rest::{Board, BoardQueue, BoardRun, QueueView};
use jiff::Timestamp;

use super::{board, note, ordinal, outlook};

fn now() -> Timestamp {
    "2026-01-01T12:14:00Z".parse().expect("a time")
}

fn waits(forecast: Option<StartForecast>) -> Outlook {
    Outlook {
        jobs_ahead: 2,
        gpus_ahead: 96,
        jobs_waiting: 12,
        planned_at: "2026-01-01T12:13:59Z".to_owned(),
        forecast,
    }
}

fn forecast(p50_seconds: u32, p90_seconds: u32, made_at: &str) -> StartForecast {
    let offer = |code: &str, message: &str| Offer { code: code.to_owned(), message: message.to_owned() };
    StartForecast {
        p50_seconds: Some(p50_seconds),
        p90_seconds: Some(p90_seconds),
        not_within_seconds: None,
        made_at: made_at.to_owned(),
        would_start_now: vec![
            offer("FewerGpus", "with 4 GPUs per member"),
            offer("Queue", "in queue \u{1b}[31mx"),
        ],
    }
}

#[test]
fn a_run_that_waits_has_a_place_a_start_and_ways_to_start_now() {
    let young = waits(Some(forecast(720, 2_400, "2026-01-01T12:13:58Z")));
    insta::assert_snapshot!(outlook(&young, now()), @r"
     → place     3rd of 12 jobs, 96 GPUs ahead
     → start     in 12m–40m
     → now       would start: with 4 GPUs per member; in queue �[31mx
    ");
    let old = waits(Some(StartForecast {
        would_start_now: Vec::new(),
        ..forecast(20, 300, "2026-01-01T12:13:20Z")
    }));
    insta::assert_snapshot!(outlook(&old, now()), @r"
     → place     3rd of 12 jobs, 96 GPUs ahead
     → start     within 5m (as of 40s ago)
    ");
    let made_at = "2026-01-01T12:13:58Z";
    let none = StartForecast { p50_seconds: None, p90_seconds: None, ..forecast(0, 0, made_at) };
    let never = StartForecast { would_start_now: Vec::new(), ..none };
    assert_eq!(outlook(&waits(Some(never.clone())), now()), " → start     not as it is\n", "it has no place");
    let far = StartForecast { not_within_seconds: Some(14 * 24 * 3_600), ..never };
    insta::assert_snapshot!(outlook(&waits(Some(far)), now()), @r"
     → place     3rd of 12 jobs, 96 GPUs ahead
     → start     not within 14d
    ");
    insta::assert_snapshot!(outlook(&waits(None), now()), @r"
     → place     3rd of 12 jobs, 96 GPUs ahead
     → start     not ready yet; ask again in a moment
    ");
}

#[test]
fn that_nothing_waits_is_said_only_if_that_is_so() {
    let told = |planned: bool, shown: usize, jobs_waiting| {
        let planned_at = planned.then(String::new);
        note(&Board { planned_at, queues: Vec::new(), runs: vec![run("a", None); shown], jobs_waiting }, 5)
    };
    assert_eq!(told(true, 0, 0), "Nothing waits.\n");
    assert_eq!(told(true, 1, 1), "1 job waits.\n");
    let hidden = "2 more wait in queues that you may not see, or as pods without a run.\n";
    assert_eq!([told(true, 0, 2), told(true, 4, 6)], [hidden, hidden]);
    assert_eq!(told(true, 5, 6), "1 more waits; --limit shows more of those that you may see.\n");
    assert!(told(false, 0, 0).contains("does not answer"));
}

#[test]
fn places_are_spelled_as_people_say_them() {
    for (number, expect) in
        [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd"), (113, "113th")]
    {
        assert_eq!(ordinal(number), expect);
    }
}

fn queue(name: &str, depth: u32, share: Option<(f64, f64)>) -> BoardQueue {
    BoardQueue {
        queue: QueueView {
            name: name.to_owned(),
            parent: None,
            weight: 1,
            quota_gpus: Some(BTreeMap::from([("H100".to_owned(), 48)])),
            limit_gpus: None,
            used_gpus: BTreeMap::from([("H100".to_owned(), 40)]),
            borrowed_gpus: BTreeMap::new(),
            gangs_running: 5,
            gangs_waiting: 12,
            spend: None,
            namespaces: Vec::new(),
        },
        depth,
        share: share.map(|(used_percent, fair_percent)| QueueShare {
            name: name.to_owned(),
            gpus_used: 40,
            used_percent,
            fair_percent,
            decayed_gpu_hours: 1.0,
        }),
    }
}

fn run(name: &str, outlook: Option<Outlook>) -> BoardRun {
    BoardRun {
        namespace: "nlp".to_owned(),
        name: name.to_owned(),
        queue: Some("h100".to_owned()),
        gpus: 32,
        created_at: "2026-01-01T12:00:00Z".to_owned(),
        reason: Some("QuotaExceeded".to_owned()),
        topic: Some("quota".to_owned()),
        outlook,
    }
}

#[test]
fn the_board_is_a_tree_of_queues_and_the_line() {
    let shown = Board {
        planned_at: None,
        queues: vec![queue("acme", 0, Some((83.3, 100.0))), queue("nlp", 1, None)],
        runs: vec![
            run("llama", Some(waits(Some(forecast(720, 2_400, "2026-01-01T12:13:58Z"))))),
            run("bert", None),
        ],
        jobs_waiting: 12,
    };
    insta::assert_snapshot!(board(&shown, now()), @r"
    QUEUE   GPUS         RUNNING   WAITING   USED                 DUE
    acme    40/48 H100         5        12   ████████░░  83.3 %   ██████████ 100.0 %
      nlp   40/48 H100         5        12   -                    -

    #   RUN         QUEUE   GPUS   WAITS   AHEAD     STARTS       WHY
    3   nlp/llama   h100      32   14m     96 GPUs   in 12m–40m   quota
    -   nlp/bert    h100      32   14m     -         -            quota
    ");
}
