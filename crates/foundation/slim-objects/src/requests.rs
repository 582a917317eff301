//! What a pod holds, as Kubernetes counts it for a scheduler.
//!
//! ```text
//!   containers + sidecars ──────────────────────────┐
//!   one init container and the sidecars before it ──┴─► the larger, by resource ──► the pod's own amounts replace it
//!                                                                                   └─► + overhead
//! ```
//!
//! On a node a container counts with the most of what it asks for, was granted and has: a resize counts until it is
//! done. Sums are exact and rounded up once, at the end, because that is how Kubernetes does it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::names;

use crate::local::SlimResources;
use crate::pod::{SlimContainer, SlimContainerStatus, SlimPod};
use crate::quantity;

/// The most of anything that one pod or node counts for: 2^45 is 32 TiB. Sums over 2^18 of them fit in an i64.
pub const AMOUNT_MAX: i64 = 1 << 45;
/// The most of another resource that one pod or node counts for. Sums are wider, so that it need not be less.
const OTHER_MAX: i64 = 1 << 60;
/// How much of a user's text is repeated in a reason, in characters.
const QUOTED_MAX: usize = 40;

/// What a pod asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// GPUs.
    pub gpus: i64,
    /// Thousandths of a CPU.
    pub cpu_millis: i64,
    /// Bytes of memory.
    pub memory_bytes: i64,
    /// Other resources that a scheduler looks at, by name.
    pub other: Vec<(Arc<str>, i64)>,
}

/// Amounts in billionths, by resource. An entry of zero is a request, and a missing entry is not.
type Exact<'a> = BTreeMap<&'a str, i128>;

/// What a pod holds on its node, or would hold on one. Amounts that cannot be read count as nothing, and are named in
/// `unsupported`.
pub fn held(pod: &SlimPod, unsupported: &mut Vec<String>) -> Requests {
    let is_placed = pod.spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
    in_all(&Reader { pod, looks_at_status: is_placed }.total(unsupported))
}

/// What a pod asks for, whether or not it still holds it. Amounts that cannot be read count as nothing.
pub fn pod_requests(pod: &SlimPod) -> Requests {
    in_all(&Reader { pod, looks_at_status: false }.total(&mut Vec::new()))
}

/// The other resources of a node. Amounts that cannot be read are left out.
pub fn other_allocatable(allocatable: &BTreeMap<String, String>) -> Vec<(Arc<str>, i64)> {
    let others = allocatable.iter().filter(|(name, _)| is_other(name));
    others.map(|(name, text)| other(name, quantity::nanos(text).unwrap_or(0))).collect()
}

struct Reader<'a> {
    pod: &'a SlimPod,
    /// Whether a resize that is under way counts.
    looks_at_status: bool,
}

