//! Whether the state counts correctly. Everything that it updates with each change is counted again here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use cluster_model::{
    ClusterState, DevicePart, DeviceState, DeviceUse, Extras, GangKey, HostPort, MigProfile, NodeName,
    ResourceName, Resources,
};

use crate::facts::{Facts, amounts, share_millis};
use crate::mig;
use crate::violation::Violation;

/// Everything that the state counts wrongly.
pub fn check_state(state: &ClusterState) -> Vec<Violation> {
    let facts = Facts::read(state);
    let mut found = Vec::new();
    nodes(state, &facts, &mut found);
    extras(state, &facts, &mut found);
    queues(state, &facts, &mut found);
    gangs(state, &facts, &mut found);
    found
}

fn same<T: PartialEq + Debug>(what: impl FnOnce() -> String, said: &T, is: &T, found: &mut Vec<Violation>) {
    if said != is {
        found.push(Violation::Miscounted { what: what(), said: format!("{said:?}"), is: format!("{is:?}") });
    }
}

fn nodes(state: &ClusterState, facts: &Facts<'_>, found: &mut Vec<Violation>) {
    let mut in_use: BTreeMap<&NodeName, (Resources, Vec<DeviceUse>)> = BTreeMap::new();
    for member in facts.pods.values().chain(&facts.stand_ins) {
        if let Some(node) = member.at {
            let (requests, devices) = in_use.entry(node).or_default();
            *requests += member.pod.requests;
            devices.extend(member.devices);
        }
    }
    for (_, node) in state.nodes() {
        let Some(object) = node.object() else { continue };
        let (requests, uses) = in_use.remove(&object.name).unwrap_or_default();
        let mut is = object.allocatable - requests;
        if object.exact {
            let parts = |device: usize| {
                let uses = uses.iter().filter(move |it| usize::from(it.device) == device);
                uses.map(|it| it.part).collect::<Vec<DevicePart>>()
            };
            let count = usize::try_from(object.allocatable.gpus).unwrap_or(0);
            // A device in use in parts is not a free GPU.
            let in_parts = |device: &usize| parts(*device).iter().any(|part| *part != DevicePart::Whole);
            is.gpus -= i64::try_from((0..count).filter(in_parts).count()).unwrap_or(0);
            for (device, said) in node.devices().iter().enumerate() {
                let is = left_of_device(&parts(device));
                same(|| format!("what is left of device {device} of node {}", object.name), said, &is, found);
            }
        }
        same(|| format!("what is free of node {}", object.name), &node.free(), &is, found);
    }
}

/// Other resources that some pod asks for, and ports: on each node, and in its class.
fn extras(state: &ClusterState, facts: &Facts<'_>, found: &mut Vec<Violation>) {
    let members = || facts.pods.values().chain(&facts.stand_ins);
    let asked = members().flat_map(|member| member.pod.other_requests.iter());
    let asked: BTreeSet<&Arc<str>> = asked.map(|(name, _)| name).collect();
    for (id, node) in state.nodes() {
        let Some(object) = node.object() else { continue };
        let class = state.class_of(id).map(|class| state.class(class));
        let here = || members().filter(|member| member.at == Some(&object.name));
        for name in &asked {
            let used: i64 = here().map(|member| member.pod.other_requests.get(name)).sum();
            let is = object.other_allocatable.get(name) - used;
            same(
                || format!("what is free of {name} on node {}", object.name),
                &node.free_of(name),
                &is,
                found,
            );
            if let Some(class) = class {
                let said = class.extras().map_or(0, |extras| extras.free_of(name));
                same(
                    || format!("what is free of {name} in the class of node {}", object.name),
                    &said,
                    &is,
                    found,
                );
            }
        }
        let is: BTreeSet<&HostPort> = here().flat_map(|member| member.pod.host_ports.iter()).collect();
        let said: BTreeSet<&HostPort> = node.ports().collect();
        same(|| format!("the ports taken on node {}", object.name), &said, &is, found);
        if let Some(class) = class {
            let said: BTreeSet<&HostPort> = class.extras().into_iter().flat_map(Extras::ports).collect();
            same(|| format!("the ports taken in the class of node {}", object.name), &said, &is, found);
        }
    }
}

