//! Becoming the one process that may write.
//!
//! ```text
//!   stands?  a dry-run bind by a process that is not the holder must be refused, or there is no fence
//!   publish  SchedulerEpoch: epoch + 1, holder = our pod, and where the leader can be asked
//!   open     the fence of binds: those that say our epoch pass, those that say another do not
//!   admitted dry-run binds of a pod that does not exist, with and without the epoch: 404, not "refused"
//!   stands!  one that says the epoch before must be refused
//! ```
//!
//! Two candidates may come here one upon the other. The epoch only grows, and each writes the fence of binds only as it read it
//! before it published: the one with the older epoch finds that it was outrun, there or when it looks at the epoch again.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::names::{
    FENCE_OF_BINDS, LEADER_ADDRESS_ANNOTATION, LEADER_CERTIFICATE_ANNOTATION, SCHEDULER_EPOCH,
    SCHEDULER_FIELD_MANAGER, SYSTEM_NAMESPACE,
};
use api_types::scheduler_epoch::opening;
use api_types::{SchedulerEpoch, SchedulerEpochSpec};
use cluster_apply::writes::{Probe, Writes};
use cluster_model::PodKey;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use tracing::{debug, info};

use crate::tell::server::Endpoint;

/// Where a service account token says which pod it was made for.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
/// The fence follows its parameter within 0.3 s here, and its own change within 1.3 s, because kube-apiserver looks for those
/// once in a second; 100 tries with 0.1 s between are 10 s and more.
const PROBE_TRIES: u32 = 100;
const PROBE_DELAY: Duration = Duration::from_millis(100);
/// A holder that no pod has as its UID.
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
        /// Who the API server says we are.
        user: String,
    },
    /// A write that the fence must refuse was admitted.
    #[error(
        "the fence does not stand: a write by a process that does not lead was not refused ({answer})\n\n\
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
    /// Somebody else wrote the fence of binds since we read it.
    #[error(
        "the ValidatingAdmissionPolicyBinding {FENCE_OF_BINDS} was written by somebody else since we read it"
    )]
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

/// The pod that this process's token is bound to.
pub async fn own_pod(client: &Client) -> Result<PodKey, Error> {
    let api = Api::<SelfSubjectReview>::all(client.clone());
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

/// Makes this process the one that may write, and says where it can be asked, if it can; returns its epoch.
pub async fn take(
    client: &Client,
    writes: &Writes,
    holder: &str,
    endpoint: Option<&Endpoint>,
) -> Result<i64, Error> {
    let fence = Api::<ValidatingAdmissionPolicyBinding>::all(client.clone());
    let opened = fence.get_opt(FENCE_OF_BINDS).await.map_err(Error::Open)?.ok_or(Error::NoFenceOfBinds)?;
    let api = Api::<SchedulerEpoch>::all(client.clone());
    let old = match api.get_opt(SCHEDULER_EPOCH).await.map_err(Error::Publish)? {
        Some(old) => old,
        // The first leader ever: without an epoch the fence is open.
        None => publish(&api, None, NOBODY, None).await?,
    };
    // A restarted container has the identity of its predecessor, and cannot try here what another one may do.
    if old.spec.holder != holder {
        must_stand(writes).await?;
    }
    let epoch = publish(&api, Some(&old), holder, endpoint).await?.spec.epoch;
    info!(epoch, holder, "Published the epoch.");
    open(&fence, &opened, epoch).await?;
    await_admission(writes, epoch).await?;
    await_admission(&writes.of_epoch(epoch), epoch).await?;
    must_stand(&writes.of_epoch(epoch - 1)).await?;
    match api.get(SCHEDULER_EPOCH).await {
        Ok(now) if now.spec.epoch == epoch => Ok(epoch),
        Ok(_) => Err(Error::Outrun),
        Err(error) => Err(Error::Publish(error)),
    }
}

/// Lets the binds of an epoch pass without a closer look. Refused if anybody did so since `opened` was read.
async fn open(
    fence: &Api<ValidatingAdmissionPolicyBinding>,
    opened: &ValidatingAdmissionPolicyBinding,
    epoch: i64,
) -> Result<(), Error> {
    let patch = Patch::Merge(opening(epoch, opened.resource_version().as_deref()));
    let params =
        PatchParams { field_manager: Some(SCHEDULER_FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match fence.patch(FENCE_OF_BINDS, &params, &patch).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Err(Error::Overtaken),
        Err(error) => Err(Error::Open(error)),
    }
}

/// Says where the leader of an epoch can be asked, if it could not when it took the fence. [`Error::Outrun`] if another
/// process leads by now.
pub async fn advertise(client: &Client, epoch: i64, endpoint: &Endpoint) -> Result<(), Error> {
    let api = Api::<SchedulerEpoch>::all(client.clone());
    let mut ours = api.get(SCHEDULER_EPOCH).await.map_err(Error::Publish)?;
    if ours.spec.epoch != epoch {
        return Err(Error::Outrun);
    }
    ours.metadata.annotations = Some(annotations(endpoint));
    api.replace(SCHEDULER_EPOCH, &PostParams::default(), &ours).await.map(drop).map_err(refused)
}

/// The fence follows the epoch with a short delay, so it gets some time to refuse us.
async fn must_stand(writes: &Writes) -> Result<(), Error> {
    let mut answer = Probe::Admitted;
    for _ in 0..PROBE_TRIES {
        answer = writes.probe(SYSTEM_NAMESPACE).await;
        if matches!(answer, Probe::Refused(_)) {
            return Ok(());
        }
        debug!(%answer, "The fence does not stand yet.");
        tokio::time::sleep(PROBE_DELAY).await;
    }
    Err(Error::NoFence { answer: answer.to_string() })
}

/// Publishes the epoch after `old`. Refused if anybody published since `old` was read: that process took the lease
/// after us, and its epoch must not be overwritten.
async fn publish(
    api: &Api<SchedulerEpoch>,
    old: Option<&SchedulerEpoch>,
    holder: &str,
    endpoint: Option<&Endpoint>,
) -> Result<SchedulerEpoch, Error> {
    let epoch = old.map_or(0, |old| old.spec.epoch) + 1;
    let mut new =
        SchedulerEpoch::new(SCHEDULER_EPOCH, SchedulerEpochSpec { epoch, holder: holder.to_owned() });
    new.metadata.annotations = endpoint.map(annotations);
    let params = PostParams::default();
    let result = match old {
        None => api.create(&params, &new).await,
        Some(old) => {
            new.metadata.resource_version.clone_from(&old.metadata.resource_version);
            api.replace(SCHEDULER_EPOCH, &params, &new).await
        }
    };
    result.map_err(refused)
}

fn annotations(endpoint: &Endpoint) -> BTreeMap<String, String> {
    [
        (LEADER_ADDRESS_ANNOTATION.to_owned(), endpoint.address.clone()),
        (LEADER_CERTIFICATE_ANNOTATION.to_owned(), endpoint.certificate_pem.clone()),
    ]
    .into()
}

fn refused(error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) if status.code == 409 => Error::Outrun,
        error => Error::Publish(error),
    }
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
