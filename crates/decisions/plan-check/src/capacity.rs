//! No node holds more than it has, by count, by device and by power.

use cluster_model::policy::Policy;
use cluster_model::{DeviceAsk, DevicePart, DeviceUse, MigProfile, Node, NodeName, Pod, Resources};

use crate::facts::Facts;
use crate::local;
use crate::mig::{geometry, slices};
use crate::picture::{Occupant, Picture};
use crate::violation::Violation;

/// Nodes that hold more than they have of something that a judged pod asks for.
pub(crate) fn nodes_are_not_over<'a>(
    facts: &Facts<'a>,
    picture: &Picture<'a>,
    is_judged: &dyn Fn(&Occupant<'a>) -> bool,
    violations: &mut Vec<Violation>,
) {
    for (node, occupants) in &picture.on_node {
        let Some(object) = facts.nodes.get(node) else { continue };
        if !occupants.iter().any(is_judged) {
            continue;
        }
        counts_are_not_over(object, occupants, is_judged, violations);
        local::extras_are_not_over(object, occupants, is_judged, violations);
        if object.exact {
            devices_are_not_over(object, occupants, is_judged, violations);
        }
    }
}

fn counts_are_not_over<'a>(
    node: &Node,
    occupants: &[Occupant<'a>],
    is_judged: &dyn Fn(&Occupant<'a>) -> bool,
    violations: &mut Vec<Violation>,
) {
    let (mut asked, mut total) = (Resources::default(), Resources::default());
    for occupant in occupants {
        total += occupant.pod.requests;
        if is_judged(occupant) {
            asked += occupant.pod.requests;
        }
    }
    // A device that is used in parts is not a whole one.
    total.gpus += i64::try_from(devices_in_parts(node, occupants)).unwrap_or(i64::MAX);
    let has = node.allocatable;
    let checks = [
        ("gpus", asked.gpus, total.gpus, has.gpus),
        ("cpu", asked.cpu_millis, total.cpu_millis, has.cpu_millis),
        ("memory", asked.memory_bytes, total.memory_bytes, has.memory_bytes),
        ("pods", asked.pods, total.pods, has.pods),
    ];
    for (resource, asked, used, allocatable) in checks {
        if asked > 0 && used > allocatable {
            let node = node.name.clone();
            violations.push(Violation::NodeOver { node, resource, used, allocatable });
        }
    }
}

fn devices_are_not_over<'a>(
    node: &Node,
    occupants: &[Occupant<'a>],
    is_judged: &dyn Fn(&Occupant<'a>) -> bool,
    violations: &mut Vec<Violation>,
) {
    let devices = usize::try_from(node.allocatable.gpus).unwrap_or(0);
    for device in 0..devices {
        let parts = |occupant: &Occupant<'a>| {
            let uses = occupant.devices.iter().filter(|it| usize::from(it.device) == device);
            uses.map(|it| it.part).collect::<Vec<_>>()
        };
        let touched = occupants.iter().any(|occupant| is_judged(occupant) && !parts(occupant).is_empty());
        let all: Vec<DevicePart> = occupants.iter().flat_map(parts).collect();
        if touched && !fit_together(&all) {
            violations.push(Violation::DeviceOver { node: node.name.clone(), device });
        }
    }
}

/// Whether one device can serve all of them at once.
fn fit_together(parts: &[DevicePart]) -> bool {
    let wholes = parts.iter().filter(|part| matches!(part, DevicePart::Whole)).count();
    if wholes > 0 {
        return parts.len() == 1;
    }
    let (mut millis, mut slices_taken, mut media) = (0u32, 0u16, 0u32);
    for part in parts {
        match part {
            DevicePart::Whole => {}
            DevicePart::Millis(share) => millis += u32::from(*share),
            DevicePart::Mig { profile, start } => {
                let slices = slices(*profile, *start);
                if slices_taken & slices != 0 {
                    return false;
                }
                slices_taken |= slices;
                media += u32::from(*profile == MigProfile::G1Media);
            }
        }
    }
    millis <= 1000 && media <= 1 && (millis == 0 || slices_taken == 0)
}

/// Whether a pod got what it asks for: existing devices of an Exact node; no numbered devices of a Counted one, which
/// has no parts to give.
pub(crate) fn devices_are_as_asked(node: &Node, pod: &Pod, devices: &[DeviceUse]) -> bool {
    if !node.exact {
        return devices.is_empty() && pod.device == DeviceAsk::Whole;
    }
    let exist = devices.iter().all(|it| i64::from(it.device) < node.allocatable.gpus);
    let wholes = devices.iter().filter(|it| it.part == DevicePart::Whole).count();
    let parts: Vec<DevicePart> =
        devices.iter().map(|it| it.part).filter(|part| *part != DevicePart::Whole).collect();
    let parts_as_asked = match (pod.device, parts.as_slice()) {
        (DeviceAsk::Whole, []) => true,
        (DeviceAsk::Share { millis }, [DevicePart::Millis(got)]) => millis == *got,
        (DeviceAsk::Mig { profile }, [DevicePart::Mig { profile: got, start }]) => {
            profile == *got && geometry(profile).1.contains(start)
        }
        _ => false,
    };
    exist && parts_as_asked && i64::try_from(wholes).is_ok_and(|wholes| wholes == pod.requests.gpus)
}

/// All nodes together stay within the power cap; or, if they exceed it already, draw no more than before.
pub(crate) fn power_is_capped<'a>(
    facts: &Facts<'a>,
    picture: &Picture<'a>,
    before: &Picture<'a>,
    policy: &Policy,
    violations: &mut Vec<Violation>,
) {
    let Some(cap_watts) = policy.energy.cap_watts else { return };
    let watts = draw_of_all(facts, picture);
    if watts > cap_watts && watts > draw_of_all(facts, before) {
        violations.push(Violation::PowerOver { watts, cap_watts });
    }
}

