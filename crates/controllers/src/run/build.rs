//! The children of an attempt: a headless Service, so that members find each other by name, and an Indexed Job.
//!
//! Pure: a [`ValidatedRun`] in, objects out, always the same for the same input.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use api_types::names::{
    ATTEMPT_LABEL, GANG_LABEL, GANG_SIZE_ANNOTATION, GPU_NODE_TAINT, GPU_RESOURCE, GPU_TYPE_ANNOTATION,
    METERING_FINALIZER, QUEUE_LABEL, RUN_FINALIZER, RUN_LABEL, SCHEDULER_NAME, SUBMITTED_BY_ANNOTATION,
};
use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements,
    SeccompProfile, SecurityContext, Service, ServiceSpec, Toleration, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::environment;
use super::validate::ValidatedRun;

/// How long a member may take to end after it was asked to.
const TERMINATION_GRACE_SECONDS: i64 = 30;

/// Deterministic names of an attempt's children: found again after any crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptNames {
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The Job, and the gang of its pods. With a Run's name of at most 40 characters, `<job>-<index>` keeps within
    /// the 63 characters of a host name for any 32-bit attempt and 10,000 members: 40 + 11 + 5 = 56.
    pub job: String,
    /// The headless Service.
    pub service: String,
}

impl AttemptNames {
    /// The names of attempt `attempt` of the Run `run`.
    pub fn of(run: &str, attempt: u32) -> Self {
        let name = format!("{run}-{attempt}");
        Self { attempt, job: name.clone(), service: name }
    }
}

/// Built, but not known to the API server.
#[derive(Debug)]
pub struct Prepared;
/// The API server has them.
#[derive(Debug)]
pub struct Applied;

/// An attempt's children, and how far they have come.
#[derive(Debug)]
pub struct Resources<Stage> {
    /// The headless Service.
    pub service: Service,
    /// The Indexed Job.
    pub job: Job,
    stage: PhantomData<Stage>,
}

impl Resources<Prepared> {
    /// Says that the API server has them; `service` and `job` are its answers.
    pub fn applied(service: Service, job: Job) -> Resources<Applied> {
        Resources { service, job, stage: PhantomData }
    }
}

/// Builds the children of one attempt. The Job is suspended: it starts nothing before its UID is in the Run's status.
/// If pods are `metered`, none vanishes before its end is in the ledger.
pub fn resources(run: &ValidatedRun, names: &AttemptNames, metered: bool) -> Resources<Prepared> {
    Resources { service: service(run, names), job: job(run, names, metered), stage: PhantomData }
}

