//! The meter: what pods and nodes used goes into the ledger, to the second, whoever dies meanwhile.
//!
//! ```text
//!   watch pods, nodes ─► observe (pure) ┬► state (pure): joined records, what the ledger may not have
//!   watch our claims ─► machine (pure) ─┘    │ flush, twice a second at most
//!   watch runs ─► lost (pure) ────────────►  ├─► Ledger::record_lost: what attempts did in vain
//!   watch price sheets ─► prices (pure) ──►  ├─► Ledger::record ─► Ledger::post
//!   watch queues ─► queues (pure) ────────►  ├─► finalizer: pods whose end is recorded may go
//!                                            └─► spend: Queue.status.spend
//! ```
//!
//! Nobody waits for the meter: watches hand over what they see and go on, also while the database is away. Nothing
//! is lost with this process: pods of Runs carry a finalizer until their end is recorded, and everything else is read
//! again from the objects. Two meters at once are harmless, because records are joined and accounts are locked.

pub mod finalizer;
mod flush;
pub mod lost;
pub mod machine;
pub mod metrics;
pub mod observe;
pub mod prices;
pub mod queues;
pub mod spend;
pub mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_types::{PriceSheet, Queue, Run, names};
use cluster_convert::{Readable, SlimNode, SlimPod};
use costing::Moment;
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::runtime::watcher::{self, Event};
use store::Ledger;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::lost::Lost;
use self::machine::NodeClaim;
use self::metrics::Metrics;
use self::prices::Sheets;
use self::queues::Queues;
use self::state::State;
use crate::watches::{objects, whole_objects};

/// From one look for `NodeClaim`s to the next, as long as there are none to be seen: whoever installs Karpenter waits no longer
/// than that for its bill to begin with launches.
const CLAIMS_PACE: Duration = Duration::from_mins(1);

/// What the watches have said, shared with the one who writes it down.
#[derive(Debug)]
pub struct Meter {
    state: Mutex<State>,
    lost: Mutex<Lost>,
    queues: Mutex<Queues>,
    sheets: Mutex<Sheets>,
    sight: watch::Sender<Sight>,
    wake: Notify,
    metrics: Metrics,
}

/// How far the watches can be trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sight {
    pods: Watching,
    nodes: Watching,
    queues: Watching,
}

/// How a watch fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Watching {
    /// Everything that existed at some time was brought.
    listed: bool,
    /// It failed, and has not caught up since.
    broken: bool,
}

impl Watching {
    /// A list that is only begun says nothing of what was missed; its end does, and so does a watch that goes on.
    fn after<K>(self, event: &Event<K>) -> Self {
        match event {
            Event::Init => Self { broken: true, ..self },
            Event::InitApply(_) => self,
            Event::InitDone => Self { listed: true, broken: false },
            Event::Apply(_) | Event::Delete(_) => Self { broken: false, ..self },
        }
    }
}

impl Meter {
    /// A meter that knows nothing yet.
    pub fn new(metrics: Metrics) -> Self {
        Self {
            state: Mutex::default(),
            lost: Mutex::default(),
            queues: Mutex::default(),
            sheets: Mutex::default(),
            sight: watch::Sender::default(),
            wake: Notify::new(),
            metrics,
        }
    }

    /// What the watch of pods said; it is the Run controller's too.
    pub fn pod_event(&self, event: &Event<SlimPod>) {
        lock(&self.state).pod_event(event, now());
        self.saw(|sight| &mut sight.pods, event);
    }

    /// What the watch of Runs said; it is the Run controller's too.
    pub fn run_event(&self, event: &Event<Run>) {
        let has_news = {
            let mut lost = lock(&self.lost);
            lost.run_event(event);
            lost.has_news()
        };
        if has_news {
            self.wake.notify_one();
        }
    }

    /// The watch of pods failed; it is being tried again.
    pub fn pods_unseen(&self) {
        self.sight.send_modify(|sight| sight.pods.broken = true);
    }

