//! Reads the use of pods and nodes from the objects. Pure: an object in, a record out, always the same.
//!
//! ```text
//!   PodScheduled=True ──── first startedAt ─────────────── last finishedAt
//!         │ Starting             │ Productive                    │ certain, once the pod is over
//! ```
//!
//! A `deletionTimestamp` is a deadline and never an end.

use api_types::names;
use costing::{Attribution, End, HourlyPrice, Moment, NodeRecord, NodeShape, PodRecord, Purchase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slim_objects::{SlimContainerStatus, SlimNode, SlimPod, bound_at, gpu_type, pod_requests, quantity};

/// Conditions whose latest transition is the end of a pod, if its containers do not show it.
const LAST_WORDS: [&str; 4] = ["DisruptionTarget", "Ready", "ContainersReady", "PodScheduled"];

/// The highest price that a machine can have, as in price sheets: a million per hour.
const PRICE_MICROS_MAX: i64 = 1_000_000 * 1_000_000;

/// A pod's use, once it has a node and the time at which it got the node; until then it uses nothing.
pub fn pod_record(pod: &SlimPod) -> Option<PodRecord> {
    let metadata = &pod.metadata;
    let node = pod.spec.node_name.clone().filter(|node| !node.is_empty())?;
    let started = pod.status.start_time.as_ref().map(|time| time.0);
    let scheduled_at = Moment::of(bound_at(pod).or(started)?);
    let held = pod_requests(pod);
    let Attribution { run, attempt, queue, user, .. } = attribution(pod);
    Some(PodRecord {
        uid: metadata.uid.clone()?,
        namespace: metadata.namespace.clone()?,
        name: metadata.name.clone()?,
        node,
        run,
        attempt,
        queue,
        user,
        gpus: u32::try_from(held.gpus).unwrap_or(u32::MAX),
        cpu_millis: held.cpu_millis,
        scheduled_at,
        started_at: first_start(pod).map(|at| at.max(scheduled_at)),
        ended: end(pod, scheduled_at),
        // Read from its Run: see `super::lost`.
        lost_from: None,
    })
}

/// Who is charged for a pod's use, by its own labels.
pub fn attribution(pod: &SlimPod) -> Attribution {
    let metadata = &pod.metadata;
    let label = |name: &str| text(metadata.labels.as_ref()?.get(name));
    let said = |value: Option<String>| value.filter(|_| is_ours(pod));
    Attribution {
        namespace: metadata.namespace.clone(),
        pod: metadata.name.clone(),
        run: said(label(names::RUN_LABEL)),
        attempt: said(label(names::ATTEMPT_LABEL)).and_then(|attempt| attempt.parse().ok()),
        queue: said(label(names::QUEUE_LABEL)),
        user: said(metadata.annotations.as_ref().and_then(|it| text(it.get(names::SUBMITTED_BY_ANNOTATION)))),
    }
}

/// Whether a pod's labels are trusted. Only pods that our scheduler places certainly may use the queue that
/// they name, and only their labels are fixed (`deploy/pod-labels.yaml`). Labels of other pods charge nobody.
pub fn is_ours(pod: &SlimPod) -> bool {
    pod.spec.scheduler_name.as_deref() == Some(names::SCHEDULER_NAME)
}

/// Whether our finalizer is on it.
pub fn is_held(pod: &SlimPod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == names::METERING_FINALIZER)
}

/// Whether a pod costs nothing from now on: it is over, or it was deleted before it had a node and so never
/// gets one.
pub fn is_over(pod: &SlimPod) -> bool {
    let placed = pod.spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
    let deleted = pod.metadata.deletion_timestamp.is_some();
    let phase_is_final = matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"));
    phase_is_final || (deleted && (!placed || all_terminated(pod)))
}

/// A node's record, as the node looks now.
pub fn node_record(node: &SlimNode) -> Option<NodeRecord> {
    let created_at = Moment::of(node.metadata.creation_timestamp.as_ref()?.0);
    Some(NodeRecord {
        uid: node.metadata.uid.clone()?,
        name: node.metadata.name.clone()?,
        created_at,
        shapes: vec![(created_at, shape(node))],
        ended: None,
        bought: purchase(node),
    })
}

