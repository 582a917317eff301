//! Becoming the one process that may write.
//!
//! ```text
//!   stands?   a dry-run bind by a process that is not the holder must be refused, or there is no fence
//!   publish   SchedulerEpoch: epoch + 1, holder = our pod, and the address that answers questions
//!   open      the fence of binds: those with our epoch pass, those with another do not
//!   admitted  dry-run binds of a pod that does not exist, with and without the epoch: 404, not "refused"
//!   stands!   a bind with the epoch before must be refused
//! ```
//!
//! Two candidates may be here at the same time. The epoch only grows, and each replaces only the
//! version of the fence of binds that it read before it published. So the one with the older epoch
//! learns that it was outrun, there or when it reads the epoch again.
//!
//! A machine that stands still for some seconds makes a write's outcome unknown. Such a write is sent again; if
//! the server then says that there is a newer version, reading it tells whether that is ours.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::names::{
    FENCE_OF_BINDS, LEADER_ADDRESS_ANNOTATION, LEADER_CERTIFICATE_ANNOTATION, SCHEDULER_EPOCH,
    SCHEDULER_FIELD_MANAGER, SYSTEM_NAMESPACE,
};
use api_types::scheduler_epoch::{opening, other_epochs};
use api_types::{SchedulerEpoch, SchedulerEpochSpec};
use cluster_model::PodKey;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tracing::{debug, info};

use crate::outcome::{Answer, Failure, answer};
use crate::writes::{Probe, Writes};

/// Where a service account token says which pod it was made for.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
/// The fence follows its parameter within 0.3 s here, and a change of its own within 1.3 s, because
/// kube-apiserver looks for those once a second. 100 tries, 0.1 s apart, take at least 10 s.
const PROBE_TRIES: u32 = 100;
const PROBE_DELAY: Duration = Duration::from_millis(100);
/// Tries of a write that the server turned away, at least 1 s apart: together they fill the time
/// that the scheduler gives the whole take-over.
const WRITE_TRIES: u32 = 50;
const WRITE_DELAY: Duration = Duration::from_secs(1);
const EPOCHS: &str = "/apis/warpyard.dev/v1alpha1/schedulerepochs";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
/// A holder that is no pod's UID.
const NOBODY: &str = "nobody";

/// Why this process may not lead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not say who we are.
    #[error("asking the API server who this process is")]
    Review(#[source] kube::Error),
    /// The identity is not tied to a pod.
    #[error(
        "{user} is not bound to a pod, so the fence cannot tell it from another scheduler\n\n\
         hint: run as a pod with the service account warpyard-scheduler, or use a token made with \
         `kubectl create token warpyard-scheduler -n warpyard-system --bound-object-kind Pod --bound-object-name <pod>`"
    )]
    NotAPod {
        /// Our identity, as the API server sees it.
        user: String,
    },
    /// A write that the fence must refuse was admitted.
    #[error(
        "the fence is not effective: a write by a process that does not lead was not refused ({answer})\n\n\
         hint: kubectl apply -f deploy/fence.yaml"
    )]
    NoFence {
        /// What the API server said last.
        answer: String,
    },
    /// The fence of binds is not there.
    #[error(
        "there is no ValidatingAdmissionPolicyBinding {FENCE_OF_BINDS}\n\nhint: kubectl apply -f deploy/fence.yaml"
    )]
    NoFenceOfBinds,
    /// Another writer changed the fence of binds since we read it.
    #[error("the ValidatingAdmissionPolicyBinding {FENCE_OF_BINDS} was changed since we read it")]
    Overtaken,
    /// The fence of binds could not be read or written.
    #[error("opening the fence for the binds of this epoch\n\nhint: kubectl apply -f deploy/")]
    Open(#[source] kube::Error),
    /// The epoch could not be read or written.
    #[error("publishing the scheduler's epoch")]
    Publish(#[source] kube::Error),
    /// Another process published after we read: it leads now, and we no longer do.
    #[error("publishing the scheduler's epoch: another process published one since we read it")]
    Outrun,
    /// The fence did not let us through.
    #[error("the fence did not admit this process as the leader of epoch {epoch}: {answer}")]
    NotAdmitted {
        /// Ours.
        epoch: i64,
        /// What the API server said last.
        answer: String,
    },
}

/// Where the leader can be asked.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// As others reach it.
    pub address: String,
    /// The certificate that it answers with.
    pub certificate_pem: String,
}

/// The pod that this process's token is bound to. The request is a POST, but stores nothing.
pub async fn own_pod(reads: &Client) -> Result<PodKey, Error> {
    let api = Api::<SelfSubjectReview>::all(reads.clone());
    let review =
        api.create(&PostParams::default(), &SelfSubjectReview::default()).await.map_err(Error::Review)?;
    let user = review.status.and_then(|status| status.user_info).unwrap_or_default();
    let said = |key: &str| user.extra.as_ref()?.get(key)?.first().cloned();
    match (said(POD_NAME), said(POD_UID)) {
        // The fence, and our rights, are those of a service account of this namespace.
        (Some(name), Some(uid)) => Ok(PodKey::new(SYSTEM_NAMESPACE, name, uid)),
        _ => Err(Error::NotAPod { user: user.username.unwrap_or_default() }),
    }
}

