//! What a caller may see. Kubernetes decides: `SubjectAccessReviews` for that user, cached for seconds.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use http::StatusCode;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;

use crate::access::expiring_cache::ExpiringCache;
use crate::access::identity::{Fingerprint, Identity};
use crate::http::problem::ApiError;

/// An answer is asked for again after this, so a revoked right counts for at most this long.
const LIFETIME: Duration = Duration::from_secs(10);
/// Answers at one time: 64 callers × 1,000 namespaces and queues, ~200 bytes each = 13 MiB.
const ANSWERS_MAX: usize = 65_536;
/// Questions to the API server at one time, by all callers together.
const REVIEWS_AT_ONCE: usize = 64;
/// Questions at one time for one list, so that one caller cannot use up all of them.
const REVIEWS_AT_ONCE_PER_LIST: usize = 16;

/// Something a caller wants to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    verb: &'static str,
    resource: &'static str,
    namespace: Option<String>,
    name: Option<String>,
}

impl Access {
    /// On runs of a namespace; `None` means of every namespace.
    pub fn runs(verb: &'static str, namespace: Option<&str>) -> Self {
        Self { verb, resource: "runs", namespace: namespace.map(str::to_owned), name: None }
    }

    /// On one run.
    pub fn run(verb: &'static str, namespace: &str, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::runs(verb, Some(namespace)) }
    }

    /// On one queue; `None` means on every queue.
    pub fn queue(verb: &'static str, name: Option<&str>) -> Self {
        Self { verb, resource: "queues", namespace: None, name: name.map(str::to_owned) }
    }

    /// On the cluster's nodes.
    pub fn nodes(verb: &'static str) -> Self {
        Self { verb, resource: "nodes", namespace: None, name: None }
    }

    /// On the scheduler's snapshot. No object has this name: it exists only to be granted.
    pub fn snapshot() -> Self {
        Self { verb: "get", resource: "snapshots", namespace: None, name: None }
    }

    /// On the logs of pods of a namespace.
    pub fn logs(namespace: &str) -> Self {
        Self { verb: "get", resource: "pods/log", namespace: Some(namespace.to_owned()), name: None }
    }

    fn attributes(&self) -> ResourceAttributes {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (self.resource, None),
        };
        // Nodes and pods are of the core group, whose name is empty.
        let group = if ["nodes", "pods"].contains(&resource) { "" } else { api_types::GROUP };
        ResourceAttributes {
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            verb: Some(self.verb.to_owned()),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..ResourceAttributes::default()
        }
    }

    fn sentence(&self, username: &str) -> String {
        let object = match (self.resource, &self.name) {
            ("runs", Some(name)) => Cow::Owned(format!("run `{name}`")),
            ("queues", Some(name)) => Cow::Owned(format!("queue `{name}`")),
            ("pods/log", _) => Cow::Borrowed("logs"),
            (resource, _) => Cow::Borrowed(resource),
        };
        let place = self.namespace.as_ref().map_or(String::new(), |name| format!(" in namespace `{name}`"));
        format!("`{username}` may not {} {object}{place}", self.verb)
    }
}

/// Asks Kubernetes what callers may do.
pub struct Authorizer {
    client: Client,
    answers: Mutex<ExpiringCache<(Fingerprint, Access), bool>>,
    reviews: Semaphore,
}

impl Authorizer {
    /// Asks with this client, which needs the right to create `SubjectAccessReviews`.
    pub fn new(client: Client) -> Self {
        let answers = Mutex::new(ExpiringCache::new(ANSWERS_MAX, LIFETIME));
        Self { client, answers, reviews: Semaphore::new(REVIEWS_AT_ONCE) }
    }

    /// An error unless the caller may do it. It does not depend on whether the object exists.
    pub async fn require(&self, identity: &Identity, access: Access) -> Result<(), ApiError> {
        if self.allows(identity, &access).await? {
            return Ok(());
        }
        let hint = match (access.resource, access.verb) {
            ("nodes", _) => "ask an administrator for a ClusterRoleBinding to `warpyard-cluster-viewer`",
            ("queues", _) => "ask an administrator for the ClusterRole `warpyard-queue-viewer` on that queue",
            ("snapshots", _) => "ask an administrator for the ClusterRole warpyard-snapshot-viewer",
            ("pods/log", _) | (_, "create" | "patch") => {
                "ask an administrator for a RoleBinding to `warpyard-user` in that namespace"
            }
            _ => {
                "ask an administrator for a RoleBinding to `warpyard-user` or `warpyard-viewer` in that namespace"
            }
        };
        Err(ApiError::new(StatusCode::FORBIDDEN, "Forbidden", access.sentence(identity.username()))
            .hint(hint))
    }

