//! Why members that are alike find no nodes: counted by classes. Only what classes do not say is checked node by
//! node.

use cluster_model::plan::{Refusals, WaitReason};
use cluster_model::{ClusterState, DeviceAsk, GpuType, NodeClass, Resources};

use super::fit::{self, Refused, ShortOf};
use super::rules::{Rules, local, near};
use crate::gang::{Group, Shape};

/// Every reason that holds in the cluster as a whole, with its numbers; never empty.
pub(super) fn shortage(
    state: &ClusterState,
    group: &Group,
    gpu_type: Option<&GpuType>,
    rules: &Rules,
) -> Vec<WaitReason> {
    let shape = &*group.shape;
    let gpu_type = gpu_type.filter(|_| shape.uses_gpus());
    let classes = || {
        state.classes().filter(|(_, class)| gpu_type.is_none() || class.kind().gpu_type.as_ref() == gpu_type)
    };
    if let Some(gpu_type) = gpu_type {
        let largest = classes().map(|(_, class)| class.kind().allocatable.gpus).max();
        if let Some(reason) = impossible(gpu_type, largest, shape.requests.gpus) {
            return vec![reason];
        }
    }
    let mut count = Count::default();
    let is_decided = local::is_decided(state, &shape.node_selector, shape.node_affinity.as_deref());
    for (_, class) in classes() {
        count.add(state, class, shape, is_decided);
    }
    let members_asked = bounded(i64::try_from(group.members.len()).unwrap_or(i64::MAX));
    let mut reasons = count.reasons(shape, gpu_type, members_asked);
    if count.fit >= i64::from(members_asked) {
        // By count there is room, so other pods are in the way.
        let even = rules.skew_max().map(|skew_max| WaitReason::CannotSpread { members_asked, skew_max });
        reasons.extend(near::reason(state, group, gpu_type).or(even));
    }
    reasons
}

fn impossible(gpu_type: &GpuType, largest: Option<i64>, asks: i64) -> Option<WaitReason> {
    let gpu_type = gpu_type.clone();
    match largest {
        None => Some(WaitReason::NoSuchGpuType { gpu_type: Some(gpu_type) }),
        Some(largest) if largest < asks => Some(WaitReason::TooLargeForAnyNode { gpu_type, asks, largest }),
        Some(_) => None,
    }
}

#[derive(Default)]
struct Count {
    /// Members that fit.
    fit: i64,
    /// How many more members would fit if only GPUs counted (or CPU, for members without GPUs).
    fit_otherwise: i64,
    refusals: Refusals,
    gpus_free: i64,
}

impl Count {
    /// `is_decided` says whether classes know all labels that members look at.
    fn add(&mut self, state: &ClusterState, class: &NodeClass, shape: &Shape, is_decided: bool) {
        let nodes = i64::try_from(class.len()).unwrap_or(i64::MAX);
        self.gpus_free = self.gpus_free.saturating_add(class.free().gpus.max(0).saturating_mul(nodes));
        let by_leading = by_leading(class, shape);
        if by_leading == 0 {
            return;
        }
        let taken = fit::takes(state, class, shape);
        let mut nodes = nodes;
        if taken.is_ok() && !is_decided {
            let unselected = self.refuse_unselected(state, class, shape);
            self.fit_otherwise = self.fit_otherwise.saturating_add(by_leading.saturating_mul(unselected));
            nodes -= unselected;
        }
        if nodes == 0 {
            return;
        }
        let fit = if taken.is_ok() { fit::times(class, shape) } else { 0 };
        self.fit = self.fit.saturating_add(fit.saturating_mul(nodes));
        if fit < by_leading {
            self.fit_otherwise = self.fit_otherwise.saturating_add((by_leading - fit).saturating_mul(nodes));
            let left = left_over(&class.free(), &shape.requests, fit);
            let short = fit::short_of(class, shape, fit);
            *refusal(&mut self.refusals, taken.err(), &shape.requests, &left, short) += bounded(nodes);
        }
    }

    /// Counts the nodes of a class that lack the labels, or the name, that are asked for.
    fn refuse_unselected(&mut self, state: &ClusterState, class: &NodeClass, shape: &Shape) -> i64 {
        let nodes = class.nodes().filter_map(|node| state.node(node).object());
        let mut unselected = 0;
        for node in nodes.filter(|node| !shape.selects(node)) {
            let has_labels =
                shape.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
            let refusals = &mut self.refusals;
            *(if has_labels { &mut refusals.node_affinity } else { &mut refusals.node_selector }) += 1;
            unselected += 1;
        }
        unselected
    }

