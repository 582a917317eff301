use std::sync::Arc;
use std::time::Duration;

use api_types::capacity::{CapacityView, GangName, RefusedView};
use api_types::outlook::{LineQuery, StartForecast};
use cluster_model::{
    ClusterChange, ClusterState, GangKey, Node, Pod, PodKey, Queue, Resources, Taint, TaintEffect,
};
use forecast::Coming;
use jiff::Timestamp;
use placement::Policy;
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answers::{capacity, gang_of_run, line, outlook};
use super::desk::Desk;
use super::forecaster;
use super::learned::Teller;
use super::picture::Picture;

const NOW: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

fn pod(name: &str, gpus: i64, age: i64) -> Pod {
    Pod {
        run: Some(format!("run-{name}").into()),
        requests: Resources { gpus, pods: 1, ..Resources::default() },
        created: at(NOW - age),
        ..Pod::new(PodKey::new("team", name, name), GangKey::new("team", name))
    }
}

/// A node of 8 GPUs of which 6 are used, and four waiting gangs, the oldest first; the last is too large for
/// any node.
fn changes() -> Vec<ClusterChange> {
    let allocatable = Resources { gpus: 8, pods: 20, ..Resources::default() };
    let runs = Pod { node: Some("node".into()), started: Some(at(NOW - 900)), ..pod("runs", 6, 1_000) };
    vec![
        ClusterChange::Queue(Queue { namespaces: ["team".into()].into(), ..Queue::new("queue") }),
        ClusterChange::Node(Node { gpu_type: Some("H100".into()), allocatable, ..Node::new("node") }),
        ClusterChange::Pod(runs),
        ClusterChange::Pod(pod("first", 4, 300)),
        ClusterChange::Pod(pod("second", 8, 200)),
        ClusterChange::Pod(pod("third", 3, 100)),
        ClusterChange::Pod(pod("large", 9, 50)),
    ]
}

fn policy() -> Policy {
    Policy { order: placement::OrderPolicy::Age, ..Policy::default() }
}

/// A planning thread that gets all changes and plans once.
fn plan_once(desk: &Arc<Desk>) -> ClusterState {
    let (mut state, mut teller) = (ClusterState::default(), Teller::new(Arc::clone(desk)));
    state.advance(at(NOW));
    for change in changes() {
        teller.changes(&state, &change);
        state.apply(change);
    }
    let plan = placement::plan(&mut state, &policy(), at(NOW));
    teller.planned(&state, &policy(), &plan);
    state
}

/// The picture for a question that comes before the plan is made.
pub(crate) async fn picture(desk: &Arc<Desk>) -> Arc<Picture> {
    let asks = tokio::spawn({
        let desk = Arc::clone(desk);
        async move { desk.picture(Instant::now() + Duration::from_secs(5)).await }
    });
    desk.plan_again().await;
    plan_once(desk);
    asks.await.expect("no panic").expect("there is one")
}

pub(super) fn forecast() -> StartForecast {
    StartForecast {
        p50_seconds: Some(1),
        p90_seconds: Some(2),
        not_within_seconds: None,
        made_at: String::new(),
        would_start_now: Vec::new(),
    }
}

#[tokio::test]
async fn who_waits_is_told_its_place_among_all_who_wait() {
    let desk = Arc::<Desk>::default();
    let picture = picture(&desk).await;
    let place = |name: &str| {
        let gang = gang_of_run(&picture, "team", &format!("run-{name}"))?;
        let told = outlook(&picture, gang, None)?;
        assert!(!told.reasons.is_empty());
        Some((told.outlook.jobs_ahead, told.outlook.gpus_ahead, told.outlook.jobs_waiting))
    };
    assert_eq!(place("first"), Some((0, 0, 4)));
    assert_eq!(place("second"), Some((1, 4, 4)));
    assert_eq!(place("third"), Some((2, 12, 4)));
    assert_eq!(place("runs"), None);
    assert_eq!(gang_of_run(&picture, "other", "run-first"), None, "names are the namespace's own");
}

#[tokio::test]
async fn the_line_has_everybody_in_order_and_forecasts_as_far_as_they_are_known() {
    let desk = Arc::<Desk>::default();
    let picture = picture(&desk).await;
    let known = GangKey::new("team", "second");
    let everything = LineQuery { namespaces: None, limit: 10 };
    let line = line(&picture, &everything, |gang| (*gang == known).then(forecast));
    let jobs: Vec<_> = line
        .waiting
        .iter()
        .map(|job| (job.gang.as_str(), job.gpus, job.outlook.gpus_ahead, job.outlook.forecast.is_some()))
        .collect();
    let expect =
        [("first", 4, 0, false), ("second", 8, 4, true), ("third", 3, 12, false), ("large", 9, 15, true)];
    assert_eq!(jobs, expect);
    assert_eq!((line.jobs_waiting, line.queues.len(), line.queues[0].gpus_used), (4, 1, 6));
    assert!(line.waiting.iter().all(|job| job.queue.as_deref() == Some("queue")));
}

