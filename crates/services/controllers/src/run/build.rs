//! The children of an attempt: a headless Service, so that members find each other by name, and an Indexed Job.
//!
//! Pure: a [`ValidatedRun`] in, objects out, always the same for the same input.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use api_types::RunSpec;
use api_types::names::{
    ATTEMPT_LABEL, CHECKPOINTS_ANNOTATION, DEADLINE_ANNOTATION, GANG_LABEL, GANG_SIZE_ANNOTATION,
    GPU_NODE_TAINT, GPU_RESOURCE, GPU_TYPE_ANNOTATION, MAX_PRICE_ANNOTATION, METERING_FINALIZER, QUEUE_LABEL,
    RUN_FINALIZER, RUN_LABEL, SCHEDULER_NAME, SPOT_ANNOTATION, SUBMITTED_BY_ANNOTATION,
};
use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    Container, PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements, SeccompProfile,
    SecurityContext, Service, ServiceSpec, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::blueprint::Blueprint;
pub use super::blueprint::{AttemptNames, AttemptPlan, Surroundings, grace_seconds};
use super::reporting::Reporting;
use super::validate::ValidatedRun;
use super::{environment, volumes};

/// Built, but not known to the API server.
#[derive(Debug)]
pub struct Prepared;
/// The API server has them.
#[derive(Debug)]
pub struct Applied;

/// An attempt's children, and their stage.
#[derive(Debug)]
pub struct Resources<Stage> {
    /// The headless Service.
    pub service: Service,
    /// The Indexed Job.
    pub job: Job,
    stage: PhantomData<Stage>,
}

impl Resources<Prepared> {
    /// The children as the API server has them; `service` and `job` are its answers.
    pub fn applied(service: Service, job: Job) -> Resources<Applied> {
        Resources { service, job, stage: PhantomData }
    }
}

/// Builds the children of one attempt. The Job is suspended: it starts nothing before its UID is in the Run's status.
pub fn resources(run: &ValidatedRun, plan: &AttemptPlan, around: &Surroundings) -> Resources<Prepared> {
    let it = Blueprint { run, plan, around, names: AttemptNames::of(&run.name, plan.number) };
    Resources { service: service(&it), job: job(&it), stage: PhantomData }
}

fn service(it: &Blueprint<'_>) -> Service {
    Service {
        metadata: metadata(it, it.names.service.clone()),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            // Members look each other up before any of them is ready.
            publish_not_ready_addresses: Some(true),
            selector: Some(labels(it)),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn job(it: &Blueprint<'_>) -> Job {
    // The schema bounds members by 10,000.
    let members = i32::try_from(it.plan.members).unwrap_or(i32::MAX);
    let mut metadata = metadata(it, it.names.job.clone());
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
            // The first member that fails by itself fails the attempt. The count is per index: a Job doubles
            // the wait with each pod that is gone, so with one count for all, a gang of seven that gave way
            // would be away for ten minutes.
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
            ttl_seconds_after_finished: it.around.keep_pods_seconds,
            template: template(it),
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

fn template(it: &Blueprint<'_>) -> PodTemplateSpec {
    // Every field is named, so that a new one cannot be forgotten.
    let RunSpec {
        queue,
        gpu_type,
        checkpoint,
        spot,
        max_price,
        deadline,
        annotations,
        // For the pod itself: see `pod`, `requirements`, `environment`.
        image: _,
        command: _,
        env: _,
        cpu: _,
        memory: _,
        gpus_per_member: _,
        priority: _,
        grace_seconds: _,
        // The attempt's plan has its own.
        members: _,
        time_limit_seconds: _,
        resume_step: _,
        // Used by `decide`, which decides whether there is an attempt.
        start_deadline_seconds: _,
        retries: _,
        fail_on: _,
        min_members: _,
        stop: _,
        pause: _,
        restarts: _,
    } = &it.run.spec;
    let mut labels = labels(it);
    // Each attempt is a gang of its own: pods of the last one are not members of the next.
    labels.insert(GANG_LABEL.to_owned(), it.names.job.clone());
    if let Some(queue) = queue {
        labels.insert(QUEUE_LABEL.to_owned(), queue.clone());
    }
    let mut annotations: BTreeMap<String, String> =
        annotations.iter().map(|a| (a.name.clone(), a.value.clone())).collect();
    annotations.insert(GANG_SIZE_ANNOTATION.to_owned(), it.plan.members.to_string());
    let asked = [
        (GPU_TYPE_ANNOTATION, gpu_type.clone()),
        (CHECKPOINTS_ANNOTATION, checkpoint.is_some().then(|| "true".to_owned())),
        (SPOT_ANNOTATION, spot.map(|spot| spot.to_string())),
        (MAX_PRICE_ANNOTATION, max_price.clone()),
        (DEADLINE_ANNOTATION, deadline.clone()),
        (SUBMITTED_BY_ANNOTATION, it.run.submitted_by.clone()),
    ];
    annotations.extend(asked.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    annotations.extend(it.around.reporting.as_ref().and_then(Reporting::annotation));
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: Some(annotations),
            finalizers: it.around.metered.then(|| vec![METERING_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        }),
        spec: Some(pod(it)),
    }
}

fn pod(it: &Blueprint<'_>) -> PodSpec {
    let (volumes, mounts) = volumes::of(it).into_iter().unzip();
    let container = Container {
        name: "main".to_owned(),
        image: Some(it.run.spec.image.clone()),
        command: Some(it.run.spec.command.clone()),
        env: Some(environment::variables(it)),
        resources: Some(requirements(it.run)),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(mounts),
        ..Container::default()
    };
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        scheduler_name: Some(SCHEDULER_NAME.to_owned()),
        priority_class_name: Some(it.run.spec.priority.priority_class().to_owned()),
        subdomain: Some(it.names.service.clone()),
        // On the pod instead of the Job, because the Job's clock starts at its creation, and waiting must not
        // count.
        active_deadline_seconds: it.plan.time_limit_seconds,
        termination_grace_period_seconds: Some(it.grace_seconds().into()),
        automount_service_account_token: Some(false),
        // The first process of a pid namespace ignores signals that it has no handler for. A member that is
        // told to go while it still imports its framework would miss the signal, begin to train, and be killed
        // at the end of its grace period.
        share_process_namespace: Some(true),
        // In a namespace with a thousand Services, every member would get thousands of variables.
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
        containers: vec![container],
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

/// GPUs and memory are limited to the request. CPU is only requested: a limit would throttle a member on a
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

fn metadata(it: &Blueprint<'_>, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(it.run.namespace.clone()),
        labels: Some(labels(it)),
        owner_references: Some(vec![it.run.owner.clone()]),
        ..ObjectMeta::default()
    }
}

fn labels(it: &Blueprint<'_>) -> BTreeMap<String, String> {
    BTreeMap::from([
        (RUN_LABEL.to_owned(), it.run.name.clone()),
        (ATTEMPT_LABEL.to_owned(), it.plan.number.to_string()),
    ])
}

#[cfg(test)]
mod tests;
