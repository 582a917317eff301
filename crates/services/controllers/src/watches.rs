//! Watches that go on for ever.

use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use slim_objects::Readable;
use tracing::warn;

/// A watch that goes on for ever: errors are logged, passed to `failed`, and retried with backoff.
pub fn objects<K>(
    api: Api<K>,
    config: watcher::Config,
    failed: impl Fn() + Send + 'static,
) -> BoxStream<'static, Event<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    service_kit::watch::objects(api, config, move |error| {
        warn!(kind = %K::kind(&()), %error, "A watch failed; will try again.");
        failed();
    })
}

/// The same for kinds that are read whole.
pub fn whole_objects<K>(client: Client, config: watcher::Config) -> BoxStream<'static, Event<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    objects(Api::<Readable<K>>::all(client), config, || {}).map(plain).boxed()
}

fn plain<K>(event: Event<Readable<K>>) -> Event<K> {
    match event {
        Event::Init => Event::Init,
        Event::InitApply(Readable(object)) => Event::InitApply(object),
        Event::InitDone => Event::InitDone,
        Event::Apply(Readable(object)) => Event::Apply(object),
        Event::Delete(Readable(object)) => Event::Delete(object),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use api_types::Run;
    use futures::StreamExt;
    use kube::Client;
    use kube::client::Body;
    use kube::runtime::watcher::{Config, Event};
    use serde_json::json;

    use super::whole_objects;

    #[tokio::test]
    async fn a_run_with_a_time_that_our_types_cannot_hold_is_listed() {
        let managed = json!({ "manager": "m", "operation": "Update", "time": "9999-12-31T23:59:59Z" });
        let run = json!({
            "metadata": { "name": "train", "namespace": "team", "managedFields": [managed] },
            "spec": { "members": 1, "image": "i", "command": ["c"] },
        });
        let metadata = json!({ "resourceVersion": "1" });
        let list = json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": [run] });
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let answer = Body::from(list.to_string().into_bytes());
            async move { Ok::<_, Infallible>(http::Response::new(answer)) }
        });
        let events = whole_objects::<Run>(Client::new(service, "default"), Config::default());
        let events: Vec<Event<Run>> = events.take(3).collect().await;
        let [Event::Init, Event::InitApply(run), Event::InitDone] = events.as_slice() else {
            panic!("a list with one run, not {events:?}");
        };
        assert_eq!(run.metadata.name.as_deref(), Some("train"));
    }
}
