//! Whether, and how often, members of a shape fit on nodes of a class.

use std::sync::Arc;

use cluster_model::{
    ClusterState, DeviceAsk, DevicePart, DeviceState, DeviceUse, NodeClass, NodeState, Resources, Taint,
};

use super::mig;
use crate::gang::Shape;

/// Why a class is not taken, whatever is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Cordon,
    Taint,
    Selector,
    Affinity,
    Features,
    Spot,
    /// Parts of devices are given only where devices are known one by one.
    Counted,
}

/// Whether nodes of the class take members of the shape at all; else why not.
pub(super) fn takes(state: &ClusterState, class: &NodeClass, shape: &Shape) -> Result<(), Refused> {
    let mut untolerated =
        class.kind().taints.iter().filter(|taint| !taint.tolerated_by(&shape.tolerations)).peekable();
    if untolerated.peek().is_some() {
        return Err(if untolerated.any(Taint::is_cordon) { Refused::Cordon } else { Refused::Taint });
    }
    let labels = &class.kind().labels;
    // A label that is not kept with the class, because almost every node has another value, is checked node by node.
    let has =
        |key: &str, value| labels.get(key).map_or(!state.label_splits_kinds(key), |label| label == value);
    if !shape.node_selector.iter().all(|(key, value)| has(key, value)) {
        return Err(Refused::Selector);
    }
    if let Some(affinity) = &shape.node_affinity
        && !affinity.might_admit(labels, |key| state.label_splits_kinds(key))
    {
        return Err(Refused::Affinity);
    }
    if !class.kind().features.contain(shape.node_features) {
        return Err(Refused::Features);
    }
    if class.kind().spot && !shape.takes_spot {
        return Err(Refused::Spot);
    }
    if !class.kind().exact && shape.device != DeviceAsk::Whole {
        return Err(Refused::Counted);
    }
    Ok(())
}

/// How many members one node of the class takes; none if it does not take them at all.
pub(super) fn times_taken(state: &ClusterState, class: &NodeClass, shape: &Shape) -> i64 {
    let has_type = !shape.uses_gpus() || class.kind().gpu_type.is_some();
    if has_type && takes(state, class, shape).is_ok() { times(class, shape).max(0) } else { 0 }
}

/// How many members fit on one node of the class.
pub(super) fn times(class: &NodeClass, shape: &Shape) -> i64 {
    let counted = times_counted(&shape.requests, &class.free()).min(times_by_extras(class, shape));
    if !class.kind().exact || !shape.uses_gpus() {
        return counted;
    }
    counted.min(times_devices(class, shape))
}

/// How many members fit by other resources and ports alone.
fn times_by_extras(class: &NodeClass, shape: &Shape) -> i64 {
    if !shape.has_extras() {
        return i64::MAX;
    }
    let extras = class.extras();
    if extras.is_some_and(|extras| !extras.are_free(&shape.host_ports)) {
        return 0;
    }
    shape.times_by_others(|name| extras.map_or(0, |extras| extras.free_of(name)))
}

/// What else is in the way of one more member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShortOf {
    /// A port is taken.
    Ports,
    /// Too little of a resource is free.
    Other(Arc<str>),
}

/// What else keeps one more member off a node of the class that has taken `times` of them.
pub(super) fn short_of(class: &NodeClass, shape: &Shape, times: i64) -> Option<ShortOf> {
    let extras = class.extras();
    let taken = times > 0 || extras.is_some_and(|extras| !extras.are_free(&shape.host_ports));
    if !shape.host_ports.is_empty() && taken {
        return Some(ShortOf::Ports);
    }
    let free = |name: &str| extras.map_or(0, |extras| extras.free_of(name));
    let mut asked = shape.other_requests.iter();
    let short = asked.find(|(name, asked)| free(name).saturating_sub(asked.saturating_mul(times)) < *asked);
    short.map(|(name, _)| ShortOf::Other(name.clone()))
}

