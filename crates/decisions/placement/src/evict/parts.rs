//! Whether parts of devices fit together on one node.

use cluster_model::{ClusterState, DeviceAsk, DevicePart, DeviceUse, MigProfile, NodeId};

/// Thousandths of one device.
const MILLIS: u32 = 1000;

/// Whether a part of a device is free, given the parts in use on the same node.
pub(super) fn is_free<'a>(asked: DeviceUse, used: impl Iterator<Item = &'a DeviceUse>) -> bool {
    let mut millis = 0;
    for other in used.filter(|other| other.device == asked.device) {
        match (asked.part, other.part) {
            (DevicePart::Millis(_), DevicePart::Millis(other)) => millis += u32::from(other),
            (
                DevicePart::Mig { profile, start },
                DevicePart::Mig { profile: other_profile, start: other_start },
            ) => {
                let overlaps = profile.mask(start) & other_profile.mask(other_start) != 0;
                let both_media = profile == MigProfile::G1Media && other_profile == MigProfile::G1Media;
                if overlaps || both_media {
                    return false;
                }
            }
            _ => return false,
        }
    }
    match asked.part {
        DevicePart::Millis(asked) => millis + u32::from(asked) <= MILLIS,
        DevicePart::Whole | DevicePart::Mig { .. } => true,
    }
}

/// What pods that count on a node use of its devices.
pub(super) fn used(state: &ClusterState, node: NodeId) -> Vec<DeviceUse> {
    state.node(node).pods().flat_map(|pod| state.pod(pod).devices()).copied().collect()
}

/// The parts of a device that are acceptable.
pub(super) fn of(ask: DeviceAsk, device: u8) -> impl Iterator<Item = DeviceUse> {
    let parts: Vec<DevicePart> = match ask {
        DeviceAsk::Whole => vec![DevicePart::Whole],
        DeviceAsk::Share { millis } => vec![DevicePart::Millis(millis)],
        DeviceAsk::Mig { profile } => {
            profile.starts().iter().map(|start| DevicePart::Mig { profile, start: *start }).collect()
        }
    };
    parts.into_iter().map(move |part| DeviceUse { device, part })
}