#[tokio::test]
async fn who_cannot_start_as_it_is_is_ahead_of_nobody() {
    let desk = Arc::<Desk>::default();
    let mut picture = picture(&desk).await;
    drop(desk);
    // The gang that is too large for any node comes first.
    Arc::get_mut(&mut picture).expect("nobody else has it").plan.waiting.rotate_right(1);
    let told = line(&picture, &LineQuery { namespaces: None, limit: 10 }, |_| None).waiting;
    let places: Vec<_> =
        told.iter().map(|job| (job.gang.as_str(), job.outlook.jobs_ahead, job.outlook.gpus_ahead)).collect();
    assert_eq!(places, [("large", 0, 0), ("first", 0, 0), ("second", 1, 4), ("third", 2, 12)]);
    let start = told[0].outlook.forecast.as_ref().expect("that it cannot start is known at once");
    assert_eq!((start.p50_seconds, start.not_within_seconds), (None, None));
    let third = outlook(&picture, &GangKey::new("team", "third"), None).expect("it waits").outlook;
    assert_eq!((third.jobs_ahead, third.gpus_ahead, third.jobs_waiting), (2, 12, 4));
}

#[tokio::test]
async fn a_line_is_cut_after_what_was_not_asked_for_is_left_out() {
    let desk = Arc::<Desk>::default();
    let mut picture = picture(&desk).await;
    drop(desk);
    let waiting = &mut Arc::get_mut(&mut picture).expect("nobody else has it").plan.waiting;
    waiting[0].gang.namespace = "other".into();
    waiting[1].run = None;
    let told = |namespaces: Option<&str>, limit| {
        let namespaces = namespaces.map(|it| [it.to_owned()].into());
        let line = line(&picture, &LineQuery { namespaces, limit }, |_| None);
        assert_eq!(line.jobs_waiting, 4);
        let jobs = line.waiting.into_iter().map(|job| (job.gang, job.outlook.jobs_ahead));
        jobs.collect::<Vec<_>>()
    };
    assert_eq!(told(Some("team"), 1), [("third".to_owned(), 2)], "it is the first run of its namespace");
    assert_eq!(told(Some("nobody"), 1), []);
}

#[test]
fn of_machines_everybody_is_told_what_is_decided_or_that_nobody_decides() {
    let desk = Desk::default();
    let ours = LineQuery { namespaces: Some(["ours".to_owned()].into()), limit: 1 };
    let told = capacity(desk.capacity().as_deref(), &ours);
    assert!(!told.enabled && told.note.is_some_and(|note| note.contains("--buy-machines")));
    let refused = |namespace: &str| RefusedView {
        gang: GangName { namespace: namespace.to_owned(), name: "gang".to_owned(), run: None },
        why: "dear".to_owned(),
    };
    let refused_all = vec![refused("theirs"), refused("ours"), refused("ours")];
    let decided = CapacityView {
        enabled: true,
        refused_in_all: 3,
        refused: refused_all,
        machines: Some(Vec::new()),
        ..CapacityView::default()
    };
    desk.show_capacity(decided, Vec::new());
    let told = capacity(desk.capacity().as_deref(), &ours);
    assert_eq!((told.refused, told.refused_in_all), (vec![refused("ours")], 3));
    assert!(told.enabled && told.machines.is_some());
}

#[tokio::test]
async fn the_forecast_thread_answers_and_forgets_who_does_not_wait() {
    let desk = Arc::<Desk>::default();
    picture(&desk).await;
    let stop = CancellationToken::new();
    forecaster::start(Arc::clone(&desk), Counter::default(), stop.clone()).expect("a thread");
    let soon = || Instant::now() + Duration::from_mins(1);
    let third = GangKey::new("team", "third");
    let made = desk.forecast_by(&third, soon()).await.expect("it waits");
    assert!(made.p50_seconds.is_some() && made.p50_seconds <= made.p90_seconds, "{made:?}");
    let too_large = desk.forecast_by(&GangKey::new("team", "large"), soon()).await.expect("it waits");
    let times = (too_large.p50_seconds, too_large.p90_seconds, too_large.not_within_seconds);
    assert_eq!(times, (None, None, None), "it never starts");
    let offers: Vec<_> = too_large.would_start_now.iter().map(|offer| offer.message.as_str()).collect();
    assert_eq!(offers, ["with 2 GPUs per member"], "but smaller it would");
    let offers: Vec<_> = made.would_start_now.iter().map(|offer| offer.message.as_str()).collect();
    assert_eq!(offers, ["with 2 GPUs per member"]);
    assert_eq!(desk.forecast_by(&GangKey::new("team", "runs"), soon()).await, None);
    stop.cancel();
}

