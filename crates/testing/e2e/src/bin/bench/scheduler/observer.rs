//! A watch that sees when pods get their node. Every contender has it, and it reads only the needed fields of a
//! pod.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{TryStreamExt, pin_mut};
use kube::Client;
use kube::api::WatchEvent;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Sees the pods of one namespace.
pub struct Observer {
    seen: mpsc::UnboundedReceiver<(Instant, WatchEvent<Pod>)>,
    task: JoinHandle<anyhow::Result<()>>,
    /// When each pod that exists got its node.
    bound: BTreeMap<String, Instant>,
}

/// When the first pod that was waited for got its node, and when the last.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub first: Instant,
    pub last: Instant,
}

impl Span {
    /// The rate for this many pods: the first one starts the clock.
    pub fn per_second(&self, pods: usize) -> f64 {
        let pods = u32::try_from(pods.saturating_sub(1)).unwrap_or(u32::MAX);
        f64::from(pods) / self.last.duration_since(self.first).as_secs_f64()
    }
}

#[derive(Clone, Deserialize)]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List {
    metadata: ListMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
}

impl Observer {
    /// Sees what happens from now on.
    pub async fn start(client: &Client, namespace: &str) -> anyhow::Result<Self> {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let list = http::Request::get(format!("{path}?limit=1")).body(Vec::new())?;
        let list: List = client.request(list).await.context("cannot list pods")?;
        let (sender, seen) = mpsc::unbounded_channel();
        let task = tokio::spawn(follow(client.clone(), path, list.metadata.resource_version, sender));
        Ok(Self { seen, task, bound: BTreeMap::new() })
    }

    /// Waits until `count` pods whose name begins with `prefix` have a node; those that had one before count too.
    pub async fn bound(&mut self, prefix: &str, count: usize, patience: Duration) -> anyhow::Result<Span> {
        let what = format!("{count} pods {prefix}* to have a node");
        let mut have = self.bound.keys().filter(|name| name.starts_with(prefix)).count();
        let deadline = Instant::now() + patience;
        while have < count {
            let (at, event) = self.next(deadline, &what, have).await?;
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    let is_new = pod.spec.node_name.is_some() && !self.bound.contains_key(&pod.metadata.name);
                    if is_new {
                        have += usize::from(pod.metadata.name.starts_with(prefix));
                        self.bound.insert(pod.metadata.name, at);
                    }
                }
                WatchEvent::Deleted(pod) => {
                    if self.bound.remove(&pod.metadata.name).is_some() {
                        have -= usize::from(pod.metadata.name.starts_with(prefix));
                    }
                }
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => {}
            }
        }
        let moments = || self.bound.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, at)| *at);
        let first = moments().min().context("no pod was waited for")?;
        let last = moments().max().context("no pod was waited for")?;
        Ok(Span { first, last })
    }

    /// Waits until a pod whose name begins with `prefix` is marked as not scheduled.
    pub async fn refused(&mut self, prefix: &str, patience: Duration) -> anyhow::Result<Instant> {
        let deadline = Instant::now() + patience;
        loop {
            let (at, event) = self.next(deadline, "a verdict on a pod", 0).await?;
            let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
            let refused = |it: &Condition| it.kind == "PodScheduled" && it.status == "False";
            if pod.metadata.name.starts_with(prefix) && pod.status.conditions.iter().any(refused) {
                return Ok(at);
            }
        }
    }

    async fn next(
        &mut self,
        deadline: Instant,
        what: &str,
        have: usize,
    ) -> anyhow::Result<(Instant, WatchEvent<Pod>)> {
        match tokio::time::timeout_at(deadline.into(), self.seen.recv()).await {
            Ok(Some(seen)) => Ok(seen),
            Ok(None) => {
                (&mut self.task).await.context("the observer panicked")??;
                bail!("the observer ended early")
            }
            Err(_) => bail!("waited in vain for {what}; there are {have}"),
        }
    }
}

/// Watches from `version` on. The server ends a watch that does not keep up; it goes on where it ended.
async fn follow(
    client: Client,
    path: String,
    mut version: String,
    seen: mpsc::UnboundedSender<(Instant, WatchEvent<Pod>)>,
) -> anyhow::Result<()> {
    loop {
        let watch = format!("{path}?watch=true&timeoutSeconds=3600&resourceVersion={version}");
        let events = client
            .request_events::<Pod>(http::Request::get(watch).body(Vec::new())?)
            .await
            .context("cannot watch pods")?;
        pin_mut!(events);
        while let Some(event) = events.try_next().await.context("the observer's watch broke")? {
            let pod = match &event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => pod,
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => bail!("the observer's watch broke: {}", status.message),
            };
            version.clone_from(&pod.metadata.resource_version);
            // Without a receiver the measurement is over.
            if seen.send((Instant::now(), event)).is_err() {
                return Ok(());
            }
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
