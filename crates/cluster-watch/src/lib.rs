//! Effects in: one watch per kind, each turned into changes of the model, all into one bounded channel.
//!
//! ```text
//!   pods    ──paged list, watch──► slim struct ──cluster-convert──► Change ─┐
//!   nodes   ──────────────────────────────────────────────────────────────► ├─► mpsc<Message> ─► the scheduler's loop
//!   queues, namespaces, budgets ────────────────────────────────────────────────► ┘   (+ Synced per kind)
//! ```
//!
//! Lists are consistent (no resource version: the server answers from a quorum read) and paged. When a watch has to
//! list again, objects that vanished meanwhile are reported gone: see [`known::Known`]. An object that cannot be
//! decoded makes its kind start over with a list, because planning without it could place pods on GPUs in use.
//!
//! It never writes, never decides, and holds no objects: only the keys of those it has reported.

pub mod known;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api_types::Queue;
use cluster_convert::{SlimBudget, SlimNamespace, SlimNode, SlimPod};
use cluster_model::Change;
use futures::StreamExt;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::known::Known;

/// Objects per page of a list. Client-go's reflectors ask for 500, one page after the other; with 2,000, some 4 MB of pods,
/// the 100,000 pods of a large cluster come in two thirds of the time, which a take-over waits for.
const PAGE_SIZE: u32 = 2_000;
/// A watch that ended is tried again after 0.2 s, then twice as long, up to this.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
const BACKOFF_MIN: Duration = Duration::from_millis(200);
/// Ended pods hold nothing; the server then reports a pod that ends as deleted.
const UNFINISHED_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Pods that have not ended, in all namespaces.
    Pods,
    /// Nodes.
    Nodes,
    /// Queues.
    Queues,
    /// Namespaces: pods may ask for others by the labels of theirs.
    Namespaces,
    /// Disruption budgets.
    Budgets,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Pods, Self::Nodes, Self::Queues, Self::Namespaces, Self::Budgets];

    /// Its name in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Nodes => "nodes",
            Self::Queues => "queues",
            Self::Namespaces => "namespaces",
            Self::Budgets => "budgets",
        }
    }
}

/// What the watches say.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly every message is a change")]
pub enum Message {
    /// Something changed.
    Change(Change),
    /// Everything of this kind that existed when it was listed has been reported. Repeats after each new list.
    Synced(Kind),
}

/// Errors since the start, for metrics.
#[derive(Debug, Default)]
pub struct Counters {
    /// Lists or watches that failed or broke off.
    pub errors: AtomicU64,
    /// Objects that could not be decoded.
    pub decode_errors: AtomicU64,
}

/// Watches one kind until the receiver is gone. Run one per kind.
pub async fn watch(kind: Kind, client: Client, out: mpsc::Sender<Message>, counters: Arc<Counters>) {
    let config = watcher::Config::default().page_size(PAGE_SIZE);
    let watching = Watching { kind, out, counters };
    match kind {
        Kind::Pods => {
            let config = config.fields(UNFINISHED_PODS);
            let api = Api::<SlimPod>::all(client);
            watching.run(&api, &config, cluster_convert::pod_change, cluster_convert::pod_gone).await;
        }
        Kind::Nodes => {
            let api = Api::<SlimNode>::all(client);
            watching.run(&api, &config, cluster_convert::node_change, cluster_convert::node_gone).await;
        }
        Kind::Queues => {
            let api = Api::<Queue>::all(client);
            watching.run(&api, &config, cluster_convert::queue_change, cluster_convert::queue_gone).await;
        }
        Kind::Budgets => {
            let api = Api::<SlimBudget>::all(client);
            watching.run(&api, &config, cluster_convert::budget_change, cluster_convert::budget_gone).await;
        }
        Kind::Namespaces => {
            let api = Api::<SlimNamespace>::all(client);
            let (change, gone) = (cluster_convert::namespace_change, cluster_convert::namespace_gone);
            watching.run(&api, &config, change, gone).await;
        }
    }
}

struct Watching {
    kind: Kind,
    out: mpsc::Sender<Message>,
    counters: Arc<Counters>,
}

/// The receiver is gone: the process is ending.
struct Closed;

impl Watching {
    async fn run<K>(
        self,
        api: &Api<K>,
        config: &watcher::Config,
        change: fn(&K) -> Change,
        gone: fn(&K) -> Change,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let mut known = Known::default();
        let mut backoff = BACKOFF_MIN;
        loop {
            let mut stream = std::pin::pin!(watcher::watcher(api.clone(), config.clone()));
            // The stream has no end; it is dropped to start over with a list.
            while let Some(event) = stream.next().await {
                match event {
                    Ok(event) => {
                        if is_progress(&event) {
                            backoff = BACKOFF_MIN;
                        }
                        if self.forward(&mut known, event, change, gone).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        let undecodable = is_decode_error(&error);
                        self.report(&error, undecodable, backoff);
                        tokio::time::sleep(backoff).await;
                        backoff = (backoff * 2).min(BACKOFF_MAX);
                        if undecodable {
                            break;
                        }
                    }
                }
            }
        }
    }

    async fn forward<K>(
        &self,
        known: &mut Known,
        event: Event<K>,
        change: fn(&K) -> Change,
        gone: fn(&K) -> Change,
    ) -> Result<(), Closed> {
        match event {
            Event::Init => known.begin_list(),
            Event::InitApply(object) | Event::Apply(object) => {
                let change = change(&object);
                known.track(&change);
                self.send(Message::Change(change)).await?;
            }
            Event::Delete(object) => {
                let change = gone(&object);
                known.track(&change);
                self.send(Message::Change(change)).await?;
            }
            Event::InitDone => {
                let vanished = known.end_list();
                info!(kind = self.kind.as_str(), objects = known.len(), vanished = vanished.len(), "Listed.");
                for change in vanished {
                    self.send(Message::Change(change)).await?;
                }
                self.send(Message::Synced(self.kind)).await?;
            }
        }
        Ok(())
    }

    async fn send(&self, message: Message) -> Result<(), Closed> {
        self.out.send(message).await.map_err(|_| Closed)
    }

    fn report(&self, error: &watcher::Error, undecodable: bool, retry_after: Duration) {
        let counter = if undecodable { &self.counters.decode_errors } else { &self.counters.errors };
        counter.fetch_add(1, Ordering::Relaxed);
        warn!(kind = self.kind.as_str(), %error, undecodable, ?retry_after, "Watch broke off.");
    }
}

/// Whether an event shows that the server is well. `Init` only says that a list will be tried, and a list whose later
/// pages fail begins anew each time.
fn is_progress<K>(event: &Event<K>) -> bool {
    match event {
        Event::Init | Event::InitApply(_) => false,
        Event::InitDone | Event::Apply(_) | Event::Delete(_) => true,
    }
}

fn is_decode_error(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    matches!(
        error,
        InitialListFailed(kube::Error::SerdeError(_))
            | WatchStartFailed(kube::Error::SerdeError(_))
            | WatchFailed(kube::Error::SerdeError(_))
    )
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;

    use super::is_progress;

    #[test]
    fn a_list_that_fails_half_way_is_not_repeated_without_patience() {
        for (event, expect) in [
            (Event::Init, false),
            (Event::InitApply(()), false),
            (Event::InitDone, true),
            (Event::Apply(()), true),
            (Event::Delete(()), true),
        ] {
            assert_eq!(is_progress(&event), expect, "{event:?}");
        }
    }
}
