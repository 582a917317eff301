//! The loop itself.

use std::sync::Arc;
use std::time::Duration;

use cluster_watch::{Kind, Message};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::Inputs;
use super::testing::planner;
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
