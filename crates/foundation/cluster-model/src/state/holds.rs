//! Holds of the state: made, given up, and used by their gangs.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::holds::{Controller, Seat, controller};
use crate::names::GangKey;
use crate::objects::Pod;
use crate::plan::Hold;
use crate::pods::{Decision, PodId, PodStanding};
use crate::state::{AssumeError, ClusterState};

impl ClusterState {
    /// Holds nodes for a gang where it will go, as if its members were there. Replaces an earlier hold.
    pub fn hold(&mut self, hold: &Hold) -> Result<(), AssumeError> {
        debug_assert_eq!(self.forks_open, 0, "a fork borrows the state");
        self.release(&hold.gang);
        for member in &hold.members {
            let pod = &member.pod;
            let id = self.pod_id(pod).ok_or_else(|| AssumeError::UnknownPod(pod.clone()))?;
            let unknown = || AssumeError::UnknownNode(pod.clone(), member.node.clone());
            let decision = Decision {
                node: self.node_id(&member.node).ok_or_else(unknown)?,
                devices: member.devices.clone(),
                since: self.now(),
                held_until: Some(hold.expires),
            };
            let standing = PodStanding::decided(decision);
            if self.is_pending(id) {
                self.stand_for_good(id, standing);
            } else if self.pod(id).place().is_some() {
                self.insert_stand_in(id, standing);
            } else {
                return Err(AssumeError::NotPending(pod.clone()));
            }
        }
        self.generation += 1;
        self.near.sweep(&self.pods, &self.nodes);
        Ok(())
    }

    /// Gives up the hold of a gang; its members wait again. Does nothing if there is none.
    pub fn release(&mut self, gang: &GangKey) {
        debug_assert_eq!(self.forks_open, 0, "a fork borrows the state");
        let Some(members) = self.holds.by_gang.get(gang).cloned() else { return };
        self.generation += 1;
        for id in members.into_keys() {
            if self.pod(id).stand_in {
                if let Some(decision) = self.remove_stand_in(id) {
                    self.nodes.drop_if_unused(decision.node);
                }
            } else {
                self.stand_for_good(id, PodStanding::default());
            }
        }
        self.near.sweep(&self.pods, &self.nodes);
    }

    /// Gangs for which nodes are held, by name, and until when.
    pub fn held_gangs(&self) -> impl ExactSizeIterator<Item = (&GangKey, Timestamp)> {
        let first =
            |members: &BTreeMap<_, Timestamp>| members.values().min().copied().unwrap_or(Timestamp::MAX);
        self.holds.by_gang.iter().map(move |(gang, members)| (gang, first(members)))
    }

    /// The members of a gang for which a node is held, by number. They include stand-ins for members that still run
    /// elsewhere, which are in [`crate::Place::Held`] too.
    pub fn held_members(&self, gang: &GangKey) -> impl Iterator<Item = PodId> {
        self.holds.by_gang.get(gang).into_iter().flat_map(|members| members.keys().copied())
    }

    /// Whether a held member only stands for a pod that still runs elsewhere, or whose successor has not come yet.
    pub fn is_stand_in(&self, pod: PodId) -> bool {
        self.pod(pod).stand_in
    }

    fn insert_stand_in(&mut self, of: PodId, standing: PodStanding) {
        let pod = Pod {
            node: None,
            terminating: false,
            devices: Vec::new(),
            started: None,
            ..self.pod(of).pod.clone()
        };
        let controller = controller(&pod);
        self.restore_stand_in(pod, standing);
        self.seat_successors(controller.as_ref());
    }

    /// Puts a stand-in in place.
    pub(crate) fn restore_stand_in(&mut self, pod: Pod, standing: PodStanding) {
        let seat = (pod.gang.clone(), Seat::of(&pod));
        if let Some(controller) = controller(&pod) {
            self.holds.by_controller.entry(controller).or_default().insert(seat.clone());
        }
        let id = self.insert_state(pod, standing, None, true);
        self.holds.stand_ins.insert(seat, id);
        self.count_pod(id);
    }

    fn remove_stand_in(&mut self, id: PodId) -> Option<Decision> {
        self.uncount_pod(id);
        let state = self.remove_state(id);
        let seat = (state.pod.gang.clone(), Seat::of(&state.pod));
        self.holds.stand_ins.remove(&seat);
        if let Some(controller) = controller(&state.pod)
            && let Some(seats) = self.holds.by_controller.get_mut(&controller)
        {
            seats.remove(&seat);
            if seats.is_empty() {
                self.holds.by_controller.remove(&controller);
            }
        }
        state.standing.decision
    }

    /// What a stand-in kept for a pod that has come.
    pub(crate) fn take_stand_in(&mut self, pod: &Pod) -> Option<Decision> {
        if self.holds.stand_ins.is_empty() {
            return None;
        }
        let own = (pod.gang.clone(), Seat::of(pod));
        let id = self.holds.stand_ins.get(&own).copied().or_else(|| self.orphan_for(pod))?;
        self.remove_stand_in(id)
    }

    /// A stand-in that keeps what this pod needs, for a pod of the same controller that is gone, or about to be. A
    /// pod that stays needs no successor yet.
    fn orphan_for(&self, pod: &Pod) -> Option<PodId> {
        let seats = self.holds.by_controller.get(&controller(pod)?)?;
        let mut stand_ins = seats.iter().filter_map(|seat| self.holds.stand_ins.get(seat).copied());
        stand_ins.find(|id| {
            let kept = &self.pod(*id).pod;
            let stands_for = self.pod_id(&kept.key);
            (&kept.requests, &kept.queue) == (&pod.requests, &pod.queue)
                && stands_for.is_none_or(|id| self.pod(id).pod.terminating)
        })
    }

    /// A pod of this controller is gone, or about to be, or a place is kept for one. Waiting pods that came before
    /// that was known now get such places, by name.
    pub(crate) fn seat_successors(&mut self, controller: Option<&Controller>) {
        let Some(controller) = controller.filter(|it| self.holds.by_controller.contains_key(*it)) else {
            return;
        };
        let waits = |id: &PodId| {
            let state = self.pod(*id);
            let of_controller = state.pod.controller.as_ref() == Some(&controller.1);
            of_controller && !state.stand_in && self.is_pending(*id)
        };
        let in_namespace = self.pods_by_namespace.get(&controller.0).into_iter().flatten();
        let mut waiting: Vec<PodId> = in_namespace.copied().filter(waits).collect();
        waiting.sort_by_key(|id| self.pod(*id).pod.key.name.clone());
        for id in waiting {
            let Some(stand_in) = self.orphan_for(&self.pod(id).pod) else { continue };
            let decision = self.remove_stand_in(stand_in);
            self.stand_for_good(id, PodStanding { decision, evicted: false });
        }
    }

    /// The same for a pod that is there.
    pub(crate) fn take_stand_in_of(&mut self, pod: PodId) -> Option<Decision> {
        let pod = self.pod(pod).pod.clone();
        self.take_stand_in(&pod)
    }

    /// A pod that is moved came, changed or is gone. While it is there it is charged, else its stand-in.
    pub(crate) fn recharge_stand_in(&mut self, gang: &GangKey, seat: Seat) {
        if self.holds.stand_ins.is_empty() {
            return;
        }
        if let Some(&id) = self.holds.stand_ins.get(&(gang.clone(), seat)) {
            self.uncharge(id);
            self.charge(id);
        }
    }
}