    fn reasons(&self, shape: &Shape, gpu_type: Option<&GpuType>, members_asked: u32) -> Vec<WaitReason> {
        let members_that_fit = bounded(self.fit.min(i64::from(members_asked)));
        let is_short =
            i64::from(members_that_fit).saturating_add(self.fit_otherwise) < i64::from(members_asked);
        let mut reasons = Vec::new();
        if is_short {
            reasons.push(self.short(shape, gpu_type, members_asked, members_that_fit));
        }
        if self.refusals.total() > 0 {
            let (gpu_type, refusals) = (gpu_type.cloned(), self.refusals.clone());
            reasons.push(WaitReason::NodesRefused { gpu_type, members_asked, members_that_fit, refusals });
        }
        reasons
    }

    fn short(
        &self,
        shape: &Shape,
        gpu_type: Option<&GpuType>,
        members_asked: u32,
        members_that_fit: u32,
    ) -> WaitReason {
        match gpu_type {
            Some(gpu_type) if shape.device != DeviceAsk::Whole => WaitReason::NoDeviceWithRoom {
                gpu_type: gpu_type.clone(),
                members_asked,
                device: shape.device,
                members_that_fit,
            },
            Some(gpu_type) => WaitReason::NotEnoughGpus {
                gpu_type: gpu_type.clone(),
                members_asked,
                gpus_each: shape.requests.gpus,
                members_that_fit,
                gpus_free: self.gpus_free,
            },
            None => {
                let cpu_millis_each = shape.requests.cpu_millis;
                WaitReason::NotEnoughCpu { members_asked, cpu_millis_each, members_that_fit }
            }
        }
    }
}

/// How many members would fit by the resource that leads the search alone.
fn by_leading(class: &NodeClass, shape: &Shape) -> i64 {
    let requests = shape.requests;
    if shape.device != DeviceAsk::Whole && !class.kind().exact {
        return class.free().gpus.max(0);
    }
    if shape.device != DeviceAsk::Whole {
        let only_devices = Resources { gpus: requests.gpus, ..Resources::default() };
        return fit::times(class, &Shape { requests: only_devices, ..shape.clone() });
    }
    let leading = match requests {
        Resources { gpus, .. } if gpus > 0 => {
            let only_gpus = Resources { gpus, ..Resources::default() };
            return fit::times_of_whole(class, &only_gpus);
        }
        Resources { cpu_millis, .. } if cpu_millis > 0 => Resources { cpu_millis, ..Resources::default() },
        Resources { pods, .. } => Resources { pods, ..Resources::default() },
    };
    fit::times_counted(&leading, &class.free())
}

fn refusal<'a>(
    refusals: &'a mut Refusals,
    refused: Option<Refused>,
    requests: &Resources,
    free: &Resources,
    extras: Option<ShortOf>,
) -> &'a mut u32 {
    let short = |asked: i64, free: i64| asked > 0 && free < asked;
    match refused {
        Some(Refused::Cordon) => &mut refusals.cordoned,
        Some(Refused::Taint) => &mut refusals.taint,
        Some(Refused::Selector) => &mut refusals.node_selector,
        Some(Refused::Affinity) => &mut refusals.node_affinity,
        Some(Refused::Features) => &mut refusals.features,
        Some(Refused::Spot) => &mut refusals.spot,
        Some(Refused::Counted) => &mut refusals.counted,
        None if short(requests.cpu_millis, free.cpu_millis) => &mut refusals.cpu,
        None if short(requests.memory_bytes, free.memory_bytes) => &mut refusals.memory,
        None => match extras {
            Some(ShortOf::Ports) => &mut refusals.ports,
            Some(ShortOf::Other(name)) => refusals.other.entry(name).or_default(),
            None => &mut refusals.pods,
        },
    }
}

fn left_over(free: &Resources, requests: &Resources, times: i64) -> Resources {
    Resources {
        gpus: free.gpus - requests.gpus * times,
        cpu_millis: free.cpu_millis - requests.cpu_millis * times,
        memory_bytes: free.memory_bytes - requests.memory_bytes * times,
        pods: free.pods - requests.pods * times,
    }
}

fn bounded(count: i64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
