//! Tests of the loop.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use api_types::run::Waiting;
use cluster_apply::{Target, Value};
use cluster_model::plan::{Effect, HoldEnd};
use cluster_model::{GangKey, PodKey};
use cluster_watch::{Kind, Message};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::outbox::Notice;
use super::testing::{dispatcher, dispatcher_and_requests};
use super::{Inputs, TakenOver};
use crate::tell::desk::Desk;

/// A running loop that knows only what a test tells it.
struct Running {
    watches: mpsc::Sender<Message>,
    taken_over: mpsc::Sender<TakenOver>,
    first_plan: oneshot::Receiver<()>,
    stop: CancellationToken,
}

impl Running {
    fn start(desk: Arc<Desk>) -> Self {
        let (watches, watches_receiver) = mpsc::channel(16);
        let (taken_over, taken_over_receiver) = mpsc::channel(1);
        // Nobody sends any of these.
        let (_, binds) = mpsc::unbounded_channel();
        let (_, evictions) = mpsc::unbounded_channel();
        let (_, answers) = mpsc::unbounded_channel();
        let (_, decided) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let inputs = Inputs {
            watches: watches_receiver,
            taken_over: taken_over_receiver,
            binds,
            evictions,
            answers,
            decided,
            desk,
            stop: stop.clone(),
        };
        let (planned, first_plan) = oneshot::channel();
        let on_first_plan = || planned.send(()).expect("it is waited for");
        tokio::spawn(dispatcher().run(inputs, on_first_plan));
        Self { watches, taken_over, first_plan, stop }
    }

    async fn list_everything(&self) {
        for kind in Kind::ALL {
            self.say(Message::Synced(kind)).await;
        }
    }

    async fn say(&self, message: Message) {
        self.watches.send(message).await.expect("it reads");
    }

    async fn take_over(&self, pods_as_of: u64) {
        let taken_over = TakenOver { pods_as_of, ..TakenOver::default() };
        self.taken_over.send(taken_over).await.expect("it reads");
    }

    async fn plans(&mut self) -> bool {
        matches!(timeout(Duration::from_secs(10), &mut self.first_plan).await, Ok(Ok(())))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test]
async fn a_question_before_everything_is_listed_does_not_keep_the_watches_from_being_read() {
    let desk = Arc::<Desk>::default();
    // Nobody answers, so only the question is left.
    assert!(desk.picture(Instant::now()).await.is_none());
    let mut running = Running::start(desk);
    tokio::time::sleep(Duration::from_millis(50)).await;
    running.list_everything().await;
    running.take_over(0).await;
    assert!(running.plans().await, "there is a first plan");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_planned_before_the_last_write_of_the_leader_before_is_known() {
    let mut running = Running::start(Arc::default());
    running.list_everything().await;
    running.say(Message::PodsAsOf(41)).await;
    assert!(!running.plans().await, "the leader before may still write");
    running.take_over(42).await;
    assert!(!running.plans().await, "it may have written");
    running.say(Message::PodsAsOf(42)).await;
    assert!(running.plans().await, "everything is known");
}

#[tokio::test(start_paused = true)]
async fn an_end_begins_no_further_write_and_takes_no_longer_than_those_under_way() {
    let (dispatcher, requests) = dispatcher_and_requests();
    let outbox = dispatcher.outbox;
    for index in 0..20_000 {
        let run = Target::Run("ns".into(), format!("run-{index}").into());
        outbox.send([Notice::Say(run, Value::Waiting(Some(Waiting::default()))).into()]);
    }
    for index in 0..100 {
        let name = format!("gang-{index}");
        let member = PodKey::new("ns", &*name, "uid");
        let effect = Effect::DeleteHold { gang: GangKey::new("ns", name), end: HoldEnd::Expired { member } };
        outbox.send([effect.into()]);
    }
    // No request is answered, so that as many are under way as possible.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = requests.load(Ordering::SeqCst);
    assert!(begun > 0, "there is something to wait for");
    // The server has 4 s for a write, and its answer another one.
    timeout(Duration::from_secs(5), outbox.stop()).await.expect("it ends in a write's time");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(requests.load(Ordering::SeqCst), begun);
}
