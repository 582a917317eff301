//! Reads what a decision needs: the attempt's Job and the Run's pods.

use api_types::Run;
use api_types::run::Attempt;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, ListParams};
use kube::runtime::reflector::ObjectRef;
use slim_objects::{Readable, SlimPod};

use super::context::{Context, Error};
use super::decide::is_ours;
use super::job::JobFacts;
use super::member::{Member, member_of};
use crate::members::RunKey;

/// The most pods that are read to find the one that failed. A pod is a few KB, and the first failed ones are
/// enough.
const EVIDENCE_PODS_MAX: u32 = 500;

/// The Job of the Run's last attempt. The cache may show that it exists. Only the API server itself may show
/// that it does *not* exist, or that another Job has its name, because that answer can end a Run or start one.
pub async fn job(context: &Context, run: &RunKey, object: &Run) -> Result<Option<JobFacts>, Error> {
    let Some(status) = &object.status else { return Ok(None) };
    let Some(attempt) = status.attempts.last() else { return Ok(None) };
    let key = ObjectRef::<Job>::new(&attempt.job_name).within(&run.namespace);
    let cached = context.jobs.get(&key).map(|job| JobFacts::of(&job));
    if let Some(job) = cached.filter(|job| is_the_attempts(job, attempt, object)) {
        return Ok(Some(job));
    }
    if status.phase.is_final() {
        // Its absence no longer means anything.
        return Ok(None);
    }
    live_job(context, run, &attempt.job_name).await
}

/// Whether a Job is certainly the attempt's own, and not that of an earlier Run in a cache that lags.
fn is_the_attempts(job: &JobFacts, attempt: &Attempt, run: &Run) -> bool {
    match &attempt.job_uid {
        Some(recorded) => *recorded == job.uid,
        None => is_ours(run, job),
    }
}

/// The Job, read from the API server.
pub async fn live_job(context: &Context, run: &RunKey, name: &str) -> Result<Option<JobFacts>, Error> {
    let api: Api<Readable<Job>> = Api::namespaced(context.client.clone(), &run.namespace);
    let job = api.get_opt(name).await.map_err(Error::api("read Job", name))?;
    Ok(job.map(|Readable(job)| JobFacts::of(&job)))
}

/// The pods of a Job, read from the API server, if a Job has failed and the watch of pods does not yet show the
/// failed member. At most once per failed Run, and bounded.
pub async fn live_members(context: &Context, run: &RunKey, job_uid: &str) -> Result<Vec<Member>, Error> {
    let api: Api<SlimPod> = Api::namespaced(context.client.clone(), &run.namespace);
    let params = ListParams::default()
        .labels(&format!("batch.kubernetes.io/controller-uid={job_uid}"))
        .fields("status.phase=Failed")
        .limit(EVIDENCE_PODS_MAX);
    let pods = api.list(&params).await.map_err(Error::api("list failed pods of run", &run.name))?;
    Ok(pods.items.iter().filter_map(member_of).map(|(_, member)| member).collect())
}

#[cfg(test)]
mod tests {
    use api_types::run::Attempt;
    use api_types::{Run, RunSpec};

    use super::{JobFacts, is_the_attempts};

    #[test]
    fn a_cached_job_of_another_run_or_attempt_is_not_believed() {
        let mut run = Run::new("train", RunSpec::default());
        run.metadata.uid = Some("run-2".to_owned());
        let job = |uid: &str, owner: &str| JobFacts {
            uid: uid.to_owned(),
            owner_uid: Some(owner.to_owned()),
            ..JobFacts::default()
        };
        let attempt = |uid: Option<&str>| Attempt { job_uid: uid.map(str::to_owned), ..Attempt::default() };
        for (job, attempt, expect) in [
            (job("new", "run-2"), attempt(Some("new")), true),
            (job("old", "run-1"), attempt(Some("new")), false),
            (job("new", "run-2"), attempt(None), true),
            (job("old", "run-1"), attempt(None), false),
        ] {
            assert_eq!(is_the_attempts(&job, &attempt, &run), expect, "{job:?} {attempt:?}");
        }
    }
}
