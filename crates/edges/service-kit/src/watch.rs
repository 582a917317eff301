//! A watch that goes on for ever. The caller decides what its events mean.

use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::Resource;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;

/// Objects per page of a list; a page of Runs or Jobs is then a few MB at most.
const PAGE: u32 = 500;

/// All objects, then their changes. An error is passed to `failed`, and the watch begins anew after a back-off,
/// which kube bounds at 30 s.
pub fn objects<K>(
    api: Api<K>,
    config: watcher::Config,
    failed: impl Fn(&watcher::Error) + Send + 'static,
) -> BoxStream<'static, Event<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher(api, config.page_size(PAGE))
        .default_backoff()
        .filter_map(move |event| std::future::ready(event.inspect_err(&failed).ok()))
        .boxed()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::StreamExt;
    use k8s_openapi::api::core::v1::Node;
    use kube::client::Body;
    use kube::runtime::watcher::{Config, Event};
    use kube::{Api, Client};
    use serde_json::json;

    use super::objects;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_fails_is_told_and_tried_again() {
        let calls = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let is_first = calls.fetch_add(1, Ordering::Relaxed) == 0;
            let (status, answer) = if is_first {
                (
                    500,
                    json!({ "kind": "Status", "status": "Failure", "message": "away", "reason": "Away", "code": 500 }),
                )
            } else {
                let node = json!({ "metadata": { "name": "n" } });
                (
                    200,
                    json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": [node] }),
                )
            };
            let answer =
                http::Response::builder().status(status).body(Body::from(answer.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer.expect("an answer")) }
        });
        let failures = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&failures);
        let api: Api<Node> = Api::all(Client::new(service, "default"));
        let count = move |_: &_| {
            told.fetch_add(1, Ordering::Relaxed);
        };
        let events = objects(api, Config::default(), count);
        let events: Vec<_> = events
            .skip_while(|event| std::future::ready(matches!(event, Event::Init)))
            .take(2)
            .collect()
            .await;
        assert!(matches!(&events[..], [Event::InitApply(_), Event::InitDone]), "{events:?}");
        assert_eq!(failures.load(Ordering::Relaxed), 1);
    }
}
