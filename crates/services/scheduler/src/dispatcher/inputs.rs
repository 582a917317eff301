//! The inputs that the dispatcher waits for, and their order.

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

/// The pause between two looks while inputs are gathered. A thread that wakes for each of a thousand binds in a
/// second spends more time on waking than on the inputs. Long lists fill the channels in about 100 ms.
const PAUSE: Duration = Duration::from_millis(5);

/// Where inputs come from.
pub struct Inputs {
    /// The watches.
    pub watches: mpsc::Receiver<Message>,
    /// The state that the former leader left; sent once.
    pub taken_over: mpsc::Receiver<TakenOver>,
    /// How binds ended.
    pub binds: mpsc::UnboundedReceiver<BindReport>,
    /// How evictions ended.
    pub evictions: mpsc::UnboundedReceiver<EvictReport>,
    /// Answers about members of gangs that ended.
    pub answers: mpsc::UnboundedReceiver<Ended>,
    /// Decisions about machines.
    pub decided: mpsc::Receiver<Decided>,
    /// Where requests for a new plan arrive.
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
    /// The next input, or that the deadline has come. While gathering, it pauses before the next look if
    /// nothing is ready.
    pub(super) async fn next(&mut self, deadline: Option<Instant>, is_gathering: bool) -> Input {
        if is_gathering {
            let now = Instant::now();
            let is_due = !self.stop.is_cancelled() && deadline.is_some_and(|deadline| deadline <= now);
            if is_due {
                return Input::Timer;
            }
            // Without tokio's budget, which would look like an empty channel once in 128 inputs.
            if let Some(input) = tokio::task::unconstrained(self.wait(None)).now_or_never() {
                return input;
            }
            let pause = now + PAUSE;
            // A pause until the deadline would keep inputs that come meanwhile out of the plan.
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
            // In this order: changes delay neither the end nor a plan that is due.
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
