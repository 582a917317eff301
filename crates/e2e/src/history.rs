//! The history of a cluster's pods and nodes, recorded from watches without a gap and judged by `plan-check`.

use std::fmt::Debug;

use anyhow::{Context, bail};
use cluster_convert::{SlimNode, SlimPod, node_change, node_gone, pod_change, pod_gone};
use cluster_model::Change;
use futures::TryStreamExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Client, Resource};
use plan_check::{History, HistoryViolation};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Records until it is asked to finish.
pub struct Recorder {
    stop: CancellationToken,
    watches: Vec<JoinHandle<anyhow::Result<Vec<Event>>>>,
}

/// What was recorded, and what was wrong with it.
pub struct Judgement {
    /// How many events.
    pub events: usize,
    /// Every moment at which a node held more GPUs than it has, or a pod moved.
    pub overbooked: Vec<HistoryViolation>,
    /// Gangs that ended with some members bound and others not.
    pub partial: Vec<HistoryViolation>,
}

struct Event {
    revision: u64,
    change: Change,
}

impl Recorder {
    /// Starts with everything that exists now.
    pub fn start(client: &Client) -> Self {
        let stop = CancellationToken::new();
        let pods: Api<SlimPod> = Api::all(client.clone());
        let nodes: Api<SlimNode> = Api::all(client.clone());
        let watches = vec![
            tokio::spawn(record(pods, pod_change, pod_gone, stop.clone())),
            tokio::spawn(record(nodes, node_change, node_gone, stop.clone())),
        ];
        Self { stop, watches }
    }

    /// Records up to now, then judges.
    pub async fn finish(self) -> anyhow::Result<Judgement> {
        self.stop.cancel();
        let mut events = Vec::new();
        for watch in self.watches {
            events.extend(watch.await.context("a recorder panicked")??);
        }
        events.sort_by_key(|event| event.revision);
        let mut history = History::default();
        for event in &events {
            history.apply(event.revision, &event.change);
        }
        let (partial, overbooked) = history
            .finish()
            .into_iter()
            .partition(|it| matches!(it, HistoryViolation::GangBoundInPart { .. }));
        Ok(Judgement { events: events.len(), overbooked, partial })
    }
}

/// Lists, then follows every revision; once asked to stop, up to the newest object that exists then. A gap (410) is an error, never a relist.
async fn record<K>(
    api: Api<K>,
    changed: fn(&K) -> Change,
    gone: fn(&K) -> Change,
    stop: CancellationToken,
) -> anyhow::Result<Vec<Event>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let list = api.list(&ListParams::default()).await.context("failed to list what exists")?;
    let mut revision = revision_of(list.metadata.resource_version.as_ref())?;
    let mut until = None;
    let mut events: Vec<_> = list.iter().map(|object| Event { revision, change: changed(object) }).collect();
    loop {
        let parameters = WatchParams::default();
        let stream = api.watch(&parameters, &revision.to_string()).await.context("failed to watch")?;
        futures::pin_mut!(stream);
        loop {
            if until.is_some_and(|until| until <= revision) {
                return Ok(events);
            }
            let next = tokio::select! {
                next = stream.try_next() => next.context("the watch broke")?,
                () = stop.cancelled(), if until.is_none() => {
                    until = Some(newest(&api).await?);
                    continue;
                }
            };
            let Some(event) = next else { break };
            let change = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    revision = revision_of(object.meta().resource_version.as_ref())?;
                    changed(&object)
                }
                WatchEvent::Deleted(object) => {
                    revision = revision_of(object.meta().resource_version.as_ref())?;
                    gone(&object)
                }
                WatchEvent::Bookmark(bookmark) => {
                    revision = revision_of(Some(&bookmark.metadata.resource_version))?;
                    continue;
                }
                WatchEvent::Error(status) => bail!("the watch lost its place: {}", status.message),
            };
            events.push(Event { revision, change });
        }
    }
}

/// The revision of the object that changed last, of those that exist.
async fn newest<K>(api: &Api<K>) -> anyhow::Result<u64>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let list = api.list(&ListParams::default()).await.context("failed to list what exists")?;
    let revisions = list.iter().map(|object| revision_of(object.meta().resource_version.as_ref()));
    Ok(revisions.collect::<anyhow::Result<Vec<_>>>()?.into_iter().max().unwrap_or(0))
}

fn revision_of(version: Option<&String>) -> anyhow::Result<u64> {
    version.context("an object without a resource version")?.parse().context("an odd resource version")
}
