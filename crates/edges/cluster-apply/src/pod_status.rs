//! Conditions on pods: on one that waits, on one that is told to go, and on the leader's own.

use api_types::names::SCHEDULER_FIELD_MANAGER;
use cluster_model::PodKey;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use serde_json::{Value as Json, json};

use crate::writes::Writes;

/// One condition of a pod.
pub(crate) struct PodCondition<'a> {
    pub type_: &'a str,
    pub holds: bool,
    pub reason: &'a str,
    pub message: &'a str,
}

impl PodCondition<'_> {
    /// The part of the pod's status with this condition, since `now`.
    pub fn status(&self, now: Timestamp) -> Json {
        json!({ "conditions": [{
            "type": self.type_,
            "status": if self.holds { "True" } else { "False" },
            "reason": self.reason,
            "message": self.message,
            // The API server stores seconds.
            "lastTransitionTime": Timestamp::from_second(now.as_second()).unwrap_or(now).to_string(),
        }] })
    }
}

impl Writes {
    /// Merges this into a pod's status; conditions by their type.
    pub(crate) fn pod_status(&self, pod: &PodKey, status: &Json) -> http::Request<Vec<u8>> {
        let PodKey { namespace, name, uid } = pod;
        // With the uid, a pod that came back under the same name is not touched.
        let body = json!({ "metadata": { "uid": uid }, "status": status });
        let query = format!("fieldManager={SCHEDULER_FIELD_MANAGER}&{}", self.query());
        http::Request::patch(format!("/api/v1/namespaces/{namespace}/pods/{name}/status?{query}"))
            .header(CONTENT_TYPE, "application/strategic-merge-patch+json")
            .body(body.to_string().into_bytes())
            .expect("names that the API server accepted make a valid URL")
    }
}
