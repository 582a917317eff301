//! A witness of every revision of pods and Holds, to check the order of writes in preemptions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use api_types::Hold;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::wait;

/// Watches until it is asked to finish.
pub struct Witness {
    stop: CancellationToken,
    seen: Arc<Mutex<Seen>>,
    watches: [JoinHandle<anyhow::Result<()>>; 2],
}

/// What it saw, with revisions for the order.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// When the first Hold was written.
    pub hold_written: Option<u64>,
    /// When the last Hold was deleted.
    pub hold_deleted: Option<u64>,
    /// Pods that were told to go.
    pub told: Vec<Told>,
    /// When the last pod of each namespace got its node.
    pub bound: BTreeMap<String, u64>,
}

/// A pod that was told to go.
#[derive(Clone, Debug)]
pub struct Told {
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// When.
    pub told: u64,
    /// The condition's message.
    pub message: String,
    /// When it was asked to end.
    pub deleted: Option<u64>,
}

impl Seen {
    /// Pods of a namespace that were told to go.
    pub fn told_to_go(&self, namespace: &str) -> Vec<Told> {
        self.told.iter().filter(|pod| pod.namespace == namespace).cloned().collect()
    }

    /// When the last pod of a namespace got its node.
    pub fn last_bound(&self, namespace: &str) -> Option<u64> {
        self.bound.get(namespace).copied()
    }
}

impl Witness {
    /// Starts with what happens from now on.
    pub async fn start(client: &Client) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let pods: Api<Pod> = Api::all(client.clone());
        let holds: Api<Hold> = Api::all(client.clone());
        let start = pods.list(&ListParams::default()).await.context("failed to list pods")?;
        let start = start.metadata.resource_version.context("a list without a version")?;
        let seen = Arc::<Mutex<Seen>>::default();
        let of_pods = Arc::clone(&seen);
        let see_pod = move |event| {
            let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { return None };
            let revision = revision(&pod)?;
            note(&mut lock(&of_pods), revision, &pod);
            Some(revision)
        };
        let of_holds = Arc::clone(&seen);
        let see_hold = move |event| match event {
            WatchEvent::Added(hold) => {
                let revision = revision(&hold)?;
                lock(&of_holds).hold_written.get_or_insert(revision);
                Some(revision)
            }
            WatchEvent::Deleted(hold) => {
                let revision = revision(&hold)?;
                lock(&of_holds).hold_deleted = Some(revision);
                Some(revision)
            }
            _ => None,
        };
        let watches = [
            tokio::spawn(follow(pods, start.clone(), stop.clone(), see_pod)),
            tokio::spawn(follow(holds, start, stop.clone(), see_hold)),
        ];
        Ok(Self { stop, seen, watches })
    }

    /// Waits until `has_all` says that everything expected was seen: events from before this call may still be on their way.
    pub async fn finish(self, has_all: impl Fn(&Seen) -> bool) -> anyhow::Result<Seen> {
        let all = wait::until("the witness has seen all of it", wait::PATIENCE, || async {
            Ok(has_all(&lock(&self.seen)).then_some(()))
        })
        .await;
        self.stop.cancel();
        for watch in self.watches {
            watch.await.context("a witness panicked")??;
        }
        let seen = lock(&self.seen).clone();
        all.with_context(|| format!("{seen:?}"))?;
        Ok(seen)
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(seen: &mut Seen, revision: u64, pod: &Pod) {
    let (uid, namespace) = (pod.uid().unwrap_or_default(), pod.namespace().unwrap_or_default());
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let target = conditions.into_iter().flatten().find(|it| it.type_ == "DisruptionTarget");
    let known = seen.told.iter().position(|told| told.uid == uid);
    if let (Some(condition), None) = (target, known) {
        let message = condition.message.clone().unwrap_or_default();
        let namespace = namespace.clone();
        seen.told.push(Told { namespace, uid: uid.clone(), told: revision, message, deleted: None });
    }
    if pod.metadata.deletion_timestamp.is_some()
        && let Some(told) = seen.told.iter_mut().find(|told| told.uid == uid)
    {
        told.deleted = told.deleted.or(Some(revision));
    }
    // The condition moves with the node, and only then.
    if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
        && pod.status.as_ref().is_some_and(|status| status.start_time.is_none())
    {
        seen.bound.insert(namespace, revision);
    }
}

fn revision<K: ResourceExt>(object: &K) -> Option<u64> {
    object.resource_version()?.parse().ok()
}

/// Gives every event from a version on to `see`, which returns the event's version. A gap is an error.
async fn follow<K>(
    api: Api<K>,
    start: String,
    stop: CancellationToken,
    see: impl Fn(WatchEvent<K>) -> Option<u64>,
) -> anyhow::Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + 'static,
{
    let mut from = start;
    loop {
        let parameters = WatchParams::default().disable_bookmarks();
        let stream = api.watch(&parameters, &from).await.context("failed to watch")?;
        futures::pin_mut!(stream);
        loop {
            let next = tokio::select! {
                biased;
                next = stream.try_next() => next.context("the watch broke")?,
                () = stop.cancelled() => return Ok(()),
            };
            let Some(event) = next else { break };
            if let Some(revision) = see(event) {
                from = revision.to_string();
            }
        }
    }
}
