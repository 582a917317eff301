//! Every write of the Run controller. Each names the object by UID or resource version, so that none can hit another
//! object of the same name, and each may be repeated.

use api_types::names::{CONTROLLERS_FIELD_MANAGER, RUN_FINALIZER, TOLD_ANNOTATION};
use api_types::{Run, RunStatus};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Service;
use kube::api::{
    Api, DeleteParams, PartialObjectMeta, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use slim_objects::Readable;

use super::build::{Applied, Prepared, Resources};
use super::context::{Context, Error, is_code};
use super::job::JobFacts;
use crate::members::RunKey;

/// Puts our finalizer on the Run.
pub async fn add_finalizer(context: &Context, run: &Run) -> Result<Run, Error> {
    let mut finalizers = run.metadata.finalizers.clone().unwrap_or_default();
    finalizers.push(RUN_FINALIZER.to_owned());
    let patch = json!({ "metadata": {
        "resourceVersion": run.metadata.resource_version,
        "uid": run.metadata.uid,
        "finalizers": finalizers,
    }});
    let name = run.name_any();
    let patched = api::<Run>(context, &run.namespace().unwrap_or_default())
        .patch(&name, &parameters(), &Patch::Merge(&patch))
        .await;
    patched.map(|Readable(run)| run).map_err(Error::api("add the finalizer to run", &name))
}

/// Writes the status if it changed: all of it except `waiting`, which is the scheduler's, and `progress`, which
/// is the API server's.
///
/// The write carries the resource version that it was decided from: a decision about an old Run is refused.
pub async fn update_status(context: &Context, run: Run, mut status: RunStatus) -> Result<Run, Error> {
    status.waiting = run.status.as_ref().and_then(|status| status.waiting.clone());
    status.progress = run.status.as_ref().and_then(|status| status.progress.clone());
    if run.status.as_ref() == Some(&status) {
        return Ok(run);
    }
    (status.waiting, status.progress) = (None, None);
    let patch = run.status_patch(&status);
    let name = run.name_any();
    let parameters = PatchParams::apply(CONTROLLERS_FIELD_MANAGER).force();
    let written = api::<Run>(context, &run.namespace().unwrap_or_default())
        .patch_status(&name, &parameters, &Patch::Apply(&patch))
        .await;
    written.map(|Readable(run)| run).map_err(Error::api("write the status of run", &name))
}

/// Creates the Service and the Job. If a Job of that name exists already, it is returned as it is: the next
/// decision checks whose it is.
pub async fn create(
    context: &Context,
    run: &Run,
    resources: Resources<Prepared>,
) -> Result<Resources<Applied>, Error> {
    let namespace = run.namespace().unwrap_or_default();
    let service = create_or_get(&api::<Service>(context, &namespace), resources.service).await?;
    if !is_owned(&service, run) {
        return Err(name_taken(&service, run));
    }
    let job = create_or_get(&api::<Job>(context, &namespace), resources.job).await?;
    Ok(Resources::applied(service, job))
}

/// Lets a suspended Job start its pods, if it is unchanged: a Job that was told to end meanwhile stays
/// suspended.
pub async fn resume_job(
    context: &Context,
    run: &RunKey,
    name: &str,
    seen: &JobFacts,
) -> Result<JobFacts, Error> {
    let metadata = json!({ "uid": seen.uid, "resourceVersion": seen.resource_version });
    let patch = json!({ "metadata": metadata, "spec": { "suspend": false } });
    patch_job(context, run, name, &patch).await.map_err(Error::api("resume Job", name))
}

/// Suspends a Job for good: the Job controller deletes all its pods at once, which tells the members to save
/// and leave.
pub async fn suspend_job(
    context: &Context,
    run: &RunKey,
    name: &str,
    uid: &str,
    now: Timestamp,
) -> Result<JobFacts, Error> {
    let metadata = json!({ "uid": uid, "annotations": { TOLD_ANNOTATION: now.to_string() } });
    let patch = json!({ "metadata": metadata, "spec": { "suspend": true } });
    patch_job(context, run, name, &patch).await.map_err(Error::api("suspend Job", name))
}

async fn patch_job(
    context: &Context,
    run: &RunKey,
    name: &str,
    patch: &serde_json::Value,
) -> Result<JobFacts, kube::Error> {
    let job = api::<Job>(context, &run.namespace).patch(name, &parameters(), &Patch::Merge(patch)).await;
    job.map(|Readable(job)| JobFacts::of(&job))
}

/// Asks for the deletion of a Job; `None` if it is gone already. With [`PropagationPolicy::Foreground`] the Job stays
/// until its pods are gone.
pub async fn delete_job(
    context: &Context,
    run: &RunKey,
    name: &str,
    uid: &str,
    propagation: PropagationPolicy,
) -> Result<Option<JobFacts>, Error> {
    let deleted =
        api::<Job>(context, &run.namespace).delete(name, &delete_parameters(uid, propagation)).await;
    match deleted {
        Ok(answer) => Ok(answer.left().map(|Readable(job)| JobFacts::of(&job))),
        Err(error) if is_code(&error, 404) => Ok(None),
        Err(error) => Err(Error::api("delete Job", name)(error)),
    }
}

/// Removes our finalizer from a Job that may not exist any more.
pub async fn release_job(context: &Context, run: &RunKey, name: &str, uid: &str) -> Result<(), Error> {
    release(&api::<PartialObjectMeta<Job>>(context, &run.namespace), name, uid)
        .await
        .map_err(Error::api("release Job", name))
}

/// Removes our finalizer from a Run that may not exist any more.
pub async fn release_run(context: &Context, run: &RunKey, uid: &str) -> Result<(), Error> {
    release(&api::<PartialObjectMeta<Run>>(context, &run.namespace), &run.name, uid)
        .await
        .map_err(Error::api("release run", &run.name))
}

/// Deletes the Run's Service of this name; a Service with another owner stays.
pub async fn delete_service(context: &Context, run: &Run, name: &str) -> Result<(), Error> {
    let services = api::<Service>(context, &run.namespace().unwrap_or_default());
    let service = services.get_opt(name).await.map_err(Error::api("read Service", name))?;
    let Some(Readable(service)) = service.filter(|service| is_owned(service, run)) else { return Ok(()) };
    let uid = service.metadata.uid.unwrap_or_default();
    match services.delete(name, &delete_parameters(&uid, PropagationPolicy::Background)).await {
        Ok(_) => Ok(()),
        Err(error) if is_code(&error, 404) => Ok(()),
        Err(error) => Err(Error::api("delete Service", name)(error)),
    }
}

async fn create_or_get<K>(api: &Api<Readable<K>>, object: K) -> Result<K, Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let object = Readable(object);
    let name = object.name_any();
    let kind = K::kind(&());
    let parameters =
        PostParams { field_manager: Some(CONTROLLERS_FIELD_MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, &object).await {
        Ok(Readable(created)) => Ok(created),
        Err(error) if is_code(&error, 409) => {
            let existing = api.get(&name).await.map_err(Error::api("read after a conflict", &name))?;
            Ok(existing.0)
        }
        // The object is invalid or unreadable: a retry gives the same answer.
        Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => Err(Error::Refused {
            reason: "Refused".to_owned(),
            message: format!("the API server refuses {kind} {name}: {}", status.message),
        }),
        Err(error) => Err(Error::api("create", &name)(error)),
    }
}

/// Removes our finalizer at its position; the API server checks that it is there.
async fn release<K>(api: &Api<K>, name: &str, uid: &str) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let Some(object) = api.get_opt(name).await? else { return Ok(()) };
    let metadata = object.meta();
    let position = metadata.finalizers.iter().flatten().position(|finalizer| finalizer == RUN_FINALIZER);
    let Some(position) = position.filter(|_| metadata.uid.as_deref() == Some(uid)) else { return Ok(()) };
    let place = format!("/metadata/finalizers/{position}");
    let operations = json!([
        { "op": "test", "path": "/metadata/uid", "value": uid },
        { "op": "test", "path": place, "value": RUN_FINALIZER },
        { "op": "remove", "path": place },
    ]);
    let patch = serde_json::from_value(operations).map_err(kube::Error::SerdeError)?;
    match api.patch(name, &parameters(), &Patch::Json::<()>(patch)).await {
        Ok(_) => Ok(()),
        Err(error) if is_code(&error, 404) => Ok(()),
        Err(error) => Err(error),
    }
}

/// If the Service belongs to an earlier Run of the same name, it is about to go; any other stays, and this Run
/// cannot start.
fn name_taken(service: &Service, run: &Run) -> Error {
    let name = service.name_any();
    let of_run =
        service.owner_references().iter().any(|o| o.kind == Run::kind(&()) && o.name == run.name_any());
    if of_run || service.metadata.deletion_timestamp.is_some() {
        return Error::NotGoneYet { name };
    }
    Error::Refused {
        reason: "NameTaken".to_owned(),
        message: format!(
            "a Service named {name} exists and is not this run's: delete it, or submit the run under another name"
        ),
    }
}

fn is_owned<K: Resource>(object: &K, run: &Run) -> bool {
    let uid = run.metadata.uid.as_deref();
    object.owner_references().iter().any(|owner| Some(owner.uid.as_str()) == uid)
}

fn delete_parameters(uid: &str, propagation: PropagationPolicy) -> DeleteParams {
    DeleteParams {
        propagation_policy: Some(propagation),
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::default()
    }
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(CONTROLLERS_FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn api<K>(context: &Context, namespace: &str) -> Api<Readable<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(context.client.clone(), namespace)
}