    /// Watches and writes until `stop` is cancelled.
    pub async fn run(self: Arc<Self>, client: kube::Client, ledger: Ledger, stop: CancellationToken) {
        let watches = async {
            tokio::join!(
                self.watch_nodes(&client),
                self.watch_claims(&client),
                self.watch_queues(&client),
                self.watch_sheets(&client)
            );
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = watches => {}
            () = flush::run(&self, &client, &ledger) => {}
        }
    }

    async fn watch_nodes(self: &Arc<Self>, client: &kube::Client) {
        let meter = Arc::clone(self);
        let failed = move || meter.sight.send_modify(|sight| sight.nodes.broken = true);
        let events = objects(Api::<SlimNode>::all(client.clone()), watcher::Config::default(), failed);
        events
            .for_each(|event| async move {
                lock(&self.state).node_event(&event, now());
                self.saw(|sight| &mut sight.nodes, &event);
            })
            .await;
    }

    /// Machines that we bought. Where there is no Karpenter, or we may not see its claims, there are none, and nothing else
    /// depends on it.
    async fn watch_claims(&self, client: &kube::Client) {
        let api: Api<Readable<NodeClaim>> = Api::all(client.clone());
        let mut is_told = false;
        while let Err(error) = api.list(&ListParams::default().limit(1)).await {
            if !is_told {
                info!(%error, "No NodeClaims to be seen: machines are charged from Node to Node.");
                is_told = true;
            }
            sleep(CLAIMS_PACE).await;
        }
        let ours = watcher::Config::default().labels(names::LAUNCH_LABEL);
        whole_objects::<NodeClaim>(client.clone(), ours)
            .for_each(|event| async move {
                let (dirty, has_work) = {
                    let mut state = lock(&self.state);
                    state.claim_event(&event, now());
                    (state.dirty_count(), state.has_work())
                };
                self.metrics.dirty(dirty);
                if has_work {
                    self.wake.notify_one();
                }
            })
            .await;
    }

    async fn watch_queues(&self, client: &kube::Client) {
        let events = whole_objects::<Queue>(client.clone(), watcher::Config::default());
        events
            .for_each(|event| async move {
                lock(&self.queues).apply(event.clone());
                self.saw(|sight| &mut sight.queues, &event);
            })
            .await;
    }

    async fn watch_sheets(&self, client: &kube::Client) {
        let events = whole_objects::<PriceSheet>(client.clone(), watcher::Config::default());
        events
            .for_each(|event| async {
                lock(&self.sheets).apply(event);
                self.wake.notify_one();
            })
            .await;
    }

    fn saw<K>(&self, part: impl Fn(&mut Sight) -> &mut Watching, event: &Event<K>) {
        self.sight.send_if_modified(|sight| {
            let watching = part(sight);
            let before = *watching;
            *watching = before.after(event);
            *watching != before
        });
        let (dirty, has_work) = {
            let state = lock(&self.state);
            (state.dirty_count(), state.has_work())
        };
        self.metrics.dirty(dirty);
        if has_work {
            self.wake.notify_one();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> Moment {
    Moment::of(Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_failed_is_trusted_again_only_when_its_list_is_there() {
        let meter = Meter::new(Metrics::default());
        let pods = || meter.sight.borrow().pods;
        let pod: SlimPod = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "a", "namespace": "team", "uid": "a" },
            "spec": { "containers": [] },
        }))
        .unwrap();
        meter.pod_event(&Event::Init);
        assert_eq!(pods(), Watching { listed: false, broken: true });
        meter.pod_event(&Event::InitDone);
        assert_eq!(pods(), Watching { listed: true, broken: false });
        meter.pods_unseen();
        for event in [Event::Init, Event::InitApply(pod.clone())] {
            meter.pod_event(&event);
            assert_eq!(pods(), Watching { listed: true, broken: true }, "after {event:?}");
        }
        meter.pod_event(&Event::InitDone);
        assert_eq!(pods(), Watching { listed: true, broken: false });
        meter.pods_unseen();
        meter.pod_event(&Event::Apply(pod));
        assert_eq!(pods(), Watching { listed: true, broken: false }, "the watch goes on where it failed");
    }
}
