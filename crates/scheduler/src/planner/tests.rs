//! The loop itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api_types::run::Waiting;
use cluster_apply::{EventRequest, Target, Value};
use cluster_model::{GangKey, PodKey};
use cluster_watch::{Kind, Message};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::Inputs;
use super::testing::{planner, planner_and_requests};
use crate::tell::desk::Desk;

#[tokio::test]
async fn a_question_before_everything_is_listed_does_not_keep_the_watches_from_being_read() {
    let (watches, receiver) = mpsc::channel(Kind::ALL.len());
    let (_reports, reports) = mpsc::unbounded_channel();
    let (_evictions, evictions) = mpsc::unbounded_channel();
    let (_answers, answers) = mpsc::unbounded_channel();
    let (desk, stop) = (Arc::<Desk>::default(), CancellationToken::new());
    // Nobody answers: what is left is the question.
    assert!(desk.picture(Instant::now()).await.is_none());
    let inputs = Inputs { watches: receiver, reports, evictions, answers, desk, stop: stop.clone() };
    let (planned, first_plan) = tokio::sync::oneshot::channel();
    let on_first_plan = || planned.send(()).expect("it is waited for");
    let runs = tokio::spawn(planner().run(inputs, on_first_plan));
    tokio::time::sleep(Duration::from_millis(50)).await;
    for kind in Kind::ALL {
        watches.send(Message::Synced(kind)).await.expect("it reads");
    }
    let is_planned = timeout(Duration::from_secs(10), first_plan).await;
    stop.cancel();
    assert_eq!(is_planned, Ok(Ok(())), "there is a first plan");
    drop(runs.await);
}

#[tokio::test(start_paused = true)]
async fn an_end_begins_no_further_write_and_takes_no_longer_than_those_under_way() {
    let (planner, requests) = planner_and_requests();
    let outputs = planner.outputs;
    for index in 0..20_000 {
        let run = Target::Run("ns".into(), format!("run-{index}").into());
        outputs.status.submit(run, Value::Waiting(Some(Waiting::default())));
    }
    for index in 0..100 {
        outputs.holds.delete(&GangKey::new("ns", format!("gang-{index}")));
        let pod = PodKey::new("ns", format!("pod-{index}"), "uid");
        let note = "it gives way".to_owned();
        outputs.events.submit(EventRequest { pod, reason: "Preempted", action: "Evict", note });
    }
    // Nothing is answered, so that as much is under way as may be.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = requests.load(Ordering::SeqCst);
    assert!(begun > 0, "there is something to wait for");
    // The server has 4 s for a write, and its answer another one.
    timeout(Duration::from_secs(5), outputs.stop()).await.expect("it ends in a write's time");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(requests.load(Ordering::SeqCst), begun);
}
