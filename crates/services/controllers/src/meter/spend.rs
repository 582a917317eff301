//! Writes the spend of queues into their status, so that `kubectl get queues` shows it.

use api_types::names::CONTROLLERS_FIELD_MANAGER;
use api_types::{Queue, Spend};
use futures::{StreamExt, stream};
use kube::Resource;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use slim_objects::Readable;
use tracing::warn;

/// Writes at the same time.
const CONCURRENCY: usize = 4;
/// Writes in one round of ten seconds. 2,000 queues that all spend are written within 100 s, at 20 writes a
/// second.
const WRITES_MAX: usize = 200;

/// Writes a bounded number of the new spends; returns the written ones. `after` is the last queue of the round
/// before: the queues after it come first.
pub async fn write(client: &kube::Client, news: Vec<(String, Spend)>, after: &str) -> Vec<(String, Spend)> {
    let turn = news.partition_point(|(name, _)| name.as_str() <= after);
    let mut news = news;
    news.rotate_left(turn);
    news.truncate(WRITES_MAX);
    let api: Api<Readable<Queue>> = Api::all(client.clone());
    let writes = stream::iter(news).map(|(name, spend)| {
        let api = api.clone();
        async move {
            let patch = json!({
                "apiVersion": Queue::api_version(&()),
                "kind": Queue::kind(&()),
                "metadata": { "name": name },
                "status": { "spend": spend },
            });
            // Only our field: the rest of a queue's status belongs to the scheduler.
            let parameters = PatchParams::apply(CONTROLLERS_FIELD_MANAGER).force();
            let answer = api.patch_status(&name, &parameters, &Patch::Apply(&patch)).await;
            (name, spend, answer)
        }
    });
    let mut written = Vec::new();
    let mut writes = std::pin::pin!(writes.buffered(CONCURRENCY));
    while let Some((name, spend, answer)) = writes.next().await {
        match answer {
            Ok(_) => written.push((name, spend)),
            // Deleted meanwhile; the watch will show it.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                warn!(queue = %name, %error, "Could not write the spend of a queue; will try again.");
            }
        }
    }
    written
}
