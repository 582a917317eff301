//! Pods: what they ask for, whose they are, and what of it we cannot honour yet.

use std::{collections::BTreeMap, sync::Arc};

use api_types::names;
use cluster_model::{Change, GangKey, Pod, PodKey, Resources, TaintEffect, Toleration};
use jiff::Timestamp;

use crate::quantity;
use crate::slim::{SlimContainer, SlimPod, SlimResources, SlimToleration};

/// Annotation (and label) that the Job controller puts on the pods of an Indexed Job.
pub(crate) const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The most that one pod or node counts for, of anything: 2^45 is 32 TiB. Sums over 2^18 of them fit in an i64.
pub(crate) const AMOUNT_MAX: i64 = 1 << 45;
/// How much of a text that somebody wrote is repeated in a reason, in characters.
const QUOTED_MAX: usize = 40;

/// What a pod that was seen means. One that has ended, or waits for another scheduler, is as good as gone.
pub fn pod_change(pod: &SlimPod) -> Change {
    let ended = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let ours = pod.spec.scheduler_name.as_deref() == Some(names::SCHEDULER_NAME);
    let node = pod.spec.node_name.as_deref().filter(|node| !node.is_empty());
    if ended || (!ours && node.is_none()) {
        return pod_gone(pod);
    }

    let mut unsupported = asks_beyond_us(pod);
    let requests = effective_requests(pod, &mut unsupported);
    let key = pod_key(pod);
    let gang = gang_key(pod, &key);
    Change::Pod(Pod {
        gang_size: gang_size(pod, &mut unsupported),
        queue: label(pod, names::QUEUE_LABEL).map(Into::into),
        requests,
        gpu_types: annotation(pod, names::GPU_TYPE_ANNOTATION).map(Into::into).into_iter().collect(),
        priority: pod.spec.priority.unwrap_or(0),
        created: pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        node: node.map(Into::into),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        ours,
        node_selector: pod
            .spec
            .node_selector
            .iter()
            .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
            .collect(),
        tolerations: pod.spec.tolerations.iter().filter_map(toleration).collect(),
        unsupported,
        run: label(pod, names::RUN_LABEL).map(Into::into),
        member_index: member_index(pod),
        gated: pod.spec.scheduling_gates > 0,
        started: bound_at(pod).filter(|_| node.is_some()),
        ..Pod::new(key, gang)
    })
}

/// What a pod that was deleted means.
pub fn pod_gone(pod: &SlimPod) -> Change {
    Change::PodGone(pod_key(pod))
}

/// A pod's identity.
pub fn pod_key(pod: &SlimPod) -> PodKey {
    let text = |text: &Option<String>| Arc::<str>::from(text.as_deref().unwrap_or_default());
    PodKey::new(text(&pod.metadata.namespace), text(&pod.metadata.name), text(&pod.metadata.uid))
}

/// A pod's place in its gang, if a Job gave it one.
pub fn member_index(pod: &SlimPod) -> Option<u32> {
    annotation(pod, COMPLETION_INDEX).or_else(|| label(pod, COMPLETION_INDEX))?.parse().ok()
}

/// What a pod asks for, whether or not it still holds it. What cannot be read counts as nothing.
pub fn pod_requests(pod: &SlimPod) -> Resources {
    effective_requests(pod, &mut Vec::new())
}

/// When a pod got its node, as the API server noted it.
pub fn bound_at(pod: &SlimPod) -> Option<Timestamp> {
    let mut conditions = pod.status.conditions.iter();
    let scheduled = conditions.find(|it| it.kind == "PodScheduled" && it.status == "True")?;
    scheduled.last_transition_time.as_ref().map(|time| time.0)
}

fn label<'a>(pod: &'a SlimPod, key: &str) -> Option<&'a str> {
    pod.metadata.labels.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

fn annotation<'a>(pod: &'a SlimPod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

/// A pod without a gang is one of its own; `/` cannot occur in a label, so it never joins someone else's.
fn gang_key(pod: &SlimPod, key: &PodKey) -> GangKey {
    let name = label(pod, names::GANG_LABEL).map_or_else(|| format!("pod/{}", key.name).into(), Arc::from);
    GangKey { namespace: key.namespace.clone(), name }
}

fn gang_size(pod: &SlimPod, unsupported: &mut Vec<String>) -> Option<u32> {
    let text = annotation(pod, names::GANG_SIZE_ANNOTATION)?;
    let size = text.parse().ok().filter(|size| *size > 0);
    if size.is_none() {
        unsupported.push(format!(
            "annotation {} is {}, not a number from 1",
            names::GANG_SIZE_ANNOTATION,
            quoted(text)
        ));
    }
    size
}