fn service(run: &ValidatedRun, names: &AttemptNames) -> Service {
    Service {
        metadata: metadata(run, names, names.service.clone()),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            // Members look each other up before any of them is ready.
            publish_not_ready_addresses: Some(true),
            selector: Some(labels(run, names)),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn job(run: &ValidatedRun, names: &AttemptNames, metered: bool) -> Job {
    // The schema bounds members by 10,000.
    let members = i32::try_from(run.spec.members).unwrap_or(i32::MAX);
    let mut metadata = metadata(run, names, names.job.clone());
    metadata.finalizers = Some(vec![RUN_FINALIZER.to_owned()]);
    let disruption = PodFailurePolicyOnPodConditionsPattern {
        type_: "DisruptionTarget".to_owned(),
        status: Some("True".to_owned()),
    };
    Job {
        metadata,
        spec: Some(JobSpec {
            suspend: Some(true),
            completion_mode: Some("Indexed".to_owned()),
            completions: Some(members),
            parallelism: Some(members),
            // The first member that fails by itself fails the attempt. Counted for each index, because a Job makes pods
            // wait for twice as long with each that is gone: with one count for all, a gang of seven that gave way would
            // be away for ten minutes.
            backoff_limit_per_index: Some(0),
            max_failed_indexes: Some(0),
            // A member is replaced only after it has truly ended: never two of the same rank.
            pod_replacement_policy: Some("Failed".to_owned()),
            // A member lost with its node is replaced; a member that failed by itself fails the attempt.
            pod_failure_policy: Some(PodFailurePolicy {
                rules: vec![PodFailurePolicyRule {
                    action: "Ignore".to_owned(),
                    on_pod_conditions: Some(vec![disruption]),
                    ..PodFailurePolicyRule::default()
                }],
            }),
            template: template(run, names, metered),
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

fn template(run: &ValidatedRun, names: &AttemptNames, metered: bool) -> PodTemplateSpec {
    let mut labels = labels(run, names);
    labels.insert(GANG_LABEL.to_owned(), names.job.clone());
    if let Some(queue) = &run.spec.queue {
        labels.insert(QUEUE_LABEL.to_owned(), queue.clone());
    }
    let mut annotations: BTreeMap<String, String> =
        run.spec.annotations.iter().map(|a| (a.name.clone(), a.value.clone())).collect();
    annotations.insert(GANG_SIZE_ANNOTATION.to_owned(), run.spec.members.to_string());
    if let Some(gpu_type) = &run.spec.gpu_type {
        annotations.insert(GPU_TYPE_ANNOTATION.to_owned(), gpu_type.clone());
    }
    if let Some(user) = &run.submitted_by {
        annotations.insert(SUBMITTED_BY_ANNOTATION.to_owned(), user.clone());
    }
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: Some(annotations),
            finalizers: metered.then(|| vec![METERING_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        }),
        spec: Some(pod(run, names)),
    }
}

fn pod(run: &ValidatedRun, names: &AttemptNames) -> PodSpec {
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        scheduler_name: Some(SCHEDULER_NAME.to_owned()),
        priority_class_name: Some(run.spec.priority.priority_class().to_owned()),
        subdomain: Some(names.service.clone()),
        // On the pod and not on the Job, because the Job's clock starts when it is created, and waiting is free.
        active_deadline_seconds: run.spec.time_limit_seconds,
        termination_grace_period_seconds: Some(TERMINATION_GRACE_SECONDS),
        automount_service_account_token: Some(false),
        // A namespace of a thousand Services would put thousands of variables into every member.
        enable_service_links: Some(false),
        tolerations: Some(vec![Toleration {
            key: Some(GPU_NODE_TAINT.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some("NoSchedule".to_owned()),
            ..Toleration::default()
        }]),
        security_context: Some(PodSecurityContext {
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(run, names)],
        // The runtime's 64 MiB of shared memory are too little for data loaders and NCCL.
        volumes: Some(vec![Volume {
            name: "shm".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                medium: Some("Memory".to_owned()),
                ..EmptyDirVolumeSource::default()
            }),
            ..Volume::default()
        }]),
        ..PodSpec::default()
    }
}

fn container(run: &ValidatedRun, names: &AttemptNames) -> Container {
    Container {
        name: "main".to_owned(),
        image: Some(run.spec.image.clone()),
        command: Some(run.spec.command.clone()),
        env: Some(environment::variables(run, names)),
        resources: Some(requirements(run)),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![VolumeMount {
            name: "shm".to_owned(),
            mount_path: "/dev/shm".to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

/// GPUs and memory are bounded at what was asked for. CPU is only requested: a limit would throttle a member on a
/// machine with idle cores.
fn requirements(run: &ValidatedRun) -> ResourceRequirements {
    let mut limits = BTreeMap::new();
    if run.spec.gpus_per_member > 0 {
        limits.insert(GPU_RESOURCE.to_owned(), Quantity(run.spec.gpus_per_member.to_string()));
    }
    if let Some(memory) = &run.spec.memory {
        limits.insert("memory".to_owned(), Quantity(memory.clone()));
    }
    let mut requests = limits.clone();
    if let Some(cpu) = &run.spec.cpu {
        requests.insert("cpu".to_owned(), Quantity(cpu.clone()));
    }
    ResourceRequirements { limits: Some(limits), requests: Some(requests), ..ResourceRequirements::default() }
}

fn metadata(run: &ValidatedRun, names: &AttemptNames, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(run.namespace.clone()),
        labels: Some(labels(run, names)),
        owner_references: Some(vec![run.owner.clone()]),
        ..ObjectMeta::default()
    }
}

fn labels(run: &ValidatedRun, names: &AttemptNames) -> BTreeMap<String, String> {
    BTreeMap::from([
        (RUN_LABEL.to_owned(), run.name.clone()),
        (ATTEMPT_LABEL.to_owned(), names.attempt.to_string()),
    ])
}

#[cfg(test)]
mod tests {
    use api_types::run::PodAnnotation;

    use super::{AttemptNames, SUBMITTED_BY_ANNOTATION, resources};
    use crate::run::testing::run;
    use crate::run::validate::validate;

    #[test]
    fn four_members_of_eight_gpus() {
        let mut run = run();
        run.spec.queue = Some("nlp".to_owned());
        run.spec.gpu_type = Some("H100".to_owned());
        run.spec.time_limit_seconds = Some(3600);
        run.spec.cpu = Some("16".to_owned());
        run.spec.memory = Some("64Gi".to_owned());
        run.spec.annotations =
            vec![PodAnnotation { name: "fake.warpyard.dev/run-time".to_owned(), value: "5s".to_owned() }];
        run.metadata.annotations =
            Some(std::iter::once((SUBMITTED_BY_ANNOTATION.to_owned(), "ann".to_owned())).collect());
        let built = resources(&validate(&run).unwrap(), &AttemptNames::of("train", 1), true);
        insta::assert_yaml_snapshot!("service", built.service);
        insta::assert_yaml_snapshot!("job", built.job);
    }

    #[test]
    fn without_gpus_queue_and_limits_nothing_is_made_up() {
        let mut run = run();
        run.spec.gpus_per_member = 0;
        let built = resources(&validate(&run).unwrap(), &AttemptNames::of("train", 1), false);
        let template = built.job.spec.unwrap().template;
        let metadata = template.metadata.unwrap();
        assert_eq!(metadata.finalizers, None);
        assert!(!metadata.annotations.unwrap().contains_key(SUBMITTED_BY_ANNOTATION));
        let labels = metadata.labels.unwrap();
        assert!(!labels.contains_key(api_types::names::QUEUE_LABEL));
        let spec = template.spec.unwrap();
        assert_eq!(spec.active_deadline_seconds, None);
        let requirements = spec.containers[0].resources.clone().unwrap();
        assert!(requirements.limits.unwrap().is_empty());
        assert!(requirements.requests.unwrap().is_empty());
    }

    #[test]
    fn the_longest_names_are_host_names() {
        let names = AttemptNames::of(&"a".repeat(40), u32::MAX);
        assert!(format!("{}-{}", names.job, 9_999).len() <= 63);
    }
}
