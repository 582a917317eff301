//! Changes in: one watch per kind, each turned into changes of the model, all into one bounded channel.
//!
//! ```text
//!   pods    ──list, watch──► slim struct ──cluster-convert──► ClusterChange ─┐
//!   nodes   ─────────────────────────────────────────────────────────────────┼─► mpsc<Message> ─► the scheduler's loop
//!   queues, namespaces, budgets ─────────────────────────────────────────────┘   (+ Synced per kind)
//! ```
//!
//! Lists are consistent (no resource version: the server answers from a quorum read) and paged. When a watch has to
//! list again, objects that vanished meanwhile are reported gone: see [`known::Known`]. If an
//! object cannot be decoded, its kind starts over with a list, because planning without the object
//! could place pods on GPUs in use. A list without an answer is given up and begun anew; kube's
//! watcher does the same with a watch that falls silent.
//!
//! To know that all changes of pods up to some moment are reported, the scheduler changes a pod
//! then, the landmark, and waits until the watch reports that change: see [`Message::PodsAsOf`].
//!
//! It never writes and never decides. It holds no objects, only the keys of those it has reported.

pub mod known;
pub mod landmark;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api_types::Queue;
use cluster_model::ClusterChange;
use futures::{Stream, StreamExt};
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use slim_objects::{Readable, SlimBudget, SlimNamespace, SlimNode, SlimPod};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::known::Known;
use crate::landmark::Landmark;

/// Objects per page of a list. Client-go's reflectors ask for 500, one page after the other. With
/// 2,000, about 4 MB of pods, the 100,000 pods of a large cluster take two thirds of that time, and
/// a take-over waits for them.
const PAGE_SIZE: u32 = 2_000;
/// The longest wait for a page of a list: the API server itself gives up on a request after a
/// minute, but kube's watcher waits for ever. A watch needs no such bound: the watcher begins one
/// that is silent for 295 s anew, and its client bounds the wait for the first answer
/// (`service_kit::client::watching`).
const PAGE_MAX: Duration = Duration::from_mins(1);
/// This loop is not `service_kit::watch`, which waits up to 30 s: a leader must see the cluster
/// again within seconds, with bounds on pages, and must count objects that cannot be read. A watch
/// that ended is tried again after 0.2 s; the wait doubles up to this.
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
    /// Namespaces: pods may select other pods by the labels of their namespaces.
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

/// A message from the watches.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly every message is a change")]
pub enum Message {
    /// Something changed.
    Change(ClusterChange),
    /// Every object of this kind in the list has been reported. Sent again after each new list.
    Synced(Kind),
    /// All changes of pods up to the one that gave the landmark this version have been reported.
    PodsAsOf(u64),
}

/// Errors since the start, for metrics.
#[derive(Debug, Default)]
pub struct Counters {
    /// Lists or watches that failed or broke off.
    pub errors: AtomicU64,
    /// Objects that could not be decoded.
    pub decode_errors: AtomicU64,
}

/// Watches one kind until the receiver is gone. Run one per kind; a landmark is for pods.
pub async fn watch(
    kind: Kind,
    client: Client,
    landmark: Option<Landmark>,
    out: mpsc::Sender<Message>,
    counters: Arc<Counters>,
) {
    let config = watcher::Config::default().page_size(PAGE_SIZE);
    let watching = Watching { kind, landmark, out, counters };
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
            let api = Api::<Readable<Queue>>::all(client);
            let change = |queue: &Readable<Queue>| cluster_convert::queue_change(&queue.0);
            let gone = |queue: &Readable<Queue>| cluster_convert::queue_gone(&queue.0);
            watching.run(&api, &config, change, gone).await;
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
    landmark: Option<Landmark>,
    out: mpsc::Sender<Message>,
    counters: Arc<Counters>,
}

/// The receiver is gone: the process is ending.
struct Closed;

