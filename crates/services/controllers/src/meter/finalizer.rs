//! Releases pods whose use is recorded.

use api_types::names::{CONTROLLERS_FIELD_MANAGER, METERING_FINALIZER};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PartialObjectMeta, Patch, PatchParams};
use serde_json::json;
use slim_objects::Readable;
use tracing::warn;

use super::state::Held;

/// Patches at the same time. Each takes the API server a few milliseconds, so 16 release some thousand pods per
/// second.
const CONCURRENCY: usize = 16;

/// Removes our finalizer from pods; returns the released ones. The others are tried again.
///
/// The patch names the finalizer instead of its position, because the Job controller removes its own from the
/// same list at the same time. The UID in the patch protects another pod of the same name.
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
                // One line for a round: all failures have the same cause.
                if failures == 1 {
                    warn!(pod = %pod.name, namespace = %pod.namespace, %error, "Could not release a metered pod; will try again.");
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
