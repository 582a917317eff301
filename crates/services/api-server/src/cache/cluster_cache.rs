//! The one shared copy of all runs, queues, nodes and pods, kept current by one watch for each kind.
//!
//! ```text
//!   watch ──► Init ── InitApply* ── InitDone ──► swapped in at once ──► Apply / Delete
//!                                       └─ differences ──┐                   └─ changes ──┐
//!                                                        └────────► Changes ◄─────────────┘  (see events)
//! ```
//!
//! Readers hold the locks for one page at most, and never while they wait. A reader that needs several takes
//! them in this order: queues, runs, nodes, pods. (Two readers in opposite order, each before a waiting writer,
//! would wait for each other.)

use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use api_types::{Queue, Run};
use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use slim_objects::{Readable, SlimNode, SlimPod};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::cache::node_index::NodeIndex;
use crate::cache::pod_index::PodIndex;
use crate::cache::queue_index::QueueIndex;
use crate::cache::run_index::{self, RunIndex};
use crate::events::changes::{ChangedObject, Changes};

/// The copy of the cluster that readers see.
#[derive(Debug, Default)]
pub struct ClusterCache {
    queues: Mirror<QueueIndex>,
    runs: Mirror<RunIndex>,
    nodes: Mirror<NodeIndex>,
    pods: Mirror<PodIndex>,
    changes: Changes,
}

/// A watch ended, which must not happen.
#[derive(Debug, thiserror::Error)]
#[error("the watch of {0} ended")]
pub struct Error(&'static str);

impl ClusterCache {
    /// Keeps the cache current for as long as it is polled.
    pub async fn follow(&self, client: Client) -> Result<(), Error> {
        let changes = &self.changes;
        tokio::select! {
            result = follow(&self.queues, changes, Api::all(client.clone()), "queues") => result,
            result = follow(&self.runs, changes, Api::all(client.clone()), "runs") => result,
            result = follow(&self.nodes, changes, Api::all(client.clone()), "nodes") => result,
            result = follow(&self.pods, changes, Api::all(client), "pods") => result,
        }
    }

    /// Whether every list is complete.
    pub fn is_complete(&self) -> bool {
        self.queues.is_complete()
            && self.runs.is_complete()
            && self.nodes.is_complete()
            && self.pods.is_complete()
    }

    /// Waits until every list is complete.
    pub async fn complete(&self) {
        self.queues.complete().await;
        self.runs.complete().await;
        self.nodes.complete().await;
        self.pods.complete().await;
    }

    /// A complete cache of these, for tests.
    #[cfg(test)]
    pub fn complete_with(runs: Vec<Run>, queues: Vec<Queue>) -> Self {
        let cache = Self::default();
        cache.runs.change(|index| runs.into_iter().for_each(|run| index.apply(Arc::new(run))));
        cache.queues.change(|index| queues.into_iter().for_each(|queue| index.apply(Arc::new(queue))));
        cache.nodes.change(|_| ());
        cache.pods.change(|_| ());
        cache
    }

    /// Changes nodes and pods as their watches would, for tests.
    #[cfg(test)]
    pub fn see(&self, nodes: Vec<SlimNode>, pods: Vec<SlimPod>) {
        for node in nodes {
            self.changes.note(self.nodes.change(|index| index.apply(&node)));
        }
        for pod in pods {
            self.changes.note(self.pods.change(|index| index.apply(&pod)));
        }
    }

    /// Changes a run as its watch would, for tests.
    #[cfg(test)]
    pub fn see_run(&self, run: Run) {
        self.changes.note(self.runs.change(|index| Index::apply(index, Readable(run))));
    }

    /// The queues.
    pub fn queues(&self) -> RwLockReadGuard<'_, QueueIndex> {
        self.queues.read()
    }

    /// The runs.
    pub fn runs(&self) -> RwLockReadGuard<'_, RunIndex> {
        self.runs.read()
    }

    /// The nodes.
    pub fn nodes(&self) -> RwLockReadGuard<'_, NodeIndex> {
        self.nodes.read()
    }

    /// The pods.
    pub fn pods(&self) -> RwLockReadGuard<'_, PodIndex> {
        self.pods.read()
    }

    /// Changes that are not published yet.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Waits until `seen` accepts the cached run, so that writers read their own writes. Gives up after
    /// `bound`: the write has happened all the same.
    pub async fn wait_for_run(
        &self,
        namespace: &str,
        name: &str,
        bound: Duration,
        seen: impl Fn(&Run) -> bool,
    ) {
        let mut changes = self.runs.changes.subscribe();
        let wait = changes.wait_for(|_| self.runs().get(namespace, name).is_some_and(|run| seen(&run)));
        if tokio::time::timeout(bound, wait).await.is_err() {
            warn!(namespace, name, "The cache did not show a write in time.");
        }
    }
}

/// An index that a watch keeps current, and that returns what each step changed.
trait Index: Default + Debug {
    type Object;
    fn apply(&mut self, object: Self::Object) -> Vec<ChangedObject>;
    fn remove(&mut self, object: &Self::Object) -> Vec<ChangedObject>;
    /// The differences to a new index, from a new list.
    fn differences(&self, new: &Self) -> Vec<ChangedObject>;
}

impl Index for RunIndex {
    type Object = Readable<Run>;

    fn apply(&mut self, Readable(run): Readable<Run>) -> Vec<ChangedObject> {
        let change = run_index::change(&run);
        self.apply(Arc::new(run));
        vec![change]
    }

