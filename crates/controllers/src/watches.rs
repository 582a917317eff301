//! Watches that go on for ever.

use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::Resource;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;
use tracing::warn;

/// Objects per page of a list; a page of Runs or Jobs is then a few MB at most.
const PAGE: u32 = 500;

/// A watch that goes on for ever: errors are logged, told to `failed`, and retried with backoff.
pub fn objects<K>(
    api: Api<K>,
    config: watcher::Config,
    failed: impl Fn() + Send + 'static,
) -> BoxStream<'static, Event<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher(api, config.page_size(PAGE))
        .default_backoff()
        .filter_map(move |event| {
            let event = event.inspect_err(|error| {
                warn!(kind = %K::kind(&()), %error, "A watch failed; will try again.");
                failed();
            });
            std::future::ready(event.ok())
        })
        .boxed()
}