/// The price at which a node was bought, if we bought it: Karpenter copies the claim's annotations to the Node.
pub fn purchase(node: &SlimNode) -> Option<Purchase> {
    let annotations = node.metadata.annotations.as_ref()?;
    Some(Purchase {
        paid: price(annotations.get(names::PRICE_ANNOTATION))?,
        on_demand: price(annotations.get(names::ON_DEMAND_PRICE_ANNOTATION)),
        // Read from its claim: see `super::machine`.
        start: None,
    })
}

/// A price from an annotation, in millionths per hour. An impossible price counts as none, and the price sheets
/// apply.
pub fn price(text: Option<&String>) -> Option<HourlyPrice> {
    text?.parse().ok().filter(|micros| (0..=PRICE_MICROS_MAX).contains(micros)).map(HourlyPrice)
}

/// The shape that a node's price depends on: its capacity, not what pods may use, because a GPU that fails is
/// still paid for.
pub fn shape(node: &SlimNode) -> NodeShape {
    let label = |name: &str| text(node.metadata.labels.as_ref()?.get(name));
    let has = |name: &str| {
        let status = &node.status;
        status.capacity.get(name).or_else(|| status.allocatable.get(name)).map_or("0", String::as_str)
    };
    let gpus = quantity::units(has(names::GPU_RESOURCE)).unwrap_or(0);
    NodeShape {
        instance_type: label(names::INSTANCE_TYPE_NODE_LABEL),
        capacity_type: label(names::CAPACITY_TYPE_NODE_LABEL)
            .unwrap_or_else(|| names::ON_PREMISES.to_owned()),
        gpu_type: gpu_type(node).map(|name| name.to_string()),
        gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
        cpu_millis: quantity::millis(has("cpu")).unwrap_or(0),
    }
}

/// Whether all containers have ended. For a deleted pod that is final, because the kubelet restarts none of
/// them; in another pod a crashed container is restarted.
fn all_terminated(pod: &SlimPod) -> bool {
    let expected = pod.spec.containers.len();
    let main = &pod.status.container_statuses;
    let ended = |status: &SlimContainerStatus| status.state.terminated.is_some();
    let goes_on = |status: &SlimContainerStatus| status.state.running.is_some();
    !main.is_empty()
        && main.len() >= expected
        && main.iter().all(ended)
        && !pod.status.init_container_statuses.iter().any(goes_on)
}

fn first_start(pod: &SlimPod) -> Option<Moment> {
    let states = pod.status.container_statuses.iter().flat_map(|status| [&status.last_state, &status.state]);
    let times = states.flat_map(|state| {
        let running = state.running.as_ref().and_then(|it| it.started_at.as_ref());
        let terminated = state.terminated.as_ref().and_then(|it| it.started_at.as_ref());
        [running, terminated]
    });
    times.flatten().filter_map(moment).min()
}

/// The end that the object itself shows. If a pod is over but one of its containers is not known to have ended
/// (its node is gone, or it never started), the last transition is the end.
fn end(pod: &SlimPod, scheduled_at: Moment) -> Option<End> {
    if !is_over(pod) {
        return None;
    }
    let statuses = || pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let finished = statuses().filter_map(|status| status.state.terminated.as_ref()?.finished_at.as_ref());
    let last_finish = finished.filter_map(moment).max();
    let told = statuses().next().is_some() && statuses().all(|status| status.state.running.is_none());
    let end = match last_finish {
        Some(finish) if told => finish,
        finish => {
            let conditions = pod.status.conditions.iter().filter(|it| LAST_WORDS.contains(&it.kind.as_str()));
            let last = conditions.filter_map(|it| moment(it.last_transition_time.as_ref()?)).max();
            last.max(finish).unwrap_or(scheduled_at)
        }
    };
    Some(End::Certain(end.max(scheduled_at)))
}

/// A kubelet that does not know a time writes none, or the first second of 1970.
fn moment(time: &Time) -> Option<Moment> {
    Some(Moment::of(time.0)).filter(|at| at.0 > 0)
}

/// A label or annotation, if it is not empty. JSON text may contain NUL; PostgreSQL's cannot.
pub(super) fn text(value: Option<&String>) -> Option<String> {
    value.map(|value| value.replace('\0', "")).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests;
