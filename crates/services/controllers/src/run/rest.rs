//! Whether nothing is left to do for a Run.

use api_types::Run;
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use kube::runtime::reflector::{ObjectRef, Store};

use super::decide::is_retried;
use super::job::JobFacts;

/// Whether the Run has ended, its controller has seen its spec as it is, and nothing is asked of it.
pub fn is_at_rest(run: &Run) -> bool {
    let Some(status) = &run.status else { return false };
    status.phase.is_final()
        && status.observed_generation == run.metadata.generation
        && run.metadata.deletion_timestamp.is_none()
        && !is_retried(run)
}

/// Whether a reconcile would do nothing: it is at rest, and its last Job is released. A new list shows every Run that
/// there is, and most of them rest.
pub fn is_done(run: &Run, jobs: &Store<Job>) -> bool {
    let last = run.status.as_ref().and_then(|status| status.attempts.last());
    let job = last.and_then(|attempt| {
        let namespace = run.namespace().unwrap_or_default();
        jobs.get(&ObjectRef::<Job>::new(&attempt.job_name).within(&namespace))
    });
    is_at_rest(run) && !job.is_some_and(|job| JobFacts::of(&job).held)
}