/// In two minutes, a node for the gang that was too large for any node, with room for all others.
fn a_large_node_comes() -> Vec<Coming> {
    let allocatable = Resources { gpus: 24, pods: 20, ..Resources::default() };
    let taint = Taint { key: "for".into(), value: "large".into(), effect: TaintEffect::NoSchedule };
    vec![Coming {
        at: at(NOW + 120),
        nodes: vec![Node { gpu_type: Some("H100".into()), allocatable, ..Node::new("comes") }],
        kept_for: Some((GangKey::new("team", "large"), taint)),
    }]
}

#[tokio::test]
async fn who_waits_for_machines_starts_when_they_should_be_ready_and_is_told_so_at_once() {
    let desk = Arc::<Desk>::default();
    picture(&desk).await;
    let stop = CancellationToken::new();
    forecaster::start(Arc::clone(&desk), Counter::default(), stop.clone()).expect("a thread");
    let expected = |name: &'static str| {
        let desk = Arc::clone(&desk);
        async move {
            let soon = Instant::now() + Duration::from_mins(1);
            let told = desk.forecast_by(&GangKey::new("team", name), soon).await.expect("it waits");
            (told.p50_seconds, told.not_within_seconds)
        }
    };
    assert_eq!(expected("large").await, (None, None), "there is no such node");
    desk.show_capacity(CapacityView::default(), a_large_node_comes());
    // Events shortly before may delay it by a step of three seconds.
    let large = expected("large").await;
    assert!(matches!(large, (Some(120..=124), None)), "{large:?}");
    let (second, _) = expected("second").await;
    assert!(second.is_some_and(|second| second <= 130), "what is left of it is for others: {second:?}");
    desk.show_capacity(CapacityView::default(), a_large_node_comes());
    assert!(desk.forecast(&GangKey::new("team", "large")).is_some(), "nothing is new");
    desk.show_capacity(CapacityView::default(), Vec::new());
    assert_eq!(expected("large").await, (None, None), "nothing comes any more");
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn the_state_is_copied_only_for_who_asked_lately_and_not_too_often() {
    let desk = Arc::<Desk>::default();
    plan_once(&desk);
    assert!(!desk.wants_picture(), "nobody asked");
    assert!(desk.picture(Instant::now() + Duration::from_millis(1)).await.is_none(), "nobody plans");
    assert!(desk.wants_picture());
    assert!(!desk.wants_picture(), "one is being taken");
    tokio::time::advance(Duration::from_secs(4)).await;
    assert!(!desk.wants_picture(), "nobody asked since");
    assert!(desk.picture(Instant::now()).await.is_none(), "that one was not shown");
    plan_once(&desk);
    let first = desk.picture(Instant::now()).await.expect("it was taken");
    tokio::time::advance(Duration::from_secs(20)).await;
    let second = desk.picture(Instant::now()).await.expect("an old one has to do");
    assert!(Arc::ptr_eq(&first, &second));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(!desk.wants_picture(), "it is long ago");
    desk.tidy();
    assert!(desk.picture(Instant::now()).await.is_none(), "it was taken away");
}

#[test]
fn the_planning_thread_does_not_drop_the_picture_that_it_replaces() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().max_blocking_threads(1).build().expect("a runtime");
    runtime.block_on(async {
        // Keeps the only other thread busy.
        let (go_on, waits) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || waits.recv());
        let desk = Arc::<Desk>::default();
        let picture = picture(&desk).await;
        let first = Arc::downgrade(&picture);
        let second = Picture {
            state: picture.state.clone(),
            policy: policy(),
            plan: picture.plan.clone(),
            arrivals: picture.arrivals.clone(),
            taken: Instant::now(),
        };
        drop(picture);
        desk.show(second);
        assert!(first.upgrade().is_some(), "nobody dropped it yet");
        go_on.send(()).expect("it waits");
        busy.await.expect("no panic").expect("it went on");
        // The thread takes one after the other.
        tokio::task::spawn_blocking(|| ()).await.expect("no panic");
        assert!(first.upgrade().is_none());
    });
}

#[tokio::test(start_paused = true)]
async fn questions_are_bounded_and_asked_once() {
    let desk = Desk::default();
    let gang = |number: u32| GangKey::new("team", format!("gang-{number}"));
    for number in (0..100).chain(0..100) {
        desk.ask(&gang(number));
    }
    let mut asked = Vec::new();
    while let Ok((gang, _)) = tokio::time::timeout(Duration::from_millis(1), desk.next_question()).await {
        asked.push(gang);
    }
    assert_eq!(asked, (0..64).map(gang).collect::<Vec<_>>());
    desk.answer(&gang(0), Some(forecast()));
    desk.ask(&gang(0));
    let next = tokio::time::timeout(Duration::from_millis(1), desk.next_question()).await;
    assert!(next.is_err(), "its forecast is young");
    tokio::time::advance(Duration::from_secs(31)).await;
    desk.ask(&gang(0));
    assert_eq!(desk.next_question().await.0, gang(0));
}
