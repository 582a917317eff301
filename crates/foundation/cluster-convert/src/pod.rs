//! Pods: what they ask for, whose they are, and what we cannot honour yet.

use std::sync::Arc;

use api_types::names;
use cluster_model::{
    ClusterChange, GangKey, HostPort, HostPorts, Pod, PodKey, Resources, TaintEffect, Toleration,
};
use jiff::Timestamp;
use slim_objects::requests::{self, Requests, quoted};
use slim_objects::{SlimPod, SlimToleration, annotation, bound_at, label, member_index};

use crate::features;
use crate::near;
use crate::node_affinity::node_affinity;
use crate::terms::{checkpointed, terms};

/// Kubernetes' own: how long a pod may take to end if it says nothing.
const GRACE_SECONDS_DEFAULT: i64 = 30;

/// The cluster change for a pod that was seen. A pod that has ended, or that waits for another scheduler, counts as
/// gone.
pub fn pod_change(pod: &SlimPod) -> ClusterChange {
    let ended = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let ours = pod.spec.scheduler_name.as_deref() == Some(names::SCHEDULER_NAME);
    let node = pod.spec.node_name.as_deref().filter(|node| !node.is_empty());
    if ended || (!ours && node.is_none()) {
        return pod_gone(pod);
    }

    let mut unsupported = asks_beyond_us(pod);
    let neighbours = near::neighbours(pod, &mut unsupported);
    let Requests { gpus, cpu_millis, memory_bytes, other } = requests::held(pod, &mut unsupported);
    let terms = terms(pod, &mut unsupported);
    let key = pod_key(pod);
    let gang = gang_key(pod, &key);
    ClusterChange::Pod(Pod {
        gang_size: gang_size(pod, &mut unsupported),
        queue: label(pod, names::QUEUE_LABEL).map(Into::into),
        requests: Resources { gpus, cpu_millis, memory_bytes, pods: 1 },
        other_requests: other.into_iter().collect(),
        host_ports: host_ports(pod),
        gpu_types: annotation(pod, names::GPU_TYPE_ANNOTATION).map(Into::into).into_iter().collect(),
        priority: pod.spec.priority.unwrap_or(0),
        preempts: pod.spec.preemption_policy.as_deref() != Some("Never"),
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
        node_affinity: node_affinity(pod),
        node_features: features::needed(pod),
        tolerations: pod.spec.tolerations.iter().filter_map(toleration).collect(),
        unsupported,
        labels: near::pod_labels(pod),
        neighbours,
        run: label(pod, names::RUN_LABEL).map(Into::into),
        member_index: member_index(pod),
        gated: pod.spec.scheduling_gates > 0,
        comes_back: controller(pod).is_some(),
        controller: controller(pod).filter(|_| member_index(pod).is_none()).map(Arc::from),
        grace_seconds: grace_seconds(pod),
        started: bound_at(pod).filter(|_| node.is_some()),
        terms,
        checkpointed: checkpointed(pod),
        ..Pod::new(key, gang)
    })
}

/// The cluster change for a pod that was deleted.
pub fn pod_gone(pod: &SlimPod) -> ClusterChange {
    ClusterChange::PodGone(pod_key(pod))
}

/// A pod's identity.
pub fn pod_key(pod: &SlimPod) -> PodKey {
    let text = |text: &Option<String>| Arc::<str>::from(text.as_deref().unwrap_or_default());
    PodKey::new(text(&pod.metadata.namespace), text(&pod.metadata.name), text(&pod.metadata.uid))
}

/// A pod without a gang is a gang of one. No label contains `/`, so it never joins another gang.
fn gang_key(pod: &SlimPod, key: &PodKey) -> GangKey {
    let name = label(pod, names::GANG_LABEL).map_or_else(|| format!("pod/{}", key.name).into(), Arc::from);
    GangKey { namespace: key.namespace.clone(), name }
}

/// The uid of the controller that recreates it.
fn controller(pod: &SlimPod) -> Option<&str> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

fn grace_seconds(pod: &SlimPod) -> u32 {
    let given = pod.spec.termination_grace_period_seconds.unwrap_or(GRACE_SECONDS_DEFAULT);
    u32::try_from(given.max(0)).unwrap_or(u32::MAX)
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

/// Fields that ask for something that a scheduler must honour and we do not honour yet.
fn asks_beyond_us(pod: &SlimPod) -> Vec<String> {
    let spec = &pod.spec;
    let fields =
        [(spec.resource_claims > 0, "spec.resourceClaims"), (spec.scheduling_group, "spec.schedulingGroup")];
    let fields = fields.into_iter().filter(|(asked, _)| *asked).map(|(_, field)| field.to_owned());
    fields.chain(spec.placed_volumes.iter().map(|kind| format!("spec.volumes[].{}", quoted(kind)))).collect()
}

/// The ports of the host that the pod takes for as long as it runs.
fn host_ports(pod: &SlimPod) -> HostPorts {
    let sidecars = pod.spec.init_containers.iter().filter(|container| container.is_sidecar());
    let ports = pod.spec.containers.iter().chain(sidecars).flat_map(|container| &container.host_ports);
    ports.map(|it| HostPort::new(it.port, &it.protocol, &it.address)).collect()
}

/// A toleration with an unknown operator or effect tolerates nothing.
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
