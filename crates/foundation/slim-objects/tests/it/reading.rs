use api_types::Run;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_core::{PartialObjectMeta, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;
use slim_objects::{Readable, SlimBudget, SlimNamespace, SlimNode, SlimPod};

#[test]
fn slim_and_readable_kinds_are_the_clusters_own() {
    assert_eq!(SlimPod::url_path(&(), Some("team")), "/api/v1/namespaces/team/pods");
    assert_eq!(SlimNode::url_path(&(), None), "/api/v1/nodes");
    assert_eq!(Readable::<Job>::url_path(&(), Some("team")), "/apis/batch/v1/namespaces/team/jobs");
    assert!(!Readable::<Job>::metadata_api());
    assert!(Readable::<PartialObjectMeta<Job>>::metadata_api(), "else whole objects would be sent");
}

/// Any tenant may write such a time, and one unreadable object makes the whole list unreadable.
#[test]
fn a_time_in_managed_fields_that_no_type_of_ours_can_hold_keeps_nothing_from_being_read() {
    fn is_read<K: DeserializeOwned>(time: &str) -> bool {
        let managed = json!({"manager": "m", "operation": "Update", "time": time});
        let metadata = json!({"name": "a", "namespace": "team", "managedFields": [managed]});
        serde_json::from_value::<K>(json!({ "metadata": metadata })).is_ok()
    }
    let (last, too_late) = ("9999-12-30T22:00:00Z", "9999-12-31T23:59:59Z");
    assert!(is_read::<PodDisruptionBudget>(last));
    assert!(!is_read::<PodDisruptionBudget>(too_late), "else this test says nothing");
    assert!(is_read::<SlimBudget>(too_late));
    assert!(is_read::<SlimPod>(too_late));
    assert!(is_read::<SlimNode>(too_late));
    assert!(is_read::<SlimNamespace>(too_late));
}

#[test]
fn a_run_and_bare_metadata_with_such_a_time_are_read_with_all_the_rest() {
    let managed = json!({"manager": "m", "operation": "Update", "time": "9999-12-31T23:59:59Z"});
    let labels = json!({"managedFields": "a label"});
    let mut run = json!({
        "metadata": {"name": "train", "namespace": "team", "labels": labels, "managedFields": [managed]},
        "spec": {"members": 2, "image": "i", "command": ["c"]},
    });
    assert!(serde_json::from_value::<Run>(run.clone()).is_err(), "else this test says nothing");
    let Readable(read) = serde_json::from_value::<Readable<Run>>(run.clone()).expect("a run");
    let bare = serde_json::from_value::<Readable<PartialObjectMeta<Pod>>>(run.clone()).expect("metadata");
    assert_eq!(bare.meta(), &read.metadata);
    run["metadata"].as_object_mut().expect("metadata").remove("managedFields");
    assert_eq!(read.metadata, serde_json::from_value::<Run>(run.clone()).expect("a run").metadata);
    assert_eq!(read.spec, serde_json::from_value::<Run>(run).expect("a run").spec);
}

/// Kubernetes reads the labels and annotations of a template, and keeps the rest of its metadata as it is written.
#[test]
fn a_job_with_such_times_in_its_template_is_read_too() {
    let time = "9999-12-31T23:59:59Z";
    let managed = json!([{"manager": "m", "operation": "Update", "time": time}]);
    for template in [json!({"managedFields": managed}), json!({"creationTimestamp": time})] {
        let job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train-1", "namespace": "team", "managedFields": managed},
            "spec": {"suspend": true, "template": {"metadata": template, "spec": {"containers": []}}},
        });
        let Readable(read) = serde_json::from_value::<Readable<Job>>(job).expect("a job");
        assert_eq!(read.metadata.name.as_deref(), Some("train-1"));
        let spec = read.spec.expect("a spec");
        assert_eq!(spec.suspend, Some(true));
        assert!(spec.template.spec.is_some());
    }
}

#[test]
fn managed_fields_that_are_too_deep_for_a_tree_of_json_keep_nothing_from_being_read() {
    let deep = format!("{}{{}}{}", r#"{"f:a":"#.repeat(200), "}".repeat(200));
    let metadata = format!(r#"{{"name":"a","managedFields":[{{"manager":"m","fieldsV1":{deep}}}]}}"#);
    let job = format!(r#"{{"metadata":{metadata},"spec":{{"template":{{"metadata":{metadata}}}}}}}"#);
    assert!(serde_json::from_str::<Job>(&job).is_err(), "else this test says nothing");
    let Readable(read) = serde_json::from_str::<Readable<Job>>(&job).expect("a job");
    assert_eq!(read.metadata.name.as_deref(), Some("a"));
    assert!(serde_json::from_str::<SlimPod>(&job).is_ok());
}
