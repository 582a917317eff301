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
use api_types::run::Attempt;
use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    Container, PodSecurityContext, PodSpec, PodTemplateSpec, ResourceRequirements, SeccompProfile,
    SecurityContext, Service, ServiceSpec, Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::reporting::Reporting;
use super::validate::ValidatedRun;
use super::{environment, volumes};

/// How long a member may take to save and leave, where the Run does not say.
const GRACE_SECONDS_DEFAULT: u32 = 30;

/// What was decided about an attempt before it is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptPlan {
    /// The attempt's number, from 1.
    pub number: u32,
    /// How many members it has.
    pub members: u32,
    /// The step to resume from; without it, the newest.
    pub resume_step: Option<i64>,
    /// How long it may run: what earlier attempts left of the Run's limit.
    pub time_limit_seconds: Option<i64>,
}

impl AttemptPlan {
    /// An attempt as the Run's status records it, with this much time.
    pub fn of(run: &ValidatedRun, attempt: &Attempt, time_limit_seconds: Option<i64>) -> Self {
        // Records of old have no members: they had all of the Run's.
        let members = if attempt.members == 0 { run.spec.members } else { attempt.members };
        Self { number: attempt.number, members, resume_step: attempt.resume_step, time_limit_seconds }
    }
}

/// What the platform has around its Runs.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// There is a ledger: no pod vanishes before its end is in it.
    pub metered: bool,
    /// Where members report to, if anywhere.
    pub reporting: Option<Reporting>,
}

/// How long a member may take to save and leave.
pub fn grace_seconds(spec: &RunSpec) -> u32 {
    spec.grace_seconds.unwrap_or(GRACE_SECONDS_DEFAULT)
}

/// Deterministic names of an attempt's children: found again after any crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptNames {
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The Job. With a Run's name of at most 40 characters, `<job>-<index>` keeps within
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
pub fn resources(run: &ValidatedRun, plan: &AttemptPlan, around: &Surroundings) -> Resources<Prepared> {
    let it = Blueprint { run, plan, around, names: AttemptNames::of(&run.name, plan.number) };
    Resources { service: service(&it), job: job(&it), stage: PhantomData }
}

/// Everything that the parts of an attempt are made from.
pub(super) struct Blueprint<'a> {
    pub(super) run: &'a ValidatedRun,
    pub(super) plan: &'a AttemptPlan,
    pub(super) around: &'a Surroundings,
    pub(super) names: AttemptNames,
}

impl Blueprint<'_> {
    /// How long a member may take to save and leave after it was told to.
    pub(super) fn grace_seconds(&self) -> u32 {
        grace_seconds(&self.run.spec)
    }

    /// Processes of all members: one for each GPU. 10,000 members × 64 GPUs is far below the range of u64.
    pub(super) fn processes(&self) -> u64 {
        u64::from(self.plan.members) * u64::from(self.run.spec.gpus_per_member.max(1))
    }
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
            template: template(it),
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

fn template(it: &Blueprint<'_>) -> PodTemplateSpec {
    let spec = &it.run.spec;
    let mut labels = labels(it);
    // Each attempt is a gang of its own: what is left of the last one is no member of the next.
    labels.insert(GANG_LABEL.to_owned(), it.names.job.clone());
    if let Some(queue) = &spec.queue {
        labels.insert(QUEUE_LABEL.to_owned(), queue.clone());
    }
    let mut annotations: BTreeMap<String, String> =
        spec.annotations.iter().map(|a| (a.name.clone(), a.value.clone())).collect();
    annotations.insert(GANG_SIZE_ANNOTATION.to_owned(), it.plan.members.to_string());
    let asked = [
        (GPU_TYPE_ANNOTATION, spec.gpu_type.clone()),
        (CHECKPOINTS_ANNOTATION, spec.checkpoint.is_some().then(|| "true".to_owned())),
        (SPOT_ANNOTATION, spec.spot.map(|spot| spot.to_string())),
        (MAX_PRICE_ANNOTATION, spec.max_price.clone()),
        (DEADLINE_ANNOTATION, spec.deadline.clone()),
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
        // On the pod and not on the Job, because the Job's clock starts when it is created, and waiting is free.
        active_deadline_seconds: it.plan.time_limit_seconds,
        termination_grace_period_seconds: Some(it.grace_seconds().into()),
        automount_service_account_token: Some(false),
        // The first process of a pid namespace ignores signals that it has not asked for. Told to go while it still
        // imports its framework, a member would not hear it, begin to train, and be killed when its grace is over.
        share_process_namespace: Some(true),
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
        containers: vec![container],
        volumes: Some(volumes),
        ..PodSpec::default()
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