/// Makes this process the one that may write, publishes the address at which it answers questions,
/// if there is one, and returns its epoch.
pub async fn take(
    reads: &Client,
    writes: &Writes,
    holder: &str,
    endpoint: Option<&Endpoint>,
) -> Result<i64, Error> {
    let fence = Api::<ValidatingAdmissionPolicyBinding>::all(reads.clone());
    let opened = fence.get_opt(FENCE_OF_BINDS).await.map_err(Error::Open)?.ok_or(Error::NoFenceOfBinds)?;
    let epochs = Api::<SchedulerEpoch>::all(reads.clone());
    let old = match epochs.get_opt(SCHEDULER_EPOCH).await.map_err(Error::Publish)? {
        Some(old) => old,
        // The first leader ever: without an epoch the fence is open.
        None => publish(reads, writes, None, (NOBODY, None)).await?,
    };
    // A restarted container has the identity of its predecessor, so its own write proves nothing
    // here.
    if old.spec.holder != holder {
        must_stand(writes).await?;
    }
    let epoch = publish(reads, writes, Some(&old), (holder, endpoint)).await?.spec.epoch;
    info!(epoch, holder, "Published the epoch.");
    open(reads, writes, &opened, epoch).await?;
    await_admission(writes, epoch).await?;
    await_admission(&writes.of_epoch(epoch), epoch).await?;
    must_stand(&writes.of_epoch(epoch - 1)).await?;
    match epochs.get(SCHEDULER_EPOCH).await {
        Ok(now) if now.spec.epoch == epoch => Ok(epoch),
        Ok(_) => Err(Error::Outrun),
        Err(error) => Err(Error::Publish(error)),
    }
}

/// Publishes the address at which the leader of an epoch answers questions, if it had none when it
/// took the fence. [`Error::Outrun`] if another process leads by now.
pub async fn advertise(
    reads: &Client,
    writes: &Writes,
    epoch: i64,
    endpoint: &Endpoint,
) -> Result<(), Error> {
    let epochs = Api::<SchedulerEpoch>::all(reads.clone());
    let mut ours = epochs.get(SCHEDULER_EPOCH).await.map_err(Error::Publish)?;
    if ours.spec.epoch != epoch {
        return Err(Error::Outrun);
    }
    ours.metadata.annotations = Some(annotations(endpoint));
    write(reads, writes, &ours).await.map(drop)
}

/// Lets the binds of an epoch pass without a closer look. Refused if the binding changed since
/// `opened` was read.
async fn open(
    reads: &Client,
    writes: &Writes,
    opened: &ValidatingAdmissionPolicyBinding,
    epoch: i64,
) -> Result<(), Error> {
    let change = opening(epoch, opened.resource_version().as_deref());
    let path =
        format!("{BINDINGS}/{FENCE_OF_BINDS}?fieldManager={SCHEDULER_FIELD_MANAGER}&{}", writes.query());
    let request = http::Request::patch(path).header(CONTENT_TYPE, "application/merge-patch+json");
    match send::<IgnoredAny>(writes, request, &change).await {
        Ok(_) => Ok(()),
        Err(error) if is_conflict(&error) => {
            let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(reads.clone());
            let now = bindings.get(FENCE_OF_BINDS).await.map_err(Error::Open)?;
            if is_open(&now, epoch) { Ok(()) } else { Err(Error::Overtaken) }
        }
        Err(error) => Err(Error::Open(error)),
    }
}

/// Whether the fence of binds examines only binds of other epochs than this one.
fn is_open(binding: &ValidatingAdmissionPolicyBinding, epoch: i64) -> bool {
    let resources = binding.spec.match_resources.as_ref();
    resources.and_then(|resources| resources.object_selector.as_ref()) == Some(&other_epochs(epoch))
}

/// The fence follows the epoch with a short delay, so it gets some time to refuse us.
async fn must_stand(writes: &Writes) -> Result<(), Error> {
    let mut answer = Probe::Admitted;
    for _ in 0..PROBE_TRIES {
        answer = writes.probe(SYSTEM_NAMESPACE).await;
        if matches!(answer, Probe::Refused(_)) {
            return Ok(());
        }
        debug!(%answer, "The fence is not effective yet.");
        tokio::time::sleep(PROBE_DELAY).await;
    }
    Err(Error::NoFence { answer: answer.to_string() })
}

/// Publishes the epoch after `old`. Refused if another process published since `old` was read: it
/// took the lease after us, and its epoch must not be overwritten.
async fn publish(
    reads: &Client,
    writes: &Writes,
    old: Option<&SchedulerEpoch>,
    (holder, endpoint): (&str, Option<&Endpoint>),
) -> Result<SchedulerEpoch, Error> {
    let epoch = old.map_or(0, |old| old.spec.epoch) + 1;
    let mut new =
        SchedulerEpoch::new(SCHEDULER_EPOCH, SchedulerEpochSpec { epoch, holder: holder.to_owned() });
    new.metadata.annotations = endpoint.map(annotations);
    if let Some(old) = old {
        new.metadata.resource_version.clone_from(&old.metadata.resource_version);
    }
    write(reads, writes, &new).await
}

