//! Deletes the Job of a Run that is being deleted, and releases Jobs whose Run vanished.

use api_types::Run;
use api_types::names::RUN_FINALIZER;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, PropagationPolicy};
use kube::{Resource, ResourceExt};
use slim_objects::Readable;
use tracing::{info, warn};

use super::context::{Context, Error};
use super::job::JobFacts;
use super::{apply, dereference};
use crate::members::RunKey;

/// Deletes and releases the Run's Jobs, then releases the Run. Garbage collection deletes its pods and
/// Services.
pub async fn run(context: &Context, key: &RunKey, run: &Run) -> Result<(), Error> {
    if !has_finalizer(run, RUN_FINALIZER) {
        return Ok(());
    }
    // `--cascade=orphan`: the user deletes the Run and wants the Job to go on without it.
    let orphan = has_finalizer(run, "orphan");
    for attempt in run.status.iter().flat_map(|status| &status.attempts) {
        let Some(job) = dereference::live_job(context, key, &attempt.job_name).await? else { continue };
        let recorded = attempt.job_uid.as_deref() == Some(&job.uid);
        if !recorded && job.owner_uid != run.metadata.uid {
            continue;
        }
        if !orphan {
            apply::delete_job(context, key, &attempt.job_name, &job.uid, PropagationPolicy::Background)
                .await?;
        }
        apply::release_job(context, key, &attempt.job_name, &job.uid).await?;
    }
    apply::release_run(context, key, run.metadata.uid.as_deref().unwrap_or_default()).await?;
    info!(run = %key.name, namespace = %key.namespace, "Released a deleted run.");
    Ok(())
}

/// Releases Jobs that are being deleted and whose Run does not exist: its finalizer was removed by hand, or a
/// second leader created the Job just after the Run was deleted. Otherwise they, and their namespace, would
/// stay for ever.
pub async fn sweep(context: &Context) -> Result<(), Error> {
    for job in context.jobs.state() {
        let facts = JobFacts::of(&job);
        if facts.deleting_since.is_none() || !facts.held {
            continue;
        }
        let (Some(namespace), Some(owner)) = (job.namespace(), run_owner(&job)) else { continue };
        // An unreadable Run of one tenant must not keep the Jobs of all others.
        let runs: Api<Readable<Run>> = Api::namespaced(context.client.clone(), &namespace);
        let run = runs.get_opt(&owner.name).await.map_err(Error::api("read run", &owner.name))?;
        if run.is_some_and(|Readable(run)| run.metadata.uid.as_deref() == Some(&owner.uid)) {
            continue;
        }
        let key = RunKey { namespace, name: owner.name.clone() };
        warn!(job = %job.name_any(), namespace = %key.namespace, "Releasing a Job whose run is gone.");
        apply::release_job(context, &key, &job.name_any(), &facts.uid).await?;
    }
    Ok(())
}

fn run_owner(job: &Job) -> Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference> {
    job.owner_references().iter().find(|owner| owner.kind == Run::kind(&())).cloned()
}

fn has_finalizer(run: &Run, name: &str) -> bool {
    run.finalizers().iter().any(|finalizer| finalizer == name)
}