    /// Whether the caller may do it.
    pub async fn allows(&self, identity: &Identity, access: &Access) -> Result<bool, ApiError> {
        let key = (identity.fingerprint(), access.clone());
        if let Some(answer) = self.remembered(&key) {
            return Ok(answer);
        }
        let _permit = self.reviews.acquire().await.expect("the semaphore is never closed");
        if let Some(answer) = self.remembered(&key) {
            return Ok(answer);
        }
        // The time of the question, not of the answer, so that no answer is used for longer than its lifetime.
        let asked = Instant::now();
        let answer = self.review(identity, access).await?;
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(key, answer, asked);
        Ok(answer)
    }

    /// Keeps, in their order and until `limit` are found, those of `items` that the caller may access.
    pub async fn visible<T>(
        &self,
        identity: &Identity,
        items: Vec<T>,
        limit: usize,
        access: impl Fn(&T) -> Access,
    ) -> Result<Vec<T>, ApiError> {
        let questions = items.into_iter().map(|item| {
            let access = access(&item);
            async move { Ok::<_, ApiError>(self.allows(identity, &access).await?.then_some(item)) }
        });
        stream::iter(questions)
            .buffered(REVIEWS_AT_ONCE_PER_LIST)
            .try_filter_map(|item| async move { Ok(item) })
            .take(limit)
            .try_collect()
            .await
    }

    /// Keeps the namespaces in which the caller may list runs. It does not check the right to list runs
    /// everywhere, for which there is a shorter way.
    pub async fn with_visible_runs(
        &self,
        identity: &Identity,
        namespaces: Vec<String>,
    ) -> Result<Vec<String>, ApiError> {
        let count = namespaces.len();
        let access = |namespace: &String| Access::runs("list", Some(namespace));
        self.visible(identity, namespaces, count, access).await
    }

    fn remembered(&self, key: &(Fingerprint, Access)) -> Option<bool> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(key, Instant::now())
    }

    async fn review(&self, identity: &Identity, access: &Access) -> Result<bool, ApiError> {
        let review =
            SubjectAccessReview { spec: subject(identity, access), ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await;
        let answer =
            answer.map_err(|error| ApiError::from_kube(&error, "ask Kubernetes what you may see"))?;
        // `denied` means that no other authorizer may allow it either; it wins.
        Ok(answer.status.is_some_and(|status| status.allowed && !status.denied.unwrap_or(false)))
    }
}

fn subject(identity: &Identity, access: &Access) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: Some(identity.username().to_owned()),
        uid: identity.uid().map(str::to_owned),
        groups: Some(identity.groups().to_vec()),
        extra: Some(identity.extra().clone()),
        resource_attributes: Some(access.attributes()),
        non_resource_attributes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::Access;

    #[test]
    fn a_refusal_names_the_caller_the_verb_and_the_place() {
        for (access, expect) in [
            (Access::runs("list", Some("nlp")), "`eve` may not list runs in namespace `nlp`"),
            (Access::run("get", "nlp", "a"), "`eve` may not get run `a` in namespace `nlp`"),
            (Access::queue("get", Some("h100")), "`eve` may not get queue `h100`"),
            (Access::logs("nlp"), "`eve` may not get logs in namespace `nlp`"),
        ] {
            assert_eq!(access.sentence("eve"), expect);
        }
    }

    #[test]
    fn questions_about_another_verb_namespace_or_name_are_other_questions() {
        let access = Access::run("get", "nlp", "a");
        for other in [
            Access::run("patch", "nlp", "a"),
            Access::run("get", "vision", "a"),
            Access::run("get", "nlp", "b"),
            Access::runs("get", Some("nlp")),
            Access::runs("get", None),
            Access::queue("get", Some("a")),
        ] {
            assert_ne!(access, other);
        }
    }
}
