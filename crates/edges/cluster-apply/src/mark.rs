//! A mark in the history of pods. A watch delivers the changes of one kind in the order in which
//! they were made, so a watch that delivers the mark has delivered every earlier write.
//!
//! The mark is a condition on the leader's own pod, which also shows people when it took over.

use std::time::Duration;

use cluster_model::PodKey;
use jiff::Timestamp;
use serde::Deserialize;
use tracing::warn;

use crate::outcome::{Answer, answer};
use crate::pod_status::PodCondition;
use crate::writes::Writes;

/// The condition's type.
const TOOK_OVER: &str = "warpyard.dev/TookOver";
/// Between two tries.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The mark could not be written.
#[derive(Debug, thiserror::Error)]
#[error("could not write the condition {TOOK_OVER} on our own pod {pod}: {answer}")]
pub struct Unmarked {
    pod: PodKey,
    /// What the API server said.
    answer: String,
}

#[derive(Deserialize)]
struct Marked {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

impl Writes {
    /// Marks the history of pods on `own`, as the leader of an epoch, and returns the pod's version
    /// that has the mark. Versions of one kind are growing numbers. Retries until the future is
    /// dropped: an API server that has just started may refuse everybody for half a minute.
    pub async fn mark(&self, own: &PodKey, epoch: i64) -> Result<u64, Unmarked> {
        let now = Timestamp::now();
        let never = |answer: String| Unmarked { pod: own.clone(), answer };
        loop {
            let result = self.send::<Marked>(self.mark_request(own, epoch, now)).await;
            let answer = match (answer(&result), result) {
                (_, Ok(Marked { metadata: Metadata { resource_version } })) => {
                    let version = resource_version.parse();
                    return version
                        .map_err(|_| never(format!("its version {resource_version} is not a number")));
                }
                (Answer::NotFound, _) => return Err(never("there is no such pod".to_owned())),
                (Answer::Fenced(message), _) => return Err(never(message)),
                (answer, _) => answer,
            };
            // If it was written, the next try changes nothing and returns the version that has it.
            warn!(pod = %own, ?answer, "Could not mark the history of pods; will try again.");
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    fn mark_request(&self, own: &PodKey, epoch: i64, now: Timestamp) -> http::Request<Vec<u8>> {
        // Epoch and time make the condition different for each leader: a patch that changes nothing
        // is not written.
        let message = format!("Took over as the leader of epoch {epoch}.");
        let condition =
            PodCondition { type_: TOOK_OVER, holds: true, reason: "FenceTaken", message: &message };
        self.pod_status(own, &condition.status(now))
    }
}

#[cfg(test)]
mod tests {
    use cluster_model::PodKey;
    use http::Method;
    use serde_json::{Value, json};

    use crate::testing::{FENCE, status, writes};

    fn patch(code: u16, body: Value) -> (Method, u16, Value) {
        (Method::PATCH, code, body)
    }

    #[tokio::test(start_paused = true)]
    async fn the_mark_is_written_until_its_version_is_known() {
        let marked = || patch(200, json!({ "metadata": { "resourceVersion": "42" } }));
        for (script, expect) in [
            (vec![marked()], Some(42)),
            // It may have been written. The second try then changes nothing, and returns the
            // version.
            (vec![patch(504, status(504, "no")), marked()], Some(42)),
            (vec![patch(429, status(429, "no")), marked()], Some(42)),
            // Not synced yet, for example.
            (vec![patch(403, status(403, "no")), marked()], Some(42)),
            (vec![patch(404, status(404, "no"))], None),
            (vec![patch(403, status(403, FENCE))], None),
        ] {
            let (writes, left) = writes(script);
            let version = writes.mark(&PodKey::new("ns", "pod", "uid"), 7).await.ok();
            assert_eq!(version, expect);
            assert!(left.lock().expect("the script").is_empty(), "it is asked as often as needed");
        }
    }
}
