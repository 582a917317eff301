//! Keeps all objects of a kind that has few of them.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use kube::Resource;
use kube::api::Api;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tracing::debug;

/// Keeps the objects of a kind current in the background, and notifies `changed` whenever one differs.
pub fn keep<K>(api: Api<K>, kind: K::DynamicType, config: watcher::Config, changed: Arc<Notify>) -> Store<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Send + Sync + 'static,
{
    let name = K::plural(&kind).into_owned();
    let mut writer = Writer::new(kind);
    let store = writer.as_reader();
    let mut events = service_kit::watch::objects(api, config, move |error| {
        debug!(%error, "The watch of {name} failed; it begins anew.");
    });
    tokio::spawn(async move {
        // The stream never ends by itself.
        while let Some(event) = events.next().await {
            writer.apply_watcher_event(&event);
            changed.notify_one();
        }
    });
    store
}

/// The objects, once all were listed. A watch that breaks off later leaves them as they were.
pub fn listed<K>(store: &Store<K>) -> Option<Vec<Arc<K>>>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    store.wait_until_ready().now_or_never()?.ok()?;
    Some(store.state())
}