    fn remove(&mut self, Readable(run): &Readable<Run>) -> Vec<ChangedObject> {
        self.remove(run);
        vec![run_index::change(run)]
    }

    fn differences(&self, new: &Self) -> Vec<ChangedObject> {
        self.differences(new)
    }
}

impl Index for QueueIndex {
    type Object = Readable<Queue>;

    fn apply(&mut self, Readable(queue): Readable<Queue>) -> Vec<ChangedObject> {
        let changes = self.changes_with(&queue);
        self.apply(Arc::new(queue));
        changes
    }

    fn remove(&mut self, Readable(queue): &Readable<Queue>) -> Vec<ChangedObject> {
        let changes = self.changes_without(queue);
        self.remove(queue);
        changes
    }

    fn differences(&self, new: &Self) -> Vec<ChangedObject> {
        self.differences(new)
    }
}

impl Index for NodeIndex {
    type Object = SlimNode;

    fn apply(&mut self, node: SlimNode) -> Vec<ChangedObject> {
        self.apply(&node)
    }

    fn remove(&mut self, node: &SlimNode) -> Vec<ChangedObject> {
        self.remove(node)
    }

    fn differences(&self, new: &Self) -> Vec<ChangedObject> {
        self.differences(new)
    }
}

impl Index for PodIndex {
    type Object = SlimPod;

    fn apply(&mut self, pod: SlimPod) -> Vec<ChangedObject> {
        self.apply(&pod)
    }

    fn remove(&mut self, pod: &SlimPod) -> Vec<ChangedObject> {
        self.remove(pod)
    }

    fn differences(&self, new: &Self) -> Vec<ChangedObject> {
        self.differences(new)
    }
}

#[derive(Debug)]
struct Mirror<I> {
    index: RwLock<I>,
    /// 0 until the first list is complete; then counts changes.
    changes: watch::Sender<u64>,
}

impl<I: Default> Default for Mirror<I> {
    fn default() -> Self {
        Self { index: RwLock::default(), changes: watch::Sender::new(0) }
    }
}

impl<I: Index> Mirror<I> {
    fn is_complete(&self) -> bool {
        *self.changes.borrow() > 0
    }

    async fn complete(&self) {
        let wait = self.changes.subscribe().wait_for(|count| *count > 0).await.map(drop);
        wait.expect("the sender lives as long as self");
    }

    fn read(&self) -> RwLockReadGuard<'_, I> {
        // An index is changed by total functions only; a poisoned lock holds a usable one.
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut I) -> T) -> T {
        let result = change(&mut self.index.write().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_modify(|count| *count += 1);
        result
    }

    /// Swaps in the index of a new list. There is only one writer, so the differences are found without locking
    /// out readers.
    fn replace(&self, listed: I) -> Vec<ChangedObject> {
        let changes = if self.is_complete() { self.read().differences(&listed) } else { Vec::new() };
        // The old index is dropped outside the lock.
        drop(self.change(|index| std::mem::replace(index, listed)));
        changes
    }
}

async fn follow<I: Index>(
    mirror: &Mirror<I>,
    changes: &Changes,
    api: Api<I::Object>,
    what: &'static str,
) -> Result<(), Error>
where
    I::Object: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    // While it fails the last known state is served.
    let mut events = service_kit::watch::objects(api, watcher::Config::default(), move |error| {
        warn!(what, %error, "A watch failed and is tried again.");
    });
    let mut listed = I::default();
    while let Some(event) = events.next().await {
        match event {
            Event::Init => listed = I::default(),
            Event::InitApply(object) => drop(listed.apply(object)),
            Event::InitDone => {
                changes.note(mirror.replace(std::mem::take(&mut listed)));
                info!(what, "Listed everything.");
            }
            // Noted after the index has it, so that readers of the event find it there.
            Event::Apply(object) => changes.note(mirror.change(|index| index.apply(object))),
            Event::Delete(object) => changes.note(mirror.change(|index| index.remove(&object))),
        }
    }
    Err(Error(what))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::ClusterCache;

    /// Kubernetes with one run and one queue, whose managed fields have a time that our types cannot hold.
    fn kubernetes() -> Client {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                return std::future::pending().await;
            }
            let managed = json!({ "manager": "m", "operation": "Update", "time": "9999-12-31T23:59:59Z" });
            let metadata = json!({ "name": "train", "namespace": "team", "managedFields": [managed] });
            let run = json!({ "members": 1, "image": "i", "command": ["c"] });
            let items = match request.uri().path() {
                "/apis/warpyard.dev/v1alpha1/runs" => json!([{ "metadata": metadata, "spec": run }]),
                "/apis/warpyard.dev/v1alpha1/queues" => json!([{ "metadata": metadata, "spec": {} }]),
                _ => json!([]),
            };
            let metadata = json!({ "resourceVersion": "1" });
            let list = json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items });
            Ok::<_, Infallible>(http::Response::new(Body::from(list.to_string().into_bytes())))
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_run_or_queue_with_a_time_that_our_types_cannot_hold_keeps_nothing_from_being_shown() {
        let cache = ClusterCache::default();
        let filled = async {
            tokio::select! {
                ended = cache.follow(kubernetes()) => panic!("{ended:?}"),
                () = cache.complete() => {}
            }
        };
        tokio::time::timeout(Duration::from_secs(10), filled).await.expect("everything is listed");
        assert!(cache.runs().get("team", "train").is_some());
    }
}