/// How often `requests` fits into `free`, by count.
pub(crate) fn times_counted(requests: &Resources, free: &Resources) -> i64 {
    let pairs = [
        (requests.gpus, free.gpus),
        (requests.cpu_millis, free.cpu_millis),
        (requests.memory_bytes, free.memory_bytes),
        (requests.pods, free.pods),
    ];
    let asked = pairs.into_iter().filter(|(asked, _)| *asked > 0);
    asked.map(|(asked, free)| (free / asked).max(0)).min().unwrap_or(i64::MAX)
}

/// How often the devices of an Exact node suffice. If members ask for whole devices and a part of one as well, each
/// part but one is assumed to need a device of its own: perhaps too few, never too many.
fn times_devices(class: &NodeClass, shape: &Shape) -> i64 {
    let unused = count(class.devices().iter().filter(|device| device.is_free()));
    let parts: i64 = class.devices().iter().map(|device| parts_in(*device, shape.device)).sum();
    match (shape.requests.gpus, shape.device) {
        (0, DeviceAsk::Whole) => i64::MAX,
        (gpus, DeviceAsk::Whole) => unused / gpus,
        (0, _) => parts,
        (gpus, _) => {
            let in_used = parts - unused * parts_in(DeviceState::FREE, shape.device);
            (unused / (gpus + 1)).max(i64::from(unused >= gpus && in_used > 0))
        }
    }
}

/// How many members get their part from one device.
pub(super) fn parts_in(device: DeviceState, ask: DeviceAsk) -> i64 {
    match ask {
        DeviceAsk::Whole => 0,
        DeviceAsk::Share { millis } => i64::from(device.millis_free / millis.max(1)),
        DeviceAsk::Mig { profile } => mig::fit(device, profile),
    }
}

/// What a device offers to others, in thousandths: to be shared, or a slice being an eighth.
pub(super) fn millis_free(device: DeviceState) -> u16 {
    let in_slices = u16::try_from(device.slices_used.count_zeros()).unwrap_or(0) * 125;
    device.millis_free.max(in_slices)
}

/// The devices of an Exact node that a member gets: the part from a device with this many thousandths free, whole
/// ones from the rest, the first that suit. `None` if they do not suffice.
pub(super) fn devices(node: &NodeState, shape: &Shape, level: u16) -> Option<Vec<DeviceUse>> {
    if !node.object().is_some_and(|object| object.exact) || !shape.uses_gpus() {
        return Some(Vec::new());
    }
    let mut uses = Vec::new();
    let states = || (0u8..).zip(node.devices().iter().copied());
    if shape.device != DeviceAsk::Whole {
        let suits = |device: DeviceState| parts_in(device, shape.device) > 0;
        let (index, device) = states()
            .find(|(_, device)| suits(*device) && millis_free(*device) == level)
            .or_else(|| states().find(|(_, device)| suits(*device)))?;
        let part = match shape.device {
            DeviceAsk::Share { millis } => DevicePart::Millis(millis),
            DeviceAsk::Mig { profile } => DevicePart::Mig { profile, start: mig::start(device, profile)? },
            DeviceAsk::Whole => return None,
        };
        uses.push(DeviceUse { device: index, part });
    }
    let taken = uses.first().map(|part| part.device);
    let unused = states().filter(|(index, device)| device.is_free() && Some(*index) != taken);
    let gpus = usize::try_from(shape.requests.gpus).ok()?;
    let whole = unused.take(gpus).map(|(device, _)| DeviceUse { device, part: DevicePart::Whole });
    uses.extend(whole);
    (uses.len() == gpus + usize::from(taken.is_some())).then_some(uses)
}

fn count<T>(items: impl Iterator<Item = T>) -> i64 {
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}

/// Whether nodes of the class take members, whatever is free and whichever way their devices are known.
pub(crate) fn would_take(state: &ClusterState, class: &NodeClass, shape: &Shape) -> bool {
    matches!(takes(state, class, shape), Ok(()) | Err(Refused::Counted))
}

/// How many members that ask for whole GPUs fit by GPUs alone.
pub(super) fn times_of_whole(class: &NodeClass, gpus: &Resources) -> i64 {
    let counted = times_counted(gpus, &class.free());
    if !class.kind().exact || gpus.gpus <= 0 {
        return counted;
    }
    counted.min(count(class.devices().iter().filter(|device| device.is_free())) / gpus.gpus)
}