/// What is still available of a device, whatever is used of it.
fn left_of_device(parts: &[DevicePart]) -> DeviceState {
    let (mut whole, mut millis, mut slices, mut media) = (false, 0u16, 0u8, false);
    for part in parts {
        match part {
            DevicePart::Whole => whole = true,
            DevicePart::Millis(share) => millis = millis.saturating_add(*share),
            DevicePart::Mig { profile, start } => {
                slices |= u8::try_from(mig::slices(*profile, *start) & 255).unwrap_or(u8::MAX);
                media |= matches!(profile, MigProfile::G1Media | MigProfile::G7);
            }
        }
    }
    if whole {
        return DeviceState { millis_free: 0, slices_used: u8::MAX, media_used: true };
    }
    DeviceState {
        millis_free: if slices == 0 { 1000u16.saturating_sub(millis) } else { 0 },
        slices_used: if millis == 0 { slices } else { u8::MAX },
        media_used: media || millis > 0,
    }
}

fn queues(state: &ClusterState, facts: &Facts<'_>, found: &mut Vec<Violation>) {
    let mut sums: BTreeMap<&str, BTreeMap<ResourceName, i64>> = BTreeMap::new();
    let mut shares: BTreeMap<&str, i64> = BTreeMap::new();
    for member in facts.charged() {
        let Some(node) = member.at else { continue };
        for queue in facts.chain_of(member.pod) {
            *shares.entry(queue.name.as_str()).or_default() += share_millis(member.pod);
            for (resource, amount) in amounts(facts, member.pod, node) {
                *sums.entry(queue.name.as_str()).or_default().entry(resource).or_default() += amount;
            }
        }
    }
    for (queue, usage) in state.queues() {
        let name = queue.name.as_str();
        let of = sums.remove(name).unwrap_or_default();
        let gpus: BTreeMap<_, _> = of
            .iter()
            .filter_map(|(resource, amount)| match resource {
                ResourceName::Gpu(gpu_type) => Some((gpu_type.clone(), *amount)),
                ResourceName::Cpu | ResourceName::Memory => None,
            })
            .collect();
        let amount = |resource: &ResourceName| of.get(resource).copied().unwrap_or(0);
        same(|| format!("GPUs held by queue {name}"), &usage.gpus, &gpus, found);
        same(|| format!("CPU held by queue {name}"), &usage.cpu_millis, &amount(&ResourceName::Cpu), found);
        same(
            || format!("memory held by queue {name}"),
            &usage.memory_bytes,
            &amount(&ResourceName::Memory),
            found,
        );
        let millis = shares.get(name).copied().unwrap_or(0);
        same(|| format!("shares held by queue {name}"), &usage.gpu_share_millis, &millis, found);
    }
}

fn gangs(state: &ClusterState, facts: &Facts<'_>, found: &mut Vec<Violation>) {
    let waiting: BTreeSet<&GangKey> = state.waiting_gangs().collect();
    let is: BTreeSet<&GangKey> = facts
        .pods
        .values()
        .filter(|member| member.at.is_none() && member.pod.ours && !member.pod.terminating)
        .map(|member| &member.pod.gang)
        .collect();
    same(|| "the set of gangs that wait".to_owned(), &waiting, &is, found);
    let running: BTreeSet<&GangKey> = state.running_gangs().collect();
    let is: BTreeSet<&GangKey> = facts
        .pods
        .values()
        .filter(|member| member.pod.ours && member.runs_on().is_some())
        .map(|member| &member.pod.gang)
        .collect();
    same(|| "the set of gangs that run".to_owned(), &running, &is, found);
}
