//! The one shared copy of all runs and queues, kept current by one watch for each kind.
//!
//! ```text
//!   watch ──► Init ── InitApply* ── InitDone ──► swapped in at once ──► Apply / Delete
//! ```
//!
//! Readers hold the lock for a page at most and never while they wait for anything.

use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use api_types::{Queue, Run};
use futures::{StreamExt, TryStreamExt};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_objects};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::queue_index::QueueIndex;
use crate::run_index::RunIndex;

/// Objects are fetched in pages of this many when a watch begins.
const LIST_PAGE_SIZE: u32 = 500;

/// Runs and queues of the whole cluster.
#[derive(Debug, Default)]
pub struct ClusterCache {
    runs: Mirror<RunIndex>,
    queues: Mirror<QueueIndex>,
}

/// Both watches ended, which a watch never does by itself.
#[derive(Debug, thiserror::Error)]
#[error("the watch of {0} ended")]
pub struct Error(&'static str);

impl ClusterCache {
    /// Keeps the cache current for as long as it is polled.
    pub async fn follow(&self, client: Client) -> Result<(), Error> {
        let runs = follow(&self.runs, Api::<Run>::all(client.clone()), "runs");
        let queues = follow(&self.queues, Api::<Queue>::all(client), "queues");
        tokio::select! { result = runs => result, result = queues => result }
    }

    /// Whether everything that exists has been seen once.
    pub fn is_complete(&self) -> bool {
        self.runs.is_complete() && self.queues.is_complete()
    }

    /// Waits until everything that exists has been seen once.
    pub async fn complete(&self) {
        self.runs.complete().await;
        self.queues.complete().await;
    }

    /// A complete cache of these, for tests.
    #[cfg(test)]
    pub fn complete_with(runs: Vec<Run>, queues: Vec<Queue>) -> Self {
        let cache = Self::default();
        cache.runs.change(|index| runs.into_iter().for_each(|run| index.apply(Arc::new(run))));
        cache.queues.change(|index| queues.into_iter().for_each(|queue| index.apply(Arc::new(queue))));
        cache
    }

    /// The runs.
    pub fn runs(&self) -> RwLockReadGuard<'_, RunIndex> {
        self.runs.read()
    }

    /// The queues.
    pub fn queues(&self) -> RwLockReadGuard<'_, QueueIndex> {
        self.queues.read()
    }

    /// Waits until the cache shows a run as `seen` wants it, so that whoever wrote it reads what they wrote. Gives
    /// up after `bound`: the write has happened all the same.
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

/// Something that a watch keeps current.
trait Index: Default + Debug {
    type Object;
    fn apply(&mut self, object: Arc<Self::Object>);
    fn remove(&mut self, object: &Self::Object);
}

impl Index for RunIndex {
    type Object = Run;

    fn apply(&mut self, run: Arc<Run>) {
        self.apply(run);
    }

    fn remove(&mut self, run: &Run) {
        self.remove(run);
    }
}

impl Index for QueueIndex {
    type Object = Queue;

    fn apply(&mut self, queue: Arc<Queue>) {
        self.apply(queue);
    }

    fn remove(&mut self, queue: &Queue) {
        self.remove(queue);
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

    fn change(&self, change: impl FnOnce(&mut I)) {
        change(&mut self.index.write().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_modify(|count| *count += 1);
    }
}

async fn follow<I: Index>(mirror: &Mirror<I>, api: Api<I::Object>, what: &'static str) -> Result<(), Error>
where
    I::Object: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = watcher::Config::default().page_size(LIST_PAGE_SIZE);
    // The back-off is bounded at 30 s by kube; until then the last known state is served.
    let mut events = watch_objects(api, config)
        .default_backoff()
        .map_err(|error| warn!(what, %error, "A watch failed and is tried again."))
        .boxed();
    let mut listed = I::default();
    while let Some(event) = events.next().await {
        match event {
            Err(()) => {}
            Ok(Event::Init) => listed = I::default(),
            Ok(Event::InitApply(object)) => listed.apply(slim(object)),
            Ok(Event::InitDone) => {
                let complete = std::mem::take(&mut listed);
                mirror.change(|index| *index = complete);
                info!(what, "Listed everything.");
            }
            Ok(Event::Apply(object)) => mirror.change(|index| index.apply(slim(object))),
            Ok(Event::Delete(object)) => mirror.change(|index| index.remove(&object)),
        }
    }
    Err(Error(what))
}

/// Drops what no reader asks for and what is often larger than the rest.
fn slim<K: kube::Resource>(mut object: K) -> Arc<K> {
    object.managed_fields_mut().clear();
    Arc::new(object)
}