impl<'a> Reader<'a> {
    fn total(&self, unsupported: &mut Vec<String>) -> Exact<'a> {
        let mut total = self.containers(unsupported);
        for (name, amount) in self.whole_pod(&total, unsupported) {
            total.insert(name, amount);
        }
        let overhead = read(&self.pod.spec.overhead, "spec.overhead", unsupported);
        add(&mut total, &overhead);
        total
    }

    /// Containers and sidecars together, or one init container with the sidecars that started before it.
    fn containers(&self, unsupported: &mut Vec<String>) -> Exact<'a> {
        let (mut running, mut sidecars, mut starting) = (Exact::new(), Exact::new(), Exact::new());
        for container in &self.pod.spec.containers {
            let held = self.container(container, &self.pod.status.container_statuses, unsupported);
            add(&mut running, &held);
        }
        for container in &self.pod.spec.init_containers {
            if container.is_sidecar() {
                let statuses = &self.pod.status.init_container_statuses;
                let held = self.container(container, statuses, unsupported);
                add(&mut running, &held);
                add(&mut sidecars, &held);
                raise(&mut starting, &sidecars);
            } else {
                let mut held = self.container(container, &[], unsupported);
                add(&mut held, &sidecars);
                raise(&mut starting, &held);
            }
        }
        raise(&mut running, &starting);
        running
    }

    fn container(
        &self,
        container: &'a SlimContainer,
        statuses: &'a [SlimContainerStatus],
        unsupported: &mut Vec<String>,
    ) -> Exact<'a> {
        let place = format!("container {}", container.name);
        let asked = requested(&container.resources, &place, unsupported);
        let status = statuses.iter().rfind(|status| status.name == container.name);
        let Some(status) = status.filter(|_| self.looks_at_status) else { return asked };
        let Some(has) = &status.resources else { return asked };
        self.resized(asked, &has.requests, &status.allocated_resources)
    }

    /// The pod's own amounts, if it has any: then they count, whatever its containers ask for.
    fn whole_pod(&self, containers: &Exact<'a>, unsupported: &mut Vec<String>) -> Exact<'a> {
        let Self { pod, .. } = self;
        let mut asked = read(&pod.spec.resources.requests, "spec.resources", unsupported);
        // The API server has done this for every pod that it admitted.
        for (name, amount) in read(&pod.spec.resources.limits, "spec.resources", unsupported) {
            if is_huge_pages(name) || !containers.contains_key(name) {
                asked.entry(name).or_insert(amount);
            }
        }
        asked.retain(|name, _| matches!(*name, "cpu" | "memory") || is_huge_pages(name));
        let Some(has) = pod.status.resources.as_ref().filter(|_| self.looks_at_status) else { return asked };
        let held = self.resized(asked.clone(), &has.requests, &pod.status.allocated_resources);
        asked.into_keys().map(|name| (name, held.get(name).copied().unwrap_or(0))).collect()
    }

    /// The most of what is asked for, what it has and what was granted. A resize that the node cannot do does not
    /// count.
    fn resized(
        &self,
        asked: Exact<'a>,
        has: &'a BTreeMap<String, String>,
        granted: &'a BTreeMap<String, String>,
    ) -> Exact<'a> {
        let mut pending = self.pod.status.conditions.iter().filter(|it| it.kind == "PodResizePending");
        let infeasible = pending.next().is_some_and(|it| it.reason.as_deref() == Some("Infeasible"));
        let mut most = if infeasible { Exact::new() } else { asked };
        // A kubelet's report can be read. If it cannot, that is no reason to keep the pod back.
        raise(&mut most, &read(has, "", &mut Vec::new()));
        raise(&mut most, &read(granted, "", &mut Vec::new()));
        most
    }
}

/// Without a request, the limit is the request.
fn requested<'a>(resources: &'a SlimResources, place: &str, unsupported: &mut Vec<String>) -> Exact<'a> {
    let mut amounts = read(&resources.limits, place, unsupported);
    amounts.extend(read(&resources.requests, place, unsupported));
    amounts
}

fn read<'a>(amounts: &'a BTreeMap<String, String>, place: &str, unsupported: &mut Vec<String>) -> Exact<'a> {
    let mut exact = Exact::new();
    for (name, text) in amounts {
        match quantity::nanos(text) {
            Ok(amount) => {
                exact.insert(name.as_str(), amount);
            }
            Err(_) => unsupported.push(format!("{place}: {} of {}", quoted(text), quoted(name))),
        }
    }
    exact
}

fn add<'a>(sum: &mut Exact<'a>, more: &Exact<'a>) {
    for (name, amount) in more {
        *sum.entry(name).or_default() += amount;
    }
}

fn raise<'a>(most: &mut Exact<'a>, other: &Exact<'a>) {
    for (name, amount) in other {
        let known = most.entry(name).or_insert(*amount);
        *known = (*known).max(*amount);
    }
}

fn in_all(total: &Exact<'_>) -> Requests {
    let amount = |name: &str, unit: i128| bounded(total.get(name).copied().unwrap_or(0), unit, AMOUNT_MAX);
    let others = total.iter().filter(|(name, _)| is_other(name));
    Requests {
        gpus: amount(names::GPU_RESOURCE, quantity::NANOS),
        cpu_millis: amount("cpu", quantity::NANOS / 1000),
        memory_bytes: amount("memory", quantity::NANOS),
        other: others.map(|(name, amount)| other(name, *amount)).collect(),
    }
}

fn other(name: &str, nanos: i128) -> (Arc<str>, i64) {
    (name.into(), bounded(nanos, quantity::NANOS, OTHER_MAX))
}

/// Rounded up to whole units.
fn bounded(nanos: i128, unit: i128, max: i64) -> i64 {
    let units = nanos / unit + i128::from(nanos % unit > 0);
    i64::try_from(units).map_or(max, |units| units.min(max))
}

/// Whether a scheduler looks at a resource that is not one of ours: scratch space, huge pages, volumes, and names
/// with a domain. Others do not matter on a node.
fn is_other(name: &str) -> bool {
    name != names::GPU_RESOURCE
        && (name == "ephemeral-storage"
            || is_huge_pages(name)
            || name.starts_with("attachable-volumes-")
            || name.contains("kubernetes.io/")
            || name.contains('/') && !name.starts_with("requests."))
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// The beginning of a user's text, short enough for a reason.
pub fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_MAX).collect()
}
