//! Records every event of every pod and node from the API server, read by rules of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use futures::TryStreamExt;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::core::GroupVersionKind;
use serde_json::Value;
use tokio::task::JoinHandle;

/// Watches until it is dropped.
pub struct Witness {
    seen: Arc<Mutex<Seen>>,
    watches: Vec<JoinHandle<anyhow::Result<()>>>,
}

#[derive(Default)]
struct Seen {
    pods: BTreeMap<String, Use>,
    nodes: BTreeMap<String, NodeLife>,
    events: usize,
}

/// The seen use of a pod, in seconds since 1970.
#[derive(Clone, Debug, Default)]
pub struct Use {
    /// Its namespace and name.
    pub name: (String, String),
    /// Its node.
    pub node: String,
    /// Its labels of run, attempt, queue and user.
    pub said: [Option<String>; 4],
    /// GPUs it holds.
    pub gpus: i64,
    /// When it got its node.
    pub scheduled: Option<i64>,
    /// When its first container started.
    pub started: Option<i64>,
    /// Every end that it ever told; the last one counts.
    pub ends: BTreeSet<i64>,
    /// Whether the meter's finalizer is on it.
    pub held: bool,
    /// Whether it is there.
    pub exists: bool,
}

/// A node's life.
#[derive(Clone, Debug, Default)]
pub struct NodeLife {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: i64,
    /// GPUs in it.
    pub gpus: i64,
    /// When it was seen to go.
    pub gone: Option<i64>,
}

impl Witness {
    /// Begins with everything that exists now; returns once that is known.
    pub async fn start(client: &Client) -> anyhow::Result<Self> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut watches = Vec::new();
        for kind in ["Pod", "Node"] {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let list = api.list(&ListParams::default()).await.context("failed to list what exists")?;
            let revision = list.metadata.resource_version.clone().unwrap_or_default();
            for object in &list.items {
                note(&seen, kind, object, true)?;
            }
            watches.push(tokio::spawn(watch(api, kind, revision, Arc::clone(&seen))));
        }
        Ok(Self { seen, watches })
    }

    /// Pods that ever had a node, by UID.
    pub fn pods(&self) -> anyhow::Result<BTreeMap<String, Use>> {
        self.check()?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(seen
            .pods
            .iter()
            .filter(|(_, pod)| !pod.node.is_empty())
            .map(|(uid, pod)| (uid.clone(), pod.clone()))
            .collect())
    }

    /// Nodes, by UID.
    pub fn nodes(&self) -> BTreeMap<String, NodeLife> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).nodes.clone()
    }

    /// How many pods the meter's finalizer is on.
    pub fn held(&self) -> anyhow::Result<usize> {
        self.check()?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(seen.pods.values().filter(|pod| pod.exists && pod.held).count())
    }

    /// How many events were seen.
    pub fn events(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).events
    }

    /// Fails if an event was missed.
    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.watches.iter().any(JoinHandle::is_finished), "a watch of the witness broke");
        Ok(())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

/// Follows every revision. A watch that ends is resumed where it was; a gap (410) is an error, never a new list.
async fn watch(
    api: Api<DynamicObject>,
    kind: &'static str,
    mut revision: String,
    seen: Arc<Mutex<Seen>>,
) -> anyhow::Result<()> {
    loop {
        let stream = api.watch(&WatchParams::default(), &revision).await.context("failed to watch")?;
        let mut stream = std::pin::pin!(stream);
        while let Ok(Some(event)) = stream.try_next().await {
            let (object, exists) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
                WatchEvent::Deleted(object) => (object, false),
                WatchEvent::Bookmark(bookmark) => {
                    revision = bookmark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) => anyhow::bail!("the witness lost its place: {}", status.message),
            };
            revision = object.metadata.resource_version.clone().context("no resource version")?;
            note(&seen, kind, &object, exists)?;
        }
    }
}

fn note(seen: &Mutex<Seen>, kind: &str, object: &DynamicObject, exists: bool) -> anyhow::Result<()> {
    let object = serde_json::to_value(object)?;
    let uid = text(&object["metadata"]["uid"]).context("no UID")?;
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.events += 1;
    if kind == "Pod" {
        seen.pods.entry(uid).or_default().note(&object, exists);
    } else {
        let gpus = object["status"]["capacity"]["nvidia.com/gpu"].as_str().unwrap_or("0").parse()?;
        let life = NodeLife {
            name: text(&object["metadata"]["name"]).context("no name")?,
            created: second(&object["metadata"]["creationTimestamp"]).context("no creation")?,
            gpus,
            gone: (!exists).then(|| Timestamp::now().as_second()),
        };
        seen.nodes.insert(uid, life);
    }
    Ok(())
}

impl Use {
    fn note(&mut self, pod: &Value, exists: bool) {
        let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
        let label = |name: &str| text(&metadata["labels"][name]);
        self.name =
            (text(&metadata["namespace"]).unwrap_or_default(), text(&metadata["name"]).unwrap_or_default());
        self.exists = exists;
        self.held =
            items(&metadata["finalizers"]).iter().any(|finalizer| finalizer == "warpyard.dev/metering");
        if let Some(node) = text(&spec["nodeName"]) {
            self.node = node;
        }
        if spec["schedulerName"] == "warpyard" {
            let user = text(&metadata["annotations"]["warpyard.dev/submitted-by"]);
            let run = label("warpyard.dev/run");
            self.said = [run, label("warpyard.dev/attempt"), label("warpyard.dev/queue"), user];
        }
        self.gpus = items(&spec["containers"])
            .iter()
            .filter_map(|it| it["resources"]["limits"]["nvidia.com/gpu"].as_str()?.parse::<i64>().ok())
            .sum();
        for condition in items(&status["conditions"]) {
            if condition["type"] == "PodScheduled" && condition["status"] == "True" {
                self.scheduled = second(&condition["lastTransitionTime"]);
            }
        }
        // On a node without asking any scheduler: since its kubelet took it.
        self.scheduled = self.scheduled.or(second(&status["startTime"]));
        let containers = items(&status["containerStatuses"]);
        let starts = containers.iter().flat_map(|it| {
            let state = &it["state"];
            [second(&state["running"]["startedAt"]), second(&state["terminated"]["startedAt"])]
        });
        self.started = starts.flatten().chain(self.started).min();
        if matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"))
            && let Some(scheduled) = self.scheduled
        {
            let finish =
                containers.iter().filter_map(|it| second(&it["state"]["terminated"]["finishedAt"])).max();
            let last_word = || {
                let kinds = ["DisruptionTarget", "Ready", "ContainersReady", "PodScheduled"];
                let conditions = items(&status["conditions"]);
                let words = conditions.iter().filter(|it| kinds.iter().any(|kind| it["type"] == *kind));
                words.filter_map(|it| second(&it["lastTransitionTime"])).max()
            };
            self.ends.insert(finish.or_else(last_word).unwrap_or(scheduled).max(scheduled));
        }
    }
}

fn items(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn second(value: &Value) -> Option<i64> {
    value.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_second)
}
