use api_types::Run;
use api_types::run::{Attempt, CheckpointVolume, PodAnnotation};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::{
    AttemptNames, AttemptPlan, Prepared, Resources, SUBMITTED_BY_ANNOTATION, Surroundings, resources,
};
use crate::run::reporting::Reporting;
use crate::run::testing::run;
use crate::run::validate::validate;

fn built(run: &Run, attempt: &Attempt, around: &Surroundings) -> Resources<Prepared> {
    let valid = validate(run).unwrap();
    resources(&valid, &AttemptPlan::of(&valid, attempt, run.spec.time_limit_seconds), around)
}

fn first() -> Attempt {
    Attempt { number: 1, ..Attempt::default() }
}

fn variable(template: &PodTemplateSpec, name: &str) -> Option<String> {
    let env = template.spec.as_ref()?.containers[0].env.as_ref()?;
    env.iter().find(|variable| variable.name == name)?.value.clone()
}

#[test]
fn four_members_of_eight_gpus() {
    let mut run = run();
    run.spec.queue = Some("nlp".to_owned());
    run.spec.gpu_type = Some("H100".to_owned());
    run.spec.time_limit_seconds = Some(3600);
    run.spec.cpu = Some("16".to_owned());
    run.spec.memory = Some("64Gi".to_owned());
    run.spec.checkpoint = Some(CheckpointVolume { claim: "shared".to_owned() });
    run.spec.grace_seconds = Some(90);
    run.spec.annotations =
        vec![PodAnnotation { name: "fake.warpyard.dev/run-time".to_owned(), value: "5s".to_owned() }];
    run.metadata.annotations =
        Some(std::iter::once((SUBMITTED_BY_ANNOTATION.to_owned(), "ann".to_owned())).collect());
    let ca = "-----BEGIN CERTIFICATE-----".to_owned();
    let reporting = Reporting::new("https://yard.example", Some(ca)).unwrap();
    let around = Surroundings { metered: true, reporting: Some(reporting), keep_pods_seconds: Some(604_800) };
    let built = built(&run, &first(), &around);
    insta::assert_yaml_snapshot!("service", built.service);
    insta::assert_yaml_snapshot!("job", built.job);
}

#[test]
fn what_the_run_says_of_spot_price_and_deadline_is_on_its_pods() {
    let mut run = run();
    (run.spec.spot, run.spec.max_price) = (Some(true), Some("29.40".to_owned()));
    run.spec.deadline = Some("2026-12-01T08:00:00Z".to_owned());
    let template = built(&run, &first(), &Surroundings::default()).job.spec.unwrap().template;
    let annotations = template.metadata.unwrap().annotations.unwrap();
    let said =
        ["spot", "max-price", "deadline"].map(|name| annotations[&format!("warpyard.dev/{name}")].as_str());
    assert_eq!(said, ["true", "29.40", "2026-12-01T08:00:00Z"]);
}

#[test]
fn without_gpus_queue_limits_and_checkpoints_nothing_is_made_up() {
    let mut run = run();
    run.spec.gpus_per_member = 0;
    let template = built(&run, &first(), &Surroundings::default()).job.spec.unwrap().template;
    for name in ["CHECKPOINT_DIR", "RESUME_STEP", "REPORT_URL", "REPORT_TOKEN_FILE", "REPORT_CA_FILE"] {
        assert_eq!(variable(&template, &format!("WARPYARD_{name}")), None);
    }
    let metadata = template.metadata.unwrap();
    assert_eq!(metadata.finalizers, None);
    let annotations: Vec<String> = metadata.annotations.unwrap().into_keys().collect();
    assert_eq!(annotations, [api_types::names::GANG_SIZE_ANNOTATION]);
    let labels = metadata.labels.unwrap();
    assert!(!labels.contains_key(api_types::names::QUEUE_LABEL));
    let spec = template.spec.unwrap();
    assert_eq!(spec.active_deadline_seconds, None);
    assert_eq!(spec.termination_grace_period_seconds, Some(30));
    assert_eq!(spec.volumes.unwrap().len(), 1);
    let requirements = spec.containers[0].resources.clone().unwrap();
    assert!(requirements.limits.unwrap().is_empty());
    assert!(requirements.requests.unwrap().is_empty());
}

#[test]
fn an_attempt_may_have_fewer_members_and_go_back_to_a_step() {
    let attempt = Attempt { number: 3, members: 2, resume_step: Some(0), ..Attempt::default() };
    let job = built(&run(), &attempt, &Surroundings::default()).job.spec.unwrap();
    assert_eq!((job.completions, job.parallelism), (Some(2), Some(2)));
    let template = job.template;
    let expected = [
        ("WARPYARD_ATTEMPT", "3"),
        ("WARPYARD_RESUME_STEP", "0"),
        ("WORLD_SIZE", "16"),
        ("NNODES", "2"),
        ("PET_NNODES", "2"),
        ("MASTER_ADDR", "train-3-0.train-3"),
    ];
    for (name, value) in expected {
        assert_eq!(variable(&template, name).as_deref(), Some(value), "{name}");
    }
    let metadata = template.metadata.unwrap();
    assert_eq!(metadata.annotations.unwrap()[api_types::names::GANG_SIZE_ANNOTATION], "2");
    assert_eq!(metadata.labels.unwrap()[api_types::names::GANG_LABEL], "train-3");
}

#[test]
fn the_longest_names_are_host_names() {
    let names = AttemptNames::of(&"a".repeat(40), u32::MAX);
    assert!(format!("{}-{}", names.job, 9_999).len() <= 63);
}