/// Creates the epoch, or replaces the version that `new` has. [`Error::Outrun`] if another process wrote since.
async fn write(reads: &Client, writes: &Writes, new: &SchedulerEpoch) -> Result<SchedulerEpoch, Error> {
    let request = match &new.metadata.resource_version {
        None => http::Request::post(format!("{EPOCHS}?{}", writes.query())),
        Some(_) => http::Request::put(format!("{EPOCHS}/{SCHEDULER_EPOCH}?{}", writes.query())),
    };
    match send(writes, request.header(CONTENT_TYPE, "application/json"), new).await {
        Err(error) if is_conflict(&error) => {
            let epochs = Api::<SchedulerEpoch>::all(reads.clone());
            let now = epochs.get(SCHEDULER_EPOCH).await.map_err(Error::Publish)?;
            let is_ours = now.spec == new.spec && now.metadata.annotations == new.metadata.annotations;
            if is_ours { Ok(now) } else { Err(Error::Outrun) }
        }
        written => written.map_err(Error::Publish),
    }
}

/// Sends a write, and again while the server turns it away or its outcome is not known. Each names the
/// version that it replaces, or that there is none, so it is done at most once: if an earlier try was done all the
/// same, the next is a conflict. The caller bounds the time of all tries.
async fn send<T: DeserializeOwned>(
    writes: &Writes,
    request: http::request::Builder,
    body: &impl Serialize,
) -> kube::Result<T> {
    let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    let request = request.body(body).map_err(kube::Error::HttpError)?;
    for _ in 1..WRITE_TRIES {
        let result = writes.send(request.clone()).await;
        let delay = match answer(&result) {
            Answer::Throttled(delay, _) => delay,
            Answer::Unknown(_) => WRITE_DELAY,
            _ => return result.map_err(Failure::into_error),
        };
        tokio::time::sleep(delay).await;
    }
    writes.send(request).await.map_err(Failure::into_error)
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn annotations(endpoint: &Endpoint) -> BTreeMap<String, String> {
    [
        (LEADER_ADDRESS_ANNOTATION.to_owned(), endpoint.address.clone()),
        (LEADER_CERTIFICATE_ANNOTATION.to_owned(), endpoint.certificate_pem.clone()),
    ]
    .into()
}

async fn await_admission(writes: &Writes, epoch: i64) -> Result<(), Error> {
    let mut answer = Probe::Unclear(String::new());
    for _ in 0..PROBE_TRIES {
        answer = writes.probe(SYSTEM_NAMESPACE).await;
        if matches!(answer, Probe::Admitted) {
            return Ok(());
        }
        tokio::time::sleep(PROBE_DELAY).await;
    }
    Err(Error::NotAdmitted { epoch, answer: answer.to_string() })
}

#[cfg(test)]
mod tests {
    use api_types::{SchedulerEpoch, SchedulerEpochSpec};
    use http::Method;
    use serde_json::{Value, json};

    use super::{Error, publish};
    use crate::testing::{Script, status, writes_and_reads};

    fn epoch(epoch: i64, version: &str) -> SchedulerEpoch {
        let mut object =
            SchedulerEpoch::new("warpyard-scheduler", SchedulerEpochSpec { epoch, holder: "pod".to_owned() });
        object.metadata.resource_version = Some(version.to_owned());
        object
    }

    async fn published(script: Vec<(Method, u16, Value)>) -> (Result<SchedulerEpoch, Error>, Script) {
        let (writes, reads, left) = writes_and_reads(script);
        (publish(&reads, &writes, Some(&epoch(3, "7")), ("pod", None)).await, left)
    }

    #[tokio::test(start_paused = true)]
    async fn an_epoch_that_the_server_turned_away_is_published_again() {
        let (published, left) = published(vec![
            (Method::PUT, 429, status(429, "later")),
            (Method::PUT, 503, status(503, "starting")),
            (Method::PUT, 200, json!(epoch(4, "8"))),
        ])
        .await;
        assert_eq!(published.expect("it is published").spec.epoch, 4);
        assert!(left.lock().expect("the script").is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_epoch_that_was_published_without_an_answer_is_ours() {
        let (published, left) = published(vec![
            (Method::PUT, 504, status(504, "no answer")),
            (Method::PUT, 409, status(409, "the object has been modified")),
            (Method::GET, 200, json!(epoch(4, "8"))),
        ])
        .await;
        assert_eq!(published.expect("it is ours").metadata.resource_version.as_deref(), Some("8"));
        assert!(left.lock().expect("the script").is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_epoch_that_another_process_published_since_is_not_overwritten() {
        let mut others = epoch(4, "8");
        others.spec.holder = "other".to_owned();
        let (published, _) = published(vec![
            (Method::PUT, 409, status(409, "the object has been modified")),
            (Method::GET, 200, json!(others)),
        ])
        .await;
        assert!(matches!(published, Err(Error::Outrun)), "{published:?}");
    }
}
