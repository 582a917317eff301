//! Lets pods go whose use is recorded.

use api_types::names::{CONTROLLERS_FIELD_MANAGER, METERING_FINALIZER};
use cluster_convert::Readable;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PartialObjectMeta, Patch, PatchParams};
use serde_json::json;
use tracing::warn;

use super::state::Held;

/// Patches at the same time. Each takes the API server a few milliseconds, so 16 let some thousand pods per second go.
const CONCURRENCY: usize = 16;

/// Removes our finalizer from pods; returns those that it holds no more. The others are tried again.
///
/// The finalizer is named and not counted, because the Job controller takes its own off the same list at the same
/// time; the UID in the patch keeps it from another pod of the same name.
pub async fn release(client: &kube::Client, pods: Vec<Held>) -> Vec<Held> {
    let tries = stream::iter(pods).map(|pod| async {
        let answer = remove(client, &pod).await;
        (pod, answer)
    });
    let mut released = Vec::new();
    let mut failures = 0_u32;
    let mut tries = std::pin::pin!(tries.buffer_unordered(CONCURRENCY));
    while let Some((pod, answer)) = tries.next().await {
        match answer {
            Ok(()) => released.push(pod),
            // Not there, or another pod has its name.
            Err(kube::Error::Api(status)) if [404, 409, 422].contains(&status.code) => released.push(pod),
            Err(error) => {
                failures += 1;
                // One line for a round: what ails one ails all.
                if failures == 1 {
                    warn!(pod = %pod.name, namespace = %pod.namespace, %error, "Could not let a metered pod go; will try again.");
                }
            }
        }
    }
    released
}

async fn remove(client: &kube::Client, pod: &Held) -> Result<(), kube::Error> {
    let api: Api<Readable<PartialObjectMeta<Pod>>> = Api::namespaced(client.clone(), &pod.namespace);
    let patch = json!({ "metadata": {
        "uid": pod.uid,
        "$deleteFromPrimitiveList/finalizers": [METERING_FINALIZER],
    }});
    let parameters =
        PatchParams { field_manager: Some(CONTROLLERS_FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api.patch(&pod.name, &parameters, &Patch::Strategic(patch)).await.map(drop)
}
