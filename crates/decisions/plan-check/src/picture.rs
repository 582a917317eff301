//! Which pods are where: now, and once evicted gangs are gone.
//!
//! What starts now must fit together with everything that is still there. What is held must fit once the victims are
//! gone, together with everything else that stays, starts or is held. So a plan is judged twice, with the same rules.

use std::collections::{BTreeMap, BTreeSet};

use cluster_model::plan::{MemberPlacement, Plan};
use cluster_model::{DeviceUse, GangKey, NodeName, Pod, PodKey};

use crate::facts::Facts;

/// A pod on a node.
#[derive(Clone, Copy)]
pub(crate) struct Occupant<'a> {
    pub pod: &'a Pod,
    pub devices: &'a [DeviceUse],
    /// Whether the plan put it there.
    pub is_new: bool,
}

/// All pods by node.
#[derive(Clone, Default)]
pub(crate) struct Picture<'a> {
    pub on_node: BTreeMap<&'a NodeName, Vec<Occupant<'a>>>,
}

impl<'a> Picture<'a> {
    /// Everything that is on a node or held there, without any plan.
    pub fn before(facts: &Facts<'a>) -> Self {
        let mut picture = Self::default();
        for member in facts.pods.values().chain(&facts.stand_ins) {
            if let Some(node) = member.at {
                picture.add(node, member.pod, member.devices, false);
            }
        }
        picture
    }

    /// Everything that is on a node.
    pub fn running(facts: &Facts<'a>) -> Self {
        let mut picture = Self::default();
        for member in facts.pods.values() {
            if let Some(node) = member.runs_on() {
                picture.add(node, member.pod, member.devices, false);
            }
        }
        picture
    }

    /// Everything that is on a node, and what the plan starts.
    pub fn now(facts: &Facts<'a>, plan: &'a Plan) -> Self {
        let mut picture = Self::running(facts);
        let started = plan.placements.iter().flat_map(|gang| &gang.members);
        picture.add_all(facts, started);
        picture
    }

    /// The picture of what will be: without gangs that are evicted, in this plan or before, except the gang `stays`;
    /// with holds, old and new.
    pub fn later(facts: &Facts<'a>, plan: &'a Plan, stays: Option<&GangKey>) -> Self {
        let mut gone = facts.leaving(plan.made_at);
        gone.extend(plan.evictions.iter().map(|eviction| &eviction.gang));
        if let Some(stays) = stays {
            gone.remove(stays);
        }
        let new = || {
            let started = plan.placements.iter().flat_map(|gang| &gang.members);
            started.chain(plan.holds.iter().flat_map(|hold| &hold.members))
        };
        let decided: BTreeSet<&PodKey> = new().map(|member| &member.pod).collect();
        let mut picture = Self::default();
        for member in facts.pods.values().chain(&facts.stand_ins) {
            let Some(node) = member.at else { continue };
            let leaves = member.pod.ours && gone.contains(&member.pod.gang) && !member.is_held;
            // A hold counts as long as it is of use, and its gang is not decided about again.
            let outdated = member.is_held
                && (decided.contains(&member.pod.key) || facts.is_outdated(&member.pod.gang, plan.made_at));
            if !leaves && !outdated {
                picture.add(node, member.pod, member.devices, false);
            }
        }
        picture.add_all(facts, new());
        picture
    }

    fn add_all(&mut self, facts: &Facts<'a>, members: impl Iterator<Item = &'a MemberPlacement>) {
        for member in members {
            if let Some(known) = facts.pods.get(&member.pod) {
                self.add(&member.node, known.pod, &member.devices, true);
            }
        }
    }

    fn add(&mut self, node: &'a NodeName, pod: &'a Pod, devices: &'a [DeviceUse], is_new: bool) {
        self.on_node.entry(node).or_default().push(Occupant { pod, devices, is_new });
    }

    pub fn occupants(&self) -> impl Iterator<Item = (&'a NodeName, &Occupant<'a>)> {
        self.on_node.iter().flat_map(|(node, occupants)| occupants.iter().map(move |one| (*node, one)))
    }
}
