//! The reporting pod, authenticated by a token that was made for it and only for reports.

use std::num::NonZeroU128;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;

use crate::access::authentication::bearer_token;
use crate::access::identity::Identity;
use crate::cache::cluster_cache::ClusterCache;
use crate::cache::pod_index::uid;
use crate::http::problem::ApiError;
use crate::server::Server;

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// The pod that a token was made for, as Kubernetes says; only available behind [`require_pod`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    namespace: String,
    pod: String,
    uid: NonZeroU128,
}

/// Middleware around the route for reports. It refuses sessions, users' tokens and tokens for any other
/// audience.
pub async fn require_pod(State(server): State<Arc<Server>>, mut request: Request, next: Next) -> Response {
    let identified = match bearer_token(request.headers()) {
        Ok(token) => server.reports().authenticator.identify(token).await,
        Err(error) => Err(error),
    };
    match identified.and_then(|identity| Reporter::of(&identity).ok_or_else(not_a_pods)) {
        Ok(reporter) => {
            request.extensions_mut().insert(reporter);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    }
}

impl Reporter {
    fn of(identity: &Identity) -> Option<Self> {
        let namespace = identity.username().strip_prefix("system:serviceaccount:")?.split(':').next()?;
        let one = |key: &str| match identity.extra().get(key).map(Vec::as_slice) {
            Some([value]) if !value.is_empty() => Some(value.as_str()),
            _ => None,
        };
        let (pod, uid) = (one(POD_NAME)?.to_owned(), uid(one(POD_UID)?)?);
        Some(Self { namespace: namespace.to_owned(), pod, uid })
    }

    /// The attempt of this run that the pod is a member of: the run's label is on it, and a Job of the run made it.
    pub fn attempt_of(&self, cache: &ClusterCache, namespace: &str, name: &str) -> Result<u32, ApiError> {
        let run = cache.runs().get(namespace, name);
        let pod = cache.pods().get(&self.namespace, &self.pod);
        let (Some(run), Some(pod)) = (run, pod) else { return Err(not_a_member()) };
        let attempts = run.status.as_ref().map(|status| status.attempts.as_slice()).unwrap_or_default();
        let made_it = |attempt: &&api_types::run::Attempt| {
            attempt.number == pod.attempt
                && pod.job_uid.is_some()
                && attempt.job_uid.as_deref().and_then(uid) == pod.job_uid
        };
        let is_member = self.namespace == namespace
            && pod.uid == Some(self.uid)
            && pod.run.as_deref() == Some(name)
            && attempts.iter().any(|attempt| made_it(&attempt));
        if is_member { Ok(pod.attempt) } else { Err(not_a_member()) }
    }
}

impl<S: Sync> FromRequestParts<S> for Reporter {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // Missing only if the route were moved outside the login: then nobody gets in.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| ApiError::unauthorized("no pod reports"))
    }
}

fn not_a_pods() -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "NotAPod", "the token was not made for a pod")
}

/// Also the answer for a pod or an attempt that the cache does not show yet: the member tries again.
fn not_a_member() -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, "NotAMember", "the token's pod is not known as a member of this run")
}

#[cfg(test)]
mod tests {
    use api_types::run::Attempt;
    use api_types::{Run, RunSpec, RunStatus};
    use k8s_openapi::api::authentication::v1::UserInfo;
    use serde_json::{Value, json};

    use super::{ClusterCache, Identity, POD_NAME, POD_UID, Reporter};

    const POD: &str = "00000000-0000-4000-8000-000000000001";
    const JOB: &str = "00000000-0000-4000-8000-000000000002";
    const OTHER: &str = "00000000-0000-4000-8000-000000000003";

    fn reporter(user: &str, extra: &[(&str, &[&str])]) -> Option<Reporter> {
        let values = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
        let extra = extra.iter().map(|(key, them)| ((*key).to_owned(), values(them))).collect();
        let user = UserInfo { username: Some(user.to_owned()), extra: Some(extra), ..UserInfo::default() };
        Reporter::of(&Identity::new(user).unwrap())
    }

    fn bound(namespace: &str, pod: &str, uid: &str) -> Reporter {
        let user = format!("system:serviceaccount:{namespace}:default");
        reporter(&user, &[(POD_NAME, &[pod]), (POD_UID, &[uid])]).unwrap()
    }

    fn cache(pod: Value) -> ClusterCache {
        let mut run = Run::new("train", RunSpec::default());
        run.metadata.namespace = Some("team".to_owned());
        let job_uid = Some(JOB.to_owned());
        let attempts = vec![Attempt { number: 2, job_uid, ..Attempt::default() }];
        run.status = Some(RunStatus { attempts, ..RunStatus::default() });
        let mut other = run.clone();
        other.metadata.name = Some("other".to_owned());
        let cache = ClusterCache::complete_with(vec![run, other], vec![]);
        cache.see(vec![], vec![serde_json::from_value(pod).unwrap()]);
        cache
    }

    fn pod(uid: &str, job: &str, attempt: &str) -> Value {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "train-2", "uid": job, "controller": true});
        let labels = json!({"warpyard.dev/run": "train", "warpyard.dev/attempt": attempt});
        json!({ "metadata": {
            "name": "train-2-0", "namespace": "team", "uid": uid, "labels": labels, "ownerReferences": [owner],
        }, "spec": {}, "status": {} })
    }

    #[test]
    fn a_token_without_one_pod_is_no_reporters() {
        let account = "system:serviceaccount:team:default";
        assert_eq!(reporter(account, &[]), None);
        assert_eq!(reporter(account, &[(POD_NAME, &["a"])]), None);
        assert_eq!(reporter(account, &[(POD_NAME, &["a", "b"]), (POD_UID, &[POD])]), None);
        assert_eq!(reporter(account, &[(POD_NAME, &["a"]), (POD_UID, &["no-uid"])]), None);
        assert_eq!(reporter("alice", &[(POD_NAME, &["a"]), (POD_UID, &[POD])]), None);
    }

    #[test]
    fn a_member_reports_for_its_own_run_alone() {
        let cache = cache(pod(POD, JOB, "2"));
        let member = bound("team", "train-2-0", POD);
        assert_eq!(member.attempt_of(&cache, "team", "train"), Ok(2));
        for (namespace, run) in [("team", "other"), ("team", "none"), ("elsewhere", "train")] {
            assert_eq!(
                member.attempt_of(&cache, namespace, run).unwrap_err().0.status,
                403,
                "{namespace}/{run}"
            );
        }
        for stranger in [
            bound("team", "train-2-0", OTHER),
            bound("team", "train-2-1", POD),
            bound("elsewhere", "train-2-0", POD),
        ] {
            assert!(stranger.attempt_of(&cache, "team", "train").is_err(), "{stranger:?}");
        }
    }

    #[test]
    fn a_pod_that_no_job_of_the_run_made_is_no_member_whatever_its_labels_say() {
        let member = bound("team", "train-2-0", POD);
        for pod in [pod(POD, OTHER, "2"), pod(POD, JOB, "1"), pod("", JOB, "2"), pod(POD, "", "2")] {
            assert!(member.attempt_of(&cache(pod), "team", "train").is_err());
        }
    }
}