impl Watching {
    async fn run<K>(
        mut self,
        api: &Api<K>,
        config: &watcher::Config,
        change: fn(&K) -> ClusterChange,
        gone: fn(&K) -> ClusterChange,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let mut known = Known::default();
        let mut backoff = BACKOFF_MIN;
        loop {
            let mut stream = std::pin::pin!(watcher::watcher(api.clone(), config.clone()));
            // The stream never ends by itself; it is dropped to start over with a list.
            while let Some(event) = self.next(&mut stream, known.is_listing()).await {
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
                        // A stream whose list is late would wait for it for ever.
                        if undecodable || known.is_listing() {
                            break;
                        }
                    }
                }
            }
        }
    }

    async fn forward<K: Resource>(
        &mut self,
        known: &mut Known,
        event: Event<K>,
        change: fn(&K) -> ClusterChange,
        gone: fn(&K) -> ClusterChange,
    ) -> Result<(), Closed> {
        match event {
            Event::Init => {
                known.begin_list();
                if let Some(landmark) = &mut self.landmark {
                    landmark.forget();
                }
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let change = change(&object);
                known.track(&change);
                self.send(Message::Change(change)).await?;
                if let Some(landmark) = &mut self.landmark {
                    landmark.look(object.meta());
                }
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
        // In a list, objects after the landmark count too.
        let passed = self.landmark.as_mut().filter(|_| !known.is_listing()).and_then(Landmark::take_version);
        match passed {
            Some(version) => self.send(Message::PodsAsOf(version)).await,
            None => Ok(()),
        }
    }

    /// The next event, or the error that a list got no answer; `None` if the watch is late and has
    /// to start over.
    async fn next<K>(
        &self,
        stream: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
        is_listing: bool,
    ) -> Option<watcher::Result<Event<K>>> {
        if is_listing {
            let event = tokio::time::timeout(PAGE_MAX, stream.next()).await;
            return event.unwrap_or_else(|elapsed| {
                Some(Err(watcher::Error::InitialListFailed(kube::Error::Service(elapsed.into()))))
            });
        }
        let Some(landmark) = &self.landmark else { return stream.next().await };
        tokio::select! {
            event = stream.next() => event,
            () = landmark.late() => {
                warn!(kind = self.kind.as_str(), "The watch is late; listing again.");
                None
            }
        }
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
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use cluster_model::{ClusterChange, PodKey};
    use kube::Client;
    use kube::client::Body;
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};
    use tokio::sync::{Notify, mpsc};

    use super::{Counters, Kind, Landmark, Message, PAGE_MAX, is_progress, watch};

    /// An API server that gives these answers one after the other; to `None`, and after the last,
    /// it gives none.
    fn server(answers: Vec<Option<Value>>) -> Client {
        let mut answers = VecDeque::from(answers);
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let answer = answers.pop_front().flatten();
            async move {
                let Some(answer) = answer else { return std::future::pending().await };
                Ok::<_, Infallible>(http::Response::new(Body::from(answer.to_string().into_bytes())))
            }
        });
        Client::new(service, "default")
    }

    /// A page of a list of namespaces; the last one if nothing comes next.
    fn page(names: &[&str], next: &str) -> Value {
        let items: Vec<Value> = names.iter().map(|name| json!({ "metadata": { "name": name } })).collect();
        let metadata = json!({ "resourceVersion": "1", "continue": next });
        json!({ "apiVersion": "v1", "kind": "NamespaceList", "metadata": metadata, "items": items })
    }

    fn in_words(message: &Message) -> String {
        match message {
            Message::Change(ClusterChange::Namespace { name, .. }) => name.to_string(),
            Message::Change(ClusterChange::NamespaceGone(name)) => format!("{name} is gone"),
            Message::Synced(Kind::Namespaces) => "listed".to_owned(),
            other => panic!("namespaces are listed, not {other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_gets_no_answer_begins_anew_and_what_it_reported_is_judged_by_the_next_one() {
        let client = server(vec![Some(page(&["a", "b"], "more")), None, Some(page(&["a"], ""))]);
        let (sender, mut receiver) = mpsc::channel(16);
        let counters = Arc::<Counters>::default();
        let watching = tokio::spawn(watch(Kind::Namespaces, client, None, sender, Arc::clone(&counters)));
        let mut said = Vec::new();
        while said.last().is_none_or(|last| last != "listed") {
            let message = tokio::time::timeout(PAGE_MAX * 2, receiver.recv()).await;
            said.push(in_words(&message.expect("it does not wait for ever").expect("it goes on")));
        }
        assert_eq!(said, ["a", "b", "a", "b is gone", "listed"]);
        assert_eq!(counters.errors.load(Ordering::Relaxed), 1);
        watching.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn how_far_the_pods_are_known_is_told_when_everything_before_is_reported() {
        let pod = |name: &str, version: &str| {
            let metadata =
                json!({ "namespace": "ns", "name": name, "uid": name, "resourceVersion": version });
            json!({ "metadata": metadata, "spec": { "nodeName": "node" } })
        };
        let list = json!({
            "apiVersion": "v1",
            "kind": "PodList",
            "metadata": { "resourceVersion": "8" },
            "items": [pod("landmark", "7"), pod("other", "3")],
        });
        let changed = json!({ "type": "MODIFIED", "object": pod("landmark", "9") });
        // The watch begins, brings one change, begins again, and is dead.
        let client = server(vec![Some(list.clone()), Some(changed), None, Some(list)]);
        let (sender, mut receiver) = mpsc::channel(16);
        let late = Arc::<Notify>::default();
        let landmark = Landmark::new(PodKey::new("ns", "landmark", "landmark"), Arc::clone(&late));
        let watching = tokio::spawn(watch(Kind::Pods, client, Some(landmark), sender, Arc::default()));
        // A list is under way, and is not begun anew.
        tokio::task::yield_now().await;
        late.notify_waiters();
        let listed = ["landmark", "other", "listed", "as of 7"];
        for expect in [listed.as_slice(), &["landmark", "as of 9"], &["late"], &listed].concat() {
            if expect == "late" {
                tokio::time::sleep(PAGE_MAX).await;
                late.notify_waiters();
                continue;
            }
            let message = tokio::time::timeout(PAGE_MAX, receiver.recv()).await;
            let message = match message.expect("it does not wait for ever").expect("it goes on") {
                Message::Change(ClusterChange::Pod(pod)) => pod.key.name.to_string(),
                Message::Synced(Kind::Pods) => "listed".to_owned(),
                Message::PodsAsOf(version) => format!("as of {version}"),
                other => panic!("pods are listed, not {other:?}"),
            };
            assert_eq!(message, expect);
        }
        watching.abort();
    }

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
