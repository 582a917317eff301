//! What was written in which order while gangs gave way: a witness of every revision of pods and Holds.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use api_types::Hold;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const ON_ITS_WAY_MAX: Duration = Duration::from_secs(2);

/// Watches until it is asked to finish.
pub struct Witness {
    stop: CancellationToken,
    pods: JoinHandle<anyhow::Result<Vec<(u64, Pod)>>>,
    holds: JoinHandle<anyhow::Result<Vec<(u64, bool)>>>,
}

/// What it saw; revisions say in which order.
#[derive(Debug, Default)]
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
    /// What it was told.
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
        Ok(Self {
            pods: tokio::spawn(follow(pods, start.clone(), stop.clone(), |event| match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => Some((revision(&pod)?, pod)),
                _ => None,
            })),
            holds: tokio::spawn(follow(holds, start, stop.clone(), |event| match event {
                WatchEvent::Added(hold) => Some((revision(&hold)?, true)),
                WatchEvent::Deleted(hold) => Some((revision(&hold)?, false)),
                _ => None,
            })),
            stop,
        })
    }

    /// What was seen up to now.
    pub async fn finish(self) -> anyhow::Result<Seen> {
        // What was written before may still be on its way, and nothing says when all of it has come.
        tokio::time::sleep(ON_ITS_WAY_MAX).await;
        self.stop.cancel();
        let mut seen = Seen::default();
        for (revision, written) in self.holds.await.context("the witness of holds panicked")?? {
            if written {
                seen.hold_written = seen.hold_written.or(Some(revision));
            } else {
                seen.hold_deleted = Some(revision);
            }
        }
        for (revision, pod) in self.pods.await.context("the witness of pods panicked")?? {
            note(&mut seen, revision, &pod);
        }
        Ok(seen)
    }
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

/// Every event from a version on, as `read` reads it. A gap is an error.
async fn follow<K, T>(
    api: Api<K>,
    start: String,
    stop: CancellationToken,
    read: impl Fn(WatchEvent<K>) -> Option<(u64, T)>,
) -> anyhow::Result<Vec<(u64, T)>>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + 'static,
{
    let mut seen = Vec::new();
    let mut from = start;
    loop {
        let parameters = WatchParams::default().disable_bookmarks();
        let stream = api.watch(&parameters, &from).await.context("failed to watch")?;
        futures::pin_mut!(stream);
        loop {
            let next = tokio::select! {
                biased;
                next = stream.try_next() => next.context("the watch broke")?,
                () = stop.cancelled() => return Ok(seen),
            };
            let Some(event) = next else { break };
            if let Some((revision, value)) = read(event) {
                from = revision.to_string();
                seen.push((revision, value));
            }
        }
    }
}
