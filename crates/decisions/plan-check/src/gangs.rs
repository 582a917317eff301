//! A gang starts whole, where its members may go, on one GPU type.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster_model::plan::{MemberPlacement, Plan};
use cluster_model::{GangKey, GpuType, Node, NodeName, Pod, PodKey, Taint, Terms};

use crate::capacity::devices_are_as_asked;
use crate::facts::{Facts, uses_gpus};
use crate::local::is_selected;
use crate::violation::Violation;

/// What a plan decides for a gang: it starts, or nodes are held for it.
#[derive(Clone, Copy)]
pub(crate) struct Decision<'a> {
    pub gang: &'a GangKey,
    pub members: &'a [MemberPlacement],
    pub is_hold: bool,
    /// Whether it runs, and is only moved.
    pub moves: bool,
}

impl<'a> Decision<'a> {
    pub fn all(plan: &'a Plan) -> impl Iterator<Item = Self> {
        let moves = |gang: &GangKey| plan.evictions.iter().any(|it| it.moves && it.gang == *gang);
        let started = plan.placements.iter().map(|it| Self {
            gang: &it.gang,
            members: &it.members,
            is_hold: false,
            moves: false,
        });
        let held = plan.holds.iter().map(move |it| Self {
            gang: &it.gang,
            members: &it.members,
            is_hold: true,
            moves: moves(&it.gang),
        });
        started.chain(held)
    }

    /// The members that are known, and where they go.
    pub fn pods(&self, facts: &Facts<'a>) -> Vec<(&'a Pod, &'a NodeName)> {
        let known = |member: &'a MemberPlacement| Some((facts.pods.get(&member.pod)?.pod, &member.node));
        self.members.iter().filter_map(known).collect()
    }

    /// Where all members are once it is carried out.
    pub fn all_pods(&self, facts: &Facts<'a>) -> Vec<(&'a Pod, &'a NodeName)> {
        let mut all = self.pods(facts);
        if !self.moves {
            all.extend(facts.running(self.gang));
        }
        all
    }
}

pub(crate) fn members_may_go_there(
    facts: &Facts<'_>,
    decision: &Decision<'_>,
    violations: &mut Vec<Violation>,
) {
    for member in decision.members {
        let known = facts.pods.get(&member.pod).filter(|known| known.pod.gang == *decision.gang);
        let Some(pod) = known.map(|known| known.pod) else {
            violations.push(Violation::NotPending(member.pod.clone()));
            continue;
        };
        if !decision.moves && !facts.waits(&member.pod) {
            violations.push(Violation::NotPending(member.pod.clone()));
        }
        if pod.gated || !pod.unsupported.is_empty() {
            violations.push(Violation::NotAllowed(member.pod.clone()));
        }
        match facts.nodes.get(&member.node) {
            Some(node) if takes(node, pod) => {
                if !devices_are_as_asked(node, pod, &member.devices) {
                    violations.push(Violation::WrongDevices(member.pod.clone(), member.node.clone()));
                }
            }
            _ => violations.push(Violation::WrongNode(member.pod.clone(), member.node.clone())),
        }
    }
}

/// Whether a node would take a pod, whatever is free on it.
pub(crate) fn takes(node: &Node, pod: &Pod) -> bool {
    node.schedulable
        && node.taints.iter().all(|taint| !taint.repels() || taint.tolerated_by(&pod.tolerations))
        && (!node.cordoned || Taint::cordon().tolerated_by(&pod.tolerations))
        && is_selected(node, pod)
        && node.features.contain(pod.node_features)
        && (!node.spot || pod.terms.takes_spot)
}