fn draw_of_all<'a>(facts: &Facts<'a>, picture: &Picture<'a>) -> u64 {
    picture.on_node.iter().map(|(node, occupants)| draw(facts, node, occupants)).sum()
}

fn draw(facts: &Facts<'_>, node: &NodeName, occupants: &[Occupant<'_>]) -> u64 {
    let Some(object) = facts.nodes.get(node) else { return 0 };
    let Some(power) = object.power.filter(|_| !occupants.is_empty()) else { return 0 };
    u64::from(power.idle_watts) + u64::from(power.gpu_watts) * gpus_in_use(object, occupants)
}

/// Whether at most half of a node's GPUs are in use, and some are.
pub(crate) fn is_half_empty(facts: &Facts<'_>, picture: &Picture<'_>, node: &NodeName) -> bool {
    let (Some(object), Some(occupants)) = (facts.nodes.get(node), picture.on_node.get(node)) else {
        return false;
    };
    let (used, has) = (gpus_in_use(object, occupants), u64::try_from(object.allocatable.gpus).unwrap_or(0));
    used > 0 && 2 * used <= has
}

/// GPUs in use. A device that is shared is in use once.
fn gpus_in_use(node: &Node, occupants: &[Occupant<'_>]) -> u64 {
    let whole: i64 = occupants.iter().map(|occupant| occupant.pod.requests.gpus).sum();
    u64::try_from(whole).unwrap_or(0) + devices_in_parts(node, occupants)
}

/// Devices of an Exact node with a part in use.
fn devices_in_parts(node: &Node, occupants: &[Occupant<'_>]) -> u64 {
    let is_part =
        |it: &&DeviceUse| it.part != DevicePart::Whole && i64::from(it.device) < node.allocatable.gpus;
    let uses = occupants.iter().filter(|_| node.exact).flat_map(|occupant| occupant.devices);
    let mut devices: Vec<u8> = uses.filter(is_part).map(|it| it.device).collect();
    devices.sort_unstable();
    devices.dedup();
    devices.len() as u64
}
