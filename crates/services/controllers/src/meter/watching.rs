//! The events of the watches, shared with the task that writes them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_types::{PriceSheet, Queue, Run, names};
use costing::Moment;
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::runtime::watcher::{self, Event};
use slim_objects::{Readable, SlimNode, SlimPod};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tracing::info;

use super::lost::Lost;
use super::machine::NodeClaim;
use super::metrics::Metrics;
use super::prices::Sheets;
use super::queues::Queues;
use super::state::MeterState;
use crate::watches::{objects, whole_objects};

/// Time between two looks for `NodeClaim`s while there are none. After Karpenter is installed, the bill
/// includes its launches within this time.
const CLAIMS_PACE: Duration = Duration::from_mins(1);

/// The meter's state, shared between the watches and the task that writes.
#[derive(Debug)]
pub struct Meter {
    pub(super) state: Mutex<MeterState>,
    pub(super) lost: Mutex<Lost>,
    pub(super) queues: Mutex<Queues>,
    pub(super) sheets: Mutex<Sheets>,
    pub(super) sight: watch::Sender<Sight>,
    pub(super) wake: Notify,
    pub(super) metrics: Metrics,
}

/// Whether the watches have seen everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) pods: Watching,
    pub(super) nodes: Watching,
    pub(super) queues: Watching,
}

/// The state of a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Watching {
    /// A list was completed.
    pub(super) listed: bool,
    /// The watch failed, and has not caught up since.
    pub(super) broken: bool,
}

impl Watching {
    /// A list that has only begun does not show what was missed; a completed list and a running watch do.
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
    /// A meter with an empty state.
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

    /// Takes in an event of the watch of pods, which the Run controller shares.
    pub fn pod_event(&self, event: &Event<SlimPod>) {
        lock(&self.state).pod_event(event, now());
        self.saw(|sight| &mut sight.pods, event);
    }

    /// Takes in an event of the watch of Runs, which the Run controller shares.
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

    /// Notes that the watch of pods failed and is being retried.
    pub fn pods_unseen(&self) {
        self.sight.send_modify(|sight| sight.pods.broken = true);
    }

    /// The queue that is charged for pods of this namespace that name none.
    pub fn default_queue(&self, namespace: &str) -> Option<String> {
        lock(&self.queues).default_of(namespace).map(str::to_owned)
    }

    pub(super) async fn watch_nodes(self: &Arc<Self>, client: &kube::Client) {
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

    /// Watches the claims of machines that we bought. Without Karpenter, or without the right to read claims,
    /// there are none, and nothing else depends on them.
    pub(super) async fn watch_claims(&self, client: &kube::Client) {
        let api: Api<Readable<NodeClaim>> = Api::all(client.clone());
        let mut is_told = false;
        while let Err(error) = api.list(&ListParams::default().limit(1)).await {
            if !is_told {
                info!(%error, "No NodeClaims are visible: machines are charged only while they have a Node.");
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

    pub(super) async fn watch_queues(&self, client: &kube::Client) {
        let events = whole_objects::<Queue>(client.clone(), watcher::Config::default());
        events
            .for_each(|event| async move {
                lock(&self.queues).apply(event.clone());
                self.saw(|sight| &mut sight.queues, &event);
            })
            .await;
    }

    pub(super) async fn watch_sheets(&self, client: &kube::Client) {
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn now() -> Moment {
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
