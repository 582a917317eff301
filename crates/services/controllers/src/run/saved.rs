//! Tells the scheduler when a Run last saved its state, so that it evicts the gang that loses least.
//!
//! It is written on one pod of the gang: members save together, and the scheduler takes the newest of a gang for all.

use api_types::Run;
use api_types::names::{CHECKPOINTED_AT_ANNOTATION, CONTROLLERS_FIELD_MANAGER};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PartialObjectMeta, Patch, PatchParams};
use serde_json::json;
use slim_objects::Readable;
use tracing::{debug, warn};

use super::context::Context;
use super::member::{Member, PodPhase};
use crate::members::RunKey;

/// Time between two checkpoints that are written. Otherwise a Run that saves each second would cause a write
/// each second. The expected loss may be too large by this much.
const TOLD_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// What to write, and on which pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    pod: String,
    uid: String,
    saved_at: Timestamp,
}

/// The save that the scheduler does not know yet.
pub fn news(run: &Run, pods: &[Member]) -> Option<News> {
    let status = run.status.as_ref()?;
    let attempt = status.attempts.last()?;
    // A checkpoint of an earlier attempt is older than the pods, which then have all their work to lose.
    let checkpoint =
        status.progress.as_ref()?.checkpoint.as_ref().filter(|it| it.attempt == attempt.number)?;
    let is_at_work = |pod: &&Member| {
        attempt.job_uid.as_ref() == Some(&pod.job_uid) && pod.phase == PodPhase::Running && !pod.deleted
    };
    let saved_at = checkpoint.committed_at.0;
    let told = pods.iter().filter(is_at_work).filter_map(|pod| pod.saved_at).max();
    if told.is_some_and(|told| saved_at.duration_since(told) < TOLD_EVERY) {
        return None;
    }
    let first = pods.iter().filter(is_at_work).min_by_key(|pod| (pod.index, &pod.pod))?;
    Some(News { pod: first.pod.clone(), uid: first.uid.clone(), saved_at })
}

/// Writes it. Only the choice of victims depends on it: a failure is logged, and tried again with the next
/// reconcile.
pub async fn tell(context: &Context, run: &RunKey, news: News) {
    let pods: Api<Readable<PartialObjectMeta<Pod>>> = Api::namespaced(context.client.clone(), &run.namespace);
    let patch = json!({ "metadata": {
        "uid": news.uid,
        "annotations": { CHECKPOINTED_AT_ANNOTATION: news.saved_at.to_string() },
    }});
    let parameters =
        PatchParams { field_manager: Some(CONTROLLERS_FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match pods.patch(&news.pod, &parameters, &Patch::Merge(patch)).await {
        Ok(_) => {
            debug!(run = %run.name, namespace = %run.namespace, at = %news.saved_at, "Told of a checkpoint.");
        }
        // Gone, or another pod has its name.
        Err(kube::Error::Api(status)) if [404, 409, 422].contains(&status.code) => {}
        Err(error) => {
            warn!(run = %run.name, namespace = %run.namespace, %error, "Could not write the time of a checkpoint; will try again.");
        }
    }
}

#[cfg(test)]
mod tests {
    use api_types::Run;
    use api_types::run::{Checkpoint, Progress};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::{Member, news};
    use crate::run::testing::{at, attempted, exited, running, starting};

    fn saved(attempt: u32, second: i64) -> Run {
        let mut run = attempted(Some("job-uid"));
        let checkpoint = Checkpoint {
            step: 1,
            attempt,
            committed_at: Time(at(second)),
            bytes: 1,
            milliseconds: 1,
            stall_milliseconds: 1,
        };
        let progress = Progress {
            step: 1,
            reported_at: Time(at(second)),
            checkpoint: Some(checkpoint),
            ranges: vec![],
            loads: vec![],
        };
        run.status.as_mut().unwrap().progress = Some(progress);
        run
    }

    fn told(index: u32, second: i64) -> Member {
        Member { saved_at: Some(at(second)), ..running(index) }
    }

    fn pod(run: &Run, pods: &[Member]) -> Option<String> {
        news(run, pods).map(|news| news.pod)
    }

    #[test]
    fn the_first_member_at_work_says_when_the_run_last_saved() {
        let found = news(&saved(1, 100), &[running(2), starting(0), running(1)]).unwrap();
        assert_eq!((found.pod.as_str(), found.saved_at), ("train-1-1-x", at(100)));
        let mut other = running(0);
        other.job_uid = "another".to_owned();
        assert_eq!(pod(&saved(1, 100), &[other, running(3)]).as_deref(), Some("train-1-3-x"));
    }

    #[test]
    fn what_was_told_is_told_again_only_when_it_is_ten_seconds_older() {
        assert_eq!(pod(&saved(1, 109), &[running(0), told(1, 100)]), None);
        assert_eq!(pod(&saved(1, 50), &[running(0), told(1, 100)]), None);
        assert_eq!(pod(&saved(1, 110), &[running(0), told(1, 100)]).as_deref(), Some("train-1-0-x"));
    }

    #[test]
    fn there_is_nothing_to_tell_without_a_checkpoint_of_this_attempt_or_a_member_at_work() {
        assert_eq!(pod(&attempted(Some("job-uid")), &[running(0)]), None);
        assert_eq!(pod(&saved(2, 100), &[running(0)]), None);
        assert_eq!(pod(&saved(1, 100), &[starting(0), exited(1, 0, 50)]), None);
        let deleted = Member { deleted: true, ..running(0) };
        assert_eq!(pod(&saved(1, 100), &[deleted]), None);
    }
}
