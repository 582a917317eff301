//! What the dispatcher waits for, and in which order it takes it.

use std::sync::Arc;
use std::time::Duration;

use cluster_apply::{BindReport, EvictReport};
use cluster_watch::Message;
use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::knowledge::TakenOver;
use crate::ended::Ended;
use crate::machines::Decided;
use crate::tell::desk::Desk;

/// While inputs are gathered they are taken in at once, after a pause of this long: a thread that wakes for each of a thousand
/// binds in a second spends more on waking than on taking in. Long lists fill the channels in some 100 ms.
const PAUSE: Duration = Duration::from_millis(5);

/// Where inputs come from.
pub struct Inputs {
    /// The watches.
    pub watches: mpsc::Receiver<Message>,
    /// What the leader before left, once.
    pub taken_over: mpsc::Receiver<TakenOver>,
    /// How binds ended.
    pub binds: mpsc::UnboundedReceiver<BindReport>,
    /// How evictions ended.
    pub evictions: mpsc::UnboundedReceiver<EvictReport>,
    /// Members of gangs that ended, for who asked.
    pub answers: mpsc::UnboundedReceiver<Ended>,
    /// What is to be done about machines.
    pub decided: mpsc::Receiver<Decided>,
    /// Where somebody may ask for a plan of now.
    pub desk: Arc<Desk>,
    /// Ends the loop.
    pub stop: CancellationToken,
}

#[expect(clippy::large_enum_variant, reason = "nearly every input is a change")]
pub(super) enum Input {
    Watch(Message),
    TakenOver(TakenOver),
    Bound(BindReport),
    Evicted(EvictReport),
    Answer(Ended),
    Decided(Decided),
    Asked,
    Timer,
    Stop,
}

impl Inputs {
    /// The next input, or that the deadline has come. While gathering, nothing at hand means a pause before the next look.
    pub(super) async fn next(&mut self, deadline: Option<Instant>, is_gathering: bool) -> Input {
        if is_gathering {
            let now = Instant::now();
            let is_due = !self.stop.is_cancelled() && deadline.is_some_and(|deadline| deadline <= now);
            if is_due {
                return Input::Timer;
            }
            // Without a budget, which would look like nothing once in 128 inputs.
            if let Some(input) = tokio::task::unconstrained(self.wait(None)).now_or_never() {
                return input;
            }
            let pause = now + PAUSE;
            // A pause until the deadline would keep what comes meanwhile from the plan.
            if deadline.is_none_or(|deadline| pause < deadline) {
                tokio::time::sleep_until(pause).await;
            }
        }
        self.wait(deadline).await
    }

    async fn wait(&mut self, deadline: Option<Instant>) -> Input {
        let timer = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // In this order: an end is not delayed by changes, and neither is a plan that is due.
            biased;
            () = self.stop.cancelled() => Input::Stop,
            () = timer => Input::Timer,
            Some(report) = self.binds.recv() => Input::Bound(report),
            Some(report) = self.evictions.recv() => Input::Evicted(report),
            Some(answer) = self.answers.recv() => Input::Answer(answer),
            Some(taken_over) = self.taken_over.recv() => Input::TakenOver(taken_over),
            Some(decided) = self.decided.recv() => Input::Decided(decided),
            () = self.desk.plan_again() => Input::Asked,
            message = self.watches.recv() => message.map_or(Input::Stop, Input::Watch),
        }
    }
}