pub(crate) fn gang_is_whole(facts: &Facts<'_>, decision: &Decision<'_>, violations: &mut Vec<Violation>) {
    let gang = decision.gang;
    let placed: BTreeSet<&PodKey> = decision.members.iter().map(|member| &member.pod).collect();
    let running = facts.running(gang).count();
    if decision.moves {
        let all: BTreeSet<&PodKey> = facts.running(gang).map(|(pod, _)| &pod.key).collect();
        if placed != all {
            violations.push(Violation::NotWhole(gang.clone()));
        }
        return;
    }
    let waiting: BTreeSet<&PodKey> =
        facts.members(gang).map(|member| &member.pod.key).filter(|key| facts.waits(key)).collect();
    let most = facts.terms(gang).and_then(|terms| terms.members_max).map_or(usize::MAX, |max| max as usize);
    if running + placed.len() > most {
        violations.push(Violation::TooManyMembers(gang.clone()));
    }
    let size = facts.size(gang);
    // In a gang that already has nodes, members may have ended unseen: then all that are left is all.
    let enough = running > 0 || facts.ended(gang) + placed.len() >= size.unwrap_or(0) as usize;
    // Only a gang with a maximum may start with fewer members than there are.
    let wanted = if most == usize::MAX { waiting.len() } else { 1 };
    let agree = waiting.iter().all(|key| facts.pods[key].pod.gang_size == size);
    if placed.len() < wanted || !placed.is_subset(&waiting) || !enough || !agree {
        violations.push(Violation::NotWhole(gang.clone()));
    }
    if running == 0 {
        groups_are_whole(facts, decision, violations);
    }
}

fn groups_are_whole(facts: &Facts<'_>, decision: &Decision<'_>, violations: &mut Vec<Violation>) {
    let Some(terms) = facts.terms(decision.gang) else { return };
    for (name, group) in &terms.groups {
        let placed = decision.pods(facts).iter().filter(|(pod, _)| is_in(terms, pod, name)).count();
        let is_left = |pod: &Pod| !pod.terminating && is_in(terms, pod, name);
        let exist = facts.members(decision.gang).filter(|member| is_left(member.pod)).count();
        if placed < group.members_min.map_or(exist, |min| min as usize) {
            violations.push(Violation::GroupNotWhole(decision.gang.clone(), name.clone()));
        }
    }
}

/// Whether a pod is in a group, or in one within it. Bounded by the number of groups, because parents may form a
/// ring.
pub(crate) fn is_in(terms: &Terms, pod: &Pod, group: &Arc<str>) -> bool {
    let mut next = pod.group.as_ref();
    for _ in 0..=terms.groups.len() {
        match next {
            None => return false,
            Some(name) if name == group => return true,
            Some(name) => next = terms.groups.get(name).and_then(|terms| terms.parent.as_ref()),
        }
    }
    false
}

pub(crate) fn one_gpu_type(facts: &Facts<'_>, decision: &Decision<'_>, violations: &mut Vec<Violation>) {
    let with_gpus: Vec<_> = decision.pods(facts).into_iter().filter(|(pod, _)| uses_gpus(pod)).collect();
    if with_gpus.is_empty() {
        return;
    }
    let types: BTreeSet<Option<GpuType>> =
        with_gpus.iter().map(|(_, node)| facts.gpu_type_of(node)).collect();
    let as_asked = with_gpus.iter().all(|(pod, _)| {
        pod.gpu_types.is_empty() || types.iter().flatten().all(|found| pod.gpu_types.contains(found))
    });
    let running = facts.running(decision.gang).filter(|(pod, _)| uses_gpus(pod) && !decision.moves);
    let mut running: BTreeSet<GpuType> = running.filter_map(|(_, node)| facts.gpu_type_of(node)).collect();
    // Members on nodes that the others may not use do not bind them.
    for (pod, _) in with_gpus.iter().filter(|(pod, _)| !pod.gpu_types.is_empty()) {
        running.retain(|running| pod.gpu_types.contains(running));
    }
    let as_running = running.is_empty() || types.iter().flatten().all(|found| running.contains(found));
    if types.len() > 1 || types.contains(&None) || !as_asked || !as_running {
        violations.push(Violation::WrongGpuType(decision.gang.clone()));
    }
}