/// Fields that ask for something a scheduler must honour, and we do not yet.
fn asks_beyond_us(pod: &SlimPod) -> Vec<String> {
    let spec = &pod.spec;
    let affinity = spec.affinity;
    let host_ports: usize = spec.containers.iter().chain(&spec.init_containers).map(|it| it.host_ports).sum();
    let fields = [
        (affinity.node_affinity, "spec.affinity.nodeAffinity"),
        (affinity.pod_affinity, "spec.affinity.podAffinity"),
        (affinity.pod_anti_affinity, "spec.affinity.podAntiAffinity"),
        (spec.hard_spread_constraints > 0, "spec.topologySpreadConstraints"),
        (host_ports > 0, "spec.containers[].ports[].hostPort"),
        (spec.resource_claims > 0, "spec.resourceClaims"),
        (spec.scheduling_group, "spec.schedulingGroup"),
    ];
    let fields = fields.into_iter().filter(|(asked, _)| *asked).map(|(_, field)| field.to_owned());
    fields.chain(spec.placed_volumes.iter().map(|kind| format!("spec.volumes[].{}", quoted(kind)))).collect()
}

/// What the pod holds at the most at any moment of its life, as Kubernetes reckons it: containers and sidecars
/// together, or one init container beside the sidecars that started before it; plus the runtime's overhead.
fn effective_requests(pod: &SlimPod, unsupported: &mut Vec<String>) -> Resources {
    let mut running = Resources::default();
    for container in &pod.spec.containers {
        running += container_requests(container, unsupported);
    }
    let mut sidecars = Resources::default();
    let mut starting = Resources::default();
    for container in &pod.spec.init_containers {
        let requests = container_requests(container, unsupported);
        if container.restart_policy.as_deref() == Some("Always") {
            running += requests;
            sidecars += requests;
            starting = max(starting, sidecars);
        } else {
            starting = max(starting, requests + sidecars);
        }
    }
    let mut total = max(running, starting);
    let whole_pod = amounts(&requested(&pod.spec.resources), "spec.resources", unsupported);
    if let Some(cpu_millis) = whole_pod.cpu_millis {
        total.cpu_millis = cpu_millis;
    }
    if let Some(memory_bytes) = whole_pod.memory_bytes {
        total.memory_bytes = memory_bytes;
    }
    let overhead = pod.spec.overhead.iter().map(|(name, amount)| (name.as_str(), amount.as_str())).collect();
    total += amounts(&overhead, "spec.overhead", unsupported).into();
    Resources {
        gpus: total.gpus.min(AMOUNT_MAX),
        cpu_millis: total.cpu_millis.min(AMOUNT_MAX),
        memory_bytes: total.memory_bytes.min(AMOUNT_MAX),
        pods: 1,
    }
}

fn container_requests(container: &SlimContainer, unsupported: &mut Vec<String>) -> Resources {
    amounts(&requested(&container.resources), &format!("container {}", container.name), unsupported).into()
}

/// A limit is a request where no request is written.
fn requested(resources: &SlimResources) -> BTreeMap<&str, &str> {
    let pairs = resources.limits.iter().chain(&resources.requests);
    pairs.map(|(name, amount)| (name.as_str(), amount.as_str())).collect()
}

#[derive(Default)]
struct Asked {
    gpus: Option<i64>,
    cpu_millis: Option<i64>,
    memory_bytes: Option<i64>,
}

impl From<Asked> for Resources {
    fn from(asked: Asked) -> Self {
        Self {
            gpus: asked.gpus.unwrap_or(0),
            cpu_millis: asked.cpu_millis.unwrap_or(0),
            memory_bytes: asked.memory_bytes.unwrap_or(0),
            pods: 0,
        }
    }
}

fn amounts(asked: &BTreeMap<&str, &str>, place: &str, unsupported: &mut Vec<String>) -> Asked {
    let mut amounts = Asked::default();
    for (&name, &text) in asked {
        let amount = if name == "cpu" { quantity::millis(text) } else { quantity::units(text) };
        match (name, amount) {
            (_, Err(_)) => unsupported.push(format!("{place}: {} of {}", quoted(text), quoted(name))),
            ("cpu", Ok(amount)) => amounts.cpu_millis = Some(amount),
            ("memory", Ok(amount)) => amounts.memory_bytes = Some(amount),
            (names::GPU_RESOURCE, Ok(amount)) => amounts.gpus = Some(amount),
            (_, Ok(0)) => {}
            (_, Ok(_)) => unsupported.push(format!("{place}: resource {}", quoted(name))),
        }
    }
    amounts
}

fn max(one: Resources, other: Resources) -> Resources {
    Resources {
        gpus: one.gpus.max(other.gpus),
        cpu_millis: one.cpu_millis.max(other.cpu_millis),
        memory_bytes: one.memory_bytes.max(other.memory_bytes),
        pods: one.pods.max(other.pods),
    }
}

/// A toleration whose operator or effect we do not know tolerates nothing.
fn toleration(slim: &SlimToleration) -> Option<Toleration> {
    let given = |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Arc::<str>::from);
    let value = match slim.operator.as_deref() {
        Some("Exists") => None,
        None | Some("" | "Equal") => Some(given(&slim.value).unwrap_or_default()),
        Some(_) => return None,
    };
    let effect = match slim.effect.as_deref() {
        None | Some("") => None,
        Some(effect) => Some(taint_effect(effect)?),
    };
    Some(Toleration { key: given(&slim.key), value, effect })
}

pub(crate) fn taint_effect(effect: &str) -> Option<TaintEffect> {
    match effect {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_MAX).collect()
}
