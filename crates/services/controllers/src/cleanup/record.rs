//! A Run as it is archived. Pure.

use api_types::Run;
use kube::ResourceExt;
use store::{ArchivedRun, Place};

/// The Run without what only the API server needs, and with the queue that was charged.
pub fn record(run: &Run, default_queue: Option<String>) -> ArchivedRun {
    let mut kept = run.clone();
    kept.metadata.managed_fields = None;
    kept.spec.queue = kept.spec.queue.take().or(default_queue);
    let phase = run.status.as_ref().map(|status| status.phase).unwrap_or_default();
    ArchivedRun {
        uid: run.uid().unwrap_or_default(),
        place: Place {
            created_second: run.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            namespace: run.namespace().unwrap_or_default(),
            name: run.name_any(),
        },
        queue: kept.spec.queue.clone(),
        user: run.submitted_by().map(str::to_owned),
        phase: phase.as_str().to_owned(),
        document: serde_json::to_value(&kept).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use api_types::{Run, RunPhase, RunSpec, RunStatus};

    use super::record;

    #[test]
    fn the_document_is_the_run_with_the_queue_that_was_charged() {
        let mut run = Run::new("train", RunSpec::default());
        run.metadata.managed_fields = Some(Vec::new());
        run.status = Some(RunStatus { phase: RunPhase::Stopped, ..RunStatus::default() });
        let archived = record(&run, Some("research".to_owned()));
        assert_eq!((archived.queue.as_deref(), archived.phase.as_str()), (Some("research"), "Stopped"));
        let read: Run = serde_json::from_value(archived.document).expect("it is a Run");
        run.metadata.managed_fields = None;
        run.spec.queue = Some("research".to_owned());
        assert_eq!(read.spec, run.spec);
        assert_eq!((read.status, read.metadata), (run.status.clone(), run.metadata.clone()));
        run.spec.queue = Some("own".to_owned());
        assert_eq!(record(&run, Some("research".to_owned())).queue.as_deref(), Some("own"));
    }
}
